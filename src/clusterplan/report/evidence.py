"""What a report rests on: figures with their kinds and sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from clusterplan.report.blocks import Block, Document
from clusterplan.report.quantities import as_written, said_in
from clusterplan.report.remarks import INPUT
from clusterplan.trace import KINDS

_KIND_NOUNS = {("datasheet", True): "datasheet figures", ("datasheet", False): "datasheet figure"}


def evidence_blocks(evidence: Sequence[Document], *, all_of_them: bool) -> Iterator[Block]:
    """How many figures a report rests on, by kind; each with its source if asked for."""
    unique = {(one["what"], str(one["value"])): one for one in evidence}
    kinds = [one["kind"] for one in unique.values()]
    counts = [(kind, kinds.count(kind)) for kind in KINDS]
    summary = ", ".join(f"{count} {_KIND_NOUNS.get((kind, count > 1), kind)}" for kind, count in counts if count)
    listed = "" if all_of_them else " (--sources lists them)"
    yield Block(rows=(("", f"Rests on: {summary}{listed}"),), are_notes=True)
    if all_of_them:
        told = [(one["what"], one["value"], one["unit"], one["kind"], one["source"]) for one in unique.values()]
        yield Block(title="Sources", rows=by_source(told), are_notes=True)


def by_source(figures: Iterable[tuple[str, Any, str, str, str]]) -> tuple[tuple[str, str], ...]:
    """Figures with name, value, unit, kind and source, those of one source together, in the units of their files."""
    heads: dict[str, list[str]] = {}
    for name, value, unit, kind, source in figures:
        key = name.rpartition(": ")[2]
        is_written = isinstance(value, int | float) and not name.startswith(INPUT)
        text = as_written(key, value) if is_written else said_in(value, unit)
        heads.setdefault(source, []).append(f"{name} = {text} ({kind})")
    return tuple(("\n".join(names), source) for source, names in heads.items())
