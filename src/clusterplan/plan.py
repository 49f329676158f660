"""The answer: constraints, objective, and one plan with all its parts.

Many layouts are judged as arrays; the chosen one is computed again, alone, under a recorder, so that each of its
numbers can be traced to its formula and to the figures of the profiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

import clusterplan
from clusterplan import causes, draw, run, shapes, step, traffic
from clusterplan.arrays import BoolArray, FloatArray, IntArray
from clusterplan.draw import Draw
from clusterplan.fixes import Fix
from clusterplan.formulas import batch, memory
from clusterplan.hardware import System
from clusterplan.layer import LayerTable, Question, price_layers
from clusterplan.layout import (
    INSIDE,
    OFFLOAD,
    PLACEMENTS,
    RECOMPUTE,
    SCHEDULES,
    SHARDING,
    Cuts,
    Layouts,
    broken_layout_rules,
    largest_stage,
    layers_by_stage,
    micro_batches,
    used_devices,
)
from clusterplan.money import Money, money
from clusterplan.outcome import Circumstances, LongContext, Run, Work
from clusterplan.scenario import USD, Resolved
from clusterplan.step import StageMemory, Step
from clusterplan.trace import Recorder, recording
from clusterplan.units import to_si, unit_of

SCHEMA = "clusterplan/plan-1"
"""Name of the form of the document; a change that breaks readers changes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a plan must keep to; None where nothing was asked."""

    deadline_s: float | None
    confidence: float
    """Probability with which the deadline is met."""
    budget_usd: float | None
    power_w: float | None
    """Most that the site may draw at its peak. [W]"""
    devices: tuple[int, int]
    """Fewest and most devices, idle ones and spares included."""
    borderline: bool
    """Whether a plan inside the memory margin will do."""
    joined_devices: int | None = None
    """Most devices that the network joins, at work and spare; None where it does not matter."""
    water_m3: float | None = None
    """Most water that the run may take on site. [m3]"""
    carbon_kg: float | None = None
    """Most greenhouse gas of the run, electricity and making. [kg CO2e]"""


ROUNDING = 1e-9
"""The deadline that just keeps a probability comes from an inverse that is right to rounding; it must count as kept."""


def violated(demands: Demands, outcome: Run) -> dict[str, BoolArray]:
    """Constraints that layouts break, by name; each mask has shape ``(layout,)``."""
    total = outcome.fleet.devices
    low, high = demands.devices
    masks = {"devices": (total < low) | (total > high)}
    if demands.deadline_s is not None:
        sure = outcome.progress.deadline_probability
        assert sure is not None, "the circumstances have the same deadline"
        masks["deadline"] = (outcome.progress.wall_s > demands.deadline_s) | (sure < demands.confidence - ROUNDING)
    if demands.budget_usd is not None:
        masks["budget"] = cost_usd(outcome) > demands.budget_usd
    if demands.power_w is not None:
        masks["site power"] = outcome.energy.peak_facility_w > demands.power_w
    if demands.water_m3 is not None:
        masks["water"] = outcome.energy.water_m3 > demands.water_m3
    if demands.carbon_kg is not None:
        masks["carbon"] = outcome.carbon.total_kg_co2e > demands.carbon_kg
    if demands.joined_devices is not None:
        masks["network span"] = joined(outcome) > demands.joined_devices
    return masks


def joined(outcome: Run) -> IntArray:
    """Devices that the network must join, shape ``(layout,)``: at work and spare; idle ones need no port."""
    return outcome.fleet.used_devices + outcome.fleet.spare_devices


def surely_s(outcome: Run, confidence: float) -> FloatArray:
    """Deadline that a run would keep with a probability, and on the mean, shape ``(layout,)``. [s]"""
    return np.maximum(outcome.progress.finish_s(confidence), outcome.progress.wall_s)


def upper_limits(demands: Demands) -> list[tuple[str, float, str, Callable[[Run], FloatArray]]]:
    """What is asked for at most: name, value, unit, and how a run measures up to it."""
    limits: tuple[tuple[str, float | None, str, Callable[[Run], FloatArray]], ...] = (
        ("deadline", demands.deadline_s, "s", lambda r: surely_s(r, demands.confidence)),
        ("budget", demands.budget_usd, "USD", cost_usd),
        ("site power", demands.power_w, "W", lambda r: r.energy.peak_facility_w),
        ("water", demands.water_m3, "m3", lambda r: r.energy.water_m3),
        ("carbon", demands.carbon_kg, "kg CO2e", lambda r: r.carbon.total_kg_co2e),
        ("devices", float(demands.devices[1]), "devices", lambda r: r.fleet.devices.astype(float)),
        ("network span", demands.joined_devices, "devices", lambda r: joined(r).astype(float)),
    )
    return [(name, value, unit, measure) for name, value, unit, measure in limits if value is not None]


def shortfall(demands: Demands, outcome: Run) -> FloatArray:
    """How far runs are from keeping to everything, shape ``(layout,)``: sum of the logarithms of what is over."""
    over = np.log(np.maximum(demands.devices[0] / outcome.fleet.devices, 1.0))
    for _, value, _, measure in upper_limits(demands):
        over = over + np.log(np.maximum(measure(outcome) / value, 1.0))
    return over


def amount(name: str, outcome: Run) -> FloatArray:
    """What an objective counts, less is better, shape ``(layout,)``."""
    if name == "cost":
        return cost_usd(outcome)
    counted: Mapping[str, FloatArray] = {
        "wall": outcome.progress.wall_s,
        "energy": outcome.energy.facility_kwh,
        "carbon": outcome.carbon.total_kg_co2e,
        "water": outcome.energy.water_m3,
        "devices": outcome.fleet.devices.astype(float),
    }
    return counted[name]


def cost_usd(outcome: Run) -> FloatArray:
    """What a run costs, shape ``(layout,)``; who asks has seen to it that there is a price. [USD]"""
    assert outcome.cost is not None, "a machine without a price is refused where its cost is asked for"
    return outcome.cost.total_usd


def settling(*outcomes: Run) -> str:
    """What settles between plans that are equal otherwise: their cost, or their energy where one has no price."""
    return "energy" if any(one.cost is None for one in outcomes) else "cost"


def work(cuts: Cuts, layouts: Layouts, result: Step) -> Work:
    """What the run needs to know of a step."""
    return Work(
        step_s=result.time.total_s,
        matrix_s=result.time.busy_s - result.memory_bound_s,
        memory_s=result.memory_bound_s,
        communication_s=result.time.communication_s,
        waiting_s=result.time.waiting_s,
        used_devices=used_devices(layouts, cuts),
        bought_devices=layouts.bought_devices,
        global_batch=layouts.global_batch,
        replicas=layouts.dp,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of the run with a layout of its own; arrays have one row."""

    question: Question
    cuts: Cuts
    layouts: Layouts
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One layout with everything that follows from it; arrays have one row."""

    question: Question
    circumstances: Circumstances
    cuts: Cuts
    layouts: Layouts
    table: LayerTable
    step: Step
    memory: StageMemory
    """Memory of every stage, shape ``(1, stage)``."""
    usable_bytes: FloatArray
    host_stage_bytes: FloatArray
    """Host memory that a device of each stage fills with what is taken off it, shape ``(1, stage)``. [byte]"""
    run: Run
    draw: Draw
    causes: Mapping[str, FloatArray]
    """Expected interruptions by cause, shape ``(1,)`` each."""
    money: Money
    recorder: Recorder
    long: Phase | None = None
    """The phase of longer sequences, once it has a layout; None without one."""

    @property
    def heaviest_stage(self) -> int:
        """Stage whose devices hold most."""
        return int(np.argmax(self.memory.total_bytes[0]))

    @property
    def peak_bytes(self) -> float:
        """Memory of the heaviest device. [byte]"""
        return float(self.memory.total_bytes[0].max())

    @property
    def host_bytes(self) -> float:
        """Host memory that the device which takes most of it fills. [byte]"""
        return float(self.host_stage_bytes.max())

    @property
    def usable_host_bytes(self) -> float:
        """A device's share of the host memory that a plan may fill; infinite where nobody says. [byte]"""
        return usable_host_bytes(self.question.machine.system)

    @property
    def verdict(self) -> str:
        """``fits``, ``borderline`` (inside the margin) or ``does_not_fit``."""
        return verdict(self.peak_bytes, float(self.usable_bytes), self.question.machine.accelerator.memory_bytes)


