"""How well training on one data set generalises to another: every checkpoint on every set, with its relative decline.

Convention
    The relative decline is the paper's: `rde[i, k] = 1 - score[i, k] / score[k, k]`, of a checkpoint trained on data
    set i and tested on k. 0 is as good as the checkpoint trained on k, above 0 is worse. For figures of which lower is
    better (LPIPS), below 0 is worse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qrsc.evaluate.metrics.metric_table import FIGURES
from qrsc.evaluate.report.charts import write_chart
from qrsc.evaluate.report.heat_map import Cell, heat_map
from qrsc.evaluate.report.published import PAPER_LARGEST_DECLINE, paper_figures
from qrsc.evaluate.report.tables import Row, TableFormat, csv_rows, json_rows, lined_up, rounded
from qrsc.evaluate.run.scores import FrameScore, mean_rows
from qrsc.evaluate.studies.ablation import NO_WEIGHTS
from qrsc.evaluate.studies.entries import Manifest

COMPARED = tuple(name for name, figure in FIGURES.items() if figure.compared)


def relative_decline(score: float, own: float) -> float:
    """The paper's rde of a score against that of the checkpoint trained on the same set; NaN where it is undefined."""
    if not math.isfinite(score) or not math.isfinite(own) or own == 0.0:
        return math.nan
    return 1.0 - score / own


def generalisation_rows(manifest: Manifest, scores: Sequence[FrameScore]) -> list[dict[str, Any]]:
    """One row for each checkpoint and data set, with the declines as `rde_psnr` and so on where they are known."""
    means = {(row["method"], row["set"]): row for row in mean_rows(scores)}
    own = {variant.trained_on: variant.name for variant in manifest.variants if variant.trained_on is not None}
    rows = []
    for variant in manifest.variants:
        for entry in manifest.sets:
            found = means.get((variant.name, entry.name), {})
            reference = means.get((own.get(entry.name, ""), entry.name), {})
            row: dict[str, Any] = {
                "checkpoint": variant.name,
                "trained_on": variant.trained_on,
                "set": entry.name,
                "at": manifest.at,
                "frames": found.get("frames", 0),
            }
            for figure in COMPARED:
                if figure in found:
                    row[figure] = found[figure]
                    decline = relative_decline(found[figure], reference.get(figure, math.nan))
                    if not math.isnan(decline):
                        row[f"rde_{figure}"] = decline
            rows.append({**row, "missing": str(variant.missing)} if variant.missing is not None else row)
    return rows


def format_generalisation(manifest: Manifest, rows: Sequence[Row], form: TableFormat) -> str:
    """As text and Markdown, a matrix of scores and declines per figure; as CSV and JSON, the rows with all digits."""
    if form == "json":
        return json_rows(rows)
    if form == "csv":
        return csv_rows(rows)
    parts = [_matrix(manifest, rows, figure, form) for figure in _figures(rows)]
    parts.append(
        "In parentheses: the relative decline rde = 1 - score / score of the checkpoint trained on the set that it is "
        "tested on; most: the worst of them on other sets than its own. The paper: under "
        f"{PAPER_LARGEST_DECLINE:g} on SSIM for its method, from each of Carla-RS, Fastec-RS and BS-RSC to the others; "
        "its own scores are those of the set that it was trained on."
    )
    return "\n\n".join(parts)


def write_heat_maps(folder: Path, manifest: Manifest, rows: Sequence[Row], caption: str) -> list[Path]:
    """Write the declines of each figure as a heat map; returns the files."""
    written = []
    for figure in _figures(rows):
        cells = [
            [_cell(rows, variant.name, entry.name, figure) for entry in manifest.sets] for variant in manifest.variants
        ]
        path = folder / heat_map_name(figure)
        picture = heat_map(
            f"Relative decline of {FIGURES[figure].heading}",
            [_label(rows, variant.name) for variant in manifest.variants],
            [entry.name for entry in manifest.sets],
            cells,
            down="trained on",
            across="tested on",
            caption=caption,
        )
        written.append(write_chart(path, picture))
    return written


def heat_map_name(figure: str) -> str:
    """The file of a figure's heat map."""
    return f"decline_{figure}.svg"


def _matrix(manifest: Manifest, rows: Sequence[Row], figure: str, form: TableFormat) -> str:
    heads = ["checkpoint", "trained on", *(entry.name for entry in manifest.sets), "most"]
    cells = []
    for variant in manifest.variants:
        found = [_row(rows, variant.name, entry.name) for entry in manifest.sets]
        cells.append([_label(rows, variant.name), variant.trained_on or "–", *(_text(row, figure) for row in found)])
        cells[-1].append(_most(found, figure))
    papers = [paper_figures(entry.published_as, manifest.at).get(figure) for entry in manifest.sets]
    if any(value is not None for value in papers):
        cells.append(["(the paper)", "each set", *(rounded(figure, value) for value in papers), "–"])
    told = f"{FIGURES[figure].heading} at the {manifest.at} row: {FIGURES[figure].about}."
    return f"{told}\n\n{lined_up(heads, cells, form, words=2)}"


def _text(row: Row, figure: str) -> str:
    score = rounded(figure, row.get(figure))
    return f"{score} ({_signed(row[f'rde_{figure}'])})" if f"rde_{figure}" in row else score


def _signed(decline: float) -> str:
    return f"{round(decline, 3) + 0.0:+.3f}"  # no minus sign on what rounds to 0


def _most(found: Sequence[Row], figure: str) -> str:
    """The worst decline on the sets that the checkpoint was not trained on."""
    declines = [row[f"rde_{figure}"] for row in found if f"rde_{figure}" in row and row["trained_on"] != row["set"]]
    return _signed(max(declines, key=lambda decline: _worse(figure, decline))) if declines else "–"


def _cell(rows: Sequence[Row], checkpoint: str, title: str, figure: str) -> Cell:
    row = _row(rows, checkpoint, title)
    decline = row.get(f"rde_{figure}", math.nan)
    text = "–" if math.isnan(decline) else _signed(decline)
    return Cell(_worse(figure, decline), text, rounded(figure, row[figure]) if figure in row else "")


def _worse(figure: str, decline: float) -> float:
    """How much worse a decline is: above 0 is worse, whichever way the figure counts."""
    return -decline if FIGURES[figure].better == "lower" else decline


def _row(rows: Sequence[Row], checkpoint: str, title: str) -> Row:
    return next(row for row in rows if (row["checkpoint"], row["set"]) == (checkpoint, title))


def _label(rows: Sequence[Row], checkpoint: str) -> str:
    missing = any("missing" in row for row in rows if row["checkpoint"] == checkpoint)
    return f"{checkpoint} ({NO_WEIGHTS})" if missing else checkpoint


def _figures(rows: Sequence[Row]) -> list[str]:
    return [figure for figure in COMPARED if any(figure in row for row in rows)]
