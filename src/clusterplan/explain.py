"""Where a number of a plan comes from: its formula, what went in, and who says so.

The plan keeps the calls of all formulas that made it. A number is found in the plan's records, then the call that
returned it; what went into that call is a figure of a profile, or what another call returned, and so on.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from clusterplan import __version__, draw, electricity, layer, run, step
from clusterplan.equations import equation, without_markup
from clusterplan.errors import ClusterplanError
from clusterplan.outcome import Cost, ItPower, Purchase
from clusterplan.plan import Answer, Plan, plan_document
from clusterplan.trace import Call, Figure, recording
from clusterplan.units import to_si, unit_of

SCHEMA = "clusterplan/explain-1"
DEPTH = 2
"""Levels of inputs that are shown: those of the formula, and those of the formulas that made these."""

SUMS: Mapping[str, tuple[str, ...]] = {
    "devices": ("used_devices", "spare_devices", "idle_devices"),
    "step.total_s": tuple(f"step.{part.name}" for part in fields(step.StepTime)),
    "memory.peak_bytes": tuple(f"memory.parts.{part.name}" for part in fields(step.StageMemory)),
    "energy.mean_it_w": tuple(f"energy.it.{part.name}" for part in fields(ItPower)),
    "energy.hall.mean_w": tuple(f"energy.it.{part.name}" for part in fields(ItPower)),
    "carbon.embodied_kg_co2e": tuple(f"carbon.{name}_kg_co2e" for name in ("accelerators", "hosts", "building")),
    "carbon.total_kg_co2e": ("carbon.operational_kg_co2e", "carbon.embodied_kg_co2e"),
    "cost.total_usd": tuple(f"cost.{part.name}" for part in fields(Cost) if part.name.endswith("_usd")),
    "cost.purchase.bought_usd": tuple(f"cost.purchase.{part.name}" for part in fields(Purchase)),
}
"""Totals, and the parts of which they are the sum."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A number that follows from others of the plan without a formula of its own."""

    equation: str
    fields: tuple[str, ...] = ()


_EXPOSED = tuple(f"step.{kind}_exposed_s" for kind in ("tp", "cp", "ep", "pp", "dp", "offload"))
RULES: Mapping[str, Rule] = {
    "step.communication_fraction": Rule("exposed communication of all kinds ÷ length", (*_EXPOSED, "step.total_s")),
    "step.bubble_fraction": Rule("bubble ÷ length", ("step.bubble_s", "step.total_s")),
    "step.mfu_causal": Rule("MFU × (FLOP of a token, attention causal ÷ attention in full)", ("step.mfu",)),
    "step.tokens_per_s": Rule("sequences × tokens of a sequence ÷ length", ("layout.global_batch", "step.total_s")),
    "step.tokens_per_s_per_device": Rule("tokens/s ÷ devices at work", ("step.tokens_per_s", "used_devices")),
    "step.interval.low_s": Rule("length × (1 − error of a predicted step)", ("step.total_s",)),
    "step.interval.high_s": Rule("length × (1 + error of a predicted step)", ("step.total_s",)),
    "step.interval.confidence": Rule("the interval that the stack's error of a predicted step stands for"),
    "memory.verdict": Rule(
        "fits if the peak is within what is usable, borderline if within what the device has",
        ("memory.peak_bytes", "memory.usable_bytes", "memory.device_bytes"),
    ),
    "memory.margin_bytes": Rule("usable − peak", ("memory.usable_bytes", "memory.peak_bytes")),
    "memory.reserved_bytes": Rule("peak − runtime context", ("memory.peak_bytes", "memory.parts.context_bytes")),
    "memory.allocated_bytes": Rule(
        "reserved − what the allocator holds beyond it", ("memory.reserved_bytes", "memory.parts.fragmentation_bytes")
    ),
    "memory.host_bytes": Rule("what waits in host memory, for a device of the stage that takes most off it"),
    "memory.host_usable_bytes": Rule("a device's share of the host memory, without the margin"),
    "memory.heaviest_stage": Rule("stage whose devices hold most", ("memory.peak_bytes",)),
    "memory.stages": Rule("stages of the pipeline", ("layout.pp",)),
    "clock_fraction": Rule("the clock that was asked for, that follows from a cap, or that does best"),
    "cost.low_usd": Rule("the same run with all prices that have a range at its low end", ("cost.total_usd",)),
    "cost.high_usd": Rule("the same run with all prices that have a range at its high end", ("cost.total_usd",)),
    "cost.rented_usd": Rule("the same run with rented machines"),
    "cost.owned_usd": Rule("the same run with machines of one's own"),
    "cost.break_even_utilisation_fraction": Rule(
        "what owning pays for what was bought, at full use ÷ (rented − the rest of what owning pays)",
        ("cost.owned_usd", "cost.rented_usd"),
    ),
    "cost.purchase.bought_systems_usd": Rule("purchase units × price of one", ("units",)),
    "cost.purchase.bought_network_usd": Rule("devices × price of the network of one", ("devices",)),
    "cost.purchase.bought_storage_usd": Rule("the run's share of the storage × its price"),
    "cost.purchase.bought_building_usd": Rule(
        "peak power of the equipment × price of a watt × factor of the cooling design", ("energy.peak_it_w",)
    ),
    "layout.shard_group": Rule("replicas among which optimizer states are shared; 1 for none"),
    "layout.micro_batches": Rule(
        "sequences ÷ (replicas × sequences of a micro-batch)",
        ("layout.global_batch", "layout.dp", "layout.micro_batch"),
    ),
}
"""Numbers that are made from others on the way into the document."""


