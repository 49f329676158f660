"""The answer as people and programs read it: terminal, JSON, JSON Lines, CSV and Markdown.

A document (plain JSON values) becomes blocks of rows, once; a writer then prints the blocks. JSON
prints the document itself. Nothing is computed here but shares, differences and who is best.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from clusterplan import __version__
from clusterplan.trace import KINDS, Figure
from clusterplan.units import (
    JOULES_PER_KWH,
    format_bandwidth,
    format_bytes,
    format_count,
    format_energy,
    format_fraction,
    format_mass_co2e,
    format_power,
    format_time,
    format_usd,
    format_water,
    say,
    to_si,
    unit_of,
)

if TYPE_CHECKING:
    from clusterplan.workload import Model

Document = Mapping[str, Any]

FORMATS = ("table", "json", "jsonl", "csv", "md")
"""Forms that an answer can take."""

COMPARISON = "clusterplan/compare-1"
EXPLANATION = "clusterplan/explain-1"
MODEL = "clusterplan/model-1"
PROFILE = "clusterplan/profile-1"
PROFILES = "clusterplan/profiles-1"

WIDTH = 80
"""Columns of a page where no terminal says otherwise."""
WIDEST = 100
"""Longer lines are hard to follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What the text is written on."""

    width: int = WIDTH
    colour: bool = False
    encoding: str = "utf-8"
    sources: bool = False
    """Whether every figure is listed with its source."""
    stages: bool = False
    """Whether the memory of every pipeline stage is listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One titled part of a report: a table, or notes that wrap."""

    title: str = ""
    heads: tuple[str, ...] = ()
    """Heads of the columns; empty for none."""
    rows: tuple[tuple[str, ...], ...] = ()
    right: tuple[int, ...] = ()
    """Columns that are aligned to the right."""
    are_notes: bool = False
    """Whether a row is a heading and a text below it, not cells."""
    is_wide: bool = False
    """Whether columns after the first may go to a second table if the page is too narrow."""
    caption: str = ""
    """Text below the rows."""


# --- Formats ----------------------------------------------------------------------------------------------------


def render(document: Document, form: str = "table", page: Page | None = None) -> str:
    """Text of a document.

    Parameters
    ----------
    document : mapping
        Answer, comparison, explanation, model or profile, as plain JSON values.
    form : str
        One of :data:`FORMATS`.
    page : Page
        Width, colour and encoding; 80 columns of plain UTF-8 unless told otherwise.
    """
    page = page or Page()
    if form == "json":
        return to_json(document)
    if form == "jsonl":
        return "".join(f"{_dumps(row)}\n" for row in rows_of(document))
    if form == "csv":
        return encodable(_csv(rows_of(document)), page.encoding)
    blocks = list(blocks_of(document, page))
    text = _markdown(blocks) if form == "md" else _terminal(blocks, page)
    return encodable(text, page.encoding)


def to_json(document: Document) -> str:
    """The document with sorted keys, in ASCII, so that the same answer is the same bytes everywhere."""
    return f"{_dumps(document, indent=2)}\n"


def _dumps(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, sort_keys=True, allow_nan=False)


_IN_ASCII = str.maketrans(
    {
        "├": "|", "└": "`", "│": "|", "─": "-", "━": "-", "×": "x", "÷": "/", "·": "*", "→": "->", "≤": "<=", "≥": ">=",
        "²": "2", "³": "3", "°": "deg ", "–": "-", "—": "-", "…": "...", "µ": "u", "μ": "u", "“": '"', "”": '"',
        "’": "'", "‘": "'", "±": "+-", "≈": "~", "−": "-", "\u00a0": " ",
    }
)  # fmt: skip


def encodable(text: str, encoding: str) -> str:
    """The text with signs that an encoding lacks replaced.

    Examples
    --------
    >>> encodable("├─ 8 × 16", "ascii"), encodable("├─ 8 × 16", "utf-8")
    ('|- 8 x 16', '├─ 8 × 16')
    """
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_IN_ASCII).encode(encoding, "replace").decode(encoding)
    except LookupError:
        return text.translate(_IN_ASCII).encode("ascii", "replace").decode("ascii")
    return text


def rows_of(document: Document) -> list[dict[str, Any]]:
    """What JSON Lines and CSV have a line for: each plan and alternative, each column of a comparison, each figure."""
    if "columns" in document:
        return [row for column in document["columns"] for row in rows_of(column)[:1]]
    if "figures" in document:
        return list(document["figures"])
    if "profiles" in document:
        return list(document["profiles"])
    if "plan" not in document:
        return [dict(document)]
    if document["plan"] is None:
        return [
            {"choice": "none", "hardware": _joined(document["inputs"].get("hardware")), "feasible": False}
            | {"blocking": document["blocking"]}
        ]
    chosen = {"choice": "chosen", "feasible": document["feasible"], "blocking": document["blocking"], "why": ""}
    others = [
        {"choice": f"alternative {number}", "feasible": True, "blocking": [], **plan}
        for number, plan in enumerate(document["alternatives"], 1)
    ]
    return [chosen | document["plan"], *others]


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """RFC 4180: one header line; columns are ways into the JSON document, joined by points."""
    flat = [dict(_leaves(row)) for row in rows]
    heads = list(dict.fromkeys(head for row in flat for head in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, heads, restval="", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and texts of a document with the way to each; of lists, only those that fit into one cell."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if path == "blocking":
            yield path, "; ".join(reason(one) for one in value)
        elif all(not isinstance(one, Mapping | list) for one in value):
            yield path, _joined(value)
    elif isinstance(value, bool):
        yield path, str(value).lower()
    else:
        yield path, "" if value is None else value


def _joined(value: Any) -> str:
    return " ".join(str(one) for one in value) if isinstance(value, list | tuple) else str(value or "")


def _markdown(blocks: Iterable[Block]) -> str:
    """Tables as GitHub shows them."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"

    parts = []
    for block in blocks:
        lines = [f"### {block.title}", ""] if block.title else []
        if block.are_notes:
            lines += [f"- {' — '.join(cell for cell in row if cell)}" for row in block.rows]
        elif block.rows:
            count = max(len(row) for row in block.rows)
            heads = [*block.heads, *[""] * (count - len(block.heads))]
            lines += [line(heads), line(["--:" if n in block.right else "---" for n in range(count)])]
            lines += [line([*row, *[""] * (count - len(row))]) for row in block.rows]
            lines += ["", " ".join(block.caption.split())] if block.caption else []
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _terminal(blocks: Iterable[Block], page: Page) -> str:
    """Text for a terminal, or for a file that is read like one."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    width = min(max(page.width, 40), WIDEST)
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=page.colour,
        color_system="standard" if page.colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for number, block in enumerate(blocks):
        if number:
            console.print()
        if block.title:
            console.print(Text(block.title, style="bold"))
        if block.are_notes:
            for head, text in block.rows:
                if head:
                    console.print(Padding(Text(wrapped(head, width - 2)), (0, 0, 0, 2)))
                indent = 4 if head else 2
                told = Text(wrapped(text, width - indent), style="dim" if head else "")
                console.print(Padding(told, (0, 0, 0, indent)))
        else:
            for piece, part in enumerate(_fitting(block, width) if block.is_wide else [block]):
                if piece:
                    console.print()
                console.print(_table(part, width - 2))
        if block.caption:
            console.print(Padding(Text(wrapped(block.caption, width - 4), style="dim"), (0, 0, 0, 4)))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in lines) + "\n"


COLUMN = 13
"""Characters of a head that is broken over lines."""


def _fitting(block: Block, width: int) -> Iterator[Block]:
    """Tables of as many columns as a page has room for, each with the first column."""
    columns = list(zip(block.heads, *block.rows, strict=True))
    widths = [max(len(line) for cell in column for line in cell.split("\n")) + 2 for column in columns]
    kept = [0]
    for n in [*range(1, len(columns)), None]:
        if n is None or (len(kept) > 1 and sum(widths[k] for k in [*kept, n]) > width):
            yield Block(
                heads=tuple(block.heads[k] for k in kept),
                rows=tuple(tuple(row[k] for k in kept) for row in block.rows),
                right=tuple(range(1, len(kept))),
            )
            kept = [0]
        if n is not None:
            kept.append(n)


def wrapped(text: str, width: int) -> str:
    r"""Lines of a text; a number stays with its unit.

    Examples
    --------
    >>> wrapped("storage 0.2 % of all", 12)
    'storage\n0.2 % of all'
    """
    from textwrap import wrap

    lines = [re.sub(r"(?<=[0-9]) (?=[A-Za-z%µ])", "\u00a0", line) for line in text.splitlines()]
    broken = [part for line in lines for part in wrap(line, max(width, 10), break_on_hyphens=False) or [""]]
    return "\n".join(broken).replace("\u00a0", " ")


def _table(block: Block, width: int) -> Any:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    count = max((len(row) for row in block.rows), default=0)
    if count and not block.heads:  # the last column takes what the others leave
        left = width - sum(2 + max(len(row[number]) for row in block.rows) for number in range(count - 1))
        block = replace(block, rows=tuple((*row[:-1], wrapped(row[-1], left)) for row in block.rows))
    table = Table(box=None, show_header=any(block.heads), pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number in range(count):
        head = Text(block.heads[number]) if number < len(block.heads) else Text()
        justify: Any = "right" if number in block.right else "left"
        table.add_column(head, justify=justify, no_wrap=number < count - 1, vertical="bottom" if block.heads else "top")
    for row in block.rows:
        table.add_row(*(Text(cell, style="bold green" if cell.endswith(" *") else "") for cell in row))
    return Padding(table, (0, 0, 0, 2))


# --- Quantities -------------------------------------------------------------------------------------------------

_WRITERS: Sequence[tuple[str, Callable[[float], str]]] = (
    ("_bytes_per_s", format_bandwidth),
    ("_bytes", format_bytes),
    ("tokens_per_s_per_device", lambda value: f"{format_count(value)}/s"),
    ("tokens_per_s", lambda value: f"{format_count(value)}/s"),
    ("usd_per_million_tokens", lambda value: f"${value:,.3f}"),
    ("usd_per_device_h", format_usd),
    ("_flop_per_s", lambda value: f"{format_count(value)} FLOP/s"),
    ("_s", format_time),
    ("_w", format_power),
    ("_kwh", lambda value: format_energy(value * JOULES_PER_KWH)),
    ("_m3", format_water),
    ("_kg_co2e", format_mass_co2e),
    ("_usd", format_usd),
    ("_fraction", format_fraction),
    ("_probability", format_fraction),
    ("mfu", format_fraction),
    ("hfu", format_fraction),
    ("mfu_causal", format_fraction),
    ("pue", lambda value: f"{value:.3f}"),
)


def said(name: str, value: Any) -> str:
    """A value as a report writes it, by the unit in its name.

    Examples
    --------
    >>> said("run.wall_s", 120 * 86400), said("energy.pue", 1.2), said("cost.total_usd", None)
    ('120 days', '1.200', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, int | float):
        return str(value)
    last = name.rsplit(".", 1)[-1]
    for ending, write in _WRITERS:
        if last == ending or (ending[0] == "_" and last.endswith(ending)) or last.endswith(f"_{ending}"):
            return write(value)
    unit = unit_of(last)
    return f"{value:,.6g} {unit}".rstrip() if isinstance(value, float) and unit else format_count(value)


