"""Where a number comes from: its formula, inputs and figures."""

from __future__ import annotations

from collections.abc import Iterator

from clusterplan.report.blocks import Block, Document
from clusterplan.report.evidence import by_source
from clusterplan.report.plain import dumps
from clusterplan.report.quantities import said, said_in

EXPLANATION = "clusterplan/explain-1"


def explanation_blocks(document: Document) -> Iterator[Block]:
    """Blocks of an explanation."""
    value = said(document["field"], document["value"])
    exact = document["value"]
    in_full = f" ({exact!r} {document['unit']})".replace(" )", ")") if isinstance(exact, float) else ""
    yield Block(title=f"{document['field']} = {value}{in_full}", rows=(("", document["meaning"]),), are_notes=True)
    if not any(document.get(key) for key in ("formula", "equation", "figure")):
        yield Block(rows=(("", document["origin"]),), are_notes=True)
    yield from _maker_blocks(document)
    priced = document["priced_by"]
    if priced:
        rows = tuple((str(one["formula"]), str(one["summary"])) for one in priced)
        yield Block(title="Operators of the layers are priced by", rows=rows, are_notes=True)
    figures = {one["figure"]: one for one in _figures_below(document)}
    if figures:
        told = [(name, one["value"], one["unit"], one["kind"], one["source"]) for name, one in figures.items()]
        yield Block(title="Figures", rows=by_source(told), are_notes=True)


def _figures_below(node: Document) -> Iterator[Document]:
    """Figures of profiles below a node of an explanation."""
    if node.get("figure"):
        yield node
    for key in ("inputs", "priced_by", "figures"):
        for one in node.get(key, ()):
            yield from _figures_below(one)


def _maker_blocks(node: Document, depth: int = 0, told: set[str] | None = None) -> Iterator[Block]:
    """A formula with its inputs, then the formulas of these, each once."""
    told = set() if told is None else told
    rows: list[tuple[str, str]] = []
    if node.get("formula"):
        rows.append((str(node["formula"]), str(node.get("summary", ""))))
    if node.get("equation"):
        rows.append(("", str(node["equation"])))
    if rows:
        yield Block(title="Formula" if not depth else f"Formula of {node['name']}", rows=tuple(rows), are_notes=True)
    inputs = node.get("inputs", [])
    if inputs:
        cells = [(str(one["name"]), _input_said(one), str(one["origin"])) for one in inputs]
        yield Block(title="Sum of" if node.get("is_sum") else "Inputs", rows=tuple(cells), right=(1,))
    if node.get("references"):
        yield Block(title="References", rows=(("", str(node["references"])),), are_notes=True)
    for one in inputs:
        key = dumps([one.get("formula"), one["value"]])
        if one.get("inputs") and key not in told:
            told.add(key)
            yield from _maker_blocks(one, depth + 1, told)


def _input_said(one: Document) -> str:
    value = one["value"]
    if isinstance(value, str):
        return value.rsplit(" values from ", 1)[-1]
    if one["unit"] or isinstance(value, int):
        return said_in(value, one["unit"])
    return f"{value:,.6g}"
