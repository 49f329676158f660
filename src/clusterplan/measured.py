"""Measured runs that somebody published: one row a configuration, read from CSV.

A blank cell is not known; what follows from other cells or is a default of the software is filled in when the row is
turned into a question, and named there.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from clusterplan.errors import ClusterplanError
from clusterplan.files import printable, read_text

LARGEST_TABLE_BYTES = 64 * 2**20
"""Tables of runs may be larger than profiles. [byte]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One published run; None is a blank cell."""

    id: str
    source: str
    line: int
    """Line of the file."""
    quality: str | None = None
    """A: all exact; B: one field that matters is inferred; C: of a whole campaign."""
    model: str | None = None
    family: str | None = None
    """``dense`` or ``moe``."""
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    ffn: int | None = None
    gated_mlp: bool | None = None
    vocab: int | None = None
    tied_embeddings: bool | None = None
    seq_len: int | None = None
    experts: int | None = None
    top_k: int | None = None
    moe_ffn: int | None = None
    shared_experts: int | None = None
    dense_layers: int | None = None
    accelerator: str | None = None
    accel_per_node: int | None = None
    scaleup_domain: int | None = None
    scaleup_gb_s: float | None = None
    scaleout_gbit_s: float | None = None
    accelerators: int | None = None
    tp: int | None = None
    sp: bool | None = None
    pp: int | None = None
    vpp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    dp: int | None = None
    sharding: str | None = None
    shard_group: int | None = None
    """With ``hsdp``, replicas that share their states."""
    micro_batch: int | None = None
    global_batch: int | None = None
    recompute: str | None = None
    precision: str | None = None
    attention: str | None = None
    framework: str | None = None
    step_time_s: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_accel: float | None = None
    peak_mem_gib: float | None = None
    memory_definition: str | None = None
    """What the source calls peak memory: ``allocated``, ``reserved`` or ``device``."""
    oom: bool | None = None
    """Whether the run ended for want of memory."""
    inferred: str | None = None
    notes: str | None = None

    @property
    def measured_step_s(self) -> float | None:
        """Length of a step, from the time or from a rate of tokens. [s]"""
        if self.step_time_s:
            return self.step_time_s
        if not (self.global_batch and self.seq_len):
            return None
        tokens = self.global_batch * self.seq_len
        if self.tokens_per_s:
            return tokens / self.tokens_per_s
        if self.tokens_per_s_per_accel and self.accelerators:
            return tokens / (self.tokens_per_s_per_accel * self.accelerators)
        return None


_TYPES: Mapping[str, str] = {f.name: str(f.type).split(" ")[0] for f in fields(Measured)}
_REQUIRED = ("id", "source", "accelerator")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "quality": ("A", "B", "C"),
    "family": ("dense", "moe"),
    "memory_definition": ("allocated", "reserved", "device"),
}
"""Columns that have one of a few words."""


def read_measured(path: Path) -> list[Measured]:
    """Rows of one CSV file."""
    return parse_measured(read_text(path, largest=LARGEST_TABLE_BYTES), printable(path))


def parse_measured(text: str, where: str) -> list[Measured]:
    """Rows of a CSV text; columns that are not known are left aside.

    Parameters
    ----------
    text : str
        CSV with a header.
    where : str
        Name of the file, for messages.
    """
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        columns = reader.fieldnames or ()
        missing = [name for name in _REQUIRED if name not in columns]
        if missing:
            other = next((sign for sign in (";", "\t") if sign in (columns[0] if len(columns) == 1 else "")), "")
            if other:
                raise ClusterplanError(f"has cells between {other!r}, not between commas", where=where)
            raise ClusterplanError(f"has no column {' and no column '.join(missing)}", where=where)
        twice = next((name for name in columns if name in _TYPES and columns.count(name) > 1), None)
        if twice:
            raise ClusterplanError(f"has the column {twice} twice", where=where)
        rows = [_row(cells, where, reader.line_num) for cells in reader]
    except csv.Error as problem:
        raise ClusterplanError(f"is not CSV: {problem}", where=f"{where}: line {reader.line_num}") from None
    if not rows:
        raise ClusterplanError("has a header but no row", where=where)
    return rows


def _row(cells: Mapping[str, str | list[str] | None], where: str, last_line: int) -> Measured:
    line = last_line - sum(text.count("\n") for text in cells.values() if isinstance(text, str))
    if None in cells:
        raise ClusterplanError("has more cells than the header", where=f"{where}: line {line}")
    if None in cells.values():
        raise ClusterplanError("has fewer cells than the header", where=f"{where}: line {line}")
    values = {
        name: _cell(text.strip(), name, f"{where}: line {line}: {name}")
        for name, text in cells.items()
        if name in _TYPES and name != "line" and isinstance(text, str) and text.strip()
    }
    for name in ("id", "source"):
        if name not in values:
            raise ClusterplanError("is empty", where=f"{where}: line {line}: {name}")
    return Measured(**values, line=line)  # type: ignore[arg-type]


def _cell(text: str, name: str, where: str) -> str | int | float | bool:
    kind = _TYPES[name]
    if kind == "str":
        if text not in _WORDS.get(name, (text,)):
            raise ClusterplanError(f"must be one of {', '.join(_WORDS[name])}, not {text[:40]!r}", where=where)
        return text
    try:
        number = float(text)
    except ValueError:
        raise ClusterplanError(f"must be a number, not {text[:40]!r}", where=where) from None
    if not math.isfinite(number) or number < 0:
        raise ClusterplanError(f"must be finite and not negative, not {text[:40]}", where=where)
    if kind == "bool":
        if number not in (0, 1):
            raise ClusterplanError(f"must be 0 or 1, not {text[:40]}", where=where)
        return bool(number)
    if kind == "int":
        if number != int(number):
            raise ClusterplanError(f"must be a whole number, not {text[:40]}", where=where)
        return int(number)
    return number
