"""Choosing among candidates: ties, alternatives, the knee of the front, and what stands in the way of any plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from clusterplan.arrays import BoolArray, FloatArray, IntArray
from clusterplan.plan import Blocking, Demands, Plan, amount, cost_usd, make_plan, settling, shortfall, upper_limits
from clusterplan.scan import Bench, Found, replica_range, samples

USEFUL_MARGIN = 0.1
"""Free memory beyond this share of the device makes a plan no safer."""

LEAST_SAVING = 0.005
"""assumed: a tie that saves less than this over the proposed plan is not worth telling."""
MARGIN_STEP = 0.05
"""Differences of free memory below this share of the device do not matter."""


KNEE_COST = 0.1
"""assumed: with nothing asked, what a shorter run may cost over the cheapest one; what is between plans of this cost is
within the ranges of their prices."""

SHORTEST_RUN_S = 86_400.0
"""assumed: with nothing asked no shorter run is looked for: what it takes to get and set up a cluster is not counted,
and would be more than such a run. [s]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One row of one question's candidates."""

    found: Found
    row: int

    def plan(self) -> Plan:
        """The row in full."""
        bench = self.found.bench
        layouts = self.found.candidates.layouts.take(np.array([self.row]))
        cuts = bench.cuts.take(layouts.cut)
        return make_plan(
            bench.question, bench.circumstances, cuts, dataclasses.replace(layouts, cut=np.zeros(1, np.int64))
        )

    def key(self, name: str) -> object:
        """An axis of the layout, or the hardware, to tell alternatives apart."""
        bench, layouts = self.found.bench, self.found.candidates.layouts
        if name == "hardware":
            return bench.question.machine.system.name
        if name in ("tp", "cp", "ep"):
            return int(getattr(bench.cuts, name)[layouts.cut[self.row]])
        return int(getattr(layouts, name)[self.row])

    @property
    def devices(self) -> int:
        """All devices of the cluster."""
        return int(self.found.outcome.fleet.devices[self.row])


def tied(found: Found, limit: float) -> IntArray:
    """Feasible rows whose value may be the best, given the error of the model."""
    return np.flatnonzero(found.feasible & (found.value <= limit))


def preferred(found: Found, rows: IntArray) -> IntArray:
    """Tied rows from most to least preferred.

    What decides is what can go wrong: first the free memory, in steps of 5 % of the device up to the useful margin;
    then offloading, an unusual order of groups and recompute are avoided; then fewer cuts; the value itself comes last,
    and of equal ones the cost, or the energy where there is no price.
    """
    bench, layouts = found.bench, found.candidates.layouts
    cuts, device = bench.cuts, bench.question.machine.accelerator
    cut = layouts.cut[rows]
    free = 1 - found.candidates.peak_bytes[rows] / device.memory_bytes
    margin = np.floor(np.minimum(free, USEFUL_MARGIN) / MARGIN_STEP)
    groups = cuts.tp[cut] * cuts.cp[cut] * layouts.pp[rows] * cuts.ep[cut]
    again, offload = cuts.recomputed[cut], layouts.offload[rows]
    placement, last = layouts.placement[rows], amount(settling(found.outcome), found.outcome)[rows]
    order = np.lexsort((last, found.value[rows], groups, again, cuts.recompute[cut], placement, offload, -margin))
    return rows[order]


def best_choice(founds: list[Found]) -> tuple[Choice | None, int]:
    """The plan to propose among all questions, and how many tie with it."""
    values = [f.value[f.feasible].min() if f.feasible.any() else np.inf for f in founds]
    if not values or not np.isfinite(min(values)):
        return None, 0
    error = max(float(f.bench.question.machine.stack.ranking_error_fraction) for f in founds)
    limit = min(values) * (1 + error) / (1 - error)
    leader = founds[int(np.argmin(values))]
    count = sum(len(tied(f, limit)) for f in founds)
    # Ties are settled on the leading hardware: between different machines a tie is a matter for the reader.
    return Choice(found=leader, row=int(preferred(leader, tied(leader, limit))[0])), count


def least(chosen: Choice) -> tuple[Choice, float] | None:
    """The plan that is best by the figures, where the errors of the model let another be proposed, and what it saves.

    The second is the part of the proposed plan's value.
    """
    found = chosen.found
    row = int(np.argmin(np.where(found.feasible, found.value, np.inf)))
    saved = 1 - float(found.value[row] / found.value[chosen.row]) if found.value[chosen.row] else 0.0
    return (Choice(found=found, row=row), saved) if saved >= LEAST_SAVING else None


