"""Plans side by side: a comparison of systems, and the alternatives of a plan."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterplan import __version__
from clusterplan.report.blocks import COLUMN, Block, Document
from clusterplan.report.quantities import currency_sign, said
from clusterplan.report.question import question_block
from clusterplan.report.remarks import common_warnings, counts_said, reasons, remark_blocks

COMPARISON = "clusterplan/compare-1"


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of a comparison."""

    path: str
    label: str
    better: str = ""
    """``least`` or ``most``, if one plan can be better than another in it."""

    def value(self, plan: Document) -> Any:
        """The value of a plan; None if it has none."""
        return at(plan, self.path)


MEASURES = (
    Measure("devices", "devices", "least"),
    Measure("layout.tp", "tensor"),
    Measure("layout.cp", "context"),
    Measure("layout.ep", "expert"),
    Measure("layout.pp", "pipeline"),
    Measure("layout.vpp", "chunks"),
    Measure("layout.dp", "data"),
    Measure("layout.micro_batch", "micro-batch"),
    Measure("layout.recompute", "recompute"),
    Measure("layout.sharding", "sharding"),
    Measure("clock_fraction", "clock"),
    Measure("step.total_s", "step"),
    Measure("step.mfu", "MFU", "most"),
    Measure("memory.margin_bytes", "memory left"),
    Measure("run.wall_s", "wall time", "least"),
    Measure("run.deadline_probability", "on time", "most"),
    Measure("run.goodput_fraction", "goodput", "most"),
    Measure("energy.mean_facility_w", "mean power", "least"),
    Measure("energy.peak_facility_w", "peak power", "least"),
    Measure("energy.pue", "PUE", "least"),
    Measure("energy.facility_kwh", "energy", "least"),
    Measure("energy.water_m3", "water", "least"),
    Measure("carbon.total_kg_co2e", "carbon", "least"),
    Measure("cost.total_usd", "cost", "least"),
    Measure("cost.usd_per_million_tokens", "$/M tokens", "least"),
    Measure("cost.purchase.bought_usd", "purchase", "least"),
)
"""Rows of a comparison, of alternatives too."""


def at(document: Document, path: str) -> Any:
    """Value at the end of a way of keys joined by points; None if there is none."""
    value: Any = document
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def comparison(documents: Sequence[Document]) -> dict[str, Any]:
    """Document of answers side by side, with who is best in what.

    Parameters
    ----------
    documents : sequence of mapping
        Answers to the same question, one for each of its systems, in their order.
    """
    inputs = documents[0]["inputs"]
    inputs = {**inputs, "hardware": inputs["hardware"][: len(documents)]}  # fewer if it was interrupted
    names = inputs["hardware"]
    winners: dict[str, str] = {}
    for measure in MEASURES:
        values = {
            name: measure.value(one["plan"])
            for name, one in zip(names, documents, strict=True)
            if one["feasible"] and one["plan"]
        }
        values = {name: value for name, value in values.items() if value is not None}
        if measure.better and len(values) > 1:
            best = (min if measure.better == "least" else max)(values.values())
            holders = [name for name, value in values.items() if value == best]
            if len(holders) == 1:
                winners[measure.path.rsplit(".", 1)[-1]] = holders[0]
    return {
        "schema": COMPARISON,
        "version": __version__,
        "inputs": inputs,
        "columns": [
            {**one, "inputs": {**one["inputs"], "hardware": [name]}} for name, one in zip(names, documents, strict=True)
        ],
        "winners": winners,
    }


def _side_by_side(plans: Mapping[str, Document | None], winners: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """Rows of a comparison: those in which any plan has something to say."""
    present = [plan for plan in plans.values() if plan]
    for measure in MEASURES:
        values = [measure.value(plan) for plan in present]
        trivial = {"layout.cp": 1, "layout.ep": 1, "layout.vpp": 1, "clock_fraction": 1}.get(measure.path)
        if all(value is None or value == trivial for value in values):
            continue
        cells = []
        for name, plan in plans.items():
            text = said(measure.path, measure.value(plan)) if plan else "-"
            cells.append(f"{text} *" if winners.get(measure.path.rsplit(".", 1)[-1]) == name else text)
        yield measure.label.replace("$", currency_sign()), *cells


def comparison_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a comparison."""
    inputs, columns = document["inputs"], document["columns"]
    yield question_block(inputs)
    names = inputs["hardware"]
    plans = {name: column["plan"] if column["feasible"] else None for name, column in zip(names, columns, strict=True)}
    if any(plans.values()):
        heads = tuple(_broken(name) for name in names)
        marked = document["winners"]
        yield Block(
            heads=("", *heads), rows=tuple(_side_by_side(plans, marked)), right=tuple(range(1, 99)), is_wide=True
        )
        if marked:
            yield Block(rows=(("", "* best of the row"),), are_notes=True)
    common = common_warnings(columns)
    for name, column in zip(names, columns, strict=True):
        if not column["feasible"]:
            yield Block(title=f"{name}: no feasible plan", rows=_reason_rows(column, common), are_notes=True)
    said_by: dict[str, list[str]] = {}
    for name, column in zip(names, columns, strict=True):
        for text in column["warnings"]:
            if column["feasible"] or column["blocking"] or text in common:
                said_by.setdefault(text, []).append(name)
    shared = [text if len(by) == len(names) else f"{', '.join(by)}: {text}" for text, by in said_by.items()]
    evidence = [one for column in columns for one in column["evidence"]]
    yield from remark_blocks({"warnings": shared, "evidence": evidence})


def _reason_rows(document: Document, common: Container[str]) -> tuple[tuple[str, str], ...]:
    """Why a column has no plan; warnings that all columns have are no reason."""
    texts = reasons({**document, "warnings": [text for text in document["warnings"] if text not in common]})
    if counts := counts_said(document["rejected"]):
        texts.append(f"refused: {counts}")
    return tuple(("", text) for text in texts)


def _broken(name: str) -> str:
    """A long name over two lines."""
    if len(name) < COLUMN or "-" not in name:
        return name
    cut = min((n for n, sign in enumerate(name) if sign == "-"), key=lambda n: abs(n - len(name) / 2))
    return f"{name[: cut + 1]}\n{name[cut + 1 :]}"


def alternatives_block(plan: Document | None, others: Sequence[Document]) -> Block:
    """The plan beside the others that were worth showing."""
    heads = [_words(one["why"]) for one in others]
    plans: dict[str, Document | None] = {str(n): one for n, one in enumerate(others)}
    rows = list(_side_by_side({"chosen": plan, **plans}, {}))
    if len({one["hardware"] for one in [*others, *([plan] if plan else [])]}) > 1:
        rows.insert(0, ("system", *(_broken(one["hardware"]) if one else "-" for one in [plan, *others])))
    width = len(rows[0])
    return Block(
        title="Alternatives", heads=("", "chosen", *heads), rows=tuple(rows), right=tuple(range(1, width)), is_wide=True
    )


def _words(text: str) -> str:
    """A text in lines that fit into a narrow column."""
    from textwrap import wrap

    return "\n".join(wrap(text, COLUMN - 2, break_on_hyphens=True)) or text
