"""What is said beside a plan: refusals, warnings, and what was not given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from clusterplan.report.blocks import Block, Document
from clusterplan.report.quantities import said_at_least, said_in
from clusterplan.units import format_bytes, format_fraction, say


def reason(blocking: Document) -> str:
    """Why there is no plan: what was asked, the best there is, and what would do.

    Examples
    --------
    >>> reason({"constraint": "deadline", "required": 86400.0, "best": 172800.0, "unit": "s", "nearest_feasible": None})
    'deadline: asked 24.0 h, best 2.00 days (off by 100 %)'
    """
    unit, required, best = blocking.get("unit", ""), blocking.get("required"), blocking.get("best")
    parts = []
    if required is not None:
        parts.append(f"asked {said_in(required, unit)}")
    if best is not None:
        off = _off(required, best)
        parts.append(f"best {said_in(best, unit)}" + (f" (off by {off})" if off else ""))
    if blocking.get("nearest_feasible") is not None:
        parts.append(f"feasible from {said_at_least(blocking['nearest_feasible'], unit)}")
    return f"{blocking['constraint']}: {', '.join(parts)}" if parts else str(blocking["constraint"])


def reasons(document: Document) -> list[str]:
    """Why an answer has no plan, a text each: what stood in the way, or the warnings where nothing was looked at."""
    return [reason(one) for one in document["blocking"]] or list(document["warnings"])


def common_warnings(columns: Sequence[Document]) -> set[str]:
    """Warnings that all columns of a comparison have: they are no reason why one of them has no plan."""
    return set.intersection(*(set(column["warnings"]) for column in columns)) if len(columns) > 1 else set()


def _off(required: float | None, best: float | None) -> str:
    """How far the best is beyond what was asked, relative; a factor where it is far, nothing where it keeps to it.

    Examples
    --------
    >>> _off(100.0, 120.0), _off(100.0, 4200.0), _off(1.0, 242_345.0), _off(100.0, 50.0)
    ('20 %', '42 times', '242,000 times', '')
    """
    if not required or best is None or best <= required:
        return ""
    ratio = best / required
    if ratio < 10:
        return format_fraction(ratio - 1).replace(".0 %", " %")
    factor = float(f"{ratio:.3g}")
    return f"{factor:,.0f} times" if factor >= 100 else f"{factor:.3g} times"


def blocking_blocks(document: Document) -> Iterator[Block]:
    """Which constraints stopped the best candidates, by how much, and what would do."""
    rows = []
    for one in document["blocking"]:
        unit, required, best = one["unit"], one["required"], one["best"]
        cells = ["-" if value is None else said_in(value, unit) for value in (required, best)]
        nearest = "-" if one["nearest_feasible"] is None else said_at_least(one["nearest_feasible"], unit)
        rows.append((str(one["constraint"]), *cells, _off(required, best) or "-", nearest))
    heads = ("constraint", "asked", "best found", "off by", "feasible from")
    fits = any(not one["constraint"].endswith("memory") for one in document["blocking"][:1])
    title = "No feasible plan" if document["plan"] is None else "Makes no progress" if fits else "Does not fit"
    if rows:
        yield Block(title=title, heads=heads, rows=tuple(rows), right=(1, 2, 3, 4))
    else:  # no layout was looked at: the warnings say why
        yield Block(title=title, rows=tuple(("", text) for text in document["warnings"]), are_notes=True)


def fixes_block(fixes: Sequence[Document]) -> Block:
    """Changes that would save memory, and what each costs."""
    rows = tuple(
        (
            one["change"],
            format_bytes(one["saved_bytes"]),
            format_bytes(one["peak_bytes"]),
            "fits" if one["fits"] else "not enough",
            f"{one['slower_fraction']:+.1%}",
        )
        for one in fixes
    )
    heads = ("change", "saves", "leaves", "alone", "step time")
    return Block(title="What would save memory", heads=heads, rows=rows, right=(1, 2, 4))


def counts_said(rejected: Mapping[str, int]) -> str:
    """How many candidates fell to each constraint, most first."""
    ordered = sorted(rejected.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ordered if count)


def remark_blocks(document: Document) -> Iterator[Block]:
    """Warnings, and what was not given."""
    has_reasons = document.get("plan", document) is None and not document["blocking"]  # the warnings are said already
    if document["warnings"] and not has_reasons:
        yield Block(title="Warnings", rows=tuple(("", text) for text in document["warnings"]), are_notes=True)
    defaults = dict.fromkeys(
        f"{one['what'].removeprefix(INPUT).replace('_', ' ')} {_default_said(one)}: {one['source']}"
        for one in document["evidence"]
        if one["what"].startswith(INPUT)
    )
    if defaults:
        yield Block(title="Not given, so assumed", rows=tuple(("", text) for text in defaults), are_notes=True)


INPUT = "input: "
"""How evidence calls what was not given."""


def _default_said(one: Document) -> str:
    value, unit = one["value"], one["unit"]
    if unit == "tokens" and isinstance(value, int):
        return say(value, "tokens")
    if isinstance(value, str):
        return value
    return f"{value:,} {unit}".rstrip()