HOST_MARGIN_FRACTION = 0.2
"""Share of the host memory that stays free for the system, data loading and checkpoints (assumed)."""


def usable_host_bytes(system: System) -> float:
    """A device's share of the host memory that a plan may fill; infinite where nobody says. [byte]"""
    if system.host_memory_bytes is None:
        return np.inf
    return float(memory.usable_bytes(system.host_memory_bytes / system.devices, HOST_MARGIN_FRACTION))


def verdict(peak_bytes: float, usable_bytes: float, memory_bytes: float) -> str:
    """Whether a peak fits into what is usable, or only into what the device has.

    >>> verdict(70, 76, 80), verdict(78, 76, 80), verdict(81, 76, 80)
    ('fits', 'borderline', 'does_not_fit')
    """
    if peak_bytes <= usable_bytes:
        return "fits"
    return "borderline" if peak_bytes <= memory_bytes else "does_not_fit"


def run_of(question: Question, circumstances: Circumstances, cuts: Cuts, layouts: Layouts) -> Run:
    """The run of one layout, nothing noted."""
    _, circumstances = long_phase(question, circumstances, layouts)
    table = price_layers(question, cuts)
    stages = step.one_stage_table(question, table, layouts)
    return run.evaluate(circumstances, work(cuts, layouts, step.evaluate(question, cuts, table, layouts, stages)))


