"""Blocks as tables in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from clusterplan.report.blocks import Block


def to_markdown(blocks: Iterable[Block]) -> str:
    """Tables as GitHub shows them."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_on_one_line(cell).replace("|", "\\|") for cell in cells) + " |"

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


def _on_one_line(cell: str) -> str:
    r"""A cell without the breaks that a narrow column needs.

    Examples
    --------
    >>> _on_one_line("gb200-\nnvl72"), _on_one_line("worst\nregret")
    ('gb200-nvl72', 'worst regret')
    """
    return " ".join(re.sub(r"(?<=[-/])\n", "", cell).split())