_WORK = ("product_s", "attention_s", "eager_attention_s", "scan_s", "memory_bound_s")
_TRAFFIC = (
    "members_in_block", "scaleup_bytes_per_s", "scaleout_bytes_per_s", "ring_s", "all_reduce_s", "all_to_all_s",
    "exposed_s",
)  # fmt: skip
_LAYERS = tuple(f"compute.{name}" for name in _WORK), tuple(f"network.{name}" for name in _TRAFFIC)
PRICED_BY: Mapping[str, tuple[str, ...]] = {
    "step.compute_s": _LAYERS[0],
    "step.recompute_s": _LAYERS[0],
    "step.host_s": (*_LAYERS[0], "compute.host_wait_s", "compute.routing_stall_s"),
    **dict.fromkeys(_EXPOSED[:-1], _LAYERS[1]),
    "step.contention_s": (*_LAYERS[1], "network.contention_s"),
    "step.bubble_s": (*_LAYERS[0], *_LAYERS[1], "network.contention_s"),
}
"""Times that are sums over the layers of a stage, with the formulas that price the operators of a layer."""


def explain(answer: Answer, field: str) -> dict[str, Any]:
    """Document about one number of a plan.

    Parameters
    ----------
    answer : Answer
        Answer with a plan.
    field : str
        Way to the number in the plan's document, joined by points: ``step.bubble_s``, ``cost.total_usd``.
    """
    if answer.plan is None:
        raise ClusterplanError("there is no plan to explain: nothing is feasible", where=field)
    document = plan_document(answer.plan)
    known = dict(_leaves(document))
    name = field.removeprefix("plan.")
    head, _, last = name.rpartition(".")
    is_money = head == "cost" and (name in known or last in {part.name for part in fields(Cost)})
    if answer.plan.run.cost is None and is_money and known.get(name) is None:
        raise ClusterplanError(document["cost"]["missing"], where=name)
    if name not in known:
        raise _unknown(name, known)
    told = _Told(answer.plan, known)
    node = told.node(name, known[name], told.stored(name), DEPTH)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "field": name,
        "meaning": told.meaning(name),
        **node,
        "priced_by": told.priced_by(name),
    }


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Way to each number and text of a document."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path, value


def _unknown(name: str, known: Mapping[str, Any]) -> ClusterplanError:
    inside = tuple(path for path in known if path.startswith(f"{name}."))
    if inside:
        return ClusterplanError("has many numbers; name one of them", where=name[:80], nearest=inside[:12])
    near = get_close_matches(name[:100], list(known), n=3, cutoff=0.5)
    near += [path for path in known if path.rsplit(".", 1)[-1] == name and path not in near]
    listed = "" if near else f"; known: {', '.join(sorted({path.split('.')[0] for path in known}))}"
    return ClusterplanError(f"no such number in a plan{listed}", where=ascii(name[:80])[1:-1], nearest=tuple(near[:3]))


