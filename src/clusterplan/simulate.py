"""Monte Carlo of a plan's run: failures drawn one by one, for the law of its length and as a check of closed forms.

Many runs go forward together, from failure to failure. What is drawn is what the plan assumes: its checkpoint interval,
stall and write, its restart, its mean time between failures. What closed forms leave out can be added: failures in
bursts (Weibull), spares that run out, domains that fail together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import gamma
from typing import Any

import numpy as np

from clusterplan.arrays import BoolArray, FloatArray
from clusterplan.errors import ClusterplanError
from clusterplan.formulas import reliability
from clusterplan.plan import Plan

RUNS = 2000
"""Runs that are drawn unless the user says."""
FEWEST_RUNS = 200
MOST_FAILURES = 5e7
"""Failures that are drawn unless the user says how many runs: jobs with very many failures get fewer runs, each of
which spreads less."""
MOST_RUNS = 1_000_000
LONGEST_RUN = 1e6
"""Failures of one run beyond which nothing is drawn."""
AT_ONCE = 2**22
"""Numbers that may be held of the nodes in repair of all runs that go forward together: 32 MiB."""
COMPACT = 0.8
"""Runs that have ended are taken out when no more than this share is left."""

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A run as the simulation sees it: one number each."""

    training_s: float
    """Steps that must be kept, repeated ones included. [s]"""
    interval_s: float
    """Training between checkpoints. [s]"""
    stall_s: float
    """Time training stands still for a checkpoint. [s]"""
    persist_s: float = 0.0
    """From the end of the stall until a checkpoint can be relied on. [s]"""
    restore_s: float
    """From the start of the processes to the first useful step; failures strike in it. [s]"""
    found_s: float
    """From a failure until the node is known. [s]"""
    started_s: float
    """From there, once a spare is at hand, to the start of the processes. [s]"""
    mtbf_s: float
    """Mean time between failures of the job while it is up. [s]"""
    shape: float = 1.0
    """Shape of the Weibull law of times between failures: 1 for failures at random, less for bursts."""
    spare_nodes: int | None = None
    """Nodes that stand by; None for as many as are needed."""
    repair_s: float = 0.0
    """Until a node that failed is a spare. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Simulated runs; every field has shape ``(run,)``."""

    wall_s: FloatArray
    """Length. [s]"""
    interruptions: FloatArray
    """Failures."""
    waiting_s: FloatArray
    """Time spent waiting for a spare. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What simulated runs say about a plan."""

    runs: int
    """Runs that were drawn."""
    seed: int
    """Start of the random numbers: the same seed gives the same runs."""
    failure_shape: float
    """Shape of the Weibull law of times between failures; 1 is the exponential law of the closed form."""
    goodput_fraction: float
    """Ideal over mean length."""
    goodput_standard_error_fraction: float
    """Standard error of the goodput, from the number of runs."""
    difference_fraction: float
    """Simulated goodput less that of the closed form."""
    wall_s: float
    """Mean length. [s]"""
    standard_deviation_s: float
    """Spread of the length that failures cause. [s]"""
    p50_s: float
    """Half of the runs have ended, the error of the predicted step included. [s]"""
    p90_s: float
    """Nine in ten have ended. [s]"""
    p99_s: float
    """99 in a hundred have ended. [s]"""
    deadline_probability: float | None
    """Share of the runs that end by the deadline, the error of the predicted step included; None without one."""
    interruptions: float
    """Mean number of failures that stop the job."""
    spare_wait_fraction: float
    """Share of the wall time spent waiting for a spare."""


def process_of(plan: Plan, shape: float = 1.0) -> Process:
    """What the simulation needs to know of a plan."""
    progress, operations = plan.run.progress, plan.circumstances.operations
    ideal, repeated = float(progress.ideal_s[0]), operations.repeated_fraction
    return Process(
        training_s=float(reliability.training_s(ideal, repeated)),
        interval_s=_first(progress.checkpoint_interval_s),
        stall_s=_first(progress.checkpoint_stall_s),
        persist_s=_first(progress.checkpoint_persist_s),
        restore_s=_first(progress.restore_s),
        found_s=operations.detect_s + operations.diagnose_s,
        started_s=operations.replace_s + operations.launch_s,
        mtbf_s=_first(progress.mtbf_s),
        shape=shape,
        spare_nodes=int(plan.run.fleet.spare_nodes[0]),
        repair_s=operations.repair_s,
    )