def nearest(founds: list[Found], demands: Demands) -> Choice | None:
    """The candidate that comes nearest to keeping to everything; None where there are none."""
    looked = [f for f in founds if f.candidates.layouts.size]
    if not looked:
        return None
    away = [shortfall(demands, f.outcome) for f in looked]
    found, misses = min(zip(looked, away, strict=True), key=lambda one: float(one[1].min()))
    return Choice(found=found, row=int(np.argmin(misses)))


def alternatives(founds: list[Found], chosen: Choice) -> list[tuple[str, Choice]]:
    """The best plans that differ in kind: other hardware, half or twice the devices, other cuts."""
    others: list[tuple[str, Choice]] = []

    def offer(why: str, condition: Callable[[Found], BoolArray]) -> None:
        pool = [(f, np.flatnonzero(f.feasible & condition(f))) for f in founds]
        pool = [(f, rows) for f, rows in pool if len(rows)]
        if pool:
            found, rows = min(pool, key=lambda p: float(p[0].value[p[1]].min()))
            row = int(rows[np.argmin(found.value[rows])])
            if all(o.found is not found or o.row != row for _, o in others):
                others.append((why, Choice(found=found, row=row)))

    mine, size = chosen.key("hardware"), chosen.devices

    def same(f: Found) -> BoolArray:
        return np.full(f.value.shape, f.bench.question.machine.system.name == mine)

    def axis(name: str) -> Callable[[Found], BoolArray]:
        def differs(f: Found) -> BoolArray:
            layouts = f.candidates.layouts
            values = getattr(f.bench.cuts, name)[layouts.cut] if name == "tp" else getattr(layouts, name)
            return same(f) & (values != chosen.key(name))

        return differs

    offer("other hardware", lambda f: ~same(f))
    offer("fewer devices", lambda f: same(f) & (f.outcome.fleet.devices <= 0.75 * size))
    offer("more devices", lambda f: same(f) & (f.outcome.fleet.devices >= 1.33 * size))
    offer("other tensor-parallel size", axis("tp"))
    offer("other pipeline length", axis("pp"))
    return others


def shortest_run_s(wall_s: FloatArray, devices: IntArray) -> float:
    """Length below which no run is looked for with nothing asked: less if even the smallest cluster is done sooner."""
    return min(SHORTEST_RUN_S, float(wall_s[devices == devices.min()].min())) * (1 - 1e-9)


def knee(wall_s: FloatArray, cost_usd: FloatArray, devices: IntArray) -> int:
    """Row of the fastest plan that costs hardly more than the cheapest; of equally fast ones the cheapest.

    Plans that take less than :data:`SHORTEST_RUN_S` are left out of both.

    Examples
    --------
    Halving the time is cheap at first and dear at last:

    >>> knee(np.array([8e5, 4e5, 2e5]), np.array([1.0, 1.1, 4.0]), np.array([8, 16, 32]))
    1
    """
    long = np.flatnonzero(wall_s >= shortest_run_s(wall_s, devices))
    near = long[cost_usd[long] <= cost_usd[long].min() * (1 + KNEE_COST) * (1 + 1e-9)]
    return int(near[np.lexsort((cost_usd[near], wall_s[near]))[0]])


def at_knee(founds: list[Found]) -> list[Found]:
    """With nothing asked: feasible rows at least as fast as the knee, to be ranked by cost."""
    if not any(f.feasible.any() for f in founds):
        return founds
    walls = np.concatenate([f.outcome.progress.wall_s[f.feasible] for f in founds])
    costs = np.concatenate([cost_usd(f.outcome)[f.feasible] for f in founds])
    devices = np.concatenate([f.outcome.fleet.devices[f.feasible] for f in founds])
    limit = walls[knee(walls, costs, devices)] * (1 + 1e-9)
    shortest = shortest_run_s(walls, devices)
    narrowed = []
    for f in founds:
        wall = f.outcome.progress.wall_s
        masks = {"slower than the knee": wall > limit, "shorter than a day": wall < shortest}
        narrowed.append(dataclasses.replace(f, broken={**f.broken, **masks}))
    return narrowed


