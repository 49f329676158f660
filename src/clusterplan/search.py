"""Questions and their answers: size a cluster, compare hardware."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any, get_args

import numpy as np

from clusterplan import context, run, shapes, space, step
from clusterplan.arrays import FloatArray, IntArray
from clusterplan.choose import Choice, alternatives, at_knee, at_none, best_choice, blocking, least, nearest
from clusterplan.clock import best_clock, clocks
from clusterplan.electricity import FULL_CLOCK
from clusterplan.errors import ClusterplanError, LayoutError
from clusterplan.fixes import fixes, least_recompute
from clusterplan.formulas import checkpoints
from clusterplan.hardware import Machine
from clusterplan.layer import Question, price_layers
from clusterplan.layout import (
    OFFLOAD,
    PLACEMENTS,
    SCHEDULES,
    SHARDING,
    Cuts,
    Layouts,
    Recomputation,
    broken_cut_rules,
    broken_layout_rules,
    largest_stage,
    repairs,
    used_devices,
)
from clusterplan.outcome import Circumstances, LongContext, Run
from clusterplan.outcome import Progress as Course
from clusterplan.plan import (
    ROUNDING,
    Answer,
    Blocking,
    Demands,
    Plan,
    amount,
    critical_batch,
    layout_document,
    make_plan,
    settling,
    upper_limits,
    violated,
    work,
)
from clusterplan.plan import joined as joined_devices
from clusterplan.scan import Bench, Found, Progress, Tally, look, make_bench
from clusterplan.scenario import AUTO, LAYOUT, Resolved, Scenario, parse_layout, parse_long_context, parse_ramp
from clusterplan.space import Fixed
from clusterplan.units import (
    format_bandwidth,
    format_bytes,
    format_count,
    format_fraction,
    format_mass_co2e,
    format_power,
    format_probability,
    format_time,
    format_usd,
    format_water,
)
from clusterplan.workload import Format

SURE = 0.9
"""A plan that meets its deadline with less probability than this is warned of."""

LOW_GOODPUT = 0.8
"""A plan that loses more than the rest to failures and checkpoints is warned of."""

LOW_MFU = 0.5
"""A plan below this share of the best published MFU of its accelerator is warned of."""


LEAST_GOODPUT = 0.05
"""Assumed: a run that takes twenty times as long as its steps makes no progress."""

SMALL_JOB_DEVICES = 4096
SMALL_JOB_FACTOR = 28.8 / 7.9
"""Jobs of fewer devices fail more often than rates of large ones say: 1,024 devices every 7.9 h, where the rate of the
fleet gives 28.8 h (A. Kokolis et al., HPCA 2025, arXiv:2410.21680)."""
STAFF = 0.5
"""A plan whose staff is a larger share of its cost is remarked on."""

HOST_WAIT = 0.05
"""Share of a step that devices wait for their hosts, from which on it is told."""
MANY_RESTING = 0.2
"""A plan of whose devices a larger share is spare or idle is remarked on."""
FULL = 0.5
"""A plan that takes more of its storage is warned of."""
TELLING = 0.005
"""Goodput that such failures must take for a warning."""


def fixed_axes(resolved: Resolved) -> Fixed:
    """Axes that the scenario sets."""
    return Fixed(**{f.name: getattr(resolved.scenario, f.name) for f in fields(Fixed)})


def demands_of(resolved: Resolved, *machines: Machine) -> Demands:
    """What the scenario asks for, and how many devices the network of one of the machines joins."""
    scenario = resolved.scenario
    return Demands(
        deadline_s=scenario.deadline_s,
        confidence=resolved.confidence,
        budget_usd=scenario.budget_usd,
        power_w=resolved.site.power_w,
        devices=resolved.devices,
        borderline="borderline" in scenario.allow,
        joined_devices=max((machine.largest_cluster for machine in machines), default=None),
        water_m3=scenario.water_m3,
        carbon_kg=scenario.carbon_kg,
    )


def objective_of(resolved: Resolved) -> str:
    """What is minimised unless the user says: cost under a deadline, time under a budget or on given devices."""
    scenario = resolved.scenario
    if scenario.objective is not None:
        return scenario.objective
    if scenario.deadline_s is not None:
        return "cost"
    if scenario.budget_usd is not None or scenario.devices is not None:
        return "wall"
    return "knee"


def circumstances_of(resolved: Resolved, machine_index: int, clock_fraction: float = FULL_CLOCK) -> Circumstances:
    """What all layouts of one machine share."""
    machine = resolved.hardware[machine_index]
    counted = shapes.parameters(resolved.model)
    return Circumstances(
        machine=machine,
        site=resolved.site,
        cooling=resolved.cooling,
        prices=resolved.prices,
        storage=resolved.storage,
        operations=resolved.operations,
        tokens=resolved.job.tokens,
        seq_len=resolved.job.seq_len,
        parameters=counted.total + counted.mtp,
        checkpoint_bytes_per_parameter=machine.stack.weight_bytes + machine.stack.optimizer_bytes,
        deadline_s=resolved.scenario.deadline_s,
        evaluation_fraction=resolved.scenario.eval_fraction or 0.0,
        ramp=None if resolved.scenario.batch_ramp is None else parse_ramp(resolved.scenario.batch_ramp),
        long=long_context_of(resolved),
        clock_fraction=clock_fraction,
    )


def long_context_of(resolved: Resolved) -> LongContext | None:
    """The end of the run in which sequences are longer, before it has a layout."""
    text = resolved.scenario.long_context
    if text is None:
        return None
    asked = parse_long_context(text)
    return context.long_context(resolved.model, resolved.job.seq_len, asked, resolved.long_slowdown)


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


def reasons_against(resolved: Resolved, index: int) -> list[str]:
    """Why no layout can run on a machine; empty if there is no reason."""
    machine = resolved.hardware[index]
    reasons = run.unsupported(circumstances_of(resolved, index), resolved.coolings)
    is_torus = any(tier.topology == "torus" for tier in machine.fabric.tiers)
    if is_torus and machine.system.scaleup_topology != "torus":
        text = f"joins the torus links of its own kind of devices, and {machine.system.name} has none"
        reasons.append(f"{machine.fabric.name} {text}; its default is {machine.system.fabric}")
    if resolved.job.precision not in machine.formats:
        known = ", ".join(machine.formats) or "none"
        reasons.append(
            f"{machine.system.name} with {machine.stack.name} has no {resolved.job.precision} (has: {known})"
        )
    return reasons


def without_price(resolved: Resolved, system: str) -> str:
    """That a machine has no price where the question needs one, and the question that needs none."""
    scenario = resolved.scenario
    if scenario.budget_usd is not None:
        other = "a budget needs one"
    elif scenario.objective == "cost":
        other = "all objectives but cost need none"
    elif scenario.deadline_s is not None:
        other = "under a deadline the least cost is looked for; --objective devices, the fewest, needs none"
    else:
        other = "with nothing asked cost is weighed against time; --devices N, the shortest run on them, needs none"
    return f"{run.no_price(resolved.prices, system)}; {other}"


def lacks_price(resolved: Resolved, index: int, objective: str) -> bool:
    """Whether a machine has no price and the question needs one."""
    needs = objective in {"cost", "knee"} or resolved.scenario.budget_usd is not None
    return needs and not run.is_priced(resolved.prices, resolved.hardware[index].system.name)


def check_prices(questions: Sequence[Resolved]) -> None:
    """Raise if questions need a price of their machines and none of these has one."""
    lacking = [[lacks_price(one, index, objective_of(one)) for index in range(len(one.hardware))] for one in questions]
    if all(all(row) for row in lacking):
        names = dict.fromkeys(machine.system.name for one in questions for machine in one.hardware)
        raise ClusterplanError("; ".join(without_price(questions[0], name) for name in names))


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
    asked = objective_of(resolved)
    objective = "cost" if asked == "knee" else asked
    founds: list[Found] = []
    tally = Tally()
    reasons: list[str] = []
    for number, index in enumerate(indices):
        told = part(progress, number, len(indices))
        more, counted, why = search_machine(resolved, index, objective, told, may_stop=may_stop)
        founds += more
        tally.add(counted)
        reasons += why
        if tally.stopped_at is not None:
            reasons.append(STOPPED)
            break
    looked = [f for f in founds if f.candidates.layouts.size]
    ranked = at_knee(looked) if asked == "knee" else looked
    none = None if asked == "knee" else at_none(looked)
    if none is not None:
        ranked, objective = none, settling(*(found.outcome for found in looked))
        taken = "the cheapest" if objective == "cost" else "that of least energy"
        reasons.append(f"there are plans with no {asked} at all, and of these {taken} is taken")
    chosen, ties = best_choice(ranked)
    base = Answer(
        resolved=resolved,
        objective=asked,
        plan=None,
        rejected={name: count for name, count in sorted(tally.rejected.items()) if count},
        considered=tally.considered,
        evaluated=tally.evaluated,
        is_interrupted=tally.stopped_at is not None,
    )
    if chosen is None and tally.stopped_at is not None:
        raise KeyboardInterrupt  # there is nothing to show
    if chosen is None:
        machines = [resolved.hardware[index] for index in indices]
        stops = blocking(founds, demands_of(resolved, *machines)) if founds else ()
        near = nearest(looked, demands_of(resolved, *machines)) if resolved.scenario.long_context else None
        true = None if near is None else true_slowdown(resolved, context.lengthened(near.plan(), resolved.scenario)[0])
        return dataclasses.replace(base, warnings=(*resolved.warnings, *reasons), blocking=stops), true
    plan, stops = context.lengthened(chosen.plan(), resolved.scenario)
    if stops:
        text = f"the long-context phase has no layout on the {chosen.devices:,} devices that the rest would take"
        if chosen.devices < resolved.devices[1]:
            text += f"; --devices {chosen.devices + 1}:{resolved.devices[1]} asks for more"
        return dataclasses.replace(base, warnings=(*resolved.warnings, *reasons, text), blocking=stops), None
    plan = at_best_clock(resolved, plan, objective)
    others = alternatives(ranked, chosen)
    said = []
    cheapest = best_choice(looked)[0] if asked == "knee" else None
    if cheapest is not None and cheapest.devices != chosen.devices:
        others = [("least cost", cheapest), *others]
        if cheapest.devices > chosen.devices:
            text = "what it takes to get and set up a cluster is not counted; --deadline asks for one"
            said = [f"runs of less than a day are not looked for with nothing asked, since {text}"]
    along = [(why, context.lengthened(other.plan(), resolved.scenario)) for why, other in others[:4]]
    found = dataclasses.replace(
        base,
        plan=plan,
        ties=ties,
        least=least_document(chosen),
        alternatives=tuple((why, other) for why, (other, stops) in along if not stops),
        warnings=(*resolved.warnings, *reasons, *said, *warnings(plan)),
        blocking=stuck(plan),
        beside=beside(resolved, plan, ranked, objective, indices),
    )
    return found, true_slowdown(resolved, plan)


def least_document(chosen: Choice) -> dict[str, Any] | None:
    """The plan that ties with the proposed one and is best by the figures; None if that is the proposed one."""
    found = least(chosen)
    if found is None:
        return None
    other, saved = found
    plan = other.plan()
    return {"layout": layout_document(plan)["name"], "devices": other.devices, "saved_fraction": saved}


def true_slowdown(resolved: Resolved, plan: Plan) -> float | None:
    """How much slower a token of the long-context phase is than its FLOP say; None without a layout for it."""
    slower, long = context.slowdown(plan), plan.circumstances.long
    if slower is None or long is None:
        return None
    return slower / long.slowdown * resolved.long_slowdown


def beside(
    resolved: Resolved, plan: Plan, founds: list[Found], objective: str, indices: tuple[int, ...]
) -> dict[str, Any] | None:
    """Rank of the layout that the scenario gives among the candidates, and how much worse than the plan it is.

    It is on the hardware of the plan. Candidates far behind the fastest are not ranked, so a layout that is among them
    comes after all others.
    """
    text = resolved.scenario.beside
    if text is None:
        return None
    machine = next(resolved.hardware[i] for i in indices if resolved.hardware[i].system == plan.question.machine.system)
    axes: dict[str, Any] = dict.fromkeys((*LAYOUT, "beside", "devices"))
    scenario = dataclasses.replace(resolved.scenario, **(axes | parse_layout(text)))
    try:
        given = estimate(dataclasses.replace(resolved, scenario=scenario, hardware=(machine,))).plan
    except LayoutError as problem:
        return {"layout": text, "problem": str(problem)}
    assert given is not None, "an estimate has a plan"
    value, best = (float(amount(objective, one.run)[0]) for one in (given, plan))
    better = sum(int(np.sum(f.value[f.feasible] < value * (1 - 1e-9))) for f in founds)
    broken = [name for name, mask in violated(demands_of(resolved), given.run).items() if mask[0]]
    return {
        "layout": text,
        "objective": objective,
        "rank": better + 1,
        "of": sum(int(np.sum(f.feasible)) for f in founds),
        "loss_fraction": value / best - 1,
        "step_s": float(given.step.time.total_s[0]),
        "mfu": float(given.step.mfu[0]),
        "breaks": [*broken, *(["memory"] if given.verdict == "does_not_fit" else [])],
    }


def at_best_clock(resolved: Resolved, plan: Plan, objective: str) -> Plan:
    """The plan at the clock at which it does best, if the clock is to be chosen; else the plan."""
    if resolved.scenario.clock != AUTO:
        return plan
    clock = best_clock(plan.question, plan.circumstances, plan.cuts, plan.layouts, objective, demands_of(resolved))
    return make_plan(
        dataclasses.replace(plan.question, clock_fraction=clock),
        dataclasses.replace(plan.circumstances, clock_fraction=clock),
        plan.cuts,
        plan.layouts,
    )


_LIMITS = {"s": format_time, "USD": format_usd, "W": format_power, "m3": format_water, "kg CO2e": format_mass_co2e}
"""How limits that a given layout may break are said, by their unit."""


def unkept(plan: Plan, demands: Demands) -> list[str]:
    """Limits that a layout which is given does not keep to, each with what it takes."""
    found = []
    for name, limit, unit, measure in upper_limits(demands):
        takes = float(measure(plan.run)[0])
        if unit in _LIMITS and takes > limit * (1 + ROUNDING):
            sure = f" with a probability of {format_fraction(demands.confidence)}" if name == "deadline" else ""
            found.append(f"{name} {_LIMITS[unit](limit)} is not kept: the layout takes {_LIMITS[unit](takes)}{sure}")
    return found


def warnings(plan: Plan, *, is_given: bool = False) -> list[str]:
    """What a reader of the plan should know before signing; of a layout that is given no other is to be looked for."""
    found = []
    machine, job = plan.question.machine, plan.question.job
    mfu = float(plan.step.mfu[0])
    best = machine.accelerator.best_published_mfu.get(job.precision)
    if best is not None and mfu > best:
        text = f"is above {format_fraction(best)}, the best published for {machine.accelerator.name}"
        found.append(f"MFU {format_fraction(mfu)} {text}")
    if best is not None and mfu < LOW_MFU * best:
        text = f"is less than half of {format_fraction(best)}, the best published for {machine.accelerator.name}"
        found.append(f"MFU {format_fraction(mfu)} {text}")
    goodput = float(plan.run.progress.goodput_fraction[0])
    if goodput < LOW_GOODPUT:
        found.append(
            f"goodput {format_fraction(goodput)}: the rest goes to failures and checkpoints; fewer devices lose less"
        )
    found += host_warnings(plan)
    found += run_warnings(plan)
    longest = job.seq_len if plan.circumstances.long is None else plan.circumstances.long.seq_len
    if 0 < plan.question.model.learned_positions < longest:
        text = "learned positions; longer sequences need more of them, and their parameters are not counted"
        found.append(f"the model has {plan.question.model.learned_positions:,} {text}")
    found += batch_warnings(critical_batch(plan.question, int(plan.layouts.global_batch[0])), job.seq_len)
    step_tokens = int(plan.layouts.global_batch[0]) * job.seq_len
    if job.tokens < step_tokens:
        text = f"a run of {format_count(job.tokens, 'tokens')} is less than one step of {format_count(step_tokens)}"
        found.append(f"{text}; --tokens takes 20T and 15B")
    sure = plan.run.progress.deadline_probability
    if sure is not None and float(sure[0]) < SURE:
        odds = format_probability(float(sure[0]))
        more = "" if is_given else f"; --confidence {SURE} plans for more"
        found.append(f"the deadline is met with probability {odds}{more}")
    cost, prices = plan.run.cost, plan.circumstances.prices
    if cost is None:
        found.append(f"there is no cost: {run.no_price(prices, machine.system.name)}")
    staff = 0.0 if cost is None or cost.staff_usd is None else float((cost.staff_usd / cost.total_usd)[0])
    if staff > STAFF:
        people = f"{prices.staff_persons:g} people of {prices.name}"
        found.append(
            f"staff is {format_fraction(staff)} of the cost: {people}, however small the cluster; "
            "--set prices.staff_persons=N counts those that this run needs"
        )
    if plan.verdict == "borderline":
        found.append("memory is inside the safety margin; expect to tune the allocator")
    if best is None:
        found.append(f"no published MFU of {machine.accelerator.name} in {job.precision} to compare with")
    return found


def host_warnings(plan: Plan) -> list[str]:
    """How much of a step devices wait for their hosts, and what would not make them wait."""
    waits = float((plan.step.time.host_s / plan.step.time.total_s)[0])
    if waits < HOST_WAIT:
        return []
    if plan.question.model.is_moe:
        why = "layers with experts are not launched ahead; software that makes one graph of a whole step does not wait"
    else:
        why = "layers take less time than their launches; a larger micro-batch waits less"
    return [f"devices wait for their hosts in {format_fraction(waits)} of a step: {why}"]


def run_warnings(plan: Plan) -> list[str]:
    """What a reader should know of checkpoints, data, and failures of small jobs."""
    found = []
    progress, storage = plan.run.progress, plan.circumstances.storage
    used = int(plan.run.fleet.used_devices[0])
    goodput, persist = float(progress.goodput_fraction[0]), float(progress.checkpoint_persist_s[0])
    best = float(checkpoints.checkpoint_interval_s(progress.checkpoint_stall_s, progress.mtbf_s)[0])
    interval = float(progress.checkpoint_interval_s[0])
    if best < persist and interval < 2 * persist and plan.circumstances.operations.recovery != "memory":
        found.append(
            f"checkpoints follow each other as fast as {storage.name} takes them, every {format_time(interval)}; "
            f"{format_time(best)} would lose least"
        )
    if float(progress.data_loss_fraction[0]) > 0:
        found.append(
            f"{storage.name} brings the data more slowly than the steps need them: "
            f"{format_bandwidth(float(progress.data_bytes_per_s[0]))} of {format_bandwidth(storage.read_bytes_per_s)}"
        )
    stored = float(progress.stored_bytes)
    if stored > FULL * storage.capacity_bytes:
        found.append(
            f"checkpoints and data take {format_bytes(stored)} of the {format_bytes(storage.capacity_bytes)} of "
            f"{storage.name}"
        )
    fleet = plan.run.fleet
    spare, idle, every = int(fleet.spare_devices[0]), int(fleet.idle_devices[0]), int(fleet.devices[0])
    if spare + idle > MANY_RESTING * every:
        found.append(
            f"{spare + idle:,} of {every:,} devices are not at work ({spare:,} spare, {idle:,} idle); "
            "--set operations.spare_shortage_fraction=1 plans without spares"
        )
    part, whole = plan.question.domain_devices, plan.question.machine.system.scaleup_devices
    if part < whole < used:
        found.append(f"groups fill {part} of the {whole} devices of each scale-up domain; the rest is idle, and paid")
    if used < SMALL_JOB_DEVICES:
        often = float(with_failures(plan, SMALL_JOB_FACTOR).progress.goodput_fraction[0])
        if goodput - often > TELLING:
            found.append(
                f"small jobs fail more often than rates of large ones say, {SMALL_JOB_FACTOR:.1f} times on 1,024 "
                f"devices (arXiv:2410.21680); then goodput is {format_fraction(often)}, not {format_fraction(goodput)}"
            )
    return found


def with_failures(plan: Plan, factor: float) -> Run:
    """The run of a plan with everything failing so many times as often, on the same nodes."""
    machine = plan.circumstances.machine
    accelerator = dataclasses.replace(
        machine.accelerator, failures_per_device_s=machine.accelerator.failures_per_device_s * factor
    )
    system = dataclasses.replace(machine.system, failures_per_node_s=machine.system.failures_per_node_s * factor)
    changed = dataclasses.replace(machine, accelerator=accelerator, system=system)
    return run.evaluate(
        dataclasses.replace(plan.circumstances, machine=changed), work(plan.cuts, plan.layouts, plan.step)
    )


def stuck(plan: Plan) -> tuple[Blocking, ...]:
    """What keeps a run from making progress: each cause with the value of it alone that would let it, nearest first."""
    progress = plan.run.progress
    goodput = float(progress.goodput_fraction[0])
    if goodput >= LEAST_GOODPUT:
        return ()
    step = work(plan.cuts, plan.layouts, plan.step)

    def faster(factor: float) -> Run:
        """Restarts that take so many times less."""
        operations = plan.circumstances.operations
        names = (
            "detect_s", "diagnose_s", "replace_s", "launch_s", "communicator_s", "communicator_s_per_device",
            "warmup_s", "domain_outage_s",
        )  # fmt: skip
        changed = {name: getattr(operations, name) / factor for name in names}
        changed_storage = dataclasses.replace(
            plan.circumstances.storage, read_bytes_per_s=plan.circumstances.storage.read_bytes_per_s * factor
        )
        return run.evaluate(
            dataclasses.replace(
                plan.circumstances, operations=dataclasses.replace(operations, **changed), storage=changed_storage
            ),
            step,
        )

    def written(factor: float) -> Run:
        """Checkpoints that are saved so many times faster."""
        storage, machine = plan.circumstances.storage, plan.circumstances.machine
        faster_storage = dataclasses.replace(
            storage,
            write_bytes_per_s=storage.write_bytes_per_s * factor,
            node_bytes_per_s=storage.node_bytes_per_s * factor,
        )
        system = dataclasses.replace(
            machine.system, host_link_bytes_per_s=machine.system.host_link_bytes_per_s * factor
        )
        return run.evaluate(
            dataclasses.replace(
                plan.circumstances, storage=faster_storage, machine=dataclasses.replace(machine, system=system)
            ),
            step,
        )

    levers: tuple[tuple[str, Callable[[float], Run], Callable[[Course], FloatArray]], ...] = (
        ("time between failures", lambda x: with_failures(plan, 1 / x), lambda p: p.mtbf_s),
        ("time of a restart", faster, lambda p: p.down_s + p.restore_s),
        ("time of a checkpoint", written, lambda p: p.checkpoint_stall_s + p.checkpoint_persist_s),
    )
    stops = []
    for name, lever, measure in levers:
        factor = least_factor(lambda x, lever=lever: float(lever(x).progress.goodput_fraction[0]))  # type: ignore[misc]
        if factor is None:
            continue
        now, needed = (float(np.ravel(measure(p))[0]) for p in (progress, lever(factor).progress))
        row = Blocking(constraint=name, required=needed, best=now, unit="s", nearest_feasible=needed)
        stops.append((factor, row))
    stops.sort(key=lambda one: one[0])
    whole = Blocking(constraint="goodput", required=LEAST_GOODPUT, best=goodput, unit="fraction", nearest_feasible=None)
    return (whole, *(row for _, row in stops))


MOST_FACTOR = 1e6


def least_factor(goodput: Callable[[float], float]) -> float | None:
    """Smallest factor, to a per cent, with which the least goodput is reached; None if none does."""
    if goodput(MOST_FACTOR) < LEAST_GOODPUT:
        return None
    low, high = 1.0, MOST_FACTOR
    while high / low > 1.01:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if goodput(middle) >= LEAST_GOODPUT else (middle, high)
    return high


def batch_warnings(critical: dict[str, Any], seq_len: int) -> list[str]:
    """What to say of a batch that is beyond an estimate of the critical one."""
    if critical["batch_tokens"] <= critical["low_tokens"]:
        return []
    low, high = format_count(critical["low_tokens"]), format_count(critical["high_tokens"], "tokens")
    sources = "; ".join(f"{one['name']}: {one['source']}" for one in critical["estimates"])
    text = f"is beyond the critical batch, {low} to {high} ({sources}): more tokens are needed for the same loss"
    most = int(critical["low_tokens"] // seq_len)
    stays = f"; --global-batch {most // 2}:{most} keeps below it" if most > 1 else ""
    return [f"a batch of {format_count(critical['batch_tokens'], 'tokens')} {text}{stays}"]


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


def estimate(resolved: Resolved) -> Answer:
    """One layout in depth.

    Axes that are not given are 1; replicas follow from the devices, and recompute is the least with which it fits.
    All broken rules are said at once.
    """
    scenario, machine = resolved.scenario, resolved.hardware[0]
    if len(resolved.hardware) > 1:
        text = f"one layout has one system, not {len(resolved.hardware)}; compare shows several side by side"
        raise ClusterplanError(text, where="estimate: --hardware")
    reasons = reasons_against(resolved, 0)
    if reasons:
        raise LayoutError("; ".join(reasons))
    asked = objective_of(resolved) if scenario.clock == AUTO else scenario.objective or "none"
    if lacks_price(resolved, 0, asked):  # of one layout only the clock is chosen
        raise ClusterplanError(without_price(resolved, machine.system.name))
    cuts, layouts, problems = one_layout(resolved, scenario.recompute or "none")
    used = used_devices(layouts, cuts)
    question = Question(
        model=resolved.model,
        job=resolved.job,
        machine=machine,
        domain_devices=machine.system.domain_of(int(used[0])),
        end_layers=shapes.end_layers(resolved.model, resolved.job, machine.stack),
        clock_fraction=clocks(resolved, 0)[0],
    )
    layouts = dataclasses.replace(layouts, bought_devices=space.bought_devices(question, used, 0))
    check_legal(question, cuts, layouts, problems)
    question, layouts = in_domains(question, cuts, layouts)
    chosen: tuple[str, ...] = ()
    if scenario.recompute is None:
        mode, cuts, fits = least_recompute(question, cuts, layouts, machine.stack.margin_fraction)
        chosen = (f"recompute is not given; {mode} is the least with which it fits",) if fits else ()
    plan = make_plan(question, circumstances_of(resolved, 0, question.clock_fraction), cuts, layouts)
    check_joined(plan)
    plan, missing = context.lengthened(plan, scenario)
    plan = at_best_clock(resolved, plan, "cost" if asked == "knee" else asked)
    stops = (*memory_blocking(plan), *missing, *stuck(plan))
    return Answer(
        resolved=resolved,
        objective="none",
        plan=plan,
        considered=1,
        evaluated=1,
        warnings=(
            *resolved.warnings,
            *unkept(plan, demands_of(resolved)),
            *chosen,
            *warnings(plan, is_given=True),
        ),
        blocking=stops,
        by_stage=True,
        fixes=() if plan.verdict == "fits" else fixes(question, cuts, layouts),
    )


def in_domains(question: Question, cuts: Cuts, layouts: Layouts) -> tuple[Question, Layouts]:
    """A layout on all devices of each scale-up domain or on a part that its system names, whichever is cheaper.

    Groups that lie across the edge of a domain are slower; a part that they fill leaves the rest idle, and paid. What
    counts is the time of all devices that are bought, as it does in a search.
    """
    system, used = question.machine.system, used_devices(layouts, cuts)
    if int(used[0]) <= system.scaleup_devices or not system.used_devices_per_domain:
        return question, layouts
    tried = []
    for devices in (system.scaleup_devices, *system.used_devices_per_domain):
        one = dataclasses.replace(question, domain_devices=devices)
        placed = dataclasses.replace(layouts, bought_devices=space.bought_devices(one, used, 0))
        table = price_layers(one, cuts)
        taken = step.evaluate(one, cuts, table, placed, step.one_stage_table(one, table, placed))
        tried.append((float(taken.time.total_s[0]) * int(placed.bought_devices[0]), one, placed))
    _, one, placed = min(tried, key=lambda part: part[0])
    return one, placed


def check_joined(plan: Plan) -> None:
    """Raise if the spares of a layout are more than the network joins besides the devices at work."""
    used, machine = int(plan.run.fleet.used_devices[0]), plan.question.machine
    if int(joined_devices(plan.run)[0]) > machine.largest_cluster:
        text = f"{used:,} devices at work and {int(plan.run.fleet.spare_devices[0]):,} spare ones are more than"
        raise LayoutError(f"{text} the {machine.largest_cluster:,} that {machine.fabric.name} joins", where="layout")


def memory_blocking(plan: Plan) -> tuple[Blocking, ...]:
    """Memory of the device, or of its host, that is too small for a plan."""
    needs = []
    if plan.verdict == "does_not_fit":
        needs.append(("memory", float(plan.usable_bytes), plan.peak_bytes))
    if plan.host_bytes > plan.usable_host_bytes:
        needs.append(("host memory", plan.usable_host_bytes, plan.host_bytes))
    return tuple(
        Blocking(constraint=name, required=usable, best=needed, unit="bytes", nearest_feasible=None)
        for name, usable, needed in needs
    )


def one_layout(resolved: Resolved, recompute: str) -> tuple[Cuts, Layouts, list[str]]:
    """The layout that a scenario gives, as tables with one row, and what is wrong with it beside the rules."""
    scenario, machine = resolved.scenario, resolved.hardware[0]
    tp, pp, cp = scenario.tp or 1, scenario.pp or 1, scenario.cp or 1
    vpp, ep = scenario.vpp or 1, scenario.ep or 1
    replica = tp * pp * cp
    dp, problems = replicas(scenario, replica)
    micro_batch = scenario.micro_batch or 1
    group = pp if vpp > 1 else 1
    unit = dp * micro_batch * group
    batch = resolved.job.global_batch
    if resolved.job.batch_low is not None:
        batch = max(batch // unit, 1) * unit
        if not resolved.job.batch_low <= batch <= resolved.job.global_batch:
            text = f"of {unit} in the range {resolved.job.batch_low}:{resolved.job.global_batch} of the global batch"
            problems.append(f"no multiple of dp × micro-batch × interleaved stages {text}")
    elif not resolved.job.batch_fixed:
        batch = max(round(batch / unit), 1) * unit
    sharding = scenario.sharding or machine.stack.default_sharding[0]
    if sharding not in machine.stack.sharding:
        problems.append(f"{machine.stack.name} has no {sharding}; it has {', '.join(machine.stack.sharding)}")
    schedule = scenario.schedule or ("none" if pp == 1 and vpp == 1 else "interleaved" if vpp > 1 else "1f1b")
    if schedule not in machine.stack.schedules:
        problems.append(f"{machine.stack.name} has no schedule {schedule}; it has {', '.join(machine.stack.schedules)}")
    not_offloaded = machine.why_not_offloaded(scenario.offload or "none")
    problems += [not_offloaded] if not_offloaded else []
    placement = scenario.placement or machine.stack.placements[0]
    if placement not in machine.stack.placements:
        able = ", ".join(machine.stack.placements)
        problems.append(f"{machine.stack.name} cannot lay groups as {placement}; it can as {able}")
    used = replica * dp

    def one(value: int) -> IntArray:
        return np.array([value], dtype=np.int64)

    ends = shapes.end_layers(resolved.model, resolved.job, machine.stack)
    most = int(largest_stage(resolved.model.layers, one(pp), one(vpp), ends)[0])
    again = Recomputation.parse(recompute)
    if again.layers and again.layers > most:
        problems.append(f"recompute {recompute}, where a stage has {most} layers; at most {again.mode}:{most}")
    cuts = Cuts(
        tp=one(tp),
        cp=one(cp),
        ep=one(ep),
        etp=one(scenario.etp or (1 if machine.stack.expert_tensor_parallel or not resolved.model.is_moe else tp)),
        micro_batch=one(micro_batch),
        **again.columns(most),
    )
    layouts = Layouts(
        cut=one(0),
        pp=one(pp),
        vpp=one(vpp),
        dp=one(dp),
        sharding=one(SHARDING.index(sharding)),
        schedule=one(SCHEDULES.index(schedule)),
        offload=one(OFFLOAD.index(scenario.offload or "none")),
        placement=one(PLACEMENTS.index(placement)),
        shard_group=one(scenario.shard_group or 0),
        global_batch=one(batch),
        bought_devices=one(used),
    )
    return cuts, layouts, problems


def replicas(scenario: Scenario, replica: int) -> tuple[int, list[str]]:
    """Replicas of a given layout, and what is wrong with the number of devices."""
    devices, dp = scenario.devices, scenario.dp
    if dp is not None:
        if devices is not None and not devices[0] <= replica * dp <= devices[1]:
            return dp, [f"tp × pp × cp × dp = {replica * dp} is not {devices[0]} devices"]
        return dp, []
    if devices is None:
        raise ClusterplanError("the number of devices is not known; give --devices or --dp", where="estimate")
    if devices[0] != devices[1]:
        text = f"{devices[0]}:{devices[1]} is a range; one layout has one number of devices; give it, or --dp"
        raise ClusterplanError(text, where="estimate: --devices")
    lower = devices[0] // replica
    if devices[0] % replica:
        near = " or ".join(str(n * replica) for n in (lower, lower + 1) if n)
        text = f"{devices[0]} devices are no multiple of tp × pp × cp = {replica}; nearest: {near}"
        return max(lower, 1), [text]
    return lower, []


def check_legal(question: Question, cuts: Cuts, layouts: Layouts, problems: list[str]) -> None:
    """Raise with everything that is wrong, and what would mend it."""
    limits = dataclasses.replace(
        shapes.limits(question.model, question.job, question.machine.stack),
        batch_low=None,
        batch_fixed=True,
        batch_target=int(layouts.global_batch[0]),
    )
    broken = [
        name
        for rules in (broken_cut_rules(cuts, limits), broken_layout_rules(layouts, cuts, limits))
        for name, mask in rules.items()
        if mask[0]
    ]
    machine = question.machine
    if int(used_devices(layouts, cuts)[0]) > machine.largest_cluster:
        problems.append(f"{machine.fabric.name} joins at most {machine.largest_cluster:,} devices")
    problems += [repairs(name, layouts, cuts, limits) for name in broken]
    if problems:
        raise LayoutError("; ".join(problems), where="layout")
