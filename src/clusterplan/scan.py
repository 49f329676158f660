"""Candidates: enumerate, test against memory, time, and compute the whole run, in batches.

Memory comes first: a layout that does not fit is not timed. For each pair of a cut and a pipeline the layout with most
replicas needs least memory, so a pair that does not fit there is refused for all sizes at once. What fits is timed, and
of layouts on equally many devices those far behind the fastest are dropped before the run is computed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np

from clusterplan import run, shapes, space, step
from clusterplan.arrays import BoolArray, FloatArray, IntArray
from clusterplan.formulas import memory
from clusterplan.layer import LayerTable, Question
from clusterplan.layout import (
    BATCH_TOLERANCE,
    Cuts,
    Layouts,
    broken_layout_rules,
    used_devices,
)
from clusterplan.plan import Demands, amount, violated, work
from clusterplan.run import Circumstances, Run
from clusterplan.space import Fixed
from clusterplan.units import format_count

Progress = Callable[[float, str], None]
"""Called with the share that is done and a word on the best so far."""

PAIRS_AT_ONCE = 2048
"""Pairs of a cut and a pipeline in one batch; its tables fit a processor's cache."""

LAYOUTS_AT_ONCE = 32768
"""Layouts in one batch."""

BEHIND = {"wall": 1.3, "cost": 1.3, "devices": 1.3, "energy": 2.5, "carbon": 2.5}
"""A layout this much slower than the fastest on equally many devices cannot win: cost and time grow with the time, and
power differs between layouts by less than this."""

REFINED = 24
"""Best cuts around which every number of replicas is tried."""

