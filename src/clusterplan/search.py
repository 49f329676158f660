"""Questions and their answers: size a cluster, compare hardware."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, get_args

import numpy as np

from clusterplan import context, shapes
from clusterplan.cautions import warnings
from clusterplan.choose import Choice, alternatives, at_knee, at_none, best_choice, blocking, least, nearest
from clusterplan.clock import at_best_clock, clocks
from clusterplan.errors import LayoutError
from clusterplan.estimate import estimate
from clusterplan.hardware import Machine
from clusterplan.layer import Question
from clusterplan.plan import (
    Answer,
    Blocking,
    Plan,
    amount,
    layout_document,
    settling,
    upper_limits,
    violated,
)
from clusterplan.premises import (
    check_prices,
    circumstances_of,
    demands_of,
    lacks_price,
    objective_of,
    reasons_against,
    without_price,
)
from clusterplan.scan import Bench, Found, Progress, Tally, look, make_bench
from clusterplan.scenario import LAYOUT, Resolved, parse_layout
from clusterplan.space import Fixed
from clusterplan.stuck import stuck
from clusterplan.workload import Format


def fixed_axes(resolved: Resolved) -> Fixed:
    """Axes that the scenario sets."""
    return Fixed(**{f.name: getattr(resolved.scenario, f.name) for f in fields(Fixed)})


def bench_axes(resolved: Resolved, index: int) -> list[tuple[Format, int, float]]:
    """Formats, used parts of a scale-up domain and clocks, of which each combination is a question about a machine."""
    machine, allow = resolved.hardware[index], resolved.scenario.allow
    formats = [p for p in get_args(Format) if p in machine.formats and (p == resolved.job.precision or p in allow)]
    domains = (machine.system.scaleup_devices, *machine.system.used_devices_per_domain)
    return list(itertools.product(formats, domains, clocks(resolved, index)))


def part(progress: Progress | None, number: int, parts: int) -> Progress | None:
    """Progress of one of several parts, told as that of the whole."""
    if progress is None:
        return None
    return lambda share, text: progress((number + share) / parts, text)


def benches(resolved: Resolved, index: int, objective: str) -> Iterator[Bench]:
    """Questions about one machine: each format and clock that may be used, each used part of a scale-up domain."""
    machine = resolved.hardware[index]
    fixed = fixed_axes(resolved)
    allow = resolved.scenario.allow
    for precision, domain, clock in bench_axes(resolved, index):
        question = Question(
            model=resolved.model,
            job=dataclasses.replace(resolved.job, precision=precision),
            machine=machine,
            domain_devices=domain,
            end_layers=shapes.end_layers(resolved.model, resolved.job, machine.stack),
            clock_fraction=clock,
        )
        circumstances = circumstances_of(resolved, index, clock)
        yield make_bench(question, circumstances, demands_of(resolved, machine), objective, fixed, allow)


def search_machine(
    resolved: Resolved, index: int, objective: str, progress: Progress | None, *, may_stop: bool = False
) -> tuple[list[Found], Tally, list[str]]:
    """All candidates of one machine, what happened to the others, and why the machine cannot be used if so."""
    tally = Tally(may_stop=may_stop)
    machine = resolved.hardware[index]
    reasons = reasons_against(resolved, index)
    sharding = resolved.scenario.sharding
    if sharding is not None and sharding not in machine.stack.sharding:
        reasons.append(f"{machine.stack.name} has no {sharding}; it has {', '.join(machine.stack.sharding)}")
    not_offloaded = machine.why_not_offloaded(resolved.scenario.offload or "none")
    reasons += [not_offloaded] if not_offloaded else []
    if lacks_price(resolved, index, objective):
        reasons.append(without_price(resolved, machine.system.name))
    if reasons:
        return [], tally, reasons
    try:
        founds = []
        axes = bench_axes(resolved, index)
        for number, bench in enumerate(benches(resolved, index, objective)):
            founds.append(look(bench, tally, part(progress, number, len(axes))))
            if tally.stopped_at is not None:
                break
    except LayoutError as problem:
        return [], tally, [str(problem)]
    return founds, tally, []


STOPPED = "interrupted: this is the best of what was looked at so far, and there may be better plans"
"""What is said of an answer whose search was cut short."""

LONG_ROUNDS = 4
"""Most searches with another slowdown of the long-context phase."""

LONG_MARGIN = 1.01
"""Assumed: where a plan with the layout of that phase just misses a demand, it is taken to be so much slower."""


def answer(
    resolved: Resolved, indices: tuple[int, ...], progress: Progress | None, *, may_stop: bool = False
) -> Answer:
    """The best plan on any of some machines.

    What would do where nothing is feasible comes from a search that takes a long-context phase to be about as slow as
    on the nearest miss, so it is tried.
    """
    found = settled(resolved, indices, progress, may_stop=may_stop)
    if resolved.scenario.long_context is None or found.plan is not None:
        return found
    stops = tuple(tried(resolved, indices, stop, progress) for stop in found.blocking)
    return dataclasses.replace(found, blocking=stops)


LIMITS = {
    "deadline": "deadline_s", "budget": "budget_usd", "site power": "power_w", "water": "water_m3",
    "carbon": "carbon_kg",
}  # fmt: skip
"""Fields of a scenario by the demand that they state."""

TRIED = (1.0, 1.003, 1.01, 1.03, 1.1)
"""Multiples of a value that would do that are tried."""


def tried(resolved: Resolved, indices: tuple[int, ...], stop: Blocking, progress: Progress | None) -> Blocking:
    """A demand that stands in the way with a value of it alone with which there is a plan; None if none is found."""
    field = LIMITS.get(stop.constraint)
    if field is None or stop.nearest_feasible is None:
        return stop
    for factor in TRIED:
        value = stop.nearest_feasible * factor
        limit: dict[str, Any] = {field: value}
        scenario = dataclasses.replace(resolved.scenario, **limit)
        site = dataclasses.replace(resolved.site, power_w=value) if field == "power_w" else resolved.site
        asked = dataclasses.replace(resolved, scenario=scenario, site=site)
        if settled(asked, indices, progress).feasible:
            return dataclasses.replace(stop, nearest_feasible=value)
    return dataclasses.replace(stop, nearest_feasible=None)


def settled(
    resolved: Resolved, indices: tuple[int, ...], progress: Progress | None, *, may_stop: bool = False
) -> Answer:
    """The best plan on any of some machines.

    With a long-context phase the search is repeated until what it assumes of that phase is what its layout does.
    """
    kept: Answer | None = None
    for number in range(LONG_ROUNDS):
        try:
            found, true = one_answer(resolved, indices, progress, may_stop=may_stop)
        except KeyboardInterrupt:
            if kept is None or not may_stop:
                raise
            return dataclasses.replace(kept, is_interrupted=True, warnings=(*kept.warnings, STOPPED))
        if true is None or (found.plan is None and kept is not None):
            return kept or found
        missed = [] if found.plan is None else missed_demands(resolved, found.plan)
        if found.is_interrupted:
            return dataclasses.replace(found, blocking=(*found.blocking, *missed))
        agrees = abs(true / resolved.long_slowdown - 1) <= context.AGREED
        if agrees and not missed:
            return found
        if found.plan is not None and not missed:
            kept = found
        resolved = dataclasses.replace(resolved, long_slowdown=true * (LONG_MARGIN**number if missed else 1.0))
    return kept or dataclasses.replace(found, plan=None, alternatives=(), blocking=tuple(missed) or found.blocking)


def missed_demands(resolved: Resolved, plan: Plan) -> list[Blocking]:
    """Demands that a plan does not keep, each with what it would have to be."""
    demands = demands_of(resolved, plan.question.machine)
    broken = {name for name, mask in violated(demands, plan.run).items() if mask[0]}
    rows = []
    for name, value, unit, measure in upper_limits(demands):
        if name in broken:
            reached = float(measure(plan.run)[0])
            nearest = reached if len(broken) == 1 else None
            rows.append(Blocking(constraint=name, required=value, best=reached, unit=unit, nearest_feasible=nearest))
    return rows


def one_answer(
    resolved: Resolved, indices: tuple[int, ...], progress: Progress | None, *, may_stop: bool = False
) -> tuple[Answer, float | None]:
    """The best plan on any of some machines with one slowdown of the long-context phase, and the true one.

    That is of the plan or of what comes nearest to one, over the ratio of FLOP; None without such a phase, or where no
    layout is found for it.
    """
    looked = looked_at(resolved, indices, progress, may_stop=may_stop)
    ranking = ranked(looked)
    chosen, ties = best_choice(ranking.founds)
    if chosen is None and looked.tally.stopped_at is not None:
        raise KeyboardInterrupt  # there is nothing to show
    if chosen is None:
        return nothing_feasible(ranking)
    plan, stops = context.lengthened(chosen.plan(), resolved.scenario)
    if stops:
        return without_long_phase(ranking, chosen, stops), None
    plan = at_best_clock(resolved, plan, ranking.objective, demands_of(resolved))
    return proposed(ranking, chosen, ties, plan), true_slowdown(resolved, plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a search looked at on some machines."""

    resolved: Resolved
    machines: list[Machine]
    founds: list[Found]
    tally: Tally
    reasons: list[str]
    """Why some of the machines cannot be used, and that not everything was looked at."""

    def unanswered(self) -> Answer:
        """An answer without a plan, which says what was looked at."""
        return Answer(
            resolved=self.resolved,
            objective=objective_of(self.resolved),
            plan=None,
            rejected={name: count for name, count in sorted(self.tally.rejected.items()) if count},
            considered=self.tally.considered,
            evaluated=self.tally.evaluated,
            is_interrupted=self.tally.stopped_at is not None,
        )

    def with_layouts(self) -> list[Found]:
        """Those of the candidates that there are."""
        return [found for found in self.founds if found.candidates.layouts.size]


