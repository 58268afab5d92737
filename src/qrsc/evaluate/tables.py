"""Rows of figures as text, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from qrsc.evaluate.published import PAPER, paper_figures, published_for
from qrsc.evaluate.scores import ABOUT, FIGURES, FrameScore

TableFormat = Literal["text", "markdown", "csv", "json"]
Row = Mapping[str, Any]

HEADINGS = {
    "psnr": "PSNR",
    "ssim": "SSIM",
    "psnr_seen": "seen",
    "psnr_unseen": "unseen",
    "psnr_border": "border",
    "psnr_occlusion": "occluded",
    "epe": "EPE",
    "bend": "bend",
    "lpips": "LPIPS",
    "warping": "warping",
}
_FOUR_PLACES = ("ssim", "lpips")
_PAPER_COLUMN = ("psnr", "ssim", "lpips")


def with_paper(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same rows with the paper's figures beside them, as `paper_psnr` and so on, where set and instant match."""
    return [
        {**row, **{f"paper_{name}": value for name, value in paper_figures(row["set"], row["at"]).items()}}
        for row in rows
    ]


def format_rows(rows: Sequence[Row], form: TableFormat, *, others: bool = False) -> str:
    """A table of rows from `mean_rows`.

    Args:
        rows: of our own figures.
        form: `text` and `markdown` are to be read: rounded, the paper's figures in a column, what the columns mean
            below. `csv` and `json` hold all digits.
        others: for the first two: what other authors have published, in rows of its own.
    """
    if form == "json":
        return json.dumps([_finite(row) for row in with_paper(rows)], indent=2)
    if form == "csv":
        return _csv(with_paper(rows))
    figures = [name for name in FIGURES if any(name in row for row in rows)]
    heads = ["set", "at", "method", "frames", *(HEADINGS[name] for name in figures), "paper"]
    cells = []
    for index, row in enumerate(rows):
        paper = paper_figures(row["set"], row["at"])
        cells.append(
            [row["set"], row["at"], row["method"], str(row["frames"])]
            + [_number(name, row.get(name)) for name in figures]
            + [" / ".join(_number(name, paper[name]) for name in _PAPER_COLUMN if name in paper) or "–"]
        )
        last = index + 1 == len(rows) or (rows[index + 1]["set"], rows[index + 1]["at"]) != (row["set"], row["at"])
        if others and last:
            cells += _published_cells(row, figures)
    if all(row[-1] == "–" for row in cells):
        heads, cells = heads[:-1], [row[:-1] for row in cells]
    table = _markdown(heads, cells) if form == "markdown" else _text(heads, cells)
    return f"{table}\n\n{_legend(figures, heads[-1] == 'paper', others)}"


def frame_rows(scores: Sequence[FrameScore]) -> str:
    """The figures of every frame as CSV."""
    return _csv(
        [
            {"set": s.set, "sequence": s.sequence, "frame": s.frame, "at": s.at, "method": s.method, **s.figures}
            for s in scores
        ]
    )


def _published_cells(row: Row, figures: Sequence[str]) -> list[list[str]]:
    return [
        [
            row["set"],
            row["at"],
            f"({line.method})",
            "all",
            *(_number(name, line.figures.get(name)) for name in figures),
            "–",
        ]
        for line in published_for(row["set"], row["at"])
        if line.method != PAPER
    ]


def _legend(figures: Sequence[str], with_paper_column: bool, others: bool) -> str:
    lines = [f"{HEADINGS[name]}: {ABOUT[name]}" for name in figures]
    if with_paper_column:
        lines.append("paper: PSNR / SSIM / LPIPS that the QRSC paper gives for its whole test set at this instant")
    if others:
        lines.append("(names in parentheses): as their authors published them, whole test set")
    return "; ".join(lines) + "."


def _number(name: str, value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.4f}" if name in _FOUR_PLACES else f"{value:.2f}"


def _text(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [heads, *cells]) for column in range(len(heads))]
    words = 3  # columns of text, which stand to the left; numbers stand to the right

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(heads), line(["-" * width for width in widths]), *map(line, cells)])


def _markdown(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    rule = ["---"] * 3 + ["---:"] * (len(heads) - 3)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *cells])


def _csv(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def _finite(row: Row) -> dict[str, Any]:
    """JSON knows no infinity (a frame that equals its truth): null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()
    }
