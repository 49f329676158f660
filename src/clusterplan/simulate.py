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

from clusterplan import run
from clusterplan.arrays import BoolArray, FloatArray, IntArray
from clusterplan.errors import ClusterplanError
from clusterplan.formulas import checkpoints, finish, goodput, reliability
from clusterplan.outcome import Circumstances
from clusterplan.plan import Plan
from clusterplan.site import Operations

RUNS = 2000
"""Runs that are drawn unless the user says."""
FEWEST_RUNS = 200
MOST_FAILURES = 5e7
"""Failures that are drawn unless the user says how many runs: jobs with very many failures get fewer runs, each of
which spreads less."""
MOST_RUNS = 1_000_000
LONGEST_RUN = 2e5
"""Failures of one run, as expected, beyond which nothing is drawn."""
MOST_ROUNDS = 1_000_000
"""Failures after which a run that has not ended never will, for all that one can tell."""
AT_ONCE = 2**22
"""Numbers that may be held of the nodes in repair of all runs that go forward together: 32 MiB."""
MOST_TOGETHER = 20_000
"""Runs that go forward together at most: a few megabytes for each step of the computation."""
COMPACT = 0.8
"""Runs that have ended are taken out when no more than this share is left."""

Progress = Callable[[float, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A run as the simulation sees it: one number each. What has a default is not there unless it is given."""

    training_s: float
    """Steps that must be kept, repeated ones and evaluations between them included. [s]"""
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
    """Mean time between failures of the job while it is up, machines burned in. [s]"""
    shape: float = 1.0
    """Shape of the Weibull law of times between failures: 1 for failures at random, less for bursts."""
    early_factor: float = 1.0
    """How many times as often machines fail at first."""
    early_s: float = 1.0
    """Time in which what is above 1 of it falls by e. [s]"""

    spare_nodes: int | None = None
    """Nodes that stand by; None for as many as are needed."""
    repair_s: float = 0.0
    """Until a node that failed is a spare. [s]"""
    waiting_loss_fraction: float = 1.0
    """Share of the throughput that is missing while the job waits for a spare: all, or a replica's."""

    domain_fraction: float = 0.0
    """Share of failures that make the job wait for a whole domain."""
    domain_outage_s: float = 0.0
    """Until the domain is back. [s]"""
    silent_fraction: float = 0.0
    """Share of failures that are corruptions found late."""
    silent_undone_s: float = 0.0
    """Work, stalls included, that each of them spoils. [s]"""
    stop_s: float = 0.0
    """Length of a planned stop with its restart. [s]"""
    between_stops_s: float = 1.0
    """Time between planned stops. [s]"""

    segments: float = 1.0
    """Intervals between checkpoints in storage, where the others stay in memory."""
    storage_stall_s: float = 0.0
    """Time training stands still for a checkpoint in storage beyond that of one in memory. [s]"""
    storage_persist_s: float = 0.0
    """From its stall until a checkpoint in storage can be relied on. [s]"""
    storage_restore_s: float = 0.0
    """Restore from storage, where the others restore from memory. [s]"""
    lost_fraction: float = 0.0
    """Share of failures that only a checkpoint in storage survives."""

    beside_fraction: float = 0.0
    """Share of failures beside which the other replicas go on."""
    beside_s: float = 0.0
    """Time that each of these costs the job. [s]"""

    foreseen_fraction: float = 0.0
    """Share of failures before which the state is saved."""
    false_alarms: float = 0.0
    """False alarms for each failure."""
    proactive_s: float = 0.0
    """Time that saving takes. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Simulated runs; every field has shape ``(run,)``."""

    wall_s: FloatArray
    """Length. [s]"""
    interruptions: FloatArray
    """Failures."""
    waiting_s: FloatArray
    """Time lost to waiting for a spare. [s]"""


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
    """Share of the wall time lost to waiting for a spare."""


def too_long(plan: Plan) -> str:
    """Why the runs of a plan cannot be simulated; empty if they can."""
    expected = _first(plan.run.progress.expected_interruptions)
    if expected <= LONGEST_RUN:
        return ""
    return f"not simulated: a run would have {expected:,.0f} failures, more than {LONGEST_RUN:,.0f}"


def process_of(plan: Plan, shape: float = 1.0) -> Process:
    """What the simulation needs to know of a plan."""
    progress, given, fleet = plan.run.progress, plan.circumstances, plan.run.fleet
    operations, spares = given.operations, int(fleet.spare_nodes[0])
    interval, stall = _first(progress.checkpoint_interval_s), _first(progress.checkpoint_stall_s)
    persist, mtbf = _first(progress.checkpoint_persist_s), _first(progress.mtbf_s)
    whole = whole_restart(given, fleet.used_nodes, fleet.used_devices)
    # Slow nodes and data that come late make the steps longer; evaluations stand between them.
    lost = _first(progress.slow_loss_fraction + progress.data_loss_fraction + progress.evaluation_loss_fraction)
    stepped = _first(progress.goodput_fraction + progress.repeat_loss_fraction)
    longer = 1 + lost / stepped
    stop = operations.planned_stop_s
    kept = float(goodput.kept_fraction(interval + stall, mtbf, persist))
    return Process(
        training_s=float(finish.training_s(_first(progress.ideal_s), operations.repeated_fraction)) * longer,
        interval_s=interval,
        stall_s=stall,
        persist_s=persist,
        restore_s=_first(progress.restore_s),
        found_s=operations.detect_s + operations.diagnose_s,
        started_s=operations.replace_s + operations.launch_s,
        mtbf_s=_first(run.steady_mtbf_s(given, fleet)),
        shape=shape,
        early_factor=operations.early_failure_factor,
        early_s=operations.early_failure_s,
        spare_nodes=spares,
        repair_s=operations.repair_s,
        waiting_loss_fraction=1 / int(plan.layouts.dp[0]) if operations.elastic else 1.0,
        domain_fraction=operations.domain_failure_fraction if operations.domain_nodes > spares else 0.0,
        domain_outage_s=operations.domain_outage_s,
        silent_fraction=operations.silent_fraction,
        silent_undone_s=operations.silent_found_s * kept,
        stop_s=stop and stop + operations.launch_s + whole,
        between_stops_s=operations.planned_stop_interval_s,
        **_recovery(plan, whole),
        **_alarms(operations),
    )


def _recovery(plan: Plan, whole_restart_s: float) -> dict[str, float]:
    """What a failure falls back on, where that is not the last checkpoint in storage: fields of :class:`Process`."""
    progress, given = plan.run.progress, plan.circumstances
    operations, storage = given.operations, given.storage
    if operations.recovery == "memory":
        write = checkpoints.write_s(
            checkpoints.saved_bytes(_first(progress.checkpoint_bytes), operations.saved_fraction),
            storage.write_bytes_per_s,
            plan.run.fleet.used_nodes,
            storage.node_bytes_per_s,
            run.FILES_S,
        )
        stall, behind = (0.0, _first(write)) if operations.asynchronous_checkpoint else (_first(write), 0.0)
        return {
            "segments": round(_first(progress.storage_interval_s) / _first(progress.checkpoint_interval_s)),
            "storage_stall_s": stall,
            "storage_persist_s": behind,
            "storage_restore_s": whole_restart_s,
            "lost_fraction": operations.memory_lost_fraction,
        }
    if operations.recovery == "replica":
        loss = goodput.replica_loss_s(
            plan.step.time.total_s,
            operations.replica_reconfigure_s,
            operations.replica_recover_s,
            plan.layouts.dp,
            0,
            0,
        )
        return {"beside_fraction": 1 - operations.replica_global_fraction, "beside_s": _first(loss)}
    return {}


def _alarms(operations: Operations) -> dict[str, float]:
    """Failures that are foreseen, and alarms that are false: fields of :class:`Process`."""
    if not operations.foreseen_fraction or operations.recovery == "memory":
        return {}
    precision = operations.alarm_precision_fraction
    return {
        "foreseen_fraction": operations.foreseen_fraction,
        "false_alarms": operations.foreseen_fraction * (1 - precision) / precision,
        "proactive_s": operations.proactive_s,
    }


def whole_restart(given: Circumstances, nodes: IntArray, devices: IntArray) -> float:
    """From the start of the processes to the first useful step, where the state comes from storage. [s]"""
    operations, storage = given.operations, given.storage
    size = checkpoints.checkpoint_bytes(given.parameters, given.checkpoint_bytes_per_parameter)
    size = checkpoints.restored_bytes(size, operations.saved_fraction)
    init = reliability.communicator_init_s(devices, operations.communicator_s, operations.communicator_s_per_device)
    load = checkpoints.load_s(size, run.READS, storage.read_bytes_per_s, nodes, storage.node_bytes_per_s, run.FILES_S)
    return _first(reliability.restore_s(init, load, operations.warmup_s))


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
    if runs is None:
        runs = int(np.clip(MOST_FAILURES / max(expected, 1.0), FEWEST_RUNS, RUNS))
    draw = np.random.default_rng(seed)
    drawn = simulated(process_of(plan, shape), runs, draw, progress)
    return summary(plan, drawn, seed, shape, draw)


def summary(plan: Plan, drawn: Runs, seed: int, shape: float, draw: np.random.Generator) -> Simulation:
    """Means, quantiles and errors of simulated runs."""
    wall, count = drawn.wall_s, drawn.wall_s.size
    ideal, closed = _first(plan.run.progress.ideal_s), _first(plan.run.progress.goodput_fraction)
    reached = ideal / float(wall.mean())
    spread = float(wall.std(ddof=1)) if count > 1 else 0.0
    error = float(finish.standard_error_fraction(plan.question.machine.stack.step_error_fraction))
    ends = wall * (draw.gamma(error**-2, error**2, count) if error else 1.0)  # the law of the closed form
    p50, p90, p99 = (float(q) for q in np.quantile(ends, [0.5, 0.9, 0.99]))
    deadline = plan.circumstances.deadline_s
    return Simulation(
        runs=count,
        seed=seed,
        failure_shape=shape,
        goodput_fraction=reached,
        goodput_standard_error_fraction=reached * spread / float(wall.mean()) / count**0.5,
        difference_fraction=reached - closed,
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
    batch = max(min(runs, MOST_TOGETHER, AT_ONCE // max(spares, 1)), 1)
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

    number: IntArray
    """Which runs they are."""
    begun_s: FloatArray
    """When the processes started, or went on, for the last time. [s]"""
    ahead_s: FloatArray
    """Time at work since the checkpoint that they began from; negative while it is still to be restored. [s]"""
    kept: FloatArray
    """Checkpoint intervals before it."""
    interruptions: IntArray
    """Failures so far."""
    waiting_s: FloatArray
    """Time lost to waiting for spares. [s]"""
    stops: FloatArray
    """Planned stops so far."""
    phase: FloatArray
    """Share of the time between planned stops that has passed when the run begins."""
    back_s: FloatArray
    """When each node in repair is a spare again, shape ``(spare, run)``. [s]"""

    def take(self, rows: BoolArray) -> _Going:
        """Some of the runs."""
        return _Going(**{part.name: getattr(self, part.name)[..., rows] for part in fields(self)})


def _together(process: Process, runs: int, draw: np.random.Generator, told: Callable[[float], None]) -> Runs:
    """Runs that go forward together: in each round every one of them comes to its next failure, or ends."""
    result = Runs(wall_s=np.zeros(runs), interruptions=np.zeros(runs), waiting_s=np.zeros(runs))
    going = _Going(
        number=np.arange(runs),
        begun_s=np.zeros(runs),
        ahead_s=np.zeros(runs),
        kept=np.zeros(runs),
        interruptions=np.zeros(runs, dtype=np.int64),
        waiting_s=np.zeros(runs),
        stops=np.zeros(runs),
        phase=draw.random(runs) if process.stop_s else np.zeros(runs),
        back_s=np.full((process.spare_nodes or 0, runs), -np.inf),
    )
    left = runs
    for _ in range(MOST_ROUNDS):
        up = _up_s(process, going, draw)
        needed = _needed_s(process, going.kept) - going.ahead_s
        ended = up >= needed
        if ended.any():
            rows = np.flatnonzero(ended)
            rows = rows[result.wall_s[going.number[rows]] == 0]  # some have ended before and are still carried along
            numbers, ends = going.number[rows], going.begun_s[rows] + needed[rows]
            result.wall_s[numbers] = ends + _stopped_s(process, ends, going.stops[rows], going.phase[rows])
            result.interruptions[numbers] = going.interruptions[rows]
            result.waiting_s[numbers] = going.waiting_s[rows]
            left -= rows.size
            told(1 - left / runs)
            if not left:
                return result
            if left <= COMPACT * going.number.size:
                stay = result.wall_s[going.number] == 0
                going, up = going.take(stay), up[stay]
        _fail(process, going, up, draw)
    text = f"{left:,} of {runs:,} runs have not ended after {MOST_ROUNDS:,} failures"
    raise ClusterplanError(text, where="--simulate")


def _up_s(process: Process, going: _Going, draw: np.random.Generator) -> FloatArray:
    """Times to the next failure, or false alarm. [s]"""
    waits: FloatArray = draw.standard_exponential(going.number.size)
    if process.shape != 1:
        waits = waits ** (1 / process.shape) / gamma(1 + 1 / process.shape)
    mean: Any = process.mtbf_s / (1 + process.false_alarms)
    if process.early_factor != 1:
        mean = mean / (1 + (process.early_factor - 1) * np.exp(-going.begun_s / process.early_s))
    return waits * mean


def _needed_s(process: Process, kept: FloatArray) -> FloatArray:
    """Time at work from a checkpoint to the end of training. [s]

    The end needs no checkpoint: what is left is steps, and the stalls of the checkpoints on the way.
    """
    intervals = process.training_s / process.interval_s
    missing = intervals - kept
    needed = missing * process.interval_s + np.ceil(missing - 1 - 1e-9) * process.stall_s
    if process.storage_stall_s:
        patterns = np.ceil(intervals / process.segments - 1e-9) - 1 - np.floor(kept / process.segments)
        needed += np.maximum(patterns, 0) * process.storage_stall_s
    return needed


def _reached(process: Process, kept: FloatArray, worked_s: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Checkpoint intervals after some time at work from a checkpoint: those complete, and those of complete patterns.

    A pattern is the intervals from one checkpoint in storage to the next.
    """
    period = process.interval_s + process.stall_s
    if process.segments == 1 and not process.storage_stall_s:
        reached = kept + np.maximum(np.floor(worked_s / period), 0)
        return reached, reached
    begin = process.segments * np.floor(kept / process.segments)
    since = np.maximum(worked_s, 0) + (kept - begin) * period
    pattern = process.segments * period + process.storage_stall_s
    whole = np.floor(since / pattern)
    inside = np.minimum(np.floor((since - whole * pattern) / period), process.segments - 1)
    stored = begin + whole * process.segments
    return np.maximum(stored + inside, kept), stored


def _fail(process: Process, going: _Going, up_s: FloatArray, draw: np.random.Generator) -> None:
    """Take every run from its failure, or false alarm, to where its processes go on."""
    count = going.number.size

    def happens(share: float) -> BoolArray:
        return draw.random(count) < share if share else np.zeros(count, dtype=bool)

    failed, worked, before = going.begun_s + up_s, going.ahead_s + up_s, going.kept
    period = process.interval_s + process.stall_s
    done = before + np.maximum(worked, 0) / period
    false = happens(process.false_alarms / (1 + process.false_alarms))
    foreseen = happens(process.foreseen_fraction)
    silent = happens(process.silent_fraction) & ~false & (worked > 0)  # work that was done is spoiled

    # Where the run goes back to.
    kept, _ = _reached(process, before, worked - process.persist_s)
    ahead = np.full(count, -process.restore_s)
    if process.lost_fraction:
        lost = happens(process.lost_fraction)
        _, stored = _reached(process, before, worked - process.storage_persist_s)
        kept = np.where(lost, stored, kept)
        # One that was still restoring from storage goes on with that.
        far = lost | ((going.ahead_s < -process.restore_s) & (worked < 0))
        ahead = np.where(far, -process.storage_restore_s, ahead)
    kept = np.where(foreseen, done, kept)
    if process.silent_fraction:
        sound = np.floor(done - process.silent_undone_s / period)
        kept = np.where(silent, np.maximum(np.minimum(kept, sound), 0), kept)

    # When it goes on.
    known = failed + process.found_s
    free = known if process.spare_nodes is None else _spare_s(process, going, failed, ~false)
    waited = np.maximum(free - known, 0)
    begun = known + waited * process.waiting_loss_fraction + process.started_s + foreseen * process.proactive_s
    begun += happens(process.domain_fraction) * process.domain_outage_s
    stands = ~false
    if process.beside_fraction:  # no replica can go on from a state that is spoiled
        beside = happens(process.beside_fraction) & ~silent & ~false
        begun = np.where(beside, failed + process.beside_s, begun)
        kept, ahead = np.where(beside, before, kept), np.where(beside, worked, ahead)
        stands &= ~beside
    if process.false_alarms:
        begun = np.where(false, failed + process.proactive_s, begun)
        kept, ahead = np.where(false, done, kept), np.where(false, np.minimum(worked, 0), ahead)
    going.kept, going.ahead_s = kept, ahead
    going.interruptions += ~false
    going.waiting_s += waited * process.waiting_loss_fraction * stands
    stopped = _stopped_s(process, begun, going.stops, going.phase)
    if process.stop_s:
        going.stops += np.rint(stopped / process.stop_s)
    going.begun_s = begun + stopped


def _spare_s(process: Process, going: _Going, failed_s: FloatArray, has_failed: BoolArray) -> FloatArray:
    """When a spare is at hand for a node that has failed. [s]

    The node goes to repair. Repairs take the same time each and end in the order in which they began, so the spare that
    is free the longest is the one of as many failures ago as there are spares.
    """
    back = failed_s + process.repair_s
    if not process.spare_nodes:
        return back
    slot = (going.interruptions % process.spare_nodes, np.arange(failed_s.size))
    free = going.back_s[slot]
    going.back_s[slot] = back if not process.false_alarms else np.where(has_failed, back, free)
    return free


def _stopped_s(process: Process, now_s: FloatArray, stops: FloatArray, phase: FloatArray) -> FloatArray:
    """Length of the planned stops that have become due. [s]"""
    if not process.stop_s:
        return np.zeros_like(now_s)
    due = np.floor((now_s - stops * process.stop_s) / process.between_stops_s + phase)
    return np.maximum(due - stops, 0) * process.stop_s