def long_question(question: Question, long: LongContext, global_batch: int) -> Question:
    """The question about the phase of longer sequences: a batch of about as many tokens."""
    batch = max(round(global_batch * question.job.seq_len / long.seq_len), 1)
    job = replace(
        question.job, tokens=long.tokens, seq_len=long.seq_len, global_batch=batch, batch_low=None, batch_fixed=False
    )
    ends = shapes.end_layers(question.model, job, question.machine.stack) if question.end_layers else 0
    return replace(question, job=job, end_layers=ends)


def long_phase(
    question: Question, circumstances: Circumstances, layouts: Layouts
) -> tuple[Phase | None, Circumstances]:
    """The phase of longer sequences on its layout, and circumstances with its step; None where it has no layout."""
    long = circumstances.long
    if long is None or long.cuts is None or long.layouts is None:
        return None, circumstances
    asked = long_question(question, long, int(layouts.global_batch[0]))
    table = price_layers(asked, long.cuts)
    stages = step.one_stage_table(asked, table, long.layouts)
    result = step.evaluate(asked, long.cuts, table, long.layouts, stages)
    found = Phase(question=asked, cuts=long.cuts, layouts=long.layouts, step=result)
    return found, replace(circumstances, long=replace(long, work=work(long.cuts, long.layouts, result)))


def make_plan(question: Question, circumstances: Circumstances, cuts: Cuts, layouts: Layouts) -> Plan:
    """One layout in full: all stages, and every formula call noted."""
    machine = question.machine
    with recording() as recorder:
        long, circumstances = long_phase(question, circumstances, layouts)
        table = price_layers(question, cuts)
        stages = step.one_stage_table(question, table, layouts)
        held = step.stage_memory(question, cuts, layouts, stages)
        on_host = step.host_bytes(question, cuts, layouts, stages)
        usable = memory.usable_bytes(machine.accelerator.memory_bytes, machine.stack.margin_fraction)
        result = step.evaluate(question, cuts, table, layouts, stages)
        done = work(cuts, layouts, result)
        outcome = run.evaluate(circumstances, done)
        drawn = draw.draw(circumstances, run.mean_work(circumstances, done, outcome.progress), outcome)
        caused = causes.interruptions_by_cause(circumstances, outcome)
    return Plan(
        draw=drawn,
        causes=caused,
        money=money(circumstances, outcome),
        question=question,
        circumstances=circumstances,
        cuts=cuts,
        layouts=layouts,
        table=table,
        step=result,
        memory=held,
        usable_bytes=usable,
        host_stage_bytes=on_host,
        run=outcome,
        recorder=recorder,
        long=long,
    )


def _number(value: Any) -> Any:
    """A JSON number of a number, or of an array with one element."""
    if value is None or isinstance(value, str | bool):
        return value
    number = np.asarray(value).reshape(-1)[0].item()
    return number if not isinstance(number, float) or np.isfinite(number) else None