REFINED_RANGE = 0.08
"""How far around, relative."""


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
        tables = {
            f.name: np.concatenate([getattr(p.layouts, f.name) for p in parts]) if parts else np.zeros(0, np.int64)
            for f in fields(Layouts)
        }
        return Candidates(
            layouts=Layouts(**tables),
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

    def add(self, other: Tally) -> None:
        """Count another search's candidates too."""
        self.considered += other.considered
        self.evaluated += other.evaluated
        self.rejected += other.rejected
        self.least_bytes = min(self.least_bytes, other.least_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of a cut and a pipeline; fields have shape ``(pair,)``."""

    cut: IntArray
    pp: IntArray
    vpp: IntArray
    devices: IntArray
    """Devices of one replica."""
    stride: IntArray
    """Replicas come in multiples of this, so that experts divide."""

    def take(self, rows: IntArray | BoolArray | slice) -> Self:
        """The same with these rows."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


def make_pairs(question: Question, cuts: Cuts, fixed: Fixed) -> Pairs:
    """All cuts with all pipelines."""
    stack = question.machine.stack
    pipes = np.array(space.pipelines(question, fixed, schedules=stack.default_schedules), dtype=np.int64).reshape(-1, 2)
    cut = np.repeat(np.arange(cuts.size), len(pipes))
    pp, vpp = np.tile(pipes, (cuts.size, 1)).T
    stage = cuts.tp[cut] * cuts.cp[cut]
    expert = cuts.ep[cut] * cuts.etp[cut]
    return Pairs(cut=cut, pp=pp, vpp=vpp, devices=stage * pp, stride=expert // np.gcd(expert, stage))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One question with what is needed to evaluate its layouts."""

    question: Question
    circumstances: Circumstances
    demands: Demands
    objective: str
    cuts: Cuts
    table: LayerTable
    pairs: Pairs
    shardings: tuple[int, ...]
    dp: int | None
    """Replicas, if the user has set them."""

    @property
    def allowed_bytes(self) -> float:
        """Memory that a plan may fill. [byte]"""
        machine = self.question.machine
        margin = 0.0 if self.demands.borderline else machine.stack.margin_fraction
        return float(memory.usable_bytes(machine.accelerator.memory_bytes, margin))


def replica_range(bench: Bench, pairs: Pairs) -> tuple[IntArray, IntArray]:
    """Fewest and most replicas, in units of the stride, that the range of devices and the batch allow."""
    low, high = bench.demands.devices
    unit = pairs.devices * pairs.stride
    largest = min(high, bench.question.machine.largest_cluster)
    batch = bench.question.job.global_batch * (1 + BATCH_TOLERANCE)
    samples = bench.cuts.micro_batch[pairs.cut] * pairs.stride * np.where(pairs.vpp > 1, pairs.pp, 1)
    most = np.minimum(largest // unit, (batch // samples).astype(np.int64))
    # Idle devices and spares are a part of the range, so layouts may use somewhat less than its lower end.
    least = np.maximum(-(-int(low * 0.8) // unit), 1)
    return least, most


def ladder(least: IntArray, most: IntArray) -> tuple[IntArray, IntArray]:
    """Numbers of replicas of each pair, and the row of the pair: both of shape ``(layout,)``."""
    counts, rows = [], []
    key = least * 2**32 + most
    for value in np.unique(key):
        here = np.flatnonzero(key == value)
        steps = space.replica_counts(int(value >> 32), int(value & (2**32 - 1)))
        counts.append(np.tile(steps, len(here)))
        rows.append(np.repeat(here, len(steps)))
    if not counts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(counts), np.concatenate(rows)


def fitting_pairs(bench: Bench, pairs: Pairs, tally: Tally) -> BoolArray:
    """Pairs that fit with the most replicas and the widest sharding, the least that they can need."""
    least, most = replica_range(bench, pairs)
    sized = most >= least
    tally.rejected["devices"] += int(np.sum(~sized))
    rows = np.flatnonzero(sized)
    if not len(rows):
        return sized
    widest = np.full(len(rows), max(bench.shardings))
    layouts, _ = space.expand(
        bench.question, bench.cuts, pairs.cut, pairs.pp, pairs.vpp, (most * pairs.stride)[rows], rows, widest
    )
    peak = peak_bytes(bench, layouts)
    tally.least_bytes = min(tally.least_bytes, float(peak.min()))
    fits = peak <= bench.allowed_bytes
    lost = rows[~fits]
    count = np.log(np.maximum(most[lost] / least[lost], 1)) / np.log(space.SIZE_RATIO)
    refused = int(np.sum(np.ceil(count) + 1)) * len(bench.shardings)
    tally.considered += refused
    tally.rejected["memory"] += refused
    sized[lost] = False
    return sized


def peak_bytes(bench: Bench, layouts: Layouts) -> FloatArray:
    """Memory of the heaviest device of each layout, shape ``(layout,)``. [byte]"""
    stages = step.stage_table(bench.question, bench.table, layouts)
    return np.max(step.stage_memory(bench.question, bench.cuts, layouts, stages).total_bytes, axis=1)


def timed(bench: Bench, layouts: Layouts, tally: Tally) -> Candidates:
    """Those of the layouts that are legal and fit, with their speed."""
    limits = shapes.limits(bench.question.model, bench.question.job, bench.question.machine.stack)
    legal = np.ones(layouts.size, dtype=bool)
    for name, broken in broken_layout_rules(layouts, bench.cuts, limits).items():
        tally.rejected[name] += int(np.sum(broken & legal))
        legal &= ~broken
    layouts = layouts.take(np.flatnonzero(legal))
    tally.considered += layouts.size
    if not layouts.size:
        return Candidates(layouts=layouts, peak_bytes=np.zeros(0), tokens_per_s=np.zeros(0))
    stages = step.stage_table(bench.question, bench.table, layouts)
    peak = np.max(step.stage_memory(bench.question, bench.cuts, layouts, stages).total_bytes, axis=1)
    tally.least_bytes = min(tally.least_bytes, float(peak.min()))
    fits = np.flatnonzero(peak <= bench.allowed_bytes)
    tally.rejected["memory"] += layouts.size - len(fits)
    layouts = layouts.take(fits)
    stages = dataclasses.replace(stages, pair=stages.pair[fits])
    result = step.evaluate(bench.question, bench.cuts, bench.table, layouts, stages)
    return Candidates(layouts=layouts, peak_bytes=peak[fits], tokens_per_s=result.tokens_per_s)


def near_fastest(bench: Bench, found: Candidates) -> Candidates:
    """Those not far behind the fastest on equally many devices."""
    if not found.layouts.size:
        return found
    _, size = np.unique(found.layouts.bought_devices, return_inverse=True)
    fastest = np.zeros(size.max() + 1)
    np.maximum.at(fastest, size, found.tokens_per_s)
    return found.take(np.flatnonzero(found.tokens_per_s * BEHIND[bench.objective] >= fastest[size]))


def scan(bench: Bench, tally: Tally, progress: Progress | None) -> Candidates:
    """All sizes on a ladder, all cuts, all pipelines."""
    kept: list[Candidates] = []
    total = len(bench.pairs.cut)
    for start in range(0, total, PAIRS_AT_ONCE):
        pairs = bench.pairs.take(slice(start, start + PAIRS_AT_ONCE))
        pairs = pairs.take(np.flatnonzero(fitting_pairs(bench, pairs, tally)))
        least, most = replica_range(bench, pairs)
        if bench.dp is not None:
            least = most = np.full_like(least, bench.dp) // pairs.stride
        counts, rows = ladder(least, most)
        for begin in range(0, len(rows), LAYOUTS_AT_ONCE):
            replicas, pair = counts[begin : begin + LAYOUTS_AT_ONCE], rows[begin : begin + LAYOUTS_AT_ONCE]
            for sharding in bench.shardings:
                layouts, _ = space.expand(
                    bench.question,
                    bench.cuts,
                    pairs.cut,
                    pairs.pp,
                    pairs.vpp,
                    replicas * pairs.stride[pair],
                    pair,
                    np.full(len(pair), sharding),
                )
                kept.append(near_fastest(bench, timed(bench, layouts, tally)))
        if sum(k.layouts.size for k in kept) > 8 * LAYOUTS_AT_ONCE:
            kept = [near_fastest(bench, Candidates.joined(kept))]
        if progress:
            progress(min(start + PAIRS_AT_ONCE, total) / total, f"{format_count(tally.considered)} layouts")
    return near_fastest(bench, Candidates.joined(kept))


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

    @property
    def feasible(self) -> BoolArray:
        """Which keep to everything."""
        return ~np.any(list(self.broken.values()), axis=0)


def evaluated(bench: Bench, candidates: Candidates, tally: Tally) -> Found:
    """The whole run of each candidate; what is priced here counts as evaluated."""
    tally.evaluated += candidates.layouts.size
    stages = step.stage_table(bench.question, bench.table, candidates.layouts)
    result = step.evaluate(bench.question, bench.cuts, bench.table, candidates.layouts, stages)
    outcome = run.evaluate(bench.circumstances, work(bench.cuts, candidates.layouts, result))
    return Found(
        bench=bench,
        candidates=candidates,
        outcome=outcome,
        broken=violated(bench.demands, outcome),
        value=amount(bench.objective, outcome),
    )


def around_best(found: Found, tally: Tally) -> Candidates:
    """Every number of replicas around the best candidates of each kind."""
    bench, layouts = found.bench, found.candidates.layouts
    breaches = np.sum(list(found.broken.values()), axis=0)
    seen: dict[tuple[int, ...], int] = {}
    for row in np.lexsort((found.value, breaches)):
        key = (int(layouts.cut[row]), int(layouts.pp[row]), int(layouts.vpp[row]), int(layouts.sharding[row]))
        seen.setdefault(key, int(row))
        if len(seen) >= REFINED:
            break
    best = layouts.take(np.array(list(seen.values()), dtype=np.int64))
    stage = bench.cuts.tp[best.cut] * bench.cuts.cp[best.cut]
    expert = bench.cuts.ep[best.cut] * bench.cuts.etp[best.cut]
    stride = expert // np.gcd(expert, stage)
    reach = np.maximum((best.dp * REFINED_RANGE / stride).astype(np.int64), 1)
    counts = [d + s * np.arange(-r, r + 1) for d, s, r in zip(best.dp, stride, reach, strict=True)]
    pair = np.repeat(np.arange(best.size), [len(c) for c in counts])
    dp = np.concatenate(counts) if counts else np.zeros(0, np.int64)
    pair, dp = pair[dp > 0], dp[dp > 0]
    more, _ = space.expand(bench.question, bench.cuts, best.cut, best.pp, best.vpp, dp, pair, best.sharding[pair])
    reachable = used_devices(more, bench.cuts) <= bench.question.machine.largest_cluster
    return timed(bench, more.take(np.flatnonzero(reachable)), tally)


def look(bench: Bench, tally: Tally, progress: Progress | None = None) -> Found:
    """All candidates of one question."""
    found = evaluated(bench, scan(bench, tally, progress), tally)
    if bench.dp is None and found.candidates.layouts.size:
        finer = evaluated(bench, around_best(found, tally), tally)
        both = Candidates.joined([found.candidates, finer.candidates])
        found = evaluated(bench, both, Tally())
    for name, mask in found.broken.items():
        tally.rejected[name] += int(np.sum(mask))
    return found
