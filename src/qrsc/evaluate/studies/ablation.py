"""The table and the charts of an ablation study: the rows of a manifest beside those of the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qrsc.evaluate.metrics.metric_table import FIGURES
from qrsc.evaluate.report.charts import bar_chart, write_chart
from qrsc.evaluate.report.published import ABLATIONS, ablation_figures
from qrsc.evaluate.report.tables import Row, TableFormat, format_rows, lined_up, rounded
from qrsc.evaluate.run.scores import FrameScore, mean_rows
from qrsc.evaluate.studies.entries import Manifest

NO_WEIGHTS = "no weights"
FULL = "full"  # the paper's name for the row that all others are compared with
_CHARTED = {name: figure.chart for name, figure in FIGURES.items() if figure.chart is not None}


def ablation_rows(manifest: Manifest, scores: Sequence[FrameScore]) -> list[dict[str, Any]]:
    """Means by data set and row, in the manifest's order; a row without weights is listed without figures."""
    means = {(row["set"], row["method"]): row for row in mean_rows(scores)}
    rows: list[dict[str, Any]] = []
    for entry in manifest.sets:
        for variant in manifest.variants:
            row = means.get((entry.name, variant.name))
            if row is None:
                row = {"set": entry.name, "method": variant.name, "at": manifest.at, "frames": 0}
            rows.append({**row, "missing": str(variant.missing)} if variant.missing is not None else dict(row))
    return rows


def format_ablation(manifest: Manifest, rows: Sequence[Row], form: TableFormat) -> str:
    """The table (see `format_rows`); as text, rows are also compared with the full model."""
    titles = {entry.name: entry.published_as for entry in manifest.sets}
    labels = {variant.name: variant.name for variant in manifest.variants}
    if form in ("text", "markdown"):
        labels |= {row["method"]: f"{row['method']} ({NO_WEIGHTS})" for row in rows if "missing" in row}
    papers = {labels[variant.name]: variant.paper for variant in manifest.variants}

    def paper(row: Row) -> Mapping[str, float]:
        beside = papers[row["method"]]
        return {} if beside is None else ablation_figures(beside, titles[row["set"]], row["at"])

    table = format_rows([{**row, "method": labels[row["method"]]} for row in rows], form, paper=paper)
    against = _against_full(manifest, rows, labels, form) if form in ("text", "markdown") else ""
    return f"{table}\n\n{against}" if against else table


def _against_full(manifest: Manifest, rows: Sequence[Row], labels: Mapping[str, str], form: TableFormat) -> str:
    """PSNR of each row on each set, and its difference from the full model, ours and the paper's; empty without one.

    Data sets differ in difficulty, so absolute figures cannot be compared; the worth of a part of the method can.
    """
    full = next((variant.name for variant in manifest.variants if variant.paper == FULL), None)
    scores = {(row["method"], row["set"]): row.get("psnr", math.nan) for row in rows}
    sets = [entry.name for entry in manifest.sets]
    if full is None or not all(math.isfinite(scores[full, name]) for name in sets):
        return ""
    titles = list(dict.fromkeys(line.set for line in ABLATIONS))
    heads = ["row", *sets, "against full", *(f"paper, {title}" for title in titles)]
    cells = []
    for variant in manifest.variants:
        own = [scores[variant.name, name] for name in sets]
        lost = sum(score - scores[full, name] for score, name in zip(own, sets, strict=True)) / len(sets)
        cells.append([labels[variant.name], *(rounded("psnr", score) for score in own), _signed(lost)])
        cells[-1] += [_papers(variant.paper, title, manifest.at) for title in titles]
    return (
        f"{lined_up(heads, cells, form, words=1)}\n\nPSNR in dB; against full: how much a row has, on average "
        f"over the sets, more than {full}; the paper's rows on its own data sets, the difference from its full model "
        "in parentheses."
    )


def _papers(row: str | None, title: str, at: str) -> str:
    psnr = None if row is None else ablation_figures(row, title, at).get("psnr")
    full = ablation_figures(FULL, title, at).get("psnr")
    return "–" if psnr is None or full is None else f"{psnr:.2f} ({_signed(psnr - full)})"


def _signed(difference: float) -> str:
    return "–" if math.isnan(difference) else f"{round(difference, 2) + 0.0:+.2f}"


def write_ablation_charts(folder: Path, manifest: Manifest, rows: Sequence[Row], caption: str) -> list[Path]:
    """Write bar charts of the rows that the manifest names for each (all, if it names no charts); returns the files."""
    charts = manifest.charts or {"rows": tuple(variant.name for variant in manifest.variants)}
    written = []
    for name, shown in charts.items():
        for figure, heading in _CHARTED.items():
            groups: dict[str, dict[str, float]] = {}
            for wanted in shown:  # bars in the chart's order
                for row in rows:
                    if row["method"] == wanted and math.isfinite(row.get(figure, math.nan)):
                        groups.setdefault(row["set"], {})[wanted] = row[figure]
            if groups:
                path = folder / f"{name}_{figure}.svg".replace(" ", "_")
                written.append(write_chart(path, bar_chart(f"{name}: {heading}", groups, caption=caption)))
    return written


def chart_names(manifest: Manifest) -> list[str]:
    """Names of all the files that `write_ablation_charts` may write."""
    charts = manifest.charts or {"rows": ()}
    return [f"{name}_{figure}.svg".replace(" ", "_") for name in charts for figure in _CHARTED]
