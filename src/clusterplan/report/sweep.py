"""A sweep: one row a point, and what more devices bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clusterplan import __version__
from clusterplan.report.blocks import Block, Document
from clusterplan.report.comparison import at
from clusterplan.report.quantities import said
from clusterplan.report.question import question_block
from clusterplan.report.remarks import reason

if TYPE_CHECKING:
    from clusterplan.sweep import Axis, Point, Scaling

SWEEP = "clusterplan/sweep-1"

FIGURES = (
    "devices", "nodes", "clock_fraction", "layout.tp", "layout.cp", "layout.ep", "layout.pp", "layout.vpp", "layout.dp",
    "layout.micro_batch", "layout.recompute", "layout.sharding", "layout.global_batch", "step.total_s", "step.mfu",
    "step.tokens_per_s", "step.communication_fraction", "step.bubble_fraction", "memory.margin_bytes", "run.wall_s",
    "run.goodput_fraction", "run.p90_s", "run.deadline_probability", "run.expected_interruptions",
    "energy.mean_facility_w", "energy.peak_facility_w", "energy.pue", "energy.facility_kwh", "energy.water_m3",
    "carbon.total_kg_co2e", "cost.total_usd", "cost.low_usd", "cost.high_usd", "cost.usd_per_million_tokens",
    "cost.usd_per_device_h", "cost.energy_usd",
)  # fmt: skip
"""Figures of a plan that a point has, by their place in its document."""

RULE = "the fastest of a day or more for at most 10 % over the least cost"
"""Where more devices stop paying: :func:`clusterplan.choose.knee`."""


def sweep_document(
    inputs: Document, axes: Sequence[Axis], points: Sequence[Point], scaled: Scaling | None
) -> dict[str, Any]:
    """A sweep as plain JSON values.

    Parameters
    ----------
    inputs : mapping
        The question as the other documents have it.
    axes : sequence of Axis
        What was varied.
    points : sequence of Point
        The answers.
    scaled : Scaling
        What more devices bring; None of other sweeps.
    """
    rows = [_row(axes, point) for point in points]
    document: dict[str, Any] = {
        "schema": SWEEP,
        "version": __version__,
        "inputs": dict(inputs),
        "axes": [{"key": axis.key, "values": list(axis.values)} for axis in axes],
        "points": rows,
    }
    if scaled is not None:
        place = {id(point): number for number, point in enumerate(points)}
        for number, point in enumerate(scaled.points):
            rows[place[id(point)]]["scaling"] = {
                "efficiency": float(scaled.efficiency[number]),
                "on_front": None if scaled.on_front is None else scaled.on_front[number],
                "is_knee": None if scaled.knee is None else number == scaled.knee,
            }
        best = None if scaled.knee is None else rows[place[id(scaled.points[scaled.knee])]]["devices"]
        document["scaling"] = {"rule": RULE, "knee_devices": best}
    return document


def _apart_from(keys: Sequence[str], inputs: Document) -> Document:
    """What was asked at all points: a limit or a place that varies is none that holds."""
    places = dict.fromkeys({"site", "cooling", "prices", "storage"} & set(keys), "varies")
    limits = {name: None for name in inputs if name.rpartition("_")[0] in keys and name in LIMITS}
    return {**inputs, **places, **limits}


LIMITS = ("deadline_s", "budget_usd", "power_w", "water_m3", "carbon_kg", "cap_w")
"""Limits of a question, by what they are called as an axis, with their unit."""


def _row(axes: Sequence[Axis], point: Point) -> dict[str, Any]:
    document = point.answer.document()
    plan = document["plan"] or {}
    row: dict[str, Any] = {
        "over": {axis.key: value for axis, value in zip(axes, point.values, strict=True)},
        "feasible": document["feasible"],
        "hardware": plan.get("hardware"),
        "layout_name": at(plan, "layout.name"),
    }
    row |= {path.rsplit(".", 1)[-1]: at(plan, path) for path in FIGURES}
    if missing := at(plan, "cost.missing"):
        row["no_cost"] = missing
    if not document["feasible"]:
        row["why"] = "; ".join([reason(one) for one in document["blocking"]] or document["warnings"])
    return row


TABLE = (
    ("hardware", "system"),
    ("devices", "devices"),
    ("wall_s", "time"),
    ("mfu", "MFU"),
    ("efficiency", "scaling"),
    ("clock_fraction", "clock"),
    ("peak_facility_w", "peak"),
    ("facility_kwh", "energy"),
    ("total_usd", "cost"),
    ("deadline_probability", "on time"),
)
"""Columns of the table, those of which all points say the same left out."""


def sweep_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a sweep."""
    points, keys = document["points"], [axis["key"] for axis in document["axes"]]
    yield question_block(_apart_from(keys, document["inputs"]))
    scaled = document.get("scaling")
    shown = [(name, head) for name, head in TABLE if _says_something(name, points, keys)]
    marked = bool(scaled and scaled["knee_devices"])
    heads = (",\n".join(keys), *(head for _, head in shown), *([""] if marked else []))
    rows = [
        (
            ", ".join(one["over"][key] for key in keys),
            *((_cell(name, one) if one["feasible"] else "-") for name, _ in shown),
            *([_mark(one)] if marked else []),
        )
        for one in points
    ]
    caption = ""
    if scaled:
        front = f"* no other is faster and cheaper; ** {RULE}: {scaled['knee_devices']:,} devices. " if marked else ""
        caption = f"{front}Scaling: speed of a device over that in the smallest cluster."
    right = tuple(range(1, 1 + len(shown)))
    title = f"Over {' and '.join(keys)}"
    yield Block(title=title, heads=heads, rows=tuple(rows), right=right, is_wide=True, caption=caption)
    if unpriced := dict.fromkeys(one["no_cost"] for one in points if one.get("no_cost")):
        yield Block(title="No cost", rows=tuple(("", text) for text in unpriced), are_notes=True)
    failed = [(" ".join(one["over"].values()), one["why"]) for one in points if not one["feasible"]]
    if failed:
        yield Block(title="No feasible plan", rows=tuple(("", f"{at}: {why}") for at, why in failed), are_notes=True)


def _value(name: str, point: Document) -> Any:
    return point.get("scaling", {}).get(name) if name == "efficiency" else point[name]


def _says_something(name: str, points: Sequence[Document], keys: Sequence[str]) -> bool:
    values = [_value(name, one) for one in points if one["feasible"]]
    if name in keys or (name == "deadline_probability" and len(keys) > 1) or all(value is None for value in values):
        return False
    return name not in {"hardware", "clock_fraction"} or len(set(values)) > 1


def _cell(name: str, point: Document) -> str:
    value = _value(name, point)
    return said("x_fraction" if name == "efficiency" else name, value)


def _mark(point: Document) -> str:
    scaling = point.get("scaling") or {}
    return "**" if scaling.get("is_knee") else "*" if scaling.get("on_front") else ""
