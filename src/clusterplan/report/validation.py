"""Predictions beside measured runs: how right they are, as a whole and by group, and every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clusterplan import __version__
from clusterplan.report.blocks import Block, Document
from clusterplan.report.plain import plain

if TYPE_CHECKING:
    from clusterplan.validate import Judged

VALIDATION = "clusterplan/validation-1"


def validation_document(rows: Sequence[Judged], files: Sequence[str] = ()) -> dict[str, Any]:
    """Rows with their predictions, and how right these are.

    Parameters
    ----------
    rows : sequence of Judged
        Measured runs beside predictions.
    files : sequence of str
        Where the runs were read from.
    """
    from clusterplan.accuracy import summary

    found = summary(rows)
    return {
        "schema": VALIDATION,
        "version": __version__,
        "files": list(files),
        "rows": [{k: v for k, v in plain(row).items() if k != "preference"} for row in rows],
        "summary": {"overall": plain(found.overall), **{f"by_{name}": plain(by) for name, by in found.by.items()}},
    }


_TITLES = {
    "source": "By source",
    "accelerator": "By hardware",
    "family": "By family",
    "scale": "By scale",
    "stack": "By software",
    "stated": "By what the rows state",
}


def validation_blocks(document: Document, *, rows: bool) -> Iterator[Block]:
    """Blocks of a validation; every row only if asked for."""
    whole = document["summary"]["overall"]
    yield _overall_block(whole)
    if whole["skipped"]:
        told = tuple((reason, f"{count:,}") for reason, count in whole["skipped"].items())
        yield Block(
            title="Rows without a prediction", rows=tuple((count, reason) for reason, count in told), right=(0,)
        )
    for key, title in _TITLES.items():
        by = document["summary"][f"by_{key}"]
        yield from _time_blocks(title, by)
        if key in {"source", "accelerator", "stack", "stated"}:
            yield from _memory_blocks(title, by)
        if key == "source":
            yield from _order_blocks(by)
    if rows:
        yield from _rows_blocks(document["rows"])
        yield _inferred_block(document["rows"])


def _overall_block(whole: Document) -> Block:
    """Figures over all rows."""
    rows = [("rows", f"{whole['used']:,} of {whole['rows']:,} used")]
    time, memory, order = whole["time"], whole["memory"], whole["ranking"]
    if time:
        rows.append(("step time", f"{time['rows']:,} compared: {_errors_said(time)}"))
        rows.append(("", f"{_percent(time['inside_interval'])} inside the stated interval"))
    if memory:
        rows.append(("peak memory", f"{memory['rows']:,} compared: {_errors_said(memory)}"))
    ends = whole["verdicts"]
    if ends["out_of_memory"]:
        rows.append(("out of memory", f"{ends['called']:,} of {ends['out_of_memory']:,} called"))
    if ends["ran"]:
        rows.append(("false alarms", f"{ends['false_alarms']:,} of {ends['ran']:,} that ran"))
    if order and order["pairs"]:
        rows.append(("order", f"{order['right']:,} of {order['pairs']:,} pairs right in {order['series']:,} series"))
        rows.append(("regret", f"median {_percent(order['median_regret'])}, worst {_percent(order['worst_regret'])}"))
    return Block(title="Predictions beside measured runs", rows=tuple(rows))


def _errors_said(errors: Document) -> str:
    return (
        f"median {_percent(errors['median'])}, 90th percentile {_percent(errors['p90'])}, "
        f"worst {_percent(errors['worst'])}, bias {_signed(errors['bias'])}"
    )


def _percent(value: float | None) -> str:
    """Two digits are enough for an error.

    Examples
    --------
    >>> _percent(0.0312), _percent(1.5), _percent(None)
    ('3.1 %', '150 %', '-')
    """
    if value is None:
        return "-"
    return f"{value * 100:.0f} %" if value >= 1 else f"{value * 100:.1f} %"


def _signed(value: float) -> str:
    return f"{value * 100:+.1f} %"


def _figures(errors: Document) -> tuple[str, ...]:
    return (
        *(f"{errors[name] * 100:.1f}" for name in ("median", "p90", "worst")),
        f"{errors['bias'] * 100:+.1f}",
    )


def _time_blocks(title: str, by: Document) -> Iterator[Block]:
    """Errors of step time by group, in per cent."""
    rows = []
    for group, one in by.items():
        if time := one["time"]:
            inside = f"{time['inside_interval'] * 100:.0f}"
            rows.append((group, f"{time['rows']:,}", f"{one['rows']:,}", *_figures(time), inside))
    if rows:
        heads = ("", "used", "of", "median", "90th", "worst", "bias", "inside")
        yield Block(title=f"{title}: step time, %", heads=heads, rows=_short(rows), right=tuple(range(1, 8)))


def _memory_blocks(title: str, by: Document) -> Iterator[Block]:
    """Errors of peak memory by group, in per cent, and verdicts."""
    rows = []
    for group, one in by.items():
        ends = one["verdicts"]
        if one["memory"] or ends["out_of_memory"]:
            figures = _figures(one["memory"]) if one["memory"] else ("-",) * 4
            measured = f"{one['memory']['rows']:,}" if one["memory"] else "0"
            called = f"{ends['called']}/{ends['out_of_memory']}" if ends["out_of_memory"] else "-"
            rows.append((group, measured, *figures, called, f"{ends['false_alarms']}/{ends['ran']}"))
    if rows:
        heads = ("", "rows", "median", "90th", "worst", "bias", "OOM\ncalled", "false\nalarms")
        yield Block(title=f"{title}: peak memory, %", heads=heads, rows=_short(rows), right=tuple(range(1, 8)))


def _order_blocks(by: Document) -> Iterator[Block]:
    """Pairs in the right order, and regret."""
    rows = []
    for group, one in by.items():
        if order := one["ranking"]:
            shares = (order[name] for name in ("right_fraction", "median_regret", "worst_regret"))
            rows.append((group, f"{order['series']:,}", f"{order['pairs']:,}", *(_percent(one) for one in shares)))
    if rows:
        heads = ("", "series", "pairs", "right", "median\nregret", "worst\nregret")
        yield Block(title="By source: order of layouts", heads=heads, rows=_short(rows), right=tuple(range(1, 6)))


NAME = 25
"""Letters of a group's name that a table has room for."""


