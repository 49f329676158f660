"""Candidates: enumerate, test against memory, time, and compute the whole run, in batches.

Memory comes first: a layout that does not fit is not timed. For each pair of a cut and a pipeline the layout with most
replicas needs least memory, so a pair that does not fit there is refused for all sizes at once. What fits is timed, and
of layouts on equally many devices those far behind the fastest are dropped before the run is computed.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from clusterplan import run, shapes, space, step
from clusterplan.arrays import BoolArray, FloatArray, IntArray, largest, total
from clusterplan.errors import LayoutError
from clusterplan.formulas import memory
from clusterplan.layer import LayerTable, Question, price_layers
from clusterplan.layout import (
    BATCH_TOLERANCE,
    PLACEMENTS,
    RECOMPUTE,
    Cuts,
    Layouts,
    broken_layout_rules,
    largest_stage,
    used_devices,
)
from clusterplan.outcome import Circumstances, Run
from clusterplan.plan import Demands, amount, settling, shortfall, usable_host_bytes, violated, work
from clusterplan.space import Fixed
from clusterplan.step import Pipelines, StageTable
from clusterplan.units import format_count

Progress = Callable[[float, str], None]
"""Called with the share that is done and a word on the best so far."""

PAIRS_AT_ONCE = 2048
"""Pairs of a cut and a pipeline in one batch; its tables fit a processor's cache."""

LAYOUTS_AT_ONCE = 32768
"""Layouts in one batch."""

BEHIND = {"wall": 1.15, "cost": 1.15, "devices": 1.15, "energy": 1.5, "carbon": 1.5, "water": 1.5}
"""A layout this much slower than the fastest on equally many devices cannot win. Cost and time grow with the time.
Energy grows less, but at least by the power of waiting, about half of that of work; a layout 1.5 times slower would
have to do less than 0.6 of the work. Carbon and water go with energy, and so do limits on them."""

BEHIND_NAME = "far behind the fastest"
"""What layouts fall to that cannot come near the fastest on equally many devices."""

LOWEST_USE = 0.8
"""Least share of the lower end of the range of devices that layouts use; the rest may be idle or spare."""

SMALL_CLUSTER = 256
"""Below so many nodes the spares may be more than what :data:`LOWEST_USE` leaves."""

REFINED = 24
"""Best cuts around which every number of replicas is tried."""

MOST_BLOCKS = 16
"""Most numbers of layers of a stage that are tried there to run again."""

REFINED_RANGE = 0.08
"""How far around, relative."""


Table = TypeVar("Table", Cuts, Layouts, LayerTable, Run)


