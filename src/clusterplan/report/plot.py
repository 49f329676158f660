"""Predicted against measured step times, drawn as an SVG: both axes logarithmic, one colour a kind of hardware."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

Row = Mapping[str, Any]

SIDE = 480
"""Length of an axis. [px]"""
LEFT, TOP, LEGEND = 70, 40, 190
"""Room for the labels, the title and the legend. [px]"""
BAND_FRACTION = 0.2
"""Lines are drawn where predictions are off by this much."""
GREY = "#999999"


def scatter_svg(rows: Sequence[Row], title: str = "Step time, predicted against measured") -> str:
    """An SVG with one point for each row that has both times; empty axes if there is none.

    Parameters
    ----------
    rows : sequence of mapping
        Rows of a validation document.
    title : str
        What stands above.
    """
    timed = [row for row in rows if row["predicted_step_s"] and row["measured_step_s"]]
    low, high = limits([row[name] for row in timed for name in ("predicted_step_s", "measured_step_s")])
    kinds = sorted({str(row["accelerator"]) for row in timed})
    colours = {kind: _colour(n, len(kinds)) for n, kind in enumerate(kinds)}
    width, height = LEFT + SIDE + LEGEND, TOP + SIDE + 60
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
        *_axes(low, high),
        *_guides(low, high),
        *(_point(row, low, high, colours) for row in timed),
        *_legend(kinds, colours),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _colour(number: int, of: int) -> str:
    """One of so many hues around the circle, light and dark in turn."""
    return f"hsl({360 * number // of}, 75%, {35 if number % 2 else 50}%)"


def limits(times_s: Sequence[float]) -> tuple[int, int]:
    """Powers of ten that enclose all times.

    Examples
    --------
    >>> limits([0.3, 20.0]), limits([])
    ((-1, 2), (-1, 2))
    """
    if not times_s:
        return -1, 2
    low, high = math.floor(math.log10(min(times_s))), math.ceil(math.log10(max(times_s)))
    return low, max(high, low + 1)


def _x(value_s: float, low: int, high: int) -> float:
    return LEFT + SIDE * (math.log10(value_s) - low) / (high - low)


def _y(value_s: float, low: int, high: int) -> float:
    return TOP + SIDE * (high - math.log10(value_s)) / (high - low)


def _axes(low: int, high: int) -> Iterator[str]:
    """A frame, a line for each power of ten, and what the axes are."""
    end_x, end_y = LEFT + SIDE, TOP + SIDE
    yield f'<rect x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}" fill="none" stroke="black"/>'
    for power in range(low, high + 1):
        x, y = _x(10.0**power, low, high), _y(10.0**power, low, high)
        for path in (f"M{x:.1f} {TOP}V{end_y}", f"M{LEFT} {y:.1f}H{end_x}"):
            yield f'<path d="{path}" stroke="#dddddd"/>'
        label = f"{10.0**power:g} s"
        yield f'<text x="{x:.1f}" y="{end_y + 18}" text-anchor="middle">{label}</text>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    middle = TOP + SIDE / 2
    yield f'<text x="{LEFT + SIDE / 2:.0f}" y="{end_y + 40}" text-anchor="middle">measured</text>'
    yield f'<text x="16" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 16 {middle:.0f})">predicted</text>'


def _guides(low: int, high: int) -> Iterator[str]:
    """The line on which predictions are right, and those on which they are off by :data:`BAND_FRACTION`."""
    for factor, dash in ((1.0, "none"), (1 + BAND_FRACTION, "4 3"), (1 - BAND_FRACTION, "4 3")):
        first, last = 10.0**low, 10.0**high
        ends = (max(first, first / factor), min(last, last / factor))
        (x1, y1), (x2, y2) = ((_x(end, low, high), _y(end * factor, low, high)) for end in ends)
        yield f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{GREY}" stroke-dasharray="{dash}"/>'


def _point(row: Row, low: int, high: int, colours: Mapping[str, str]) -> str:
    """A row; its name and error show when it is pointed at. Open where the software is only assumed."""
    x, y = _x(row["measured_step_s"], low, high), _y(row["predicted_step_s"], low, high)
    colour = colours[str(row["accelerator"])]
    fill = "none" if row["stack_assumed"] else colour
    told = escape(f"{row['id']}: {row['error_fraction'] * 100:+.1f} %")
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{fill}" fill-opacity="0.6" stroke="{colour}">'
        f"<title>{told}</title></circle>"
    )


def _legend(kinds: Sequence[str], colours: Mapping[str, str]) -> Iterator[str]:
    x = LEFT + SIDE + 16
    for n, kind in enumerate(kinds):
        y = TOP + 10 + 18 * n
        yield f'<circle cx="{x}" cy="{y}" r="4" fill="{colours[kind]}"/>'
        yield f'<text x="{x + 10}" y="{y + 4}">{escape(kind)}</text>'
    y = TOP + 10 + 18 * len(kinds)
    yield f'<text x="{x - 4}" y="{y + 8}" fill="{GREY}">dashed: off by {BAND_FRACTION:.0%}</text>'