class _Told:
    """A plan whose numbers are looked up."""

    def __init__(self, plan: Plan, known: Mapping[str, Any]) -> None:
        self.plan, self.known = plan, known
        self.calls: list[Call] = list(plan.recorder.calls)
        self.by_value: dict[float, Call] = {}
        for call in self.calls:
            number = _single(call.output)
            if number is not None and _is_telling(number):
                self.by_value[number] = call  # the outermost call that gave it is the last one

    # --- finding ---

    def holders(self, path: str) -> tuple[list[Any], str]:
        """Records that may hold a number of the document, and what they call it."""
        plan, outcome = self.plan, self.plan.run
        *sections, name = path.split(".")
        head = sections[0] if sections else ""
        start: Mapping[str, list[Any]] = {
            "": [outcome.fleet, plan],
            "layout": [plan.cuts, plan.layouts],
            "step": [plan.step.time, plan.step],
            "memory": [plan.memory, plan],
            "run": [outcome.progress],
            "energy": [outcome.energy, plan.draw],
            "carbon": [outcome.carbon],
            "cost": [outcome.cost, outcome, plan.money],
        }
        found = [one for one in start.get(head, []) if one is not None]
        for inner in sections[1:]:
            found = [getattr(one, inner, one) for one in found]
        return found, name

    def stored(self, path: str) -> Any:
        """The very object of the plan's records, so that its maker can be told; None if there is none."""
        machine = self.plan.question.machine
        if path == "memory.device_bytes":
            return machine.accelerator.memory_bytes
        if path == "memory.parts.context_bytes":
            return machine.stack.context_bytes
        found, name = self.holders(path)
        for holder in found:
            if hasattr(holder, name):
                with recording() as later:  # a property may call a formula
                    value = getattr(holder, name)
                self.calls += later.calls
                return value
        return None

    def maker(self, value: Any) -> Call | None:
        """The outermost call that returned a value: this very object, or else the same number to its last digit."""
        if isinstance(value, Figure):
            return None
        makers = [call for call in self.calls if call.output is value]
        if makers:
            return makers[-1]
        number = _single(value)
        return self.by_value.get(number) if number is not None and _is_telling(number) else None

    def pair(self, value: Any, unit: str) -> tuple[Call, Call] | None:
        """Two calls whose results add up to a value exactly, if just one pair of numbers does."""
        number = _single(value)
        if number is None or not _is_telling(number):
            return None
        terms = {n: call for n, call in self.by_value.items() if 0 < n < number and _unit_of_call(call) == unit}
        found = [(terms[n], terms[m]) for n in terms for m in terms if n < m and n + m == number]
        return found[0] if len(found) == 1 else None

    # --- telling ---

    def node(self, name: str, value: Any, stored: Any, depth: int) -> dict[str, Any]:
        """What is said about one number of the document."""
        last = name.rsplit(".", 1)[-1]
        told: dict[str, Any] = {"name": name, "value": _plain(value), "unit": unit_of(last), "origin": ""}
        if depth <= 0 and name in {*SUMS, *RULES}:
            return told | {"origin": f"plan: {name}"}
        if name in SUMS:
            parts = [part for part in SUMS[name] if self.known.get(part) not in (None, 0)]
            told |= {"origin": "sum of its parts", "equation": "the sum of its parts", "is_sum": True}
            return told | {"inputs": [self.part(part) for part in parts]}
        if name in RULES:
            rule = RULES[name]
            told |= {"origin": rule.equation, "equation": rule.equation}
            return told | {"inputs": [self.part(part) for part in rule.fields]}
        if isinstance(stored, Figure):
            return told | _of_figure(stored)
        call = self.maker(stored if stored is not None else value)
        if call is not None:
            return told | self.of_call(call, depth)
        both = self.pair(stored if stored is not None else value, told["unit"])
        if both is not None:
            told |= {"origin": "sum of two formulas", "equation": "the sum of two formulas", "is_sum": True}
            return told | {"inputs": [self.input(call.name, call.output, depth - 1) for call in both]}
        return told | {"origin": self.plain_origin(name)}

    def priced_by(self, name: str) -> list[dict[str, Any]]:
        """Formulas that price the layers behind a time, each with the figures that went into it."""
        rows = []
        for formula in PRICED_BY.get(name, ()):
            calls = [call for call in self.calls if call.name == formula]
            figures = {
                (value.origin.profile, value.origin.key): {"name": key, **_of_figure(value)}
                for call in calls
                for key, value in call.inputs.items()
                if isinstance(value, Figure)
            }
            if calls:
                rows.append({"formula": formula, "summary": calls[0].summary, "figures": list(figures.values())})
        return rows

    def part(self, name: str) -> dict[str, Any]:
        """One number of the document as a part of another; it can be explained in its turn."""
        return self.node(name, self.known[name], self.stored(name), 0)

    def of_call(self, call: Call, depth: int) -> dict[str, Any]:
        """A formula with its inputs; without them where it lies too deep."""
        told: dict[str, Any] = {"formula": call.name, "summary": call.summary, "origin": call.name}
        if depth <= 0:
            return told
        return told | {
            "equation": equation(call.function),
            "references": without_markup(call.references),
            "inputs": [
                self.input(name, value, depth - 1, usual=inspect.signature(call.function).parameters[name].default)
                for name, value in call.inputs.items()
            ],
        }

    def input(self, name: str, value: Any, depth: int, usual: Any = inspect.Parameter.empty) -> dict[str, Any]:
        """One input of a formula, with where it is from; ``usual`` is what it is if nobody gives it."""
        told: dict[str, Any] = {"name": name, "value": _plain(value), "unit": unit_of(name), "origin": ""}
        if isinstance(value, Figure):
            return told | _of_figure(value)
        call = self.maker(value)
        if call is not None:
            return told | self.of_call(call, depth)
        if value is usual:
            return told | {"origin": "default of the formula"}
        return told | {"origin": self.input_origin(name, value)}

    def input_origin(self, name: str, value: Any) -> str:
        """Where an input is from that is neither a figure nor a formula's result."""
        if constant := _constant_of(value):
            return constant
        number = _single(value)
        sources: Mapping[str, tuple[Any, ...]] = {
            "layout": (self.plan.cuts, self.plan.layouts),
            "job": (self.plan.question.job,),
            "cluster": (self.plan.run.fleet,),
            "system": (self.plan.question.machine.system,),
            "stack": (self.plan.question.machine.stack,),
            "accelerator": (self.plan.question.machine.accelerator,),
            "model": (self.plan.question.model, self.plan.question.model.attention, self.plan.question.model.moe),
        }
        if number is not None:
            for spelling in (name, *_OTHER_NAMES.get(name, ())):
                for source, records in sources.items():
                    if any(_single(getattr(record, spelling, None)) == number for record in records):
                        return f"{source}: {spelling}"
                if self.known.get(f"layout.{spelling}") == number:
                    return f"layout: {spelling}"
            for path, known in self.known.items():
                if known == number and not isinstance(known, bool) and _is_telling(number):
                    return f"plan: {path}"
        return _COMPOSED.get(name, "put together from layout, model and profiles")

    def plain_origin(self, name: str) -> str:
        if name.startswith("layout."):
            return "chosen by the search, or given"
        return "a name or a count of the chosen system, software or price list"

    def meaning(self, name: str) -> str:
        """What the record says about a field."""
        if name.startswith("layout.") and name in RULES:
            # The record has what was asked (0 for the usual group), the document what came of it.
            return RULES[name].equation
        found, last = self.holders(name)
        texts = [field_text(type(holder), last) for holder in found]
        return next((text for text in texts if text), RULES[name].equation if name in RULES else "")