def _object(record: Any, *properties: str) -> dict[str, Any]:
    """Fields of a dataclass as a JSON object, nested dataclasses as objects, then some of its properties."""
    document: dict[str, Any] = {}
    for entry in fields(record):
        value = getattr(record, entry.name)
        document[entry.name] = _object(value) if is_dataclass(value) else _number(value)
    return document | {name: _number(getattr(record, name)) for name in properties}


def layout_document(plan: Plan | Phase) -> dict[str, Any]:
    """The cut and the outer axes."""
    cuts, layouts = plan.cuts, plan.layouts
    axes = {name: int(getattr(cuts, name)[0]) for name in ("tp", "cp", "ep", "etp", "micro_batch")}
    axes |= {name: int(getattr(layouts, name)[0]) for name in ("pp", "vpp", "dp", "global_batch")}
    model, ends = plan.question.model, plan.question.end_layers
    pipeline = int(layouts.pp[0]), int(layouts.vpp[0])
    most = int(largest_stage(model.layers, layouts.pp, layouts.vpp, ends)[0])
    short = [f"{name}{axes[name]}" for name in ("tp", "cp", "ep", "pp", "vpp", "dp") if axes[name] > 1]
    return axes | {
        "recompute": RECOMPUTE[int(cuts.recompute[0])],
        "recomputed_layers": float(cuts.recomputed[0]) * most,
        "checkpoint_layers": int(cuts.checkpoint_layers[0]),
        "largest_stage_layers": most,
        "layers_by_stage": layers_by_stage(np.ones((model.layers, 1)), *pipeline, ends)[:, 0].tolist(),
        "offload": OFFLOAD[int(layouts.offload[0])],
        "sharding": SHARDING[int(layouts.sharding[0])],
        "schedule": SCHEDULES[int(layouts.schedule[0])],
        "placement": PLACEMENTS[int(layouts.placement[0])],
        "shard_group": int(step.shards(plan.question, layouts, cuts).optimizer[0]),
        "micro_batches": int(micro_batches(layouts, cuts)[0]),
        "domain_devices": plan.question.domain_devices,
        "name": "-".join([*short, f"mb{axes['micro_batch']}"]),
    }


def step_document(plan: Plan) -> dict[str, Any]:
    """Parts of the step, their sum, and what follows from them."""
    result, time = plan.step, plan.step.time
    total = float(time.total_s[0])
    flop = shapes.flop_per_token(plan.question.model, plan.question.job.seq_len)
    half_width = plan.question.machine.stack.step_error_fraction
    devices = int(used_devices(plan.layouts, plan.cuts)[0])
    return _object(time, "total_s") | {
        "communication_fraction": float(time.communication_s[0]) / total,
        "bubble_fraction": float(time.bubble_s[0]) / total,
        "mfu": _number(result.mfu),
        "mfu_causal": _number(result.mfu) * flop.model_causal / flop.model,
        "hfu": _number(result.hfu),
        "tokens_per_s": _number(result.tokens_per_s),
        "tokens_per_s_per_device": _number(result.tokens_per_s) / devices,
        "interval": {"low_s": total * (1 - half_width), "high_s": total * (1 + half_width), "confidence": 0.9},
    }


def memory_document(plan: Plan, *, by_stage: bool) -> dict[str, Any]:
    """Memory of the heaviest device by part, and of every stage if asked."""
    parts = {entry.name: getattr(plan.memory, entry.name)[0] for entry in fields(plan.memory)}
    heaviest = plan.heaviest_stage
    held = {name: float(values[heaviest]) for name, values in parts.items()}
    document: dict[str, Any] = {
        "peak_bytes": plan.peak_bytes,
        "reserved_bytes": plan.peak_bytes - held["context_bytes"],
        "allocated_bytes": plan.peak_bytes - held["context_bytes"] - held["fragmentation_bytes"],
        "usable_bytes": float(plan.usable_bytes),
        "device_bytes": float(plan.question.machine.accelerator.memory_bytes),
        "margin_bytes": float(plan.usable_bytes) - plan.peak_bytes,
        "host_bytes": plan.host_bytes,
        "host_usable_bytes": plan.usable_host_bytes if np.isfinite(plan.usable_host_bytes) else None,
        "parts": held,
        "heaviest_stage": heaviest,
        "stages": len(plan.memory.total_bytes[0]),
        "verdict": plan.verdict,
    }
    if by_stage:
        totals = plan.memory.total_bytes[0]
        document["by_stage"] = [
            {"stage": s, "total_bytes": float(totals[s])} | {name: float(values[s]) for name, values in parts.items()}
            for s in range(len(totals))
        ]
    return document