_BY_UNIT: Mapping[str, str] = {
    "s": "_s", "bytes": "_bytes", "W": "_w", "USD": "_usd", "kWh": "_kwh", "kg CO2e": "_kg_co2e", "m3": "_m3",
    "bytes/s": "_bytes_per_s", "FLOP/s": "_flop_per_s", "fraction": "_fraction",
}  # fmt: skip


def said_in(value: Any, unit: str) -> str:
    """A value with its unit, in a multiple that can be read."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if unit in _BY_UNIT:
            return said(_BY_UNIT[unit], value)
        return f"{format_count(value) if isinstance(value, int) else f'{value:,.6g}'} {unit}".rstrip()
    return said("", value)


def apportioned(values: Sequence[float], units: int) -> list[int]:
    """Whole units for each value, in proportion, that add up to all of them (largest remainders).

    Examples
    --------
    >>> apportioned([1, 1, 1], 1000)
    [334, 333, 333]
    """
    whole = math.fsum(values)
    if whole <= 0:
        return [0] * len(values)
    exact = [value / whole * units for value in values]
    given = [math.floor(value) for value in exact]
    order = sorted(range(len(exact)), key=lambda n: given[n] - exact[n])
    for n in order[: units - sum(given)]:
        given[n] += 1
    return given


_LADDERS: Mapping[str, tuple[tuple[float, str], ...]] = {
    "_s": ((1, "s"), (1e-3, "ms"), (1e-6, "us")),
    "_bytes": ((2**30, "GiB"), (2**20, "MiB"), (1, "B")),
    "_usd": ((1e6, "M"), (1e3, "k"), (1, "")),
    "_w": ((1e6, "MW"), (1e3, "kW"), (1, "W")),
    "_kg_co2e": ((1e6, "kt CO2e"), (1e3, "t CO2e"), (1, "kg CO2e")),
}
DIGITS = 4
"""Digits of a total whose parts are shown."""


def tree(total: tuple[str, float], parts: Mapping[str, float | None], notes: Mapping[str, str] | None = None) -> Block:
    """A total with its parts; amounts and shares add up as they are printed.

    Parameters
    ----------
    total : (str, float)
        What the whole is called, and how much it is.
    parts : mapping
        Parts by field name, all in the same unit. What is 0 is left out.
    notes : mapping
        What is said beside a part.
    """
    label, whole = total
    shown = {name: value for name, value in parts.items() if value}
    ending = next((end for end in _LADDERS if all(name.endswith(end) for name in parts)), "_s")
    size, unit = next((rung for rung in _LADDERS[ending] if whole >= rung[0]), _LADDERS[ending][-1])
    digits = max(0, DIGITS - 1 - math.floor(math.log10(whole / size))) if whole > 0 else 0
    sign = "$" if ending == "_usd" else ""

    def amount(value: float) -> str:
        return f"{sign}{value:,.{digits}f} {unit}".rstrip()

    # Parts are rounded together, so that they add up to the total on the page too.
    counts = apportioned(list(shown.values()), round(whole / size * 10**digits))
    shares = apportioned(list(shown.values()), 1000)
    rows = [(label, amount(whole / size), "", "")]
    for n, name in enumerate(shown):
        mark = "└─" if n == len(shown) - 1 else "├─"
        note = (notes or {}).get(name, "")
        rows.append((f"{mark} {label_of(name)}", amount(counts[n] / 10**digits), f"{shares[n] / 10:.1f} %", note))
    return Block(rows=tuple(rows), right=(1, 2))


_LABELS: Mapping[str, str] = {
    "tp_exposed_s": "tensor-parallel",
    "cp_exposed_s": "context-parallel",
    "ep_exposed_s": "expert-parallel",
    "pp_exposed_s": "pipeline messages",
    "dp_exposed_s": "data-parallel",
    "bubble_s": "pipeline bubble",
    "context_bytes": "runtime context",
    "idle_and_spare_w": "idle and spare",
    "fans_and_supplies_w": "fans and supplies",
    "scaleup_w": "scale-up switches",
    "host_w": "hosts",
}
_NOTES: Mapping[str, str] = {
    **dict.fromkeys(("tp_exposed_s", "cp_exposed_s", "ep_exposed_s", "pp_exposed_s", "dp_exposed_s"), "exposed"),
    "contention_s": "hidden traffic slows compute",
    "jitter_s": "waiting for the slowest node",
}


def label_of(name: str) -> str:
    """What a part is called.

    Examples
    --------
    >>> label_of("tp_exposed_s"), label_of("optimizer_bytes")
    ('tensor-parallel', 'optimizer')
    """
    if name in _LABELS:
        return _LABELS[name]
    ending = next((end for end in sorted(_LADDERS, key=len, reverse=True) if name.endswith(end)), "")
    return name.removesuffix(ending).replace("_", " ")


# --- Blocks -----------------------------------------------------------------------------------------------------


def blocks_of(document: Document, page: Page) -> Iterator[Block]:
    """Parts of a report, in the order in which they are read."""
    schema = document.get("schema", "")
    writers: Mapping[str, Callable[[Document], Iterable[Block]]] = {
        COMPARISON: _comparison_blocks,
        EXPLANATION: _explanation_blocks,
        MODEL: _model_blocks,
        PROFILE: _profile_blocks,
        PROFILES: _profiles_blocks,
    }
    if schema in writers:
        yield from writers[schema](document)
    else:
        yield from _answer_blocks(document, stages=page.stages)
    evidence = document.get("evidence") or [one for column in document.get("columns", []) for one in column["evidence"]]
    if evidence:
        yield from _evidence_blocks(evidence, all_of_them=page.sources)


_OBJECTIVES: Mapping[str, str] = {
    "knee": "where more devices stop paying",
    "wall": "shortest run",
    "devices": "fewest devices",
}


def _question_block(inputs: Document) -> Block:
    """What was asked: model, tokens, demands, place."""
    objective = inputs["objective"]
    wanted = [_OBJECTIVES.get(objective, f"least {objective}")] if objective != "none" else []
    if inputs["deadline_s"]:
        sure = say(inputs["confidence"], "fraction")
        wanted.append(f"within {say(inputs['deadline_s'], 'time')} (probability at least {sure})")
    if inputs["budget_usd"]:
        wanted.append(f"for at most {say(inputs['budget_usd'], 'usd')}")
    if inputs["power_w"]:
        wanted.append(f"drawing at most {say(inputs['power_w'], 'power')}")
    place = ", ".join(f"{key} {inputs[key]}" for key in ("site", "cooling", "prices", "storage"))
    rows = tuple(("", text) for text in (", ".join(wanted), place) if text)
    return Block(title=f"{inputs['model']}, {say(inputs['tokens'], 'tokens')}", rows=rows, are_notes=True)


def _answer_blocks(document: Document, *, stages: bool) -> Iterator[Block]:
    inputs, plan = document["inputs"], document["plan"]
    yield _question_block(inputs)
    if not document["feasible"]:
        yield from _blocking_blocks(document)
    if plan is not None:
        yield from _plan_blocks(plan, inputs, stages=stages)
    if document["alternatives"]:
        yield _alternatives_block(plan, document["alternatives"])
    if search := _search_rows(document):
        yield Block(title="Candidates", rows=tuple(search))
    yield from _remark_blocks(document)


def _plan_blocks(plan: Document, inputs: Document, *, stages: bool) -> Iterator[Block]:
    yield Block(title="Plan", rows=tuple(_shape_rows(plan, inputs)))
    step, memory = plan["step"], plan["memory"]
    parts = {name: step[name] for name in step if name in _STEP_PARTS}
    yield tree(("Step", step["total_s"]), parts, _NOTES)
    yield Block(rows=tuple(_speed_rows(step)))
    stage = f"Memory, stage {memory['heaviest_stage']} of {memory['stages']}"
    yield replace(tree((stage, memory["peak_bytes"]), memory["parts"]), caption=_fit(memory))
    if stages and memory.get("by_stage"):
        yield _stages_block(memory["by_stage"])
    yield Block(title="Run", rows=tuple(_run_rows(plan["run"], inputs)))
    yield Block(title="Power, energy, water and carbon", rows=tuple(_energy_rows(plan["energy"], plan["carbon"])))
    cost = plan["cost"]
    if cost:
        money = {name: value for name, value in cost.items() if name.endswith("_usd") and name != "total_usd"}
        yield replace(tree((f"Cost ({_basis(cost)})", cost["total_usd"]), money), caption=_unit_costs(cost))


_STEP_PARTS = (
    "compute_s", "recompute_s", "tp_exposed_s", "cp_exposed_s", "ep_exposed_s", "pp_exposed_s", "dp_exposed_s",
    "contention_s", "bubble_s", "optimizer_s", "jitter_s",
)  # fmt: skip


def _shape_rows(plan: Document, inputs: Document) -> Iterator[tuple[str, str]]:
    layout = plan["layout"]
    racks = f" in {format_count(plan['racks'])} racks" if plan.get("racks") else ""
    yield (
        "cluster",
        f"{plan['devices']:,} devices = {plan['nodes']:,} nodes of {plan['hardware']}{racks}",
    )
    yield "", f"{plan['used_devices']:,} at work, {plan['spare_devices']:,} spare, {plan['idle_devices']:,} idle"
    names = {"tp": "tensor", "cp": "context", "pp": "pipeline", "dp": "data"}
    axes = [f"{name} {layout[key]:,}" for key, name in names.items() if layout[key] > 1] or ["one device"]
    yield "split", f"{layout['name']}: {' × '.join(axes)}"
    if layout["ep"] > 1:
        cut = f", each cut {layout['etp']:,} ways" if layout["etp"] > 1 else ""
        yield "", f"experts over {layout['ep']:,} devices{cut}"
    batch_tokens = layout["global_batch"] * inputs["seq_len"]
    yield (
        "batch",
        f"{layout['global_batch']:,} sequences of {inputs['seq_len']:,} ({format_count(batch_tokens, 'tokens')}), "
        f"{layout['micro_batches']:,} micro-batches of {layout['micro_batch']:,}",
    )
    chunks = f", {layout['vpp']} chunks a stage" if layout["vpp"] > 1 else ""
    schedule = "no pipeline" if layout["schedule"] == "none" else f"{layout['schedule']}{chunks}"
    yield "methods", f"{schedule}; recompute {layout['recompute']}; sharding {layout['sharding']}; {plan['precision']}"
    yield "placement", f"{layout['placement']} (innermost first)"
    yield "software", f"{plan['stack']} with {plan['attention_kernel']} attention"
    yield "network", str(plan["fabric"])


def _speed_rows(step: Document) -> Iterator[tuple[str, str]]:
    interval = step["interval"]
    low, high, share = interval["low_s"], interval["high_s"], interval["confidence"]
    yield "interval", f"{format_time(low)} to {format_time(high)} ({format_fraction(share)})"
    yield (
        "utilisation",
        f"MFU {format_fraction(step['mfu'])} ({format_fraction(step['mfu_causal'])} with causal attention), "
        f"HFU {format_fraction(step['hfu'])}",
    )
    yield (
        "speed",
        f"{format_count(step['tokens_per_s'])} tokens/s, {format_count(step['tokens_per_s_per_device'])} a device; "
        f"exposed communication {format_fraction(step['communication_fraction'])}",
    )


_VERDICTS = {"fits": "fits", "borderline": "borderline: inside the safety margin", "does_not_fit": "does not fit"}


def _fit(memory: Document) -> str:
    margin = memory["margin_bytes"]
    left = f"{format_bytes(margin)} left" if margin >= 0 else f"{format_bytes(-margin)} too much"
    usable, device = format_bytes(memory["usable_bytes"]), format_bytes(memory["device_bytes"])
    return f"{_VERDICTS.get(memory['verdict'], memory['verdict'])}: {left} of {usable} usable ({device} on the device)"


_STAGE_HEADS: Mapping[str, str] = {
    "gradients_bytes": "grads",
    "optimizer_bytes": "optim",
    "activations_bytes": "activ",
    "fragmentation_bytes": "fragm",
    "context_bytes": "context",
}


def _stages_block(stages: Sequence[Document]) -> Block:
    names = [name for name in stages[0] if name not in {"stage", "total_bytes"} and any(one[name] for one in stages)]
    heads = ("stage", "total", *(_STAGE_HEADS.get(name, label_of(name)) for name in names))
    rows = [(str(one["stage"]), *(f"{one[n] / 2**30:,.1f}" for n in ("total_bytes", *names))) for one in stages]
    return Block(title="Memory by stage, GiB", heads=heads, rows=tuple(rows), is_wide=True)


_LOSSES: Mapping[str, str] = {
    "restart": "restarts",
    "rework": "work done twice",
    "stall": "checkpoints",
    "repeat": "repeated training",
}


def _run_rows(run: Document, inputs: Document) -> Iterator[tuple[str, str]]:
    steps = f"{run['steps']:,} steps"
    yield "wall time", f"{format_time(run['wall_s'])} expected; {steps} without loss {format_time(run['ideal_s'])}"
    losses = [(text, run[f"{name}_loss_fraction"]) for name, text in _LOSSES.items()]
    lost = ", ".join(f"{text} {format_fraction(share)}" for text, share in losses if share)
    yield "goodput", format_fraction(run["goodput_fraction"]) + (f"; lost to {lost}" if lost else "")
    yield "done by", ", ".join(f"{format_time(run[f'p{odds}_s'])} ({odds} %)" for odds in (50, 90, 99))
    if run.get("deadline_probability") is not None:
        yield (
            "deadline",
            f"{say(inputs['deadline_s'], 'time')}, met with a probability of "
            f"{format_fraction(run['deadline_probability'])}",
        )
    failures = format_count(run["expected_interruptions"], "interruptions")
    mtbf = "never" if run["mtbf_s"] is None else f"every {format_time(run['mtbf_s'])}"
    yield "failures", f"{failures}, {mtbf}"
    yield (
        "checkpoints",
        f"{format_bytes(run['checkpoint_bytes'])} every {format_time(run['checkpoint_interval_s'])}, "
        f"stall {format_time(run['checkpoint_stall_s'])}",
    )


def _energy_rows(energy: Document, carbon: Document) -> Iterator[tuple[str, str]]:
    yield (
        "power",
        f"mean {format_power(energy['mean_facility_w'])}, peak {format_power(energy['peak_facility_w'])} at the meter; "
        f"mean {format_power(energy['mean_it_w'])} at the equipment",
    )
    parts = sorted(energy["it"].items(), key=lambda one: -one[1])
    shares = apportioned([value for _, value in parts], 1000)
    named = zip(parts, shares, strict=True)
    yield "of which", ", ".join(f"{label_of(name)} {share / 10:.1f} %" for (name, value), share in named if value)
    yield "PUE", f"{energy['pue']:.3f} over the year, {energy['peak_pue']:.3f} in its hottest hours"
    yield (
        "energy",
        f"{said('x_kwh', energy['facility_kwh'])} at the meter, {said('x_kwh', energy['it_kwh'])} at the equipment",
    )
    grid = energy.get("grid_water_m3")
    yield (
        "water",
        f"{format_water(energy['water_m3'])} on site"
        + ("" if grid is None else f", {format_water(grid)} at power plants"),
    )
    market = carbon.get("market_based_kg_co2e")
    contract = "" if market is None else f" ({format_mass_co2e(market)} by contract)"
    yield (
        "carbon",
        f"{format_mass_co2e(carbon['total_kg_co2e'])}: electricity "
        f"{format_mass_co2e(carbon['operational_kg_co2e'])}{contract}, "
        f"making {format_mass_co2e(carbon['embodied_kg_co2e'])}",
    )


def _basis(cost: Document) -> str:
    basis = {"own": "owned", "rent": "rented"}.get(cost.get("basis", ""), cost.get("basis", ""))
    return ", ".join(
        part for part in (basis, f"prices of {cost['price_date']}" if cost.get("price_date") else "") if part
    )


def _unit_costs(cost: Document) -> str:
    per_hour = cost.get("usd_per_device_h")
    hour = "" if per_hour is None else f", {format_usd(per_hour)} a device and hour"
    return f"{said('usd_per_million_tokens', cost['usd_per_million_tokens'])} per million tokens{hour}"


# --- Side by side -----------------------------------------------------------------------------------------------


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
        trivial = {"layout.cp": 1, "layout.ep": 1, "layout.vpp": 1}.get(measure.path)
        if all(value is None or value == trivial for value in values):
            continue
        cells = []
        for name, plan in plans.items():
            text = said(measure.path, measure.value(plan)) if plan else "-"
            cells.append(f"{text} *" if winners.get(measure.path.rsplit(".", 1)[-1]) == name else text)
        yield measure.label, *cells


def _comparison_blocks(document: Document) -> Iterator[Block]:
    inputs, columns = document["inputs"], document["columns"]
    yield _question_block(inputs)
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
    for name, column in zip(names, columns, strict=True):
        if not column["feasible"]:
            yield Block(title=f"{name}: no feasible plan", rows=_reason_rows(column), are_notes=True)
    said_by: dict[str, list[str]] = {}
    for name, column in zip(names, columns, strict=True):
        for text in column["warnings"] if column["feasible"] or column["blocking"] else ():
            said_by.setdefault(text, []).append(name)
    shared = [text if len(by) == len(names) else f"{', '.join(by)}: {text}" for text, by in said_by.items()]
    evidence = [one for column in columns for one in column["evidence"]]
    yield from _remark_blocks({"warnings": shared, "evidence": evidence})


def _reason_rows(document: Document) -> tuple[tuple[str, str], ...]:
    texts = [reason(one) for one in document["blocking"]] or list(document["warnings"])
    if counts := _counts(document["rejected"]):
        texts.append(f"refused: {counts}")
    return tuple(("", text) for text in texts)


def _broken(name: str) -> str:
    """A long name over two lines."""
    if len(name) < COLUMN or "-" not in name:
        return name
    cut = min((n for n, sign in enumerate(name) if sign == "-"), key=lambda n: abs(n - len(name) / 2))
    return f"{name[: cut + 1]}\n{name[cut + 1 :]}"


def _alternatives_block(plan: Document | None, others: Sequence[Document]) -> Block:
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


# --- Refusals, warnings, defaults, sources ----------------------------------------------------------------------


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
        parts.append(f"feasible from {said_in(blocking['nearest_feasible'], unit)}")
    return f"{blocking['constraint']}: {', '.join(parts)}" if parts else str(blocking["constraint"])


def _off(required: float | None, best: float | None) -> str:
    """How far the best is from what was asked, relative; a factor where it is far."""
    if not required or best is None:
        return ""
    ratio = best / required
    if 0.1 < ratio < 10:
        return format_fraction(abs(ratio - 1)).replace(".0 %", " %")
    return f"{max(ratio, 1 / ratio) if ratio > 0 else math.inf:,.3g} times"


def _blocking_blocks(document: Document) -> Iterator[Block]:
    """Which constraints stopped the best candidates, by how much, and what would do."""
    rows = []
    for one in document["blocking"]:
        unit, required, best = one["unit"], one["required"], one["best"]
        cells = ["-" if value is None else said_in(value, unit) for value in (required, best, one["nearest_feasible"])]
        rows.append((str(one["constraint"]), cells[0], cells[1], _off(required, best) or "-", cells[2]))
    heads = ("constraint", "asked", "best found", "off by", "feasible from")
    title = "No feasible plan" if document["plan"] is None else "Does not fit"
    if rows:
        yield Block(title=title, heads=heads, rows=tuple(rows), right=(1, 2, 3, 4))
    else:  # no layout was looked at: the warnings say why
        yield Block(title=title, rows=tuple(("", text) for text in document["warnings"]), are_notes=True)


def _counts(rejected: Mapping[str, int]) -> str:
    ordered = sorted(rejected.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{name} {count:,}" for name, count in ordered if count)


def _search_rows(document: Document) -> Iterator[tuple[str, str]]:
    search = document["search"]
    if search["considered"] > 1:
        ties = search["ties"]
        near = f"; {ties:,} as good as the best within the error" if ties else ""
        yield "looked at", f"{search['considered']:,} considered, {search['evaluated']:,} evaluated{near}"
    if counts := _counts(document["rejected"]):
        yield "refused", counts


def _remark_blocks(document: Document) -> Iterator[Block]:
    if document["warnings"]:
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


_KIND_NOUNS = {("datasheet", True): "datasheet figures", ("datasheet", False): "datasheet figure"}


def _evidence_blocks(evidence: Sequence[Document], *, all_of_them: bool) -> Iterator[Block]:
    unique = {(one["what"], str(one["value"])): one for one in evidence}
    kinds = [one["kind"] for one in unique.values()]
    counts = [(kind, kinds.count(kind)) for kind in KINDS]
    summary = ", ".join(f"{count} {_KIND_NOUNS.get((kind, count > 1), kind)}" for kind, count in counts if count)
    listed = "" if all_of_them else " (--sources lists them)"
    yield Block(rows=(("", f"Rests on: {summary}{listed}"),), are_notes=True)
    if all_of_them:
        told = [(one["what"], one["value"], one["unit"], one["kind"], one["source"]) for one in unique.values()]
        yield Block(title="Sources", rows=_by_source(told), are_notes=True)


def _by_source(figures: Iterable[tuple[str, Any, str, str, str]]) -> tuple[tuple[str, str], ...]:
    """Figures with name, value, unit, kind and source, those of one source together, in the units of their files."""
    heads: dict[str, list[str]] = {}
    for name, value, unit, kind, source in figures:
        key = name.rpartition(": ")[2]
        is_written = isinstance(value, int | float) and not name.startswith(INPUT)
        text = _as_written(key, value) if is_written else said_in(value, unit)
        heads.setdefault(source, []).append(f"{name} = {text} ({kind})")
    return tuple(("\n".join(names), source) for source, names in heads.items())


# --- Explanations -----------------------------------------------------------------------------------------------


def _explanation_blocks(document: Document) -> Iterator[Block]:
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
        yield Block(title="Figures", rows=_by_source(told), are_notes=True)


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
        key = _dumps([one.get("formula"), one["value"]])
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


# --- Models and profiles ----------------------------------------------------------------------------------------


def model_document(model: Model, seq_len: int, warnings: Sequence[str] = ()) -> dict[str, Any]:
    """Shape of a model, its parameters, and the work of a token in both conventions.

    Parameters
    ----------
    model : Model
        The network.
    seq_len : int
        Tokens of a sequence, for the work of attention.
    warnings : sequence of str
        What its description left open.
    """
    from clusterplan import shapes

    counts, flop = shapes.parameters(model), shapes.flop_per_token(model, seq_len)
    return {
        "schema": MODEL,
        "version": __version__,
        **_plain(model),
        "parameters": {name: getattr(counts, name) for name in ("total", "active", "embedding", "mtp")},
        "flop_per_token": {
            name: getattr(flop, name)
            for name in ("matrix", "attention", "attention_causal", "head", "model", "model_causal")
        }
        | {"seq_len": seq_len},
        "warnings": list(warnings),
    }


def _plain(value: Any) -> Any:
    """A record as plain JSON values."""
    if is_dataclass(value):
        return {entry.name: _plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return float(value) if isinstance(value, Figure) else value


def _model_blocks(document: Document) -> Iterator[Block]:
    yield Block(title=str(document["name"]), rows=(("", str(document["source"])),), are_notes=True)
    names = {
        "total": "total",
        "active": "active for a token",
        "embedding": "embedding",
        "mtp": "token prediction modules",
    }
    counts = document["parameters"]
    rows = [(label, f"{counts[name]:,}", format_count(counts[name])) for name, label in names.items() if counts[name]]
    yield Block(title="Parameters", rows=tuple(rows), right=(1, 2))
    flop = document["flop_per_token"]
    work = [
        ("model FLOP, attention in full", flop["model"]),
        ("model FLOP, attention causal", flop["model_causal"]),
        ("weights", flop["matrix"]),
        ("of which output head", flop["head"]),
        ("attention in full", flop["attention"]),
        ("attention, causal half", flop["attention_causal"]),
    ]
    title = f"Work of one token, forward and backward, in sequences of {flop['seq_len']:,}"
    yield Block(title=title, rows=tuple((label, f"{value / 1e9:,.1f} GFLOP") for label, value in work), right=(1,))
    hidden = {"schema", "version", "name", "source", "parameters", "flop_per_token", "warnings"}
    shape = {key: value for key, value in document.items() if key not in hidden}
    numbers = [(path, said("", value)) for path, value in _leaves(shape) if value not in ("", 0, "false")]
    yield Block(title="Shape", rows=tuple(numbers), right=(1,))
    if document["warnings"]:
        yield Block(title="Warnings", rows=tuple(("", text) for text in document["warnings"]), are_notes=True)


def profile_document(folder: str, name: str, path: str, record: object) -> dict[str, Any]:
    """Every figure of a profile with its unit, kind and source, in SI units.

    Parameters
    ----------
    folder, name : str
        Where the profile is found.
    path : str
        File that it was read from.
    record : dataclass
        What it became.
    """
    return {
        "schema": PROFILE,
        "version": __version__,
        "folder": folder,
        "name": name,
        "path": path,
        "figures": list(_figures(record, "")),
    }


def _figures(value: Any, path: str) -> Iterator[dict[str, Any]]:
    """Values of a record; a figure with where it is from."""
    if is_dataclass(value):
        for entry in fields(value):
            yield from _figures(getattr(value, entry.name), f"{path}.{entry.name}" if path else entry.name)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _figures(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple) and any(is_dataclass(one) for one in value):
        for one in value:
            yield from _figures(one, f"{path}.{one.name}")
    elif value is not None:
        origin = value.origin if isinstance(value, Figure) else None
        yield {
            "key": path,
            "value": _joined(value) if isinstance(value, list | tuple) else _plain(value),
            "unit": _unit(path) if isinstance(value, float) else "",
            "kind": origin.kind if origin else "",
            "source": origin.source if origin else "",
            "file_key": origin.key if origin else path,
        }


def _unit(path: str) -> str:
    """Unit of a figure whose path may end in the name of an entry: ``gemm_efficiency.bf16``."""
    for part in reversed(path.split(".")):
        if unit := unit_of(to_si(part, 1)[0]):
            return unit
    return ""


def _profile_blocks(document: Document) -> Iterator[Block]:
    yield Block(title=f"{document['folder']}/{document['name']}", rows=(("", document["path"]),), are_notes=True)
    plain = [one for one in document["figures"] if not one["kind"]]
    if plain:
        yield Block(rows=tuple((one["key"], said("", one["value"])) for one in plain))
    sources: dict[tuple[str, str], list[Document]] = {}
    for one in document["figures"]:
        if one["kind"]:
            sources.setdefault((one["kind"], one["source"]), []).append(one)
    for (kind, source), figures in sources.items():
        rows = tuple((one["file_key"], _as_written(one["file_key"], one["value"]), kind) for one in figures)
        yield Block(rows=rows, right=(1,), caption=source)


def _as_written(key: str, value: float) -> str:
    """A figure in the unit that its file has it in.

    Examples
    --------
    >>> _as_written("bf16_tflops", 989.4e12), _as_written("gemm_efficiency.bf16", 0.817)
    ('989.4 TFLOP/s', '0.817')
    """
    part = next((part for part in reversed(key.split(".")) if to_si(part, 1.0)[1] != 1), key.split(".")[-1])
    unit = unit_of(part) or _unit(key)
    return f"{value / to_si(part, 1.0)[1]:,.6g} {unit}".rstrip()


def profiles_document(names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Names of profiles by folder."""
    rows = [{"folder": folder, "name": name} for folder, found in names.items() for name in found]
    return {"schema": PROFILES, "version": __version__, "profiles": rows}


def _profiles_blocks(document: Document) -> Iterator[Block]:
    folders: dict[str, list[str]] = {}
    for row in document["profiles"]:
        folders.setdefault(row["folder"], []).append(row["name"])
    for folder, names in folders.items():
        yield Block(title=folder, rows=tuple(("", name) for name in names), are_notes=True)
