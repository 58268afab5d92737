"""Charts of the figures of an evaluation, and a contact sheet of the worst frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.data.dataset import ClipFiles, load_frame, split_at_gaps
from qrsc.evaluate.methods.registry import load_method
from qrsc.evaluate.methods.results import Result, frame_of
from qrsc.evaluate.methods.shared_flow import shared_flow
from qrsc.evaluate.metrics.metric_table import FIGURES
from qrsc.evaluate.report.charts import bar_chart, line_chart, write_chart
from qrsc.evaluate.run.plan import Plan
from qrsc.evaluate.run.scores import FrameScore
from qrsc.media.annotate import above, beside, error_picture, labelled
from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import write_frame

WORST = 6
NEIGHBOURS = 3  # frames on either side that a frame of the sheet is corrected with: as far as our methods look
ERROR_GAIN = 4.0
SHEET_WIDTH = 480  # of one picture


def write_charts(
    folder: Path, rows: Sequence[dict[str, Any]], scores: Sequence[FrameScore], caption: str
) -> list[Path]:
    """Bars of each figure over data sets and methods, and PSNR frame by frame; returns the files."""
    written = []
    for name, figure in FIGURES.items():
        groups: dict[str, dict[str, float]] = {}
        for row in rows:
            if math.isfinite(row.get(name, math.nan)):
                groups.setdefault(f"{row['set']}, {row['at']}", {})[row["method"]] = row[name]
        if groups and figure.chart is not None:
            written.append(write_chart(folder / f"{name}.svg", bar_chart(figure.chart, groups, caption=caption)))
    for title, at in dict.fromkeys((score.set, score.at) for score in scores):
        members = [score for score in scores if (score.set, score.at) == (title, at)]
        lines: dict[str, list[float]] = {}
        for score in members:
            lines.setdefault(score.method, []).append(score.figures.get("psnr", math.nan))
        if max(map(len, lines.values())) > 1 and any(math.isfinite(value) for line in lines.values() for value in line):
            name = f"frames_{title}_{at}.svg".replace("/", "_").replace(" ", "_")
            chart = line_chart(f"PSNR, dB: {title}, {at}", lines, caption=caption, along="frame")
            written.append(write_chart(folder / name, chart))
    return written


def write_worst(path: Path, plan: Plan, scores: Sequence[FrameScore], method: str) -> None:
    """A sheet of the frames on which a method has the lowest PSNR: before, after, truth and error in a row each."""
    mine = [score for score in scores if score.method == method and score.set == plan.title and "psnr" in score.figures]
    rows = []
    for score in sorted(mine, key=lambda score: score.figures["psnr"])[:WORST]:
        before, after, truth = _pictures(plan, score)
        name = f"{score.sequence}/{score.frame:05d}, {score.at}"
        columns = [
            labelled(_small(before), f"{name}: before"),
            labelled(_small(after), f"{method}  {score.figures['psnr']:.1f} dB"),
            labelled(_small(truth), "truth"),
            labelled(_small(error_picture(after, truth, ERROR_GAIN)), f"error x {ERROR_GAIN:g}"),
        ]
        rows.append(beside(columns))
    if not rows:
        raise ValueError(f"there is no frame of {plan.title} with a PSNR by {method} to show.")
    widest = max(row.shape[-1] for row in rows)
    rows = [torch.nn.functional.pad(row, (0, widest - row.shape[-1]), value=1.0) for row in rows]
    with atomic_file(path) as work:
        write_frame(work, above(rows))


@torch.no_grad()
def _pictures(plan: Plan, score: FrameScore) -> tuple[Tensor, Tensor, Tensor]:
    """Before, after and truth of a frame, corrected once more from the frames around it."""
    clip, index = _find(plan, score)
    if score.method in plan.folders:
        alone = replace(clip, frames=clip.frames[index : index + 1])
        after = next(plan.folders[score.method].frames(alone, score.at))
        loaded = load_frame(clip.frames[index], (score.at,))
        return loaded.rolling, after, loaded.truths[score.at]
    start = max(0, index - NEIGHBOURS)
    frames = [load_frame(files, (score.at,)) for files in clip.frames[start : index + NEIGHBOURS + 1]]
    flow = shared_flow(plan.flow)
    for loaded in frames:
        flow.announce(loaded)
    method = load_method(score.method, flow, plan.table)
    results: list[Result] = list(
        method((loaded.rolling for loaded in frames), clip.readout, clip.readout.instant(score.at))
    )
    centre, result = frames[index - start], results[index - start]
    return centre.rolling, frame_of(result), centre.truths[score.at]


def _find(plan: Plan, score: FrameScore) -> tuple[ClipFiles, int]:
    for clip in (clip for sequence in plan.sequences for clip in split_at_gaps(sequence)):
        if clip.sequence == score.sequence:
            for index, files in enumerate(clip.frames):
                if files.number == score.frame:
                    return clip, index
    raise ValueError(f"{score.sequence} has no frame {score.frame} any more.")


def _small(frame: Tensor) -> Tensor:
    scale = min(1.0, SHEET_WIDTH / frame.shape[-1])
    size = [max(1, round(side * scale)) for side in frame.shape[-2:]]
    return torch.nn.functional.interpolate(frame.unsqueeze(0).cpu(), size, mode="area")[0]
