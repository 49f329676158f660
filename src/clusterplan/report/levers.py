"""What single changes do to a plan, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from clusterplan import __version__
from clusterplan.report.blocks import Block, Document
from clusterplan.report.comparison import at
from clusterplan.report.quantities import money, said
from clusterplan.report.question import question_block

if TYPE_CHECKING:
    from clusterplan.levers import Effects
    from clusterplan.plan import Answer

LEVERS = "clusterplan/levers-1"

COLUMNS = (
    ("wall_s", "run.wall_s", "time"),
    ("total_usd", "cost.total_usd", "cost"),
    ("facility_kwh", "energy.facility_kwh", "energy"),
    ("total_kg_co2e", "carbon.total_kg_co2e", "carbon"),
    ("peak_facility_w", "energy.peak_facility_w", "peak"),
)
"""Measures: name, place in the plan's document, head of the column."""

LABEL = 24
"""Characters of a change on one line."""


def levers_document(answer: Answer, found: Effects, *, replan: bool) -> dict[str, Any]:
    """Changes of a plan as plain JSON values.

    Parameters
    ----------
    answer : Answer
        The plan as it is.
    found : Effects
        What each change does.
    replan : bool
        Whether layout and size were searched again.
    """
    from clusterplan.levers import MEASURES, change_fraction, effect_size, saved_usd_per_year

    before = found.plan.run
    whole = answer.document()
    rows = [
        {
            "group": one.lever.group,
            "change": one.lever.change,
            **{name: measure(one.outcome) for name, measure in MEASURES.items()},
            **{f"{name}_change_fraction": change_fraction(name, before, one.outcome) for name in MEASURES},
            "effect_fraction": effect_size(before, one.outcome),
            "saved_usd_per_year": saved_usd_per_year(before, one.outcome),
            "devices": int(one.outcome.fleet.devices[0]),
            "layout": one.layout or whole["plan"]["layout"]["name"],
            "breaks": list(one.breaks),
        }
        for one in found.found
    ]
    return {
        "schema": LEVERS,
        "version": __version__,
        "inputs": whole["inputs"],
        "plan": whole["plan"],
        "replanned": replan,
        "levers": rows,
        "refused": [{"change": lever.change, "group": lever.group, "why": why} for lever, why in found.refused],
        "warnings": whole["warnings"],
    }


def levers_blocks(document: Document) -> Iterator[Block]:
    """Blocks of the changes of a plan."""
    plan = document["plan"]
    yield question_block(document["inputs"])
    named = f"{plan['devices']:,} devices of {plan['hardware']}, {plan['layout']['name']}"
    columns = [column for column in COLUMNS if at(plan, column[1]) is not None]
    figures = ", ".join(f"{head} {said(path, at(plan, path))}" for _, path, head in columns)
    missing = plan["cost"].get("missing")
    unpriced = (("", f"there is no cost: {missing}"),) if missing else ()
    yield Block(title="Plan", rows=(("", f"{named}: {figures}"), *unpriced), are_notes=True)
    heads = ("", *(head for _, _, head in columns), *(() if missing else ("saves\na year",)))
    rows = [
        (
            "\n".join(wrap(one["change"], LABEL, break_on_hyphens=True)) + (" !" if one["breaks"] else ""),
            *(_signed(one[f"{name}_change_fraction"]) for name, _, _ in columns),
            *(() if missing else (_saved(one["saved_usd_per_year"]),)),
        )
        for one in document["levers"]
    ]
    again = "layout and size searched again" if document["replanned"] else "on the same layout"
    caption = f"Each row is one change, {again}, most effect first."
    if not missing:
        caption += " What it saves a year is for the runs that the plan as it is would do in a year, one after another."
    yield Block(title="Levers", heads=heads, rows=tuple(rows), right=tuple(range(1, len(heads))), caption=caption)
    broken = [(one["change"], one["breaks"]) for one in document["levers"] if one["breaks"]]
    notes = [("", f"! {change}: no longer keeps to {', '.join(names)}") for change, names in broken]
    notes += [("", f"{one['change']}: {one['why']}") for one in document["refused"] if one["group"] != "cooling"]
    if notes:
        yield Block(title="Not kept", rows=tuple(notes), are_notes=True)


def _signed(change: float) -> str:
    """A relative change; a dash where it would be printed as none.

    Examples
    --------
    >>> _signed(0.0912), _signed(-0.057), _signed(0.0004), _signed(1.2)
    ('+9.1 %', '-5.7 %', '-', '+120 %')
    """
    per_cent = 100 * change
    if abs(per_cent) < 0.05:
        return "-"
    return f"{per_cent:+.0f} %" if abs(per_cent) >= 99.95 else f"{per_cent:+.1f} %"


def _saved(value_usd: float | None) -> str:
    return "-" if value_usd is None or abs(value_usd) < 1 else money(value_usd)
