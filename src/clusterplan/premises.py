"""What a question takes as given: objective, demands, the circumstances of each machine, and why one cannot be used."""

from __future__ import annotations

from collections.abc import Sequence

from clusterplan import context, run, shapes
from clusterplan.electricity import FULL_CLOCK
from clusterplan.errors import ClusterplanError
from clusterplan.hardware import Machine
from clusterplan.outcome import Circumstances, LongContext
from clusterplan.plan import Demands
from clusterplan.scenario import Resolved, parse_long_context, parse_ramp


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