def _first(values: Any) -> float:
    return float(np.asarray(values).reshape(-1)[0])


def simulate(
    plan: Plan,
    runs: int | None = None,
    seed: int = 1,
    shape: float = 1.0,
    progress: Progress | None = None,
) -> Simulation:
    """Simulated runs of a plan, beside its closed forms.

    Parameters
    ----------
    plan : Plan
        The plan.
    runs : int
        How many; unless given :data:`RUNS`, fewer where a run has very many failures.
    seed : int
        Start of the random numbers.
    shape : float
        Shape of the Weibull law of times between failures; their mean stays.
    progress : callable
        Told the share that is done, and a text.
    """
    expected = _first(plan.run.progress.expected_interruptions)
    if expected > LONGEST_RUN:
        text = f"a run would have {expected:,.0f} failures, more than can be simulated ({LONGEST_RUN:,.0f})"
        raise ClusterplanError(text, where="--simulate")
    if runs is None:
        runs = int(np.clip(MOST_FAILURES / max(expected, 1.0), FEWEST_RUNS, RUNS))
    draw = np.random.default_rng(seed)
    drawn = simulated(process_of(plan, shape), runs, draw, progress)
    return summary(plan, drawn, seed, shape, draw)


def summary(plan: Plan, drawn: Runs, seed: int, shape: float, draw: np.random.Generator) -> Simulation:
    """Means, quantiles and errors of simulated runs."""
    wall, count = drawn.wall_s, drawn.wall_s.size
    ideal, closed = _first(plan.run.progress.ideal_s), _first(plan.run.progress.goodput_fraction)
    goodput = ideal / float(wall.mean())
    spread = float(wall.std(ddof=1)) if count > 1 else 0.0
    error = float(reliability.standard_error_fraction(plan.question.machine.stack.step_error_fraction))
    ends = wall * (draw.gamma(error**-2, error**2, count) if error else 1.0)  # the law of the closed form
    p50, p90, p99 = (float(q) for q in np.quantile(ends, [0.5, 0.9, 0.99]))
    deadline = plan.circumstances.deadline_s
    return Simulation(
        runs=count,
        seed=seed,
        failure_shape=shape,
        goodput_fraction=goodput,
        goodput_standard_error_fraction=goodput * spread / float(wall.mean()) / count**0.5,
        difference_fraction=goodput - closed,
        wall_s=float(wall.mean()),
        standard_deviation_s=spread,
        p50_s=p50,
        p90_s=p90,
        p99_s=p99,
        deadline_probability=None if deadline is None else float(np.mean(ends <= deadline)),
        interruptions=float(drawn.interruptions.mean()),
        spare_wait_fraction=float(drawn.waiting_s.sum() / wall.sum()),
    )


SHAPES = (0.2, 5.0)
"""Shapes of the law of times between failures that are taken: published ones are 0.5 to 1.5."""


def parse_shape(text: str) -> float:
    """Shape of the Weibull law from what a user wrote.

    Examples
    --------
    >>> parse_shape("0.7")
    0.7
    """
    low, high = SHAPES
    try:
        shape = float(text)
    except ValueError:
        shape = float("nan")
    if not low <= shape <= high:
        raise ClusterplanError(f"must be a number from {low:g} to {high:g}, not {text[:40]!a}", where="--failure-shape")
    return shape


# The simulation -------------------------------------------------------------------------------------------------------