def joined(tables: list[Table]) -> Table:
    """All rows of several tables of one kind, which may be made of tables; what has no rows is the same in all."""
    columns: dict[str, Any] = {f.name: [getattr(table, f.name) for table in tables] for f in fields(tables[0])}
    for name, parts in columns.items():
        if is_dataclass(parts[0]):
            columns[name] = joined(parts)
        else:
            columns[name] = np.concatenate(parts) if np.ndim(parts[0]) else parts[0]
    return type(tables[0])(**columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Layouts of one question that fit, with what follows from them; fields have shape ``(layout,)``."""

    layouts: Layouts
    peak_bytes: FloatArray
    tokens_per_s: FloatArray

    def take(self, rows: IntArray | BoolArray) -> Self:
        """The same with these rows."""
        return type(self)(
            layouts=self.layouts.take(rows), peak_bytes=self.peak_bytes[rows], tokens_per_s=self.tokens_per_s[rows]
        )

    @classmethod
    def joined(cls, parts: list[Candidates]) -> Candidates:
        """All rows of several."""
        none = Layouts(**{f.name: np.zeros(0, np.int64) for f in fields(Layouts)})
        return Candidates(
            layouts=joined([none, *(p.layouts for p in parts)]),
            peak_bytes=np.concatenate([p.peak_bytes for p in parts]) if parts else np.zeros(0),
            tokens_per_s=np.concatenate([p.tokens_per_s for p in parts]) if parts else np.zeros(0),
        )


@dataclass
class Tally:
    """What happened to the candidates."""

    considered: int = 0
    evaluated: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    least_bytes: float = np.inf
    """Least memory that any layout needs. [byte]"""
    may_stop: bool = False
    """Whether a keyboard interrupt ends the search with what it has; else it is an exception as everywhere."""
    stopped_at: float | None = None
    """Share of the pairs that had been looked at when it was interrupted; None if it was not."""

    def add(self, other: Tally) -> None:
        """Count another search's candidates too."""
        self.stopped_at = self.stopped_at if other.stopped_at is None else other.stopped_at
        self.considered += other.considered
        self.evaluated += other.evaluated
        self.rejected += other.rejected
        self.least_bytes = min(self.least_bytes, other.least_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of a cut and a pipeline; fields have shape ``(pair,)``."""

    cut: IntArray
    """Row of the table of cuts."""
    pipe: IntArray
    """Row of the table of pipelines."""
    devices: IntArray
    """Devices of one replica."""
    stride: IntArray
    """Replicas come in multiples of this, so that experts divide."""

    def take(self, rows: IntArray | BoolArray | slice) -> Self:
        """The same with these rows."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One question with what is needed to evaluate its layouts."""

    question: Question
    circumstances: Circumstances
    demands: Demands
    objective: str
    cuts: Cuts
    table: LayerTable
    pipes: Pipelines
    pairs: Pairs
    shardings: tuple[int, ...]
    offloads: tuple[int, ...]
    schedules: tuple[int, ...]
    placements: tuple[int, ...]
    other_placements: tuple[int, ...]
    """Orders of groups that are tried only around the best."""
    shard_groups: Mapping[int, tuple[int, ...]]
    """Sizes of the groups that share states, by sharding."""
    is_block_free: bool
    """Whether the search chooses how many layers run again."""
    dp: int | None
    """Replicas, if the user has set them."""
    fewest_used: int
    """Fewest devices at work that are looked at."""

    @property
    def behind(self) -> float:
        """How much slower than the fastest on as many devices a layout may be and still be the one that is sought."""
        limited = {"water": self.demands.water_m3, "carbon": self.demands.carbon_kg}
        sought = [self.objective, *(name for name, most in limited.items() if most is not None)]
        return max(BEHIND[name] for name in sought)

    @property
    def allowed_bytes(self) -> float:
        """Memory that a plan may fill. [byte]"""
        machine = self.question.machine
        margin = 0.0 if self.demands.borderline else machine.stack.margin_fraction
        return float(memory.usable_bytes(machine.accelerator.memory_bytes, margin))

    def stages(self, cut: IntArray, pipe: IntArray) -> StageTable:
        """Stage sums of pairs of a cut and a pipeline."""
        return step.stage_table(self.question, self.table, cut, self.pipes, pipe)

    @property
    def methods(self) -> list[tuple[int, int, int, int, int]]:
        """Combinations of a sharding, what is kept in host memory, a schedule, an order of groups and a shard group."""
        return [
            (sharding, *others, group)
            for sharding in self.shardings
            for others in itertools.product(self.offloads, self.schedules, self.placements)
            for group in self.shard_groups[sharding]
        ]

    def expand(self, cut: IntArray, pipe: IntArray, dp: IntArray, *methods: IntArray) -> Layouts:
        """Layouts of pairs with numbers of replicas and methods, on no fewer devices than are asked for."""
        pp, vpp = self.pipes.pp[pipe], self.pipes.vpp[pipe]
        return space.expand(self.question, self.cuts, cut, pp, vpp, dp, *methods, fewest=self.demands.devices[0])


def make_bench(
    question: Question,
    circumstances: Circumstances,
    demands: Demands,
    objective: str,
    fixed: Fixed,
    allow: tuple[str, ...],
) -> Bench:
    """All cuts, all pipelines, and their pairs.

    Raises
    ------
    LayoutError
        If no layout has the axes that the user has set.
    """
    stack = question.machine.stack
    cuts = space.all_cuts(question, fixed)
    schedules = tuple(s for s in stack.schedules if s in stack.default_schedules or s in allow)
    pipelines = space.pipelines(question, fixed, schedules=schedules)
    if not cuts.size or not pipelines:
        raise LayoutError(space.why_none(question, fixed), where=question.machine.system.name)
    cuts, belongs = space.counted(question, fixed, cuts, pipelines)
    pipes = step.pipelines(question, pipelines)
    table = price_layers(question, cuts)
    shardings = tuple(space.shardings(question, fixed, allow))
    placements = tuple(space.placements(question, fixed, allow))
    able = {PLACEMENTS.index(name) for name in stack.placements} if fixed.placement is None else set()
    cut = np.repeat(fast_first(question, cuts, table), len(pipes.pp))
    pipe = np.tile(np.arange(len(pipes.pp)), cuts.size)
    cut, pipe = cut[belongs[cut, pipe]], pipe[belongs[cut, pipe]]
    stage = cuts.tp[cut] * cuts.cp[cut]
    expert = cuts.ep[cut] * cuts.etp[cut]
    return Bench(
        question=question,
        circumstances=circumstances,
        demands=demands,
        objective=objective,
        cuts=cuts,
        table=table,
        pipes=pipes,
        pairs=Pairs(cut=cut, pipe=pipe, devices=stage * pipes.pp[pipe], stride=expert // np.gcd(expert, stage)),
        shardings=shardings,
        offloads=tuple(space.offloads(question, fixed, allow)),
        schedules=tuple(space.schedules(question, fixed, allow)),
        placements=placements,
        other_placements=tuple(sorted(able - set(placements))),
        shard_groups={kind: tuple(space.shard_groups(question, fixed, kind)) for kind in shardings},
        is_block_free=fixed.recompute is None and "block" in stack.recompute,
        dp=fixed.dp,
        fewest_used=fewest_used(question, circumstances, demands.devices[0]),
    )


def fewest_used(question: Question, circumstances: Circumstances, devices: int) -> int:
    """Fewest devices at work on a cluster of so many, idle ones and spares included.

    It is a share of them, or what a small cluster has left when one or two of its nodes are spares.
    """
    system = question.machine.system
    share = LOWEST_USE * question.domain_devices / system.scaleup_devices
    used = system.node_devices * np.arange(1, min(devices // system.node_devices, SMALL_CLUSTER) + 1)
    with_spares = used + run.fleet_of(circumstances, used, used).spare_devices
    at_work = used[with_spares <= devices]
    left = int(at_work[-1]) if len(at_work) and len(used) < SMALL_CLUSTER else devices
    return min(int(share * devices), left)


def replica_range(bench: Bench, pairs: Pairs) -> tuple[IntArray, IntArray]:
    """Fewest and most replicas, in units of the stride, that the range of devices and the batch allow."""
    if bench.dp is not None:
        exact = np.where(bench.dp % pairs.stride == 0, bench.dp // pairs.stride, 0)
        return np.maximum(exact, 1), exact
    high = bench.demands.devices[1]
    unit = pairs.devices * pairs.stride
    largest = min(high, bench.question.machine.largest_cluster)
    job = bench.question.job
    batch = job.global_batch * (1 + BATCH_TOLERANCE * (job.batch_low is None))
    most = np.minimum(largest // unit, (batch // samples(bench, pairs)).astype(np.int64))
    least = np.maximum(-(-bench.fewest_used // unit), 1)
    return least, most


def samples(bench: Bench, pairs: Pairs) -> IntArray:
    """Sequences by which the batch grows with one more stride of replicas, shape ``(pair,)``."""
    pp, vpp = bench.pipes.pp[pairs.pipe], bench.pipes.vpp[pairs.pipe]
    return bench.cuts.micro_batch[pairs.cut] * pairs.stride * np.where(vpp > 1, pp, 1)


def ladders(bench: Bench, pairs: Pairs, least: IntArray, most: IntArray) -> tuple[list[IntArray], IntArray]:
    """Numbers of replicas in units of the stride: the few ladders that occur, and which of them each pair has.

    Where the batch is fixed they are the divisors that make it; others would miss it.
    """
    job, unit = bench.question.job, samples(bench, pairs)
    batches = np.where(job.global_batch % unit == 0, job.global_batch // unit, 0) if job.batch_fixed else 0 * unit
    code = (least * (most.max(initial=0) + 1) + most) * (batches.max(initial=0) + 1) + batches
    _, first, kind = np.unique(code, return_index=True, return_inverse=True)
    ends = zip(least[first].tolist(), most[first].tolist(), batches[first].tolist(), strict=True)
    return [_steps(low, high, whole if job.batch_fixed else None) for low, high, whole in ends], kind


def ladder(bench: Bench, pairs: Pairs, least: IntArray, most: IntArray) -> tuple[IntArray, IntArray]:
    """Numbers of replicas of each pair, in units of its stride, and its row: both of shape ``(layout,)``."""
    steps, kind = ladders(bench, pairs, least, most)
    sizes = np.array([len(s) for s in steps], dtype=np.int64)
    begins = (np.cumsum(sizes) - sizes)[
        kind
    ]  # the ladders lie end to end in one array, of which each pair takes its own
    own = sizes[kind]
    rows = np.repeat(np.arange(len(kind)), own)
    places = np.arange(len(rows)) + np.repeat(begins - (np.cumsum(own) - own), own)
    return np.concatenate([np.zeros(0, np.int64), *steps])[places], rows


@functools.lru_cache(maxsize=65536)
def _steps(low: int, high: int, batches: int | None) -> IntArray:
    """Numbers of replicas between two ends; where the batches of one replica are fixed, those that divide them."""
    if batches is None:
        return space.replica_counts(low, high)
    return np.array([d for d in space.divisors(batches) if low <= d <= high], dtype=np.int64)


def fitting_pairs(
    bench: Bench, pairs: Pairs, stages: StageTable, least: IntArray, most: IntArray, tally: Tally
) -> IntArray:
    """Pairs that fit with the most replicas and the sharding that needs least: no layout of theirs needs less."""
    rows = np.flatnonzero(most >= least)
    tally.rejected["a replica within devices and batch"] += len(most) - len(rows)
    if not len(rows):
        return rows
    peak = least_bytes(bench, pairs.take(rows), stages.at(rows), most[rows])
    tally.least_bytes = min(tally.least_bytes, float(peak.min()))
    fits = peak <= bench.allowed_bytes
    lost = rows[~fits]
    steps, kind = ladders(bench, pairs.take(lost), least[lost], most[lost])
    refused = sum(len(rungs) * count for rungs, count in zip(steps, np.bincount(kind).tolist(), strict=True))
    tally.considered += refused * len(bench.methods)
    tally.rejected["memory"] += refused * len(bench.methods)
    return rows[fits]


def least_bytes(bench: Bench, pairs: Pairs, stages: StageTable, most: IntArray) -> FloatArray:
    """Memory with the most replicas, in units of the stride, and any method, shape ``(pair,)``. [byte]"""
    least = np.full(len(most), np.inf)
    for method in bench.methods:
        layouts = bench.expand(pairs.cut, pairs.pipe, most * pairs.stride, *(np.full(len(most), m) for m in method))
        least = np.minimum(least, peak_bytes(bench, layouts, stages))
    return least


def peak_bytes(bench: Bench, layouts: Layouts, stages: StageTable) -> FloatArray:
    """Memory of the heaviest device of each layout, shape ``(layout,)``. [byte]"""
    return largest(step.stage_memory(bench.question, bench.cuts, layouts, stages).total_bytes.T)


SPARES_KNOWN = 2000
"""Numbers of nodes for which the spares are looked up; in between, those of the next larger one are taken."""


@dataclass
class Fastest:
    """Speed of the fastest layout so far on each number of purchase units, spares included."""

    bench: Bench
    spare_devices: IntArray
    """Devices of the spare nodes by number of nodes at work."""
    tokens_per_s: FloatArray

    @classmethod
    def on(cls, bench: Bench) -> Self:
        """Nothing seen yet."""
        system = bench.question.machine.system
        most = bench.question.machine.largest_cluster // system.node_devices + 1
        nodes = np.unique(np.round(np.geomspace(1, most, SPARES_KNOWN)).astype(np.int64))
        used = nodes * system.node_devices
        spare = run.fleet_of(bench.circumstances, used, used).spare_devices
        by_node = spare[np.minimum(np.searchsorted(nodes, np.arange(most + 1)), len(nodes) - 1)]
        bought = space.bought_devices(bench.question, used[-1], bench.demands.devices[0])
        units = int(np.maximum(bought, used[-1] + spare[-1])) // system.devices + 1
        return cls(bench=bench, spare_devices=by_node, tokens_per_s=np.zeros(units + 1))

    def units(self, layouts: Layouts) -> IntArray:
        """Purchase units that each layout comes to, shape ``(layout,)``."""
        system = self.bench.question.machine.system
        used = used_devices(layouts, self.bench.cuts)
        needed = used + self.spare_devices[-(-used // system.node_devices)]
        return -(-np.maximum(layouts.bought_devices, needed) // system.devices)

    def keeps(self, layouts: Layouts, tokens_per_s: FloatArray) -> BoolArray:
        """Which are not far behind, shape ``(layout,)``."""
        return tokens_per_s * self.bench.behind >= self.tokens_per_s[self.units(layouts)]

    def see(self, layouts: Layouts, tokens_per_s: FloatArray) -> None:
        """Take note of these."""
        np.maximum.at(self.tokens_per_s, self.units(layouts), tokens_per_s)


def fast_first(question: Question, cuts: Cuts, table: LayerTable) -> IntArray:
    """Cuts by the time that their devices spend on a token, least first: what comes later is dropped sooner."""
    parts = step.model_counts(question)
    busy = total(getattr(table, name) for name in step.STAGE_PARTS) @ parts
    return np.argsort(busy * cuts.tp * cuts.cp / cuts.micro_batch, kind="stable")


def timed(bench: Bench, layouts: Layouts, stages: StageTable, fastest: Fastest, tally: Tally) -> Candidates:
    """Those of the layouts that are legal, fit, and are not far behind the fastest."""
    limits = shapes.limits(bench.question.model, bench.question.job, bench.question.machine.stack)
    legal = np.ones(layouts.size, dtype=bool)
    for name, broken in broken_layout_rules(layouts, bench.cuts, limits).items():
        if broken.any():  # most are kept by all
            tally.rejected[name] += int(np.count_nonzero(broken & legal))
            legal &= ~broken
    rows = np.flatnonzero(legal)
    layouts, stages = layouts.take(rows), stages.at(stages.pair[rows])
    tally.considered += layouts.size
    # The bound on the time is cheaper than the memory, so it comes first.
    most = step.step_tokens(bench.question, layouts) / step.least_s(bench.cuts, layouts, stages)
    rows = np.flatnonzero(fastest.keeps(layouts, most))
    tally.rejected[BEHIND_NAME] += layouts.size - len(rows)
    layouts, stages = layouts.take(rows), stages.at(stages.pair[rows])
    peak = peak_bytes(bench, layouts, stages) if layouts.size else np.zeros(0)
    tally.least_bytes = min(tally.least_bytes, float(peak.min(initial=np.inf)))
    rows = np.flatnonzero(peak <= bench.allowed_bytes)
    tally.rejected["memory"] += layouts.size - len(rows)
    layouts, stages, peak = layouts.take(rows), stages.at(stages.pair[rows]), peak[rows]
    if layouts.offload.any():
        on_host = largest(step.host_bytes(bench.question, bench.cuts, layouts, stages).T)
        rows = np.flatnonzero(on_host <= usable_host_bytes(bench.question.machine.system))
        tally.rejected["host memory"] += layouts.size - len(rows)
        layouts, stages, peak = layouts.take(rows), stages.at(stages.pair[rows]), peak[rows]
    if not layouts.size:
        return Candidates(layouts=layouts, peak_bytes=peak, tokens_per_s=np.zeros(0))
    time = step.step_time(bench.question, bench.cuts, layouts, stages)
    found = Candidates(
        layouts=layouts,
        peak_bytes=peak,
        tokens_per_s=step.step_tokens(bench.question, layouts) / time.total_s,
    )
    fastest.see(layouts, found.tokens_per_s)
    return found.take(np.flatnonzero(fastest.keeps(layouts, found.tokens_per_s)))


def scan(bench: Bench, fastest: Fastest, tally: Tally, progress: Progress | None) -> Candidates:
    """All sizes on a ladder, all cuts, all pipelines."""
    kept: list[Candidates] = []
    held = 0  # rows that were left when those behind were dropped last
    total_pairs = len(bench.pairs.cut)
    begun_s = time.monotonic()
    start = 0
    try:
        for start in range(0, total_pairs, PAIRS_AT_ONCE):
            pairs = bench.pairs.take(slice(start, start + PAIRS_AT_ONCE))
            stages = bench.stages(pairs.cut, pairs.pipe)
            least, most = replica_range(bench, pairs)
            fit = fitting_pairs(bench, pairs, stages, least, most, tally)
            replicas, rows = ladder(bench, pairs.take(fit), least[fit], most[fit])
            missed = np.bincount(rows, minlength=len(fit)) == 0  # only a fixed batch leaves a pair without any
            tally.rejected["batch divides by dp × micro-batch"] += int(np.sum(missed))
            for begin in range(0, len(rows), LAYOUTS_AT_ONCE):
                pair = fit[rows[begin : begin + LAYOUTS_AT_ONCE]]
                dp = replicas[begin : begin + LAYOUTS_AT_ONCE] * pairs.stride[pair]
                for method in bench.methods:
                    columns = (np.full(len(pair), m) for m in method)
                    layouts = bench.expand(pairs.cut[pair], pairs.pipe[pair], dp, *columns)
                    kept.append(timed(bench, layouts, stages.at(pair), fastest, tally))
            if sum(k.layouts.size for k in kept) > 2 * held + 8 * LAYOUTS_AT_ONCE:
                kept = [behind_dropped(Candidates.joined(kept), fastest)]
                held = kept[0].layouts.size
            if progress:
                rate = tally.considered / max(time.monotonic() - begun_s, 1e-3)
                best = format_count(float(fastest.tokens_per_s.max()), "tokens/s")
                told = f"{tally.considered:,} layouts, {format_count(round(rate))}/s; fastest so far {best}"
                progress(min(start + PAIRS_AT_ONCE, total_pairs) / total_pairs, told)
    except KeyboardInterrupt:
        if not tally.may_stop:
            raise
        tally.stopped_at = start / total_pairs
    return behind_dropped(Candidates.joined(kept), fastest)


def behind_dropped(found: Candidates, fastest: Fastest) -> Candidates:
    """Without those that a later layout has left far behind."""
    return found.take(np.flatnonzero(fastest.keeps(found.layouts, found.tokens_per_s)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Candidates of one question with their whole runs."""

    bench: Bench
    candidates: Candidates
    outcome: Run
    broken: dict[str, BoolArray]
    """Constraints that each breaks, by name."""
    value: FloatArray
    """What the objective counts, less is better."""
    least_bytes: float = np.inf
    """Least memory that a layout needs, those that do not fit included; infinite if none was looked at. [byte]"""

    @property
    def feasible(self) -> BoolArray:
        """Which keep to everything."""
        return ~np.any(list(self.broken.values()), axis=0)


def pipe_of(bench: Bench, layouts: Layouts) -> IntArray:
    """Row of the table of pipelines for each layout, shape ``(layout,)``."""
    code = bench.pipes.pp * 2**20 + bench.pipes.vpp
    order = np.argsort(code)
    return order[np.searchsorted(code[order], layouts.pp * 2**20 + layouts.vpp)]


def evaluated(bench: Bench, candidates: Candidates, tally: Tally) -> Found:
    """The whole run of each candidate; what is priced here counts as evaluated."""
    layouts = candidates.layouts
    tally.evaluated += layouts.size
    code = layouts.cut * len(bench.pipes.pp) + pipe_of(bench, layouts)
    unique, pair = np.unique(code, return_inverse=True)
    stages = bench.stages(unique // len(bench.pipes.pp), unique % len(bench.pipes.pp))
    result = step.evaluate(bench.question, bench.cuts, bench.table, layouts, stages.at(pair))
    return judged(bench, candidates, run.evaluate(bench.circumstances, work(bench.cuts, layouts, result)))


def judged(bench: Bench, candidates: Candidates, outcome: Run) -> Found:
    """Candidates with their runs, against what is asked for."""
    return Found(
        bench=bench,
        candidates=candidates,
        outcome=outcome,
        broken=violated(bench.demands, outcome),
        value=amount(bench.objective, outcome),
    )


def around_best(found: Found, fastest: Fastest, tally: Tally) -> tuple[Bench, Candidates]:
    """Every number of replicas, and of layers that run again if some do, around the best candidates of each kind.

    Where none keeps to the demands, around the nearest misses. New cuts are appended to the bench's, so older rows keep
    their places.
    """
    layouts = found.candidates.layouts
    away = np.where(found.feasible, 0.0, shortfall(found.bench.demands, found.outcome))
    seen: dict[tuple[int, ...], int] = {}
    for row in np.lexsort((amount(settling(found.outcome), found.outcome), found.value, away)):
        axes = (layouts.cut, layouts.pp, layouts.vpp, layouts.sharding, layouts.offload, layouts.schedule,
                layouts.placement, layouts.shard_group)  # fmt: skip
        key = tuple(int(axis[row]) for axis in axes)
        seen.setdefault(key, int(row))
        if len(seen) >= REFINED:
            break
    best = with_orders(found.bench, layouts.take(np.array(list(seen.values()), dtype=np.int64)))
    bench, best = with_blocks(found.bench, best)
    stage = bench.cuts.tp[best.cut] * bench.cuts.cp[best.cut]
    expert = bench.cuts.ep[best.cut] * bench.cuts.etp[best.cut]
    stride = expert // np.gcd(expert, stage)
    reach = np.maximum((best.dp * REFINED_RANGE / stride).astype(np.int64), 1) * (bench.dp is None)
    counts = [d + s * np.arange(-r, r + 1) for d, s, r in zip(best.dp, stride, reach, strict=True)]
    pair = np.repeat(np.arange(best.size), [len(c) for c in counts])
    dp = np.concatenate(counts)
    pair, dp = pair[dp > 0], dp[dp > 0]
    pipe = pipe_of(bench, best)
    methods = (best.sharding, best.offload, best.schedule, best.placement, best.shard_group)
    more = bench.expand(best.cut[pair], pipe[pair], dp, *(method[pair] for method in methods))
    reachable = np.flatnonzero(used_devices(more, bench.cuts) <= bench.question.machine.largest_cluster)
    stages = bench.stages(best.cut, pipe)
    fastest = replace(fastest, bench=bench)
    return bench, timed(bench, more.take(reachable), stages.at(pair[reachable]), fastest, tally)


def with_orders(bench: Bench, best: Layouts) -> Layouts:
    """The same and, where a pipeline has replicas, those with its groups in the other orders."""
    rows = np.flatnonzero((best.pp > 1) & (best.dp > 1))
    more = [replace(best.take(rows), placement=np.full(len(rows), order)) for order in bench.other_placements]
    return joined([best, *more])


def with_blocks(bench: Bench, best: Layouts) -> tuple[Bench, Layouts]:
    """The same and, for layouts that run layers again, those that do so with other numbers of layers of a stage."""
    rows = np.flatnonzero(bench.cuts.recomputed[best.cut] > 0)
    if not bench.is_block_free or not len(rows):
        return bench, best
    layers = largest_stage(
        bench.question.model.layers, best.pp[rows], best.vpp[rows], bench.question.end_layers
    ).tolist()
    shares = [np.unique(np.linspace(1, n - 1, min(n - 1, MOST_BLOCKS)).astype(np.int64)) / n for n in layers]
    row = np.repeat(rows, [len(s) for s in shares])
    if not len(row):
        return bench, best
    cuts = replace(
        bench.cuts.take(best.cut[row]),
        recompute=np.full(len(row), RECOMPUTE.index("block")),
        recomputed=np.concatenate(shares),
    )
    more = replace(best.take(row), cut=bench.cuts.size + np.arange(len(row)))
    wider = replace(
        bench, cuts=joined([bench.cuts, cuts]), table=joined([bench.table, price_layers(bench.question, cuts)])
    )
    return wider, joined([best, more])


def look(bench: Bench, tally: Tally, progress: Progress | None = None) -> Found:
    """All candidates of one question."""
    fastest, counted = Fastest.on(bench), Tally(may_stop=tally.may_stop)
    found = evaluated(bench, scan(bench, fastest, counted, progress), counted)
    if found.candidates.layouts.size and counted.stopped_at is None:
        bench, candidates = around_best(found, fastest, counted)
        finer = evaluated(bench, candidates, counted)
        both = Candidates.joined([found.candidates, finer.candidates])
        found = judged(bench, both, joined([found.outcome, finer.outcome]))
    for name, mask in found.broken.items():
        counted.rejected[name] += int(np.sum(mask))
    tally.add(counted)
    return replace(found, least_bytes=counted.least_bytes)
