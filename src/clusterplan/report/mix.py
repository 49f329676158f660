"""Several kinds of machines at several sites: the parts side by side, what they come to, and what mixing is worth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusterplan.report.blocks import Block, Document
from clusterplan.report.comparison import at
from clusterplan.report.quantities import said
from clusterplan.report.question import question_block
from clusterplan.report.remarks import blocking_blocks, remark_blocks
from clusterplan.units import format_bandwidth, format_count, format_fraction, format_power, format_time, format_usd

MIX = "clusterplan/mix-1"

_PART: tuple[tuple[str, str], ...] = (
    ("system", "hardware"),
    ("site", "site"),
    ("units", "units"),
    ("devices", "devices"),
    ("at work", "used_devices"),
    ("tensor", "layout.tp"),
    ("context", "layout.cp"),
    ("expert", "layout.ep"),
    ("pipeline", "layout.pp"),
    ("chunks", "layout.vpp"),
    ("data", "layout.dp"),
    ("micro-batch", "layout.micro_batch"),
    ("recompute", "layout.recompute"),
    ("sequences", "layout.global_batch"),
    ("of the batch", "batch_share_fraction"),
    ("own step", "step.total_s"),
    ("waits", "wait_s"),
    ("between sites", "line_exposed_s"),
    ("MFU, own step", "step.mfu"),
    ("memory left", "memory.margin_bytes"),
    ("mean power", "energy.mean_facility_w"),
    ("peak power", "energy.peak_facility_w"),
    ("PUE", "energy.pue"),
    ("energy", "energy.facility_kwh"),
    ("carbon", "carbon.total_kg_co2e"),
    ("cost", "cost.total_usd"),
)
"""Rows of the parts side by side."""

_TOTALS = {
    "units": "units", "devices": "devices", "layout.global_batch": "global_batch",
    "energy.mean_facility_w": "mean_facility_w", "energy.peak_facility_w": "peak_facility_w",
    "energy.facility_kwh": "facility_kwh", "carbon.total_kg_co2e": "total_kg_co2e", "cost.total_usd": "total_usd",
}  # fmt: skip
"""Rows that add up, with the field of the total."""


def mix_blocks(document: Document) -> Iterator[Block]:
    """Blocks of a mix."""
    inputs, total = document["inputs"], document["total"]
    yield question_block(inputs)
    if asked := tuple(_asked_rows(inputs)):
        yield Block(rows=asked)
    if total is None:
        yield from blocking_blocks({**document, "plan": None})
    else:
        yield _parts_block(document["parts"], total)
        yield Block(title="Run", rows=tuple(_run_rows(total, inputs)))
        if document["best_single"] == total:
            if len(inputs["hardware"]) > 1:
                yield Block(rows=(("", "one kind of machine alone does best"),), are_notes=True)
        elif document["best_single"]:
            yield _single_block(total, document["best_single"])
        elif len(total["hardware"]) > 1:
            yield Block(rows=(("", "no kind of machine alone keeps to everything"),), are_notes=True)
        yield Block(title="Rests on", rows=tuple(("", text) for text in _assumptions(document)), are_notes=True)
    yield from remark_blocks({**document, "plan": total})


def _asked_rows(inputs: Document) -> Iterator[tuple[str, str]]:
    if inputs["counts"]:
        yield "there are", ", ".join(f"{count:,} devices of {name}" for name, count in inputs["counts"].items())
    caps = {name: cap for name, cap in inputs["site_power_w"].items() if cap is not None}
    if caps:
        yield "at most", ", ".join(f"{format_power(cap)} at {name}" for name, cap in caps.items())
    if inputs["line_bytes_per_s"]:
        text = f"{format_bandwidth(inputs['line_bytes_per_s'])} from each site, {format_time(inputs['line_latency_s'])}"
        every = inputs["steps_between"]
        yield "line", text + (f", used every {format_count(every)} steps" if every > 1 else "")


def _parts_block(parts: Any, total: Document) -> Block:
    several = len(parts) > 1
    rows = []
    for label, path in _PART:
        values = [at(part, path) for part in parts]
        if path in {"layout.cp", "layout.ep", "layout.vpp"} and set(values) == {1}:
            continue
        if path in {"wait_s", "line_exposed_s"} and not any(values):
            continue
        whole = [said(_TOTALS[path], total[_TOTALS[path]]) if path in _TOTALS else ""] if several else []
        rows.append((label, *(said(path, value) for value in values), *whole))
    heads = ("", *(f"part {number}" for number in range(1, len(parts) + 1)), *(["all"] if several else []))
    return Block(title="Parts", heads=heads, rows=tuple(rows), right=tuple(range(1, 99)), is_wide=True)


def _run_rows(total: Document, inputs: Document) -> Iterator[tuple[str, str]]:
    line = total["line_exposed_s"]
    yield "step", format_time(total["step_s"]) + (f", of which {format_time(line)} between sites" if line else "")
    yield "wall time", f"{format_time(total['wall_s'])} expected, {format_time(total['p90_s'])} (90 %)"
    yield "goodput", format_fraction(total["goodput_fraction"])
    if total["deadline_probability"] is not None:
        met = format_fraction(total["deadline_probability"])
        yield "deadline", f"{format_time(inputs['deadline_s'])}, met with a probability of {met}"
    yield "power", ", ".join(f"{format_power(peak)} peak at {name}" for name, peak in total["site_peak_w"].items())
    yield (
        "cost",
        f"{format_usd(total['total_usd'])}, "
        f"{said('usd_per_million_tokens', total['usd_per_million_tokens'])} per million tokens",
    )


_COMPARED = (
    ("devices", "devices"),
    ("wall time", "wall_s"),
    ("energy", "facility_kwh"),
    ("carbon", "total_kg_co2e"),
    ("cost", "total_usd"),
)


def _single_block(total: Document, single: Document) -> Block:
    rows = []
    for label, key in _COMPARED:
        ratio = total[key] / single[key] - 1
        change = f"{ratio:+.1%}" if abs(ratio) >= 5e-4 else "same"
        rows.append((label, said(key, total[key]), said(key, single[key]), change))
    alone = "\n".join(single["hardware"])
    return Block(
        title="Beside the best with one kind of machine",
        heads=("", "chosen", alone, "difference"),
        rows=tuple(rows),
        right=(1, 2, 3),
    )


def _assumptions(document: Document) -> Iterator[str]:
    yield document["convergence"]
    agreement = document["agreement"]
    if agreement["rounds"]:
        residual, rounds = agreement["speed_residual_fraction"], agreement["rounds"]
        how = f"{format_fraction(abs(residual))} {'faster' if residual >= 0 else 'slower'}"
        yield (
            f"sizes found in {rounds} round{'' if rounds == 1 else 's'}; the layouts are {how} than was assumed of "
            f"their units, and left at most {agreement['units_residual']} units of a part unbought"
        )