_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "stages": ("pp",),
    "virtual_stages": ("vpp",),
    "sequences": ("global_batch",),
    "devices": ("used_devices",),
    "nodes": ("used_nodes",),
}
"""What the records call an input of a formula."""

_COMPOSED: Mapping[str, str] = {
    "slowest_stage_s": "sum over the layers of the slowest stage",
    "all_stages_s": "sum over all layers",
    "communication_s": "messages of the layers of a stage",
    "window_s": "compute of the slowest stage",
    "saved_bytes": "sum over the layers of a stage",
    "working_bytes": "the largest layer of a stage",
    "message_bytes": "a shape of the model",
    "dense_parameters": "sum over the layers of a stage",
    "expert_parameters": "sum over the layers of a stage",
    "dense_shards": "devices that share a state",
    "expert_shards": "devices that share a state",
    "allocated_bytes": "sum of the parts before it",
}
"""What an input is that is put together between two formulas."""


def _of_figure(figure: Figure) -> dict[str, Any]:
    """Where a profile has a figure."""
    origin = figure.origin
    key = next((part for part in reversed(origin.key.split(".")) if unit_of(part)), origin.key)
    where = f"{origin.profile}: {origin.key}"
    return {
        "value": float(figure),
        "unit": unit_of(to_si(key, 1.0)[0]),
        "origin": f"{where} ({origin.kind})",
        "figure": where,
        "kind": origin.kind,
        "source": origin.source,
    }


