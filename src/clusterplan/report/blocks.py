"""What a report is made of before it is written: blocks of rows, and the page they go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]

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
    rows: bool = False
    """Whether every measured run is listed."""


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


COLUMN = 13
"""Characters of a head that is broken over lines."""