def simulated(process: Process, runs: int, draw: np.random.Generator, progress: Progress | None = None) -> Runs:
    """Runs drawn one failure after the other, all at the same time.

    Parameters
    ----------
    process : Process
        What is simulated.
    runs : int
        How many.
    draw : Generator
        Random numbers.
    progress : callable
        Told the share that is done, and a text.
    """
    spares = process.spare_nodes or 0
    batch = max(min(runs, AT_ONCE // max(spares, 1)), 1)
    parts: list[Runs] = []
    for begin in range(0, runs, batch):
        count = min(batch, runs - begin)

        def told(share: float, begin: int = begin, count: int = count) -> None:
            if progress is not None:
                progress((begin + share * count) / runs, f"{runs:,} runs simulated")

        parts.append(_together(process, count, draw, told))
    return Runs(**{part.name: np.concatenate([getattr(one, part.name) for one in parts]) for part in fields(Runs)})


@dataclass(slots=True, kw_only=True)
class _Going:
    """Runs that have not ended; every array has shape ``(run,)``, but ``back_s``."""

    number: Any
    """Which runs they are."""
    wall_s: FloatArray
    """Time of the last failure. [s]"""
    kept: FloatArray
    """Checkpoint intervals that no failure undoes any more."""
    waiting_s: FloatArray
    """Time spent waiting for spares. [s]"""
    back_s: FloatArray
    """When each node in repair is a spare again, shape ``(spare, run)``. [s]"""

    def take(self, rows: BoolArray) -> _Going:
        """Some of the runs."""
        return _Going(**{part.name: getattr(self, part.name)[..., rows] for part in fields(self)})


def _together(process: Process, runs: int, draw: np.random.Generator, told: Callable[[float], None]) -> Runs:
    """Runs that go forward together: in each round every one of them comes to its next failure, or ends."""
    interval, period = process.interval_s, process.interval_s + process.stall_s
    intervals = process.training_s / interval
    spares = process.spare_nodes
    result = Runs(wall_s=np.zeros(runs), interruptions=np.zeros(runs), waiting_s=np.zeros(runs))
    going = _Going(
        number=np.arange(runs),
        wall_s=np.zeros(runs),
        kept=np.zeros(runs),
        waiting_s=np.zeros(runs),
        back_s=np.full((spares or 0, runs), -np.inf),
    )
    begun, restore = going.wall_s.copy(), 0.0
    left, failures = runs, 0
    while True:
        up = _up_s(process, draw, going.wall_s.size)
        # An end needs no checkpoint: what is left is steps, and the stalls of the checkpoints on the way.
        missing = intervals - going.kept
        needed = restore + missing * interval + np.ceil(missing - 1 - 1e-9) * process.stall_s
        ended = up >= needed
        if ended.any():
            rows = going.number[ended]
            fresh = result.wall_s[rows] == 0
            rows, ended_fresh = rows[fresh], np.flatnonzero(ended)[fresh]
            result.wall_s[rows] = (begun + needed)[ended_fresh]
            result.interruptions[rows] = failures
            result.waiting_s[rows] = going.waiting_s[ended_fresh]
            left -= rows.size
            told(1 - left / runs)
            if not left:
                return result
            if left <= COMPACT * going.number.size:
                stay = result.wall_s[going.number] == 0
                going, up, begun = going.take(stay), up[stay], begun[stay]
        failures += 1
        failed = begun + up
        going.kept += np.maximum(np.floor((up - restore - process.persist_s) / period), 0.0)
        begun = _begun_s(process, going, failed, failures)
        going.wall_s, restore = failed, process.restore_s


def _up_s(process: Process, draw: np.random.Generator, count: int) -> FloatArray:
    """Times from the start of the processes to the next failure. [s]"""
    waits: FloatArray = draw.standard_exponential(count)
    if process.shape != 1:
        waits = waits ** (1 / process.shape) / gamma(1 + 1 / process.shape)
    return waits * process.mtbf_s


def _begun_s(process: Process, going: _Going, failed_s: FloatArray, failures: int) -> FloatArray:
    """When the processes start again after a failure. [s]

    The node that failed goes to repair. Repairs take the same time each and end in the order in which they began, so
    the spare that is free the longest is the one of ``spares`` failures ago.
    """
    known, spares = failed_s + process.found_s, process.spare_nodes
    if spares is None:
        return known + process.started_s
    if spares == 0:
        free = failed_s + process.repair_s
    else:
        slot = failures % spares
        free = going.back_s[slot].copy()
        going.back_s[slot] = failed_s + process.repair_s
    have = np.maximum(known, free)
    going.waiting_s += have - known
    return have + process.started_s
