"""The figures of one corrected frame, and the means of many."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from qrsc.data.dataset import LoadedFrame, TruthInstant
from qrsc.evaluate.methods.results import Result, frame_of
from qrsc.evaluate.metrics.field_errors import endpoint_error, line_bend, unseen_parts
from qrsc.evaluate.metrics.lpips import load_lpips
from qrsc.evaluate.metrics.pixels import Reference, to_levels
from qrsc.evaluate.metrics.temporal import truth_motion, warping_error
from qrsc.flow import FlowEstimator, load_flow
from qrsc.simulate.output.writers import TRUTH_FILE, read_truth

# What can be asked for, and the figures that it gives.
METRICS: dict[str, tuple[str, ...]] = {
    "psnr": ("psnr",),
    "ssim": ("ssim",),
    "masks": ("psnr_seen", "psnr_unseen"),
    "fields": ("psnr_border", "psnr_occlusion", "epe", "bend"),
    "lpips": ("lpips",),
    "warping": ("warping",),
}
DEFAULT_METRICS = ("psnr", "ssim", "masks", "fields")
FIGURES = tuple(figure for figures in METRICS.values() for figure in figures)
ABOUT = {
    "psnr": "PSNR in dB on [0, 1] rounded to 8 bits, all pixels",
    "ssim": "SSIM with an 11x11 Gaussian window of sigma 1.5",
    "psnr_seen": "PSNR over the pixels that the rolling-shutter frame shows",
    "psnr_unseen": "PSNR over those that it does not",
    "psnr_border": "PSNR over pixels that came from outside the frame",
    "psnr_occlusion": "PSNR over pixels that were hidden behind something",
    "epe": "mean distance of the correction field from the true one, px",
    "bend": "root mean square distance of straight lines from straight, px",
    "lpips": "LPIPS with AlexNet",
    "warping": "root mean square difference of consecutive frames along the truth's motion, grey levels",
}
Measures = tuple[Callable[[Tensor, Tensor], float] | None, FlowEstimator | None]  # LPIPS, flow between truths
_YARDSTICK = "dis"  # the flow between truths that consecutive frames are compared along, the same for all


@dataclass(frozen=True)
class FrameScore:
    """The figures of one frame by one method; `figures` by the names in `FIGURES`, without those that do not apply."""

    set: str
    sequence: str
    frame: int
    at: TruthInstant
    method: str
    figures: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """For a line of JSON; `score_from_dict` is the way back."""
        return asdict(self)


def score_from_dict(values: Mapping[str, Any]) -> FrameScore:
    """The way back from `FrameScore.as_dict`."""
    return FrameScore(**values)


@dataclass
class Scorer:
    """Measures the frames of one clip, in order.

    Attributes:
        title: of the data set.
        sequence: name of the sequence.
        folder: of the sequence.
        metrics: from `METRICS`.
        lpips: the measure, if it is asked for.
        yardstick: flow between truths, if consecutive frames are to be compared.
    """

    title: str
    sequence: str
    folder: Path
    metrics: Sequence[str]
    lpips: Callable[[Tensor, Tensor], float] | None = None
    yardstick: FlowEstimator | None = None
    _last: dict[TruthInstant, tuple[int, Tensor, dict[str, Tensor]]] = field(default_factory=dict)

    @torch.no_grad()
    def score(self, loaded: LoadedFrame, at: TruthInstant, results: Mapping[str, Result]) -> list[FrameScore]:
        """The figures of all methods for one frame that has a truth at the instant."""
        truth = loaded.truths[at]
        reference = Reference(truth)
        masks = self._masks(loaded, at)
        exact = self._exact(loaded.files.number, at, truth)
        motion = self._motion(loaded.files.number, at, truth)
        frames = {name: _frame_of(name, result, truth) for name, result in results.items()}
        scores = []
        every = torch.stack([to_levels(frame) for frame in frames.values()])  # [M, 3, H, W]
        similarities = reference.ssim(every).tolist() if "ssim" in self.metrics else []
        for index, (name, frame) in enumerate(frames.items()):
            figures: dict[str, float] = {}
            levels = every[index]
            if "psnr" in self.metrics:
                figures["psnr"] = float(reference.psnr(levels))
            if similarities:
                figures["ssim"] = similarities[index]
            for figure, mask in (masks | exact.masks).items():
                figures[figure] = float(reference.masked_psnr(levels, mask))
            result = results[name]
            if exact.correction_field is not None and not isinstance(result, Tensor):
                field_ = result.correction_field.to(truth)
                figures["epe"] = endpoint_error(field_, exact.correction_field, exact.seen_in_truth)
                figures["bend"] = line_bend(field_, exact.distortion_field, exact.seen)
            if self.lpips is not None:
                figures["lpips"] = self.lpips(frame, truth)
            if motion is not None:
                figures["warping"] = warping_error(self._last[at][2][name], frame, *motion)
            known = {figure: value for figure, value in figures.items() if not math.isnan(value)}
            scores.append(FrameScore(self.title, self.sequence, loaded.files.number, at, name, known))
        if self.yardstick is not None:
            self._last[at] = (loaded.files.number, truth, frames)
        return scores

    def _masks(self, loaded: LoadedFrame, at: TruthInstant) -> dict[str, Tensor]:
        if "masks" not in self.metrics or at not in loaded.masks:
            return {}
        return {"psnr_seen": loaded.masks[at], "psnr_unseen": ~loaded.masks[at]}

    def _motion(self, number: int, at: TruthInstant, truth: Tensor) -> tuple[Tensor, Tensor] | None:
        """The flow from the truth before, if there is one."""
        if self.yardstick is None or at not in self._last or self._last[at][0] != number - 1:
            return None
        return truth_motion(self._last[at][1], truth, self.yardstick)

    def _exact(self, number: int, at: TruthInstant, truth: Tensor) -> _ExactFields:
        path = self.folder / TRUTH_FILE
        if "fields" not in self.metrics or not path.is_file():
            return _ExactFields()
        with np.load(path) as arrays:
            if f"correction_field_{at}/{number:05d}" not in arrays:
                return _ExactFields()
        names = ("correction_field", "distortion_field")
        fields = [read_truth(self.folder, f"{name}_{at}", number).to(truth) for name in names]
        seen = [read_truth(self.folder, f"{name}_{at}_visible", number).to(truth.device) for name in names]
        border, occlusion = unseen_parts(fields[1], seen[1])
        masks = {"psnr_border": border, "psnr_occlusion": occlusion}
        return _ExactFields(fields[0], seen[0], fields[1], seen[1], masks)


@dataclass(frozen=True)
class _ExactFields:
    """The truth of a simulated frame; without one, empty tensors and no masks."""

    correction_field: Tensor | None = None  # [2, H, W]
    seen_in_truth: Tensor = field(default_factory=lambda: torch.empty(0))  # [1, H, W]
    distortion_field: Tensor = field(default_factory=lambda: torch.empty(0))  # [2, H, W]
    seen: Tensor = field(default_factory=lambda: torch.empty(0))  # [1, H, W]
    masks: dict[str, Tensor] = field(default_factory=dict)


def load_measures(metrics: Sequence[str]) -> Measures:
    """LPIPS and the yardstick flow, as far as they are asked for."""
    unknown = [name for name in metrics if name not in METRICS]
    if unknown or not metrics:
        raise ValueError(f"unknown metrics {', '.join(unknown) or '(none)'}; choose from {', '.join(METRICS)}.")
    return load_lpips() if "lpips" in metrics else None, load_flow(_YARDSTICK) if "warping" in metrics else None


def mean_rows(scores: Sequence[FrameScore]) -> list[dict[str, Any]]:
    """One row for each data set, instant and method, in the order they come in: the means of all figures over frames.

    A figure that does not apply to a frame is not counted for it; one that applies to none is left out.
    """
    groups: dict[tuple[str, str, str], list[FrameScore]] = {}
    for score in scores:
        groups.setdefault((score.set, score.at, score.method), []).append(score)
    rows = []
    for (title, at, method), members in groups.items():
        row: dict[str, Any] = {"set": title, "method": method, "at": at, "frames": len(members)}
        for figure in FIGURES:
            values = [score.figures[figure] for score in members if figure in score.figures]
            if values:
                row[figure] = sum(values) / len(values)
        rows.append(row)
    return rows


def _frame_of(name: str, result: Result, truth: Tensor) -> Tensor:
    frame = frame_of(result)
    if not isinstance(frame, Tensor) or frame.shape != truth.shape:
        came = list(frame.shape) if isinstance(frame, Tensor) else type(frame).__name__
        raise ValueError(f"the method {name} must give frames {list(truth.shape)} like those it was given; got {came}.")
    return frame.to(truth.device)
