"""Blocks as text for a terminal, or for a file that is read like one."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from clusterplan.report.blocks import WIDEST, Block, Page

NARROWEST = 12
"""A column of texts is not wrapped to fewer characters."""


def to_terminal(blocks: Iterable[Block], page: Page) -> str:
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
                table, wide = _table(part, width - 2)
                console.width = max(width, wide + 2)
                console.print(table)
                console.width = width
        if block.caption:
            console.print(Padding(Text(wrapped(block.caption, width - 4), style="dim"), (0, 0, 0, 4)))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in lines) + "\n"


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


def _widths(block: Block) -> list[int]:
    """Characters of each column."""
    lines = (block.heads, *block.rows) if any(block.heads) else block.rows
    return [max(len(line) for cell in column for line in cell.split("\n")) for column in zip(*lines, strict=False)]


def _narrowed(block: Block, width: int) -> Block:
    """The same table with its longest column of texts wrapped, where it is wider than the page."""
    widths = _widths(block)
    texts = [number for number in range(len(widths)) if number not in block.right]
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    if excess <= 0 or not texts:
        return block
    longest = max(texts, key=lambda number: widths[number])
    room = widths[longest] - excess
    if room < NARROWEST:
        return block
    rows = tuple(
        tuple(wrapped(cell, room) if number == longest else cell for number, cell in enumerate(row))
        for row in block.rows
    )
    return replace(block, rows=rows)


def _table(block: Block, width: int) -> tuple[Any, int]:
    """A table and its width, which is that of a page or more: no figure is cut."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    count = max((len(row) for row in block.rows), default=0)
    if count and not block.heads:  # the last column takes what the others leave
        left = width - sum(2 + max(len(row[number]) for row in block.rows) for number in range(count - 1))
        block = replace(block, rows=tuple((*row[:-1], wrapped(row[-1], left)) for row in block.rows))
    elif count:
        block = _narrowed(block, width)
    table = Table(box=None, show_header=any(block.heads), pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for number in range(count):
        head = Text(block.heads[number]) if number < len(block.heads) else Text()
        justify: Any = "right" if number in block.right else "left"
        table.add_column(head, justify=justify, no_wrap=number < count - 1, vertical="bottom" if block.heads else "top")
    for row in block.rows:
        table.add_row(*(Text(cell, style="bold green" if cell.endswith(" *") else "") for cell in row))
    return Padding(table, (0, 0, 0, 2)), sum(_widths(block)) + 2 * (count - 1)
