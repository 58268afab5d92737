"""A matrix as a picture in SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from qrsc.evaluate.report.charts import text_at

CELL_WIDTH, CELL_HEIGHT = 112, 56
_LETTER = 7.2  # pixels, upper limit of a 12-point letter's width
_TOP, _SCALE, _GAP = 78, 16, 24
# Blue for better, white for equal, orange for worse: distinct for all kinds of colour vision.
_BETTER, _EQUAL, _WORSE = (0, 114, 178), (255, 255, 255), (213, 94, 0)
_UNKNOWN, _GREY = "#eaeef2", "#57606a"
MIN_RANGE = 0.1  # the strongest colour stands for at least this, so that small differences look small


class Cell(NamedTuple):
    """One cell of a heat map.

    Attributes:
        value: how much worse (above 0) or better (below 0) it is; NaN if unknown.
        text: written in it.
        small: written below that.
    """

    value: float
    text: str
    small: str = ""


def heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[Cell]],
    *,
    down: str = "",
    across: str = "",
    caption: str = "",
) -> str:
    """A heat map.

    Args:
        title: what the colours say.
        rows, columns: their names.
        cells: by row and column.
        down, across: what the rows and the columns are.
        caption: below, in small print.
    """
    if not rows or not columns or [len(row) for row in cells] != [len(columns)] * len(rows):
        raise ValueError(f"{len(rows)} rows of {len(columns)} cells were expected; got {[len(row) for row in cells]}.")
    known = [abs(cell.value) for row in cells for cell in row if math.isfinite(cell.value)]
    limit = max([MIN_RANGE, *known])
    left = 24 + _LETTER * max(len(down), *map(len, rows))
    width = max(left + CELL_WIDTH * len(columns) + _GAP, 24 + 8.0 * len(title), 24 + 6.0 * len(caption))
    bottom = _TOP + CELL_HEIGHT * len(rows)
    parts = [
        text_at(12, 22, title, size=14, weight=600),
        text_at(left - 10, _TOP - 10, down, anchor="end", colour=_GREY),
    ]
    parts.append(text_at(left, _TOP - 32, across, colour=_GREY))
    for number, name in enumerate(columns):
        middle = left + (number + 0.5) * CELL_WIDTH
        parts.append(text_at(middle, _TOP - 10, _fitting(name), anchor="middle"))
    for line, name in enumerate(rows):
        y = _TOP + line * CELL_HEIGHT
        parts.append(text_at(left - 10, y + CELL_HEIGHT / 2 + 4, name, anchor="end"))
        for number, cell in enumerate(cells[line]):
            parts += _drawn(cell, left + number * CELL_WIDTH, y, limit)
    parts += _scale(left, bottom + _GAP, CELL_WIDTH * len(columns), limit)
    height = bottom + _GAP + _SCALE + 44
    parts.append(text_at(12, height - 8, caption, size=10, colour=_GREY))
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        'font-family="system-ui, sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>'
    )
    return "\n".join([start, *parts, "</svg>"]) + "\n"


def _drawn(cell: Cell, x: float, y: float, limit: float) -> list[str]:
    fill, ink = _UNKNOWN, "#1b1f24"
    if math.isfinite(cell.value):
        colour = _colour(cell.value / limit)
        fill = "#{:02x}{:02x}{:02x}".format(*colour)
        # White letters on dark colours, by approximate relative luminance.
        ink = "#ffffff" if 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2] < 120 else ink
    middle = x + CELL_WIDTH / 2
    parts = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" fill="{fill}" stroke="#d0d7de"/>',
        text_at(middle, y + CELL_HEIGHT / 2 - 1, cell.text, anchor="middle", weight=600, colour=ink),
    ]
    if cell.small:
        parts.append(text_at(middle, y + CELL_HEIGHT / 2 + 16, cell.small, size=11, anchor="middle", colour=ink))
    return parts


def _scale(x: float, y: float, width: float, limit: float) -> list[str]:
    """The colour bar from best to worst, with labels at its ends."""
    steps = 40
    step = width / steps
    parts = []
    for number in range(steps):
        fill = "#{:02x}{:02x}{:02x}".format(*_colour(2.0 * (number + 0.5) / steps - 1.0))
        place = x + number * step
        parts.append(f'<rect x="{place:.2f}" y="{y}" width="{step + 0.5:.2f}" height="{_SCALE}" fill="{fill}"/>')
    below = y + _SCALE + 14
    parts.append(text_at(x, below, f"better by {limit:.2g}", size=11, colour=_GREY))
    parts.append(text_at(x + width, below, f"worse by {limit:.2g}", size=11, anchor="end", colour=_GREY))
    return parts


def _colour(part: float) -> tuple[int, int, int]:
    """From -1 (better) over 0 to 1 (worse)."""
    end = _WORSE if part > 0 else _BETTER
    share = min(1.0, abs(part))
    red, green, blue = (round(equal + share * (other - equal)) for equal, other in zip(_EQUAL, end, strict=True))
    return red, green, blue


def _fitting(name: str) -> str:
    """A name, shortened to the width of a column."""
    most = int(CELL_WIDTH / _LETTER)
    return name if len(name) <= most else name[: most - 1] + "…"