def traffic_document(plan: Plan) -> dict[str, Any]:
    """What a device sends in a step by level of the network, and what the step takes with the groups in each order."""
    question, cuts, layouts = plan.question, plan.cuts, plan.layouts
    found = traffic.traffic(question, plan.table, cuts, layouts)
    tiers = [
        {"tier": name, "span_devices": int(found.span_devices[row])}
        | {f"{kind}_bytes": float(sent[row]) for kind, sent in found.sent_bytes.items()}
        | {"total_bytes": float(found.total_bytes[row]), "busy_s": float(found.busy_s[row])}
        for row, name in enumerate(found.tiers)
    ]
    limits = shapes.limits(question.model, question.job, question.machine.stack)
    orders = []
    for name in dict.fromkeys((PLACEMENTS[int(layouts.placement[0])], *question.machine.stack.placements)):
        other = replace(layouts, placement=np.array([PLACEMENTS.index(name)]))
        if not broken_layout_rules(other, cuts, limits)[INSIDE][0]:
            stages = step.one_stage_table(question, plan.table, other)
            taken = step.evaluate(question, cuts, plan.table, other, stages).time.total_s
            orders.append({"placement": name, "step_s": float(taken[0])})
    return {"tiers": tiers, "placements": orders}


def critical_batch(question: Question, global_batch: int) -> dict[str, Any]:
    """Estimates of the batch beyond which a run needs more tokens for the same loss, beside the batch that it has."""
    job, counted = question.job, shapes.parameters(question.model)
    loss = batch.final_loss_nats(counted.active - counted.embedding, job.tokens)
    estimates = [
        ("by loss", batch.critical_batch_by_loss_tokens(loss), "Kaplan 2020, arXiv:2001.08361"),
        ("by data", batch.critical_batch_by_data_tokens(job.tokens), "Zhang 2024, arXiv:2410.21676"),
    ]
    tokens = [float(value) for _, value, _ in estimates]
    return {
        "batch_tokens": global_batch * job.seq_len,
        "low_tokens": min(tokens),
        "high_tokens": max(tokens),
        "estimates": [{"name": name, "tokens": float(value), "source": source} for name, value, source in estimates],
    }


def phase_document(phase: Phase) -> dict[str, Any]:
    """What a phase with a layout of its own has besides its length."""
    flop = shapes.flop_per_token(phase.question.model, phase.question.job.seq_len)
    return {
        "layout": layout_document(phase),
        "step_s": float(phase.step.time.total_s[0]),
        "mfu": float(phase.step.mfu[0]),
        "mfu_causal": float(phase.step.mfu[0]) * flop.model_causal / flop.model,
    }


def phases(plan: Plan) -> list[dict[str, Any]]:
    """Parts of the run whose tokens and times add up; each has its share of what failures and checkpoints take."""
    progress, circumstances = plan.run.progress, plan.circumstances
    wall, ideal, tokens = float(progress.wall_s[0]), float(progress.ideal_s[0]), circumstances.tokens
    training = wall * (1 - circumstances.evaluation_fraction)
    found = []
    ramped_s, ramped_tokens, ramped_steps = 0.0, 0.0, 0
    if circumstances.ramp is not None and progress.ramp_s is not None and progress.ramp_steps is not None:
        ramped_tokens = min(circumstances.ramp[1], tokens)
        ramped_s = training * float(progress.ramp_s[0]) / ideal
        ramped_steps = int(progress.ramp_steps[0])
        found.append({"name": "ramp", "tokens": ramped_tokens, "steps": ramped_steps, "time_s": ramped_s})
    long, long_s, long_steps, long_tokens = circumstances.long, 0.0, 0, 0.0
    if long is not None and progress.long_s is not None and progress.long_steps is not None:
        long_s, long_steps = training * float(progress.long_s[0]) / ideal, int(progress.long_steps[0])
        long_tokens = long.tokens
    steps = int(progress.steps[0]) - ramped_steps - long_steps
    left, time_s = tokens - ramped_tokens - long_tokens, training - ramped_s - long_s
    found.append({"name": "main", "tokens": left, "steps": steps, "time_s": time_s})
    if long is not None:
        phase = {"name": "long-context", "tokens": long_tokens, "steps": long_steps, "time_s": long_s}
        found.append(phase | {"seq_len": long.seq_len} | ({} if plan.long is None else phase_document(plan.long)))
    if circumstances.evaluation_fraction:
        found.append({"name": "evaluation", "tokens": 0.0, "steps": 0, "time_s": wall - training})
    return found