def _single(value: Any) -> float | None:
    """The number that an array of one element, or a plain number, is."""
    if isinstance(value, bool | str) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, np.ndarray | np.generic) and np.size(value) >= 1 and np.asarray(value).dtype.kind in "if":
        flat = np.asarray(value).reshape(-1)
        return float(flat[0]) if np.all(flat == flat[0]) else None
    return None


def _is_telling(number: float) -> bool:
    """Whether a number has so many digits that an equal one must be the same."""
    return len(f"{number:.12g}".strip("0").replace(".", "")) >= 8


def _unit_of_call(call: Call) -> str:
    return unit_of(call.name.rsplit(".", 1)[-1])


MOST_SHOWN = 4
"""Elements of an array that are written out."""


def _plain(value: Any) -> Any:
    """A number, a text, or a short text about many numbers."""
    number = _single(value)
    if isinstance(value, bool | str) or value is None:
        return value
    if number is not None:
        whole = isinstance(value, int) or (not isinstance(value, float) and np.asarray(value).dtype.kind == "i")
        return int(number) if whole else number if np.isfinite(number) else str(number)
    if isinstance(value, np.ndarray):
        flat = value.reshape(-1)
        if flat.size <= MOST_SHOWN or flat.dtype.kind not in "if":
            return ", ".join(f"{one:,.4g}" if flat.dtype.kind in "if" else str(one) for one in flat[:MOST_SHOWN])
        return f"{flat.size:,} values from {flat.min():,.4g} to {flat.max():,.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(str(_plain(one)) for one in value[:MOST_SHOWN])
    return str(getattr(value, "name", type(value).__name__))


# --- What the sources say ---------------------------------------------------------------------------------------


@lru_cache
def _texts(cls: type) -> Mapping[str, str]:
    """Texts below the fields of a class, which Python does not keep."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    return _texts_below(body.body)


def _texts_below(body: Sequence[ast.stmt]) -> dict[str, str]:
    found = {}
    for entry, below in pairwise(body):
        target = entry.target if isinstance(entry, ast.AnnAssign) else None
        if isinstance(entry, ast.Assign):
            target = entry.targets[0]  # type: ignore[assignment]
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(target, ast.Name) and is_text and isinstance(below.value.value, str):  # type: ignore[attr-defined]
            found[target.id] = " ".join(below.value.value.split())  # type: ignore[attr-defined]
    return found


def field_text(cls: type, name: str) -> str:
    """What a record says about one of its fields or properties; empty if nothing."""
    entry = inspect.getattr_static(cls, name, None)
    if isinstance(entry, property):
        return " ".join((entry.__doc__ or "").split())
    return _texts(cls).get(name, "") if is_dataclass(cls) else ""


@lru_cache
def _constants() -> Mapping[int, str]:
    """Named numbers of the modules that compose formulas, by the identity of the number."""
    found = {}
    for module in (run, electricity, step, layer, draw):
        texts = _texts_below(ast.parse(inspect.getsource(module)).body)
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, float):
                text = f": {texts[name]}" if name in texts else ""
                found[id(value)] = f"{module.__name__.rsplit('.', 1)[-1]}.{name}{text}"
    return found


def _constant_of(value: Any) -> str:
    return _constants().get(id(value), "") if isinstance(value, float) else ""
