"""Rows of figures as text, Markdown, CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from qrsc.evaluate.metrics.metric_table import FIGURES
from qrsc.evaluate.report.published import PAPER, paper_figures, published_for
from qrsc.evaluate.run.scores import FrameScore
from qrsc.media.atomic import atomic_file

TableFormat = Literal["text", "markdown", "csv", "json"]
Row = Mapping[str, Any]
PaperFigures = Callable[[Row], Mapping[str, float]]  # the paper's figures that are shown beside a row

_PAPER_COLUMN = ("psnr", "ssim", "lpips")


def papers_method(row: Row) -> Mapping[str, float]:
    """The paper's figures for its whole method, where data set and instant match."""
    return paper_figures(row["set"], row["at"])


def with_paper(rows: Sequence[Row], paper: PaperFigures = papers_method) -> list[dict[str, Any]]:
    """The same rows with the paper's figures beside them, as `paper_psnr` and so on."""
    return [{**row, **{f"paper_{name}": value for name, value in paper(row).items()}} for row in rows]


def format_rows(
    rows: Sequence[Row], form: TableFormat, *, others: bool = False, paper: PaperFigures = papers_method
) -> str:
    """A table of rows from `mean_rows`.

    Args:
        rows: of our own figures.
        form: `text` and `markdown` are for people: rounded, with the paper's figures in a column and a legend below.
            `csv` and `json` hold all digits.
        others: for the first two: add rows of what other authors have published.
        paper: the paper's figures beside a row.
    """
    if form == "json":
        return json_rows(with_paper(rows, paper))
    if form == "csv":
        return csv_rows(with_paper(rows, paper))
    figures = [name for name in FIGURES if any(name in row for row in rows)]
    heads = ["set", "at", "method", "frames", *(FIGURES[name].heading for name in figures), "paper"]
    cells = []
    for index, row in enumerate(rows):
        given = paper(row)
        cells.append(
            [row["set"], row["at"], row["method"], str(row["frames"])]
            + [rounded(name, row.get(name)) for name in figures]
            + [_paper_cell(given)]
        )
        last = index + 1 == len(rows) or (rows[index + 1]["set"], rows[index + 1]["at"]) != (row["set"], row["at"])
        if others and last:
            cells += _published_cells(row, figures)
    if all(row[-1] == "–" for row in cells):
        heads, cells = heads[:-1], [row[:-1] for row in cells]
    return f"{lined_up(heads, cells, form)}\n\n{_legend(figures, heads[-1] == 'paper', others)}"


def frame_rows(scores: Sequence[FrameScore]) -> str:
    """The figures of every frame as CSV."""
    return csv_rows(
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
            *(rounded(name, line.figures.get(name)) for name in figures),
            "–",
        ]
        for line in published_for(row["set"], row["at"])
        if line.method != PAPER
    ]


def _legend(figures: Sequence[str], with_paper_column: bool, others: bool) -> str:
    lines = [f"{FIGURES[name].heading}: {FIGURES[name].about}" for name in figures]
    lines += _directions(figures)
    if with_paper_column:
        lines.append("paper: PSNR / SSIM / LPIPS that the QRSC paper gives for its whole test set at this instant")
    if others:
        lines.append("(names in parentheses): as their authors published them, whole test set")
    return "; ".join(lines) + "."


def _directions(figures: Sequence[str]) -> list[str]:
    """Which columns are not better the higher they are."""
    lines = []
    for better, words in (("lower", "lower is better"), ("nearest 1", "nearest to 1 is best")):
        named = [FIGURES[name].heading for name in figures if FIGURES[name].better == better]
        if named:
            lines.append(f"{words}: {', '.join(named)}")
    return lines


def _paper_cell(figures: Mapping[str, float]) -> str:
    if not any(name in figures for name in _PAPER_COLUMN):
        return "–"
    return " / ".join(rounded(name, figures.get(name)) for name in _PAPER_COLUMN)


def rounded(figure: str, value: float | None) -> str:
    """A figure as a table for people shows it; a dash for none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{FIGURES[figure].places}f}"


def write_table(path: Path, text: str) -> None:
    """Write a table as a file, whole or not at all."""
    with atomic_file(path) as work:
        work.write_text(text + "\n", encoding="utf-8")


def lined_up(heads: Sequence[str], cells: Sequence[Sequence[str]], form: TableFormat, *, words: int = 3) -> str:
    """A table for people, as Markdown or as text.

    Args:
        words: how many columns, from the left, hold words. They are aligned to the left, numbers to the right.
    """
    if form == "markdown":
        rule = ["---"] * words + ["---:"] * (len(heads) - words)
        return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *cells])
    widths = [max(len(row[column]) for row in [heads, *cells]) for column in range(len(heads))]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(heads), line(["-" * width for width in widths]), *map(line, cells)])


def csv_rows(rows: Sequence[Row]) -> str:
    """Rows as CSV; an entry that a row lacks is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def json_rows(rows: Sequence[Row]) -> str:
    """Rows as JSON. JSON has no infinity (the PSNR of a frame that equals its truth): it becomes null."""

    def finite(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps([{name: finite(value) for name, value in row.items()} for row in rows], indent=2)
