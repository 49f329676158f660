"""Runs that make no progress: what keeps them from it, and what they would be if one thing were better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from clusterplan import run
from clusterplan.arrays import FloatArray
from clusterplan.outcome import Circumstances, Progress, Run
from clusterplan.plan import Blocking, Plan, work

LEAST_GOODPUT = 0.05
"""Assumed: a run that takes twenty times as long as its steps makes no progress."""

MOST_FACTOR = 1e6
"""Causes are not eased further than this."""


def stuck(plan: Plan) -> tuple[Blocking, ...]:
    """What keeps a run from making progress: each cause with the value of it alone that would let it, nearest first."""
    goodput = _goodput_fraction(plan.run)
    if goodput >= LEAST_GOODPUT:
        return ()
    factors = {cause: factor for cause in CAUSES if (factor := letting(plan, cause)) is not None}
    whole = Blocking(constraint="goodput", required=LEAST_GOODPUT, best=goodput, unit="fraction", nearest_feasible=None)
    nearest = sorted(factors, key=lambda cause: factors[cause])
    return (whole, *(needed(plan, cause, factors[cause]) for cause in nearest))


def letting(plan: Plan, cause: Cause) -> float | None:
    """Smallest factor by which a cause must be eased to let a run make progress; None if none does."""
    return least_factor(lambda factor: _goodput_fraction(cause.eased(plan, factor)))


def needed(plan: Plan, cause: Cause, factor: float) -> Blocking:
    """A cause as it is, and as it would have to be: eased by a factor."""
    now, enough = (float(np.ravel(cause.measure(one.progress))[0]) for one in (plan.run, cause.eased(plan, factor)))
    return Blocking(constraint=cause.name, required=enough, best=now, unit="s", nearest_feasible=enough)


def _goodput_fraction(outcome: Run) -> float:
    return float(outcome.progress.goodput_fraction[0])


def _run_in(plan: Plan, circumstances: Circumstances) -> Run:
    """The run of a plan in other circumstances."""
    return run.evaluate(circumstances, work(plan.cuts, plan.layouts, plan.step))


def least_factor(goodput: Callable[[float], float]) -> float | None:
    """Smallest factor, to a per cent, with which the least goodput is reached; None if none does."""
    if goodput(MOST_FACTOR) < LEAST_GOODPUT:
        return None
    low, high = 1.0, MOST_FACTOR
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if goodput(middle) >= LEAST_GOODPUT else (middle, high)
    return high


def with_failures(plan: Plan, factor: float) -> Run:
    """The run of a plan with everything failing so many times as often, on the same nodes."""
    machine = plan.circumstances.machine
    accelerator = replace(machine.accelerator, failures_per_device_s=machine.accelerator.failures_per_device_s * factor)
    system = replace(machine.system, failures_per_node_s=machine.system.failures_per_node_s * factor)
    changed = replace(machine, accelerator=accelerator, system=system)
    return _run_in(plan, replace(plan.circumstances, machine=changed))


def failing_less(plan: Plan, factor: float) -> Run:
    """The run of a plan with so many times as long between failures."""
    return with_failures(plan, 1 / factor)


def restarted_faster(plan: Plan, factor: float) -> Run:
    """The run of a plan with restarts that take so many times less."""
    operations, storage = plan.circumstances.operations, plan.circumstances.storage
    names = (
        "detect_s", "diagnose_s", "replace_s", "launch_s", "communicator_s", "communicator_s_per_device",
        "warmup_s", "domain_outage_s",
    )  # fmt: skip
    operations = replace(operations, **{name: getattr(operations, name) / factor for name in names})
    storage = replace(storage, read_bytes_per_s=storage.read_bytes_per_s * factor)
    return _run_in(plan, replace(plan.circumstances, operations=operations, storage=storage))


def saved_faster(plan: Plan, factor: float) -> Run:
    """The run of a plan with checkpoints that are saved so many times faster."""
    storage, machine = plan.circumstances.storage, plan.circumstances.machine
    storage = replace(
        storage,
        write_bytes_per_s=storage.write_bytes_per_s * factor,
        node_bytes_per_s=storage.node_bytes_per_s * factor,
    )
    system = replace(machine.system, host_link_bytes_per_s=machine.system.host_link_bytes_per_s * factor)
    return _run_in(plan, replace(plan.circumstances, storage=storage, machine=replace(machine, system=system)))


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that may keep a run from making progress."""

    name: str
    eased: Callable[[Plan, float], Run]
    """The run of a plan with it so many times better."""
    measure: Callable[[Progress], FloatArray]
    """How bad it is. [s]"""


CAUSES = (
    Cause("time between failures", failing_less, lambda progress: progress.mtbf_s),
    Cause("time of a restart", restarted_faster, lambda progress: progress.down_s + progress.restore_s),
    Cause(
        "time of a checkpoint",
        saved_faster,
        lambda progress: progress.checkpoint_stall_s + progress.checkpoint_persist_s,
    ),
)