def looked_at(resolved: Resolved, indices: tuple[int, ...], progress: Progress | None, *, may_stop: bool) -> Looked:
    """All candidates on some machines, until everything is looked at or somebody interrupts."""
    founds: list[Found] = []
    tally = Tally()
    reasons: list[str] = []
    for number, index in enumerate(indices):
        told = part(progress, number, len(indices))
        more, counted, why = search_machine(resolved, index, counted_as(resolved), told, may_stop=may_stop)
        founds += more
        tally.add(counted)
        reasons += why
        if tally.stopped_at is not None:
            reasons.append(STOPPED)
            break
    machines = [resolved.hardware[index] for index in indices]
    return Looked(resolved=resolved, machines=machines, founds=founds, tally=tally, reasons=reasons)


def counted_as(resolved: Resolved) -> str:
    """What candidates are valued by: the objective, or the cost where the knee is looked for."""
    asked = objective_of(resolved)
    return "cost" if asked == "knee" else asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Candidates in the order of an objective."""

    looked: Looked
    founds: list[Found]
    """Candidates of which the best is proposed; those that the objective leaves out are not feasible."""
    objective: str
    remarks: tuple[str, ...] = ()
    """What is said of the objective where it is not the one that was asked for."""

    def warnings(self) -> tuple[str, ...]:
        """What is said of the search, whatever it finds."""
        return (*self.looked.resolved.warnings, *self.looked.reasons, *self.remarks)


def ranked(looked: Looked) -> Ranking:
    """Candidates by what the question asks for; where some have none of that at all, these by another objective."""
    founds, asked = looked.with_layouts(), objective_of(looked.resolved)
    if asked == "knee":
        return Ranking(looked=looked, founds=at_knee(founds), objective=counted_as(looked.resolved))
    none = at_none(founds)
    if none is None:
        return Ranking(looked=looked, founds=founds, objective=asked)
    objective = settling(*(found.outcome for found in founds))
    taken = "the cheapest" if objective == "cost" else "that of least energy"
    remark = f"there are plans with no {asked} at all, and of these {taken} is taken"
    return Ranking(looked=looked, founds=none, objective=objective, remarks=(remark,))


def nothing_feasible(ranking: Ranking) -> tuple[Answer, float | None]:
    """What stands in the way of a plan, and how slow the long-context phase of what comes nearest to one truly is."""
    looked, resolved = ranking.looked, ranking.looked.resolved
    demands = demands_of(resolved, *looked.machines)
    stops = blocking(looked.founds, demands) if looked.founds else ()
    near = nearest(looked.founds, demands) if resolved.scenario.long_context else None
    true = None if near is None else true_slowdown(resolved, context.lengthened(near.plan(), resolved.scenario)[0])
    return dataclasses.replace(looked.unanswered(), warnings=ranking.warnings(), blocking=stops), true


def without_long_phase(ranking: Ranking, chosen: Choice, stops: tuple[Blocking, ...]) -> Answer:
    """What stands in the way of the long-context phase on the devices of the best plan for the rest."""
    most = ranking.looked.resolved.devices[1]
    text = f"the long-context phase has no layout on the {chosen.devices:,} devices that the rest would take"
    if chosen.devices < most:
        text += f"; --devices {chosen.devices + 1}:{most} asks for more"
    return dataclasses.replace(ranking.looked.unanswered(), warnings=(*ranking.warnings(), text), blocking=stops)


ALTERNATIVES = 4
"""Most plans beside the proposed one of which an answer tells."""


def proposed(ranking: Ranking, chosen: Choice, ties: int, plan: Plan) -> Answer:
    """The plan that is chosen, with the best that differ from it in kind and what to know of all of them."""
    looked, resolved = ranking.looked, ranking.looked.resolved
    others, remarks = alternatives(ranking.founds, chosen), []
    cheapest = best_choice(looked.with_layouts())[0] if objective_of(resolved) == "knee" else None
    if cheapest is not None and cheapest.devices != chosen.devices:
        others = [("least cost", cheapest), *others]
        if cheapest.devices > chosen.devices:
            text = "what it takes to get and set up a cluster is not counted; --deadline asks for one"
            remarks = [f"runs of less than a day are not looked for with nothing asked, since {text}"]
    along = [(why, context.lengthened(other.plan(), resolved.scenario)) for why, other in others[:ALTERNATIVES]]
    return dataclasses.replace(
        looked.unanswered(),
        plan=plan,
        ties=ties,
        least=least_document(chosen),
        alternatives=tuple((why, other) for why, (other, stops) in along if not stops),
        warnings=(*ranking.warnings(), *remarks, *warnings(plan)),
        blocking=stuck(plan),
        beside=beside(ranking, plan),
    )


def least_document(chosen: Choice) -> dict[str, Any] | None:
    """The plan that ties with the proposed one and is best by the figures; None if that is the proposed one.

    One that differs in its placement alone is left to the lines that compare placements.
    """
    found = least(chosen)
    if found is None:
        return None
    other, saved = found
    name, mine = (layout_document(one.plan())["name"] for one in (other, chosen))
    if (name, other.devices) == (mine, chosen.devices):
        return None
    return {"layout": name, "devices": other.devices, "saved_fraction": saved}


def true_slowdown(resolved: Resolved, plan: Plan) -> float | None:
    """How much slower a token of the long-context phase is than its FLOP say; None without a layout for it."""
    slower, long = context.slowdown(plan), plan.circumstances.long
    if slower is None or long is None:
        return None
    return slower / long.slowdown * resolved.long_slowdown


def beside(ranking: Ranking, plan: Plan) -> dict[str, Any] | None:
    """Rank of the layout that the scenario gives among the candidates, and how much worse than the plan it is.

    It is on the hardware of the plan, and on as many devices where it has no number of replicas. Candidates far behind
    the fastest are not ranked, so a layout that is among them comes after all others.
    """
    resolved = ranking.looked.resolved
    text = resolved.scenario.beside
    if text is None:
        return None
    machine = next(one for one in ranking.looked.machines if one.system == plan.question.machine.system)
    axes: dict[str, Any] = dict.fromkeys((*LAYOUT, "beside", "devices")) | parse_layout(text)
    if axes["dp"] is None:  # as many replicas as there are on the devices of the plan that are no spares
        replica, fleet = (axes["tp"] or 1) * (axes["pp"] or 1) * (axes["cp"] or 1), plan.run.fleet
        axes["dp"] = max(int(fleet.devices[0] - fleet.spare_devices[0]) // replica, 1)
        split, *methods = text.split(",")
        text = ",".join([f"{split.strip()}-dp{axes['dp']}", *methods])
    scenario = dataclasses.replace(resolved.scenario, **axes)
    try:
        given = estimate(dataclasses.replace(resolved, scenario=scenario, hardware=(machine,))).plan
    except LayoutError as problem:
        return {"layout": text, "problem": str(problem)}
    assert given is not None, "an estimate has a plan"
    value, best = (float(amount(ranking.objective, one.run)[0]) for one in (given, plan))
    better = sum(int(np.sum(f.value[f.feasible] < value * (1 - 1e-9))) for f in ranking.founds)
    broken = [name for name, mask in violated(demands_of(resolved), given.run).items() if mask[0]]
    return {
        "layout": text,
        "objective": ranking.objective,
        "rank": better + 1,
        "of": sum(int(np.sum(f.feasible)) for f in ranking.founds),
        "loss_fraction": value / best - 1,
        "step_s": float(given.step.time.total_s[0]),
        "mfu": float(given.step.mfu[0]),
        "breaks": [*broken, *(["memory"] if given.verdict == "does_not_fit" else [])],
    }


def size(resolved: Resolved, progress: Progress | None = None, *, may_stop: bool = False) -> Answer:
    """The best plan on any of the given hardware.

    With ``may_stop`` a keyboard interrupt ends the search with the best so far, if there is one.
    """
    check_prices([resolved])
    return answer(resolved, tuple(range(len(resolved.hardware))), progress, may_stop=may_stop)


def compare(resolved: Resolved, progress: Progress | None = None, *, may_stop: bool = False) -> tuple[Answer, ...]:
    """The best plan on each of the given hardware, under the same constraints.

    With ``may_stop`` a keyboard interrupt ends it with the columns so far, if there are any; the last of them may have
    been cut short.
    """
    check_prices([resolved])
    columns: list[Answer] = []
    for index in range(len(resolved.hardware)):
        told = part(progress, index, len(resolved.hardware))
        try:
            columns.append(answer(resolved, (index,), told, may_stop=may_stop))
        except KeyboardInterrupt:
            if not (may_stop and columns):
                raise
            break
        if columns[-1].is_interrupted:
            break
    return tuple(columns)