def at_none(founds: list[Found]) -> list[Found] | None:
    """Feasible rows that have none at all of what is to be least, to be ranked by cost; None where all have some.

    On a site without any use of water all plans tie at 0, and what they cost decides, or without prices their energy.
    """
    if not any(np.any(f.value[f.feasible] == 0) for f in founds):
        return None
    counted = settling(*(f.outcome for f in founds))
    return [
        dataclasses.replace(f, value=amount(counted, f.outcome), broken={**f.broken, "more than none": f.value > 0})
        for f in founds
    ]


# Nothing feasible -----------------------------------------------------------------------------------------------------


def blocking(founds: list[Found], demands: Demands) -> tuple[Blocking, ...]:
    """Which constraints stand in the way, by how much, and the nearest value of each alone that would do.

    A constraint that some candidate keeps, and whose loosening alone gives no plan, is left out unless all are such.
    """
    looked = [f for f in founds if f.candidates.layouts.size]
    if not looked:
        return nothing_fits(founds)
    stops = [
        _blocked(name, required, unit, [(measure(f.outcome), f.broken) for f in looked])
        for name, required, unit, measure in upper_limits(demands)
        if any(np.any(f.broken.get(name, False)) for f in looked)
    ]
    standing = [s for s in stops if s.nearest_feasible is not None or (s.best or 0.0) > s.required]
    return tuple(standing or stops)


def nothing_fits(founds: list[Found]) -> tuple[Blocking, ...]:
    """What stands in the way where no layout is legal and fits: memory, or the batch that none of them makes."""
    short = [f for f in founds if f.bench.allowed_bytes < f.least_bytes < np.inf]
    if short:
        found = min(short, key=lambda f: f.least_bytes / f.bench.allowed_bytes)
        needed = float(found.least_bytes)
        return (
            Blocking(
                constraint="memory",
                required=found.bench.allowed_bytes,
                best=needed,
                unit="bytes",
                nearest_feasible=needed,
            ),
        )
    least = founds[0].bench.demands.devices[0]
    most = max(f.bench.question.machine.largest_cluster for f in founds)
    if least > most:
        return (_unmade("devices", least, "devices", most),)
    bench = founds[0].bench
    job, dp, stride = bench.question.job, bench.dp, bench.pairs.stride
    if dp is not None and np.all(dp % stride != 0):
        multiples = np.maximum(np.round(dp / stride), 1) * stride
        nearest = float(multiples[np.argmin(np.abs(multiples - dp))])
        return (_unmade("dp × cp × tp divides by ep × etp", dp, "replicas", nearest),)
    batches = [batch for f in founds for batch in [nearest_batch(f.bench)] if batch is not None]
    if not batches:
        return (_unmade("devices", bench.demands.devices[1], "devices", float(bench.pairs.devices.min())),)
    nearest = float(min(batches, key=lambda b: abs(b - job.global_batch)))
    return (_unmade("global batch", job.global_batch, "sequences", nearest),)


def _unmade(constraint: str, required: float, unit: str, nearest: float) -> Blocking:
    return Blocking(constraint=constraint, required=float(required), best=nearest, unit=unit, nearest_feasible=nearest)


def nearest_batch(bench: Bench) -> int | None:
    """Batch nearest to the target that the fewest replicas of some pair make; None if no pair fits the devices."""
    least, _ = replica_range(bench, bench.pairs)
    high = bench.demands.devices[1]
    within = least * bench.pairs.stride * bench.pairs.devices <= high
    if not within.any():
        return None
    target = bench.question.job.global_batch
    unit = (samples(bench, bench.pairs) * least)[within]
    batches = np.maximum(np.round(target / unit), 1).astype(np.int64) * unit
    return int(batches[np.argmin(np.abs(batches - target))])


def _blocked(
    name: str, required: float, unit: str, measured: list[tuple[FloatArray, dict[str, BoolArray]]]
) -> Blocking:
    """One constraint: the best value of all, and the best of those that keep to the other constraints."""
    kept = []
    for values, broken in measured:
        others = [mask for other, mask in broken.items() if other != name]
        kept.append(values[~np.any(others, axis=0)] if others else values)
    near = np.concatenate(kept)
    return Blocking(
        constraint=name,
        required=required,
        best=min(float(values.min()) for values, _ in measured),
        unit=unit,
        nearest_feasible=float(near.min()) if len(near) else None,
    )