def plan_document(plan: Plan, *, by_stage: bool = False) -> dict[str, Any]:
    """One plan as plain JSON values."""
    machine, outcome = plan.question.machine, plan.run
    prices = plan.circumstances.prices
    # Parts that the basis does not have (rent where machines are owned) are left out rather than null.
    cost: dict[str, Any] = {"total_usd": None, "missing": run.no_price(prices, machine.system.name)}
    if outcome.cost is not None:
        cost = {name: value for name, value in _object(outcome.cost, "total_usd").items() if value is not None}
    cost |= {
        "usd_per_million_tokens": _number(outcome.usd_per_million_tokens),
        "usd_per_device_h": _number(outcome.usd_per_device_h),
        **_object(plan.money),
        "purchase": _object(plan.money.purchase, "bought_usd") if plan.money.purchase else None,
        "basis": prices.basis,
        "currency": prices.currency,
        "price_date": prices.date,
    }
    return {
        "hardware": machine.system.name,
        "accelerator": machine.accelerator.name,
        "fabric": machine.fabric.name,
        "stack": machine.stack.name,
        "precision": plan.question.job.precision,
        "attention_kernel": machine.attention_kernel,
        "clock_fraction": float(plan.question.clock_fraction),
        **_object(outcome.fleet, "devices"),
        "layout": layout_document(plan),
        "step": step_document(plan),
        "traffic": traffic_document(plan),
        "memory": memory_document(plan, by_stage=by_stage),
        "run": _object(outcome.progress, "p50_s", "p90_s", "p99_s")
        | {"interruptions_by_cause": {cause: _number(count) for cause, count in plan.causes.items()}}
        | {"phases": phases(plan)},
        "energy": _object(outcome.energy, "mean_it_w") | _object(plan.draw),
        "carbon": _object(outcome.carbon, "embodied_kg_co2e", "total_kg_co2e"),
        "cost": cost,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocking:
    """A constraint that no candidate keeps."""

    constraint: str
    required: float
    best: float | None
    """Best value of all candidates, whatever they do to the other constraints."""
    unit: str
    nearest_feasible: float | None
    """Value of this constraint alone with which there would be a plan; None if others stand in the way too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a question gives: a plan and what else was looked at, or why there is none."""

    resolved: Resolved
    objective: str
    plan: Plan | None
    alternatives: tuple[tuple[str, Plan], ...] = ()
    """Other plans, each with what is different about it."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    considered: int = 0
    """Legal layouts that were tested against memory."""
    evaluated: int = 0
    """Layouts that were carried to cost and energy."""
    ties: int = 0
    """Plans that the errors of the model cannot tell from the best."""
    least: Mapping[str, Any] | None = None
    """Of these the one that is best by the figures; None if that is the plan."""
    warnings: tuple[str, ...] = ()
    blocking: tuple[Blocking, ...] = ()
    by_stage: bool = False
    """Whether the document has the memory of every stage."""
    beside: Mapping[str, Any] | None = None
    """Rank of a layout that was given, and what it would cost to take it; None if none was given."""
    is_interrupted: bool = False
    """Whether the search was cut short, so that the plan is only the best so far."""
    fixes: tuple[Fix, ...] = ()
    """Changes that would save memory."""

    @property
    def feasible(self) -> bool:
        """Whether there is a plan that keeps to everything."""
        return self.plan is not None and not self.blocking

    def document(self) -> dict[str, Any]:
        """The answer as plain JSON values."""
        return {
            "schema": SCHEMA,
            "version": clusterplan.__version__,
            "inputs": inputs_document(self.resolved, self.objective),
            "feasible": self.feasible,
            "plan": None if self.plan is None else self._plan_document(self.plan, by_stage=self.by_stage),
            "critical_batch": None
            if self.plan is None
            else critical_batch(self.plan.question, int(self.plan.layouts.global_batch[0])),
            "alternatives": [{"why": why, **self._plan_document(p)} for why, p in self.alternatives],
            "rejected": dict(self.rejected),
            "search": {
                "considered": self.considered,
                "evaluated": self.evaluated,
                "ties": self.ties,
                "least": None if self.least is None else dict(self.least),
            },
            "beside": None if self.beside is None else dict(self.beside),
            "warnings": list(self.warnings),
            "evidence": evidence(self.resolved, self.plan),
            "blocking": [_object(b) for b in self.blocking],
            "fixes": [_object(f) for f in self.fixes],
        }

    def _plan_document(self, plan: Plan, *, by_stage: bool = False) -> dict[str, Any]:
        """A plan with its totals in the currency that was asked for."""
        document, scenario = plan_document(plan, by_stage=by_stage), self.resolved.scenario
        if scenario.usd_rate is not None:
            cost = document["cost"]
            cost["in_currency"] = {
                "currency": scenario.currency,
                "usd_rate": scenario.usd_rate,
                "rate_date": scenario.rate_date,
                **{name: cost[f"{name}_usd"] * scenario.usd_rate for name in TOTALS if cost[f"{name}_usd"] is not None},
            }
        return document


TOTALS = ("total", "low", "high", "rented", "owned")
"""Amounts that are given in the currency that was asked for, too."""


def inputs_document(resolved: Resolved, objective: str) -> dict[str, Any]:
    """What the answer was asked, defaults filled in."""
    scenario, job = resolved.scenario, resolved.job
    return {
        "model": scenario.model,
        "hardware": [h.system.name for h in resolved.hardware],
        "tokens": int(job.tokens),
        "seq_len": job.seq_len,
        "global_batch": job.global_batch,
        "batch_low": job.batch_low,
        "batch_fixed": job.batch_fixed,
        "batch_ramp": scenario.batch_ramp,
        "long_context": scenario.long_context,
        "eval_fraction": scenario.eval_fraction,
        "precision": job.precision,
        "deadline_s": scenario.deadline_s,
        "confidence": resolved.confidence,
        "budget_usd": scenario.budget_usd,
        "power_w": scenario.power_w,
        "water_m3": scenario.water_m3,
        "carbon_kg": scenario.carbon_kg,
        "devices": list(resolved.devices),
        "objective": objective,
        "site": resolved.site.name,
        "cooling": resolved.cooling.name,
        "prices": resolved.prices.name,
        "storage": resolved.storage.name,
        "fabric": scenario.fabric,
        "stack": scenario.stack,
        "allow": list(scenario.allow),
        "clock": 1.0 if scenario.clock is None else scenario.clock,
        "cap_w": scenario.cap_w,
        "currency": scenario.currency or USD,
        "usd_rate": scenario.usd_rate or 1.0,
        "rate_date": scenario.rate_date,
        "set": dict(scenario.sets),
    }


def evidence(resolved: Resolved, plan: Plan | None) -> list[dict[str, Any]]:
    """Every figure of a profile that went into the plan, then every default that was taken."""
    rows: list[dict[str, Any]] = []
    if plan is not None:
        for (profile, key), (figure, users) in sorted(plan.recorder.figures().items()):
            rows.append(
                {
                    "what": f"{profile}: {key}",
                    "value": float(figure),
                    "unit": figure_unit(figure.origin.key),
                    "kind": figure.origin.kind,
                    "source": figure.origin.source,
                    "used_in": sorted(users),
                }
            )
    for one in resolved.assumed:
        rows.append(
            {
                "what": f"input: {one.key}",
                "value": one.value,
                "unit": one.unit,
                "kind": "assumed",
                "source": one.why,
                "used_in": ["inputs"],
            }
        )
    return rows


def figure_unit(key: str) -> str:
    """Unit of a figure by its key in the profile, after conversion to SI."""
    return unit_of(to_si(key.split(".")[0], 1.0)[0])