def _short(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Rows with a first cell that leaves room for the others."""
    from textwrap import wrap

    return tuple(("\n".join(wrap(name, NAME)) or "-", *cells) for name, *cells in rows)


def _rows_blocks(rows: Sequence[Document]) -> Iterator[Block]:
    """Every row: times, then memory where something is known of it."""
    times, memories = [], []
    for row in rows:
        seconds = (row[name] for name in ("predicted_step_s", "low_s", "high_s", "measured_step_s"))
        error = "-" if row["error_fraction"] is None else f"{row['error_fraction'] * 100:+.1f}"
        times.append((row["id"], *map(_four_digits, seconds), error))
        if row["measured_peak_gib"] or row["ran"] is False:
            sizes = (row[f"predicted_{name}_gib"] for name in ("allocated", "reserved", "device"))
            measured, known = row["measured_peak_gib"], row["memory_definition"] or ""
            cells = (*map(_tenths, sizes), f"{_tenths(measured)} {known}" if measured else "out of memory")
            memories.append((row["id"], *cells, (row["verdict"] or "-").replace("_", " ")))
    heads = ("", "predicted", "from", "to", "measured", "error, %")
    yield Block(title="Rows: step time, s", heads=heads, rows=_short(times), right=tuple(range(1, 6)))
    if memories:
        heads = ("", "alloc.", "reserv.", "device", "measured", "verdict")
        yield Block(title="Rows: peak memory, GiB", heads=heads, rows=_short(memories), right=(1, 2, 3))


def _four_digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _tenths(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _inferred_block(rows: Sequence[Document]) -> Block:
    """What was taken for what a row leaves blank, or why it was skipped."""
    told = []
    for row in rows:
        if row["skipped"]:
            told.append((row["id"], f"skipped: {row['skipped']}"))
        elif row["inferred"]:
            told.append((row["id"], f"{row['stack']}; inferred {', '.join(row['inferred'])}"))
        else:
            told.append((row["id"], str(row["stack"])))
    return Block(title="What the rows rest on", rows=tuple(told), are_notes=True)
