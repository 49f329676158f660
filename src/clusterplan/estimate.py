"""One layout in depth: made from what is given of it, checked against all rules at once, and priced."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from clusterplan import context, shapes, space, step
from clusterplan.arrays import IntArray
from clusterplan.cautions import unkept, warnings
from clusterplan.clock import at_best_clock, clocks
from clusterplan.errors import ClusterplanError, LayoutError
from clusterplan.fixes import fixes, least_recompute
from clusterplan.hardware import Machine, Stack
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
from clusterplan.plan import Answer, Blocking, Plan, joined, make_plan
from clusterplan.premises import (
    circumstances_of,
    demands_of,
    lacks_price,
    objective_of,
    reasons_against,
    without_price,
)
from clusterplan.scenario import AUTO, Resolved, Scenario
from clusterplan.stuck import stuck
from clusterplan.workload import Job


def estimate(resolved: Resolved) -> Answer:
    """One layout in depth.

    Axes that are not given are 1; replicas follow from the devices, and recompute is the least with which it fits.
    All broken rules are said at once.
    """
    scenario, machine = resolved.scenario, resolved.hardware[0]
    asked = objective_of(resolved) if scenario.clock == AUTO else scenario.objective or "none"
    check_machine(resolved, asked)
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
    plan = at_best_clock(resolved, plan, "cost" if asked == "knee" else asked, demands_of(resolved))
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


def check_machine(resolved: Resolved, objective: str) -> None:
    """Raise if there is not one machine that can be used and has the price that the objective needs."""
    if len(resolved.hardware) > 1:
        text = f"one layout has one system, not {len(resolved.hardware)}; compare shows several side by side"
        raise ClusterplanError(text, where="estimate: --hardware")
    reasons = reasons_against(resolved, 0)
    if reasons:
        raise LayoutError("; ".join(reasons))
    if lacks_price(resolved, 0, objective):  # of one layout only the clock is chosen
        raise ClusterplanError(without_price(resolved, resolved.hardware[0].system.name))


def one_layout(resolved: Resolved, recompute: str) -> tuple[Cuts, Layouts, list[str]]:
    """The layout that a scenario gives, as tables with one row, and what is wrong with it beside the rules."""
    scenario, machine = resolved.scenario, resolved.hardware[0]
    tp, pp, cp = scenario.tp or 1, scenario.pp or 1, scenario.cp or 1
    vpp, ep, micro_batch = scenario.vpp or 1, scenario.ep or 1, scenario.micro_batch or 1
    dp, of_devices = replicas(scenario, tp * pp * cp)
    batch, of_batch = batch_near(resolved.job, dp * micro_batch * (pp if vpp > 1 else 1))
    methods = methods_of(scenario, machine.stack)
    ends = shapes.end_layers(resolved.model, resolved.job, machine.stack)
    most = int(largest_stage(resolved.model.layers, column(pp), column(vpp), ends)[0])
    cuts = Cuts(
        tp=column(tp),
        cp=column(cp),
        ep=column(ep),
        etp=column(scenario.etp or (1 if machine.stack.expert_tensor_parallel or not resolved.model.is_moe else tp)),
        micro_batch=column(micro_batch),
        **Recomputation.parse(recompute).columns(most),
    )
    layouts = Layouts(
        cut=column(0),
        pp=column(pp),
        vpp=column(vpp),
        dp=column(dp),
        sharding=column(SHARDING.index(methods.sharding)),
        schedule=column(SCHEDULES.index(methods.schedule)),
        offload=column(OFFLOAD.index(methods.offload)),
        placement=column(PLACEMENTS.index(methods.placement)),
        shard_group=column(scenario.shard_group or 0),
        global_batch=column(batch),
        bought_devices=column(tp * pp * cp * dp),
    )
    return (
        cuts,
        layouts,
        [*of_devices, *of_batch, *not_in_software(methods, machine), *too_many_layers(recompute, most)],
    )


def column(value: int) -> IntArray:
    """A column of a table with one row."""
    return np.array([value], dtype=np.int64)


def batch_near(job: Job, unit: int) -> tuple[int, list[str]]:
    """The global batch nearest to the one asked for that a layout makes, and what is wrong with it.

    A layout makes multiples of what its replicas take at a time; what is given exactly is kept, right or wrong.
    """
    if job.batch_low is not None:
        batch = max(job.global_batch // unit, 1) * unit
        if job.batch_low <= batch <= job.global_batch:
            return batch, []
        text = f"of {unit} in the range {job.batch_low}:{job.global_batch} of the global batch"
        return batch, [f"no multiple of dp × micro-batch × interleaved stages {text}"]
    if job.batch_fixed:
        return job.global_batch, []
    return max(round(job.global_batch / unit), 1) * unit, []


@dataclass(frozen=True, slots=True, kw_only=True)
class Methods:
    """What software does with a layout, beside cutting the model."""

    sharding: str
    schedule: str
    offload: str
    placement: str


def methods_of(scenario: Scenario, stack: Stack) -> Methods:
    """Methods that a scenario names; those that it does not are what the software does by itself."""
    pp, vpp = scenario.pp or 1, scenario.vpp or 1
    return Methods(
        sharding=scenario.sharding or stack.default_sharding[0],
        schedule=scenario.schedule or ("none" if pp == 1 and vpp == 1 else "interleaved" if vpp > 1 else "1f1b"),
        offload=scenario.offload or "none",
        placement=scenario.placement or stack.placements[0],
    )


def not_in_software(methods: Methods, machine: Machine) -> list[str]:
    """Methods that the software of a machine does not have."""
    stack, problems = machine.stack, []
    if methods.sharding not in stack.sharding:
        problems.append(f"{stack.name} has no {methods.sharding}; it has {', '.join(stack.sharding)}")
    if methods.schedule not in stack.schedules:
        problems.append(f"{stack.name} has no schedule {methods.schedule}; it has {', '.join(stack.schedules)}")
    not_offloaded = machine.why_not_offloaded(methods.offload)
    problems += [not_offloaded] if not_offloaded else []
    if methods.placement not in stack.placements:
        able = ", ".join(stack.placements)
        problems.append(f"{stack.name} cannot lay groups as {methods.placement}; it can as {able}")
    return problems


def too_many_layers(recompute: str, most: int) -> list[str]:
    """That more layers are to run again than the largest stage has."""
    again = Recomputation.parse(recompute)
    if not again.layers or again.layers <= most:
        return []
    return [f"recompute {recompute}, where a stage has {most} layers; at most {again.mode}:{most}"]


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
    if int(joined(plan.run)[0]) > machine.largest_cluster:
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
