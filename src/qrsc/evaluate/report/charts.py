"""Small charts as SVG: bars in groups, and lines."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from qrsc.media.atomic import atomic_file

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 40, 60
# Distinct for all kinds of colour vision (after Okabe and Ito).
COLOURS = ("#999999", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")


def bar_chart(title: str, groups: Mapping[str, Mapping[str, float]], *, caption: str = "") -> str:
    """Groups of bars.

    Args:
        title: what the bars measure, with its unit.
        groups: by name, the value of each series; a series keeps its colour in all groups.
        caption: below, in small print.
    """
    values = [value for group in groups.values() for value in group.values() if math.isfinite(value)]
    if not values:
        raise ValueError("there is nothing to draw: no finite value in any group.")
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    scale = _scale(0.0, max(values))
    width = (WIDTH - _LEFT - _RIGHT) / len(groups)
    bar = width / (len(series) + 1)
    parts = [_axes(title, scale)]
    for number, (name, group) in enumerate(groups.items()):
        start = _LEFT + number * width
        for place, one in enumerate(series):
            value = group.get(one, math.nan)
            if math.isfinite(value):
                x, y = start + (0.5 + place) * bar, _height(value, scale)
                parts.append(_box(x, y, bar - 2, HEIGHT - _BOTTOM - y, COLOURS[place % len(COLOURS)]))
                parts.append(text_at(x + bar / 2 - 1, y - 3, _short(value), size=9, anchor="middle"))
        parts.append(text_at(start + width / 2, HEIGHT - _BOTTOM + 16, name, anchor="middle"))
    return _picture(parts, series, caption)


def line_chart(title: str, lines: Mapping[str, Sequence[float]], *, caption: str = "", along: str = "") -> str:
    """Lines over the numbers 0, 1, 2 …; gaps where a value is not finite.

    Args:
        title: what the lines measure, with its unit.
        lines: by name.
        caption: below, in small print.
        along: what the numbers count.
    """
    values = [value for line in lines.values() for value in line if math.isfinite(value)]
    if not values:
        raise ValueError("there is nothing to draw: no finite value in any line.")
    scale = _scale(min(values), max(values))
    step = (WIDTH - _LEFT - _RIGHT) / max(1, max(map(len, lines.values())) - 1)
    parts = [_axes(title, scale), text_at(WIDTH - _RIGHT, HEIGHT - _BOTTOM + 16, along, anchor="end")]
    for number, line in enumerate(lines.values()):
        colour = COLOURS[number % len(COLOURS)]
        for run in _finite_runs(line):
            points = " ".join(f"{_LEFT + index * step:.1f},{_height(value, scale):.1f}" for index, value in run)
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
    return _picture(parts, list(lines), caption)


def write_chart(path: Path, picture: str) -> Path:
    """Write an SVG, whole or not at all; returns the path."""
    with atomic_file(path) as work:
        work.write_text(picture, encoding="utf-8")
    return path


def _finite_runs(line: Sequence[float]) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for index, value in enumerate(line):
        if math.isfinite(value):
            runs[-1].append((index, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _scale(low: float, high: float) -> tuple[float, float, float]:
    """Lower end, upper end and step of an axis, in round numbers."""
    spread = max(high - low, 1e-9)
    step = 10.0 ** math.floor(math.log10(spread / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if spread / (step * factor) <= 6)
    return math.floor(low / step) * step, math.ceil(high / step) * step, step


def _height(value: float, scale: tuple[float, float, float]) -> float:
    low, high, _ = scale
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - low) / max(high - low, 1e-12)


def _axes(title: str, scale: tuple[float, float, float]) -> str:
    low, high, step = scale
    parts = [text_at(_LEFT, 20, title, size=13, weight=600)]
    for number in range(round((high - low) / step) + 1):
        value = low + number * step
        y = _height(value, scale)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#d0d7de"/>')
        parts.append(text_at(_LEFT - 6, y + 4, f"{value:g}" if step >= 0.001 else f"{value:.1e}", anchor="end"))
    return "\n".join(parts)


def _picture(parts: Sequence[str], series: Sequence[str], caption: str) -> str:
    keys = []
    x = float(_LEFT)
    for number, name in enumerate(series):
        keys.append(_box(x, HEIGHT - 30, 11, 11, COLOURS[number % len(COLOURS)]))
        keys.append(text_at(x + 16, HEIGHT - 20, name))
        x += 28 + 6.3 * len(name)
    keys.append(text_at(WIDTH - _RIGHT, HEIGHT - 4, caption, size=10, anchor="end", colour="#57606a"))
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="system-ui, sans-serif">\n<rect width="100%" height="100%" fill="#fff"/>'
    )
    return "\n".join([start, *parts, *keys, "</svg>"]) + "\n"


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'


def text_at(
    x: float, y: float, text: str, *, size: int = 12, anchor: str = "start", weight: int = 400, colour: str = "#1b1f24"
) -> str:
    """A piece of text in a picture."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" font-weight="{weight}" '
        f'fill="{colour}">{html.escape(text)}</text>'
    )


def _short(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
