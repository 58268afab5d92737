"""The metrics of `metric_table` on one frame, as several methods have corrected it.

Convention
    A measure takes a `ScoredFrame` and returns lists of values by the names of its figures, one value per method in the
    frame's order. NaN, or a name that is left out, is a figure that does not apply.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from qrsc.data.dataset import TruthInstant
from qrsc.evaluate.metrics.field_errors import endpoint_error, line_bend, unseen_parts
from qrsc.evaluate.metrics.image_quality import Reference, to_levels
from qrsc.evaluate.metrics.temporal import find_tracks, flicker, truth_motion, warping_error
from qrsc.files.arrays import ArrayArchive
from qrsc.flow import FlowEstimator, load_flow
from qrsc.simulate.output.writers import TRUTH_FILE, read_truth

# The flow between truths along which consecutive frames are compared, the same for all methods.
TRUTH_MOTION_FLOW = "dis"


class PrecedingFrame(NamedTuple):
    """The frame before: its truth `[3, H, W]` at the same instant, and its pictures `[3, H, W]` by method."""

    truth: Tensor
    pictures: Mapping[str, Tensor]


@dataclass(frozen=True)
class ScoredFrame:
    """A frame with its truth, and what methods made of it.

    Attributes:
        folder: of the sequence; a simulated one has exact fields there.
        number: of the frame.
        at: the instant of the truth.
        truth: `[3, H, W]`.
        pictures: by method, `[3, H, W]`.
        correction_fields: by method, `[2, H, W]`, of the methods that give one.
        mask: `[1, H, W]` bool, the pixels that the rolling-shutter frame shows; None where the data set has no masks.
        preceding: the frame before; None where there is none, or no metric asks for it.
    """

    folder: Path
    number: int
    at: TruthInstant
    truth: Tensor
    pictures: Mapping[str, Tensor]
    correction_fields: Mapping[str, Tensor]
    mask: Tensor | None = None
    preceding: PrecedingFrame | None = None

    @cached_property
    def reference(self) -> Reference:
        """The truth, ready to be compared with."""
        return Reference(self.truth)

    @cached_property
    def levels(self) -> Tensor:
        """`[M, 3, H, W]`, uint8: the pictures of all methods as an 8-bit file would hold them."""
        return torch.stack([to_levels(picture) for picture in self.pictures.values()])


Measure = Callable[[ScoredFrame], Mapping[str, Sequence[float]]]


def of_pictures(figure: str, function: Callable[[Tensor, Tensor], float | Tensor]) -> Measure:
    """A measure from a function of a picture and its truth, `[3, H, W]` in [0, 1] each."""

    def measure(frame: ScoredFrame) -> dict[str, list[float]]:
        return {figure: [float(function(picture, frame.truth)) for picture in frame.pictures.values()]}

    return measure


def measure_psnr(frame: ScoredFrame) -> dict[str, list[float]]:
    """PSNR over all pixels."""
    return {"psnr": [float(frame.reference.psnr(levels)) for levels in frame.levels]}


def measure_ssim(frame: ScoredFrame) -> dict[str, list[float]]:
    """SSIM, of all methods at a time: the truth is filtered once."""
    return {"ssim": frame.reference.ssim(frame.levels).tolist()}


def measure_masks(frame: ScoredFrame) -> dict[str, list[float]]:
    """PSNR over the pixels that the rolling-shutter frame shows, and over the others."""
    if frame.mask is None:
        return {}
    return {"psnr_seen": _masked_psnr(frame, frame.mask), "psnr_unseen": _masked_psnr(frame, ~frame.mask)}


def measure_fields(frame: ScoredFrame) -> dict[str, list[float]]:
    """What needs the exact fields of a simulated sequence."""
    exact = _exact_fields(frame)
    if exact is None:
        return {}
    border, occlusion = unseen_parts(exact.distortion_field, exact.seen)
    figures = {"psnr_border": _masked_psnr(frame, border), "psnr_occlusion": _masked_psnr(frame, occlusion)}
    figures |= {"epe": [], "bend": []}
    for method in frame.pictures:
        if method not in frame.correction_fields:
            figures["epe"].append(math.nan)
            figures["bend"].append(math.nan)
            continue
        field = frame.correction_fields[method].to(frame.truth)
        figures["epe"].append(endpoint_error(field, exact.correction_field, exact.seen_in_truth))
        figures["bend"].append(line_bend(field, exact.distortion_field, exact.seen))
    return figures


def measure_warping(frame: ScoredFrame) -> dict[str, list[float]]:
    """Differences between consecutive frames along the motion of their truths."""
    if frame.preceding is None:
        return {}
    motion, trusted = truth_motion(frame.preceding.truth, frame.truth, _truth_motion_flow())
    before = frame.preceding.pictures
    errors = [warping_error(before[name], picture, motion, trusted) for name, picture in frame.pictures.items()]
    return {"warping": errors}


def measure_flicker(frame: ScoredFrame) -> dict[str, list[float]]:
    """Changes between consecutive frames that their truths do not have, along the steady tracks of the truths."""
    if frame.preceding is None:
        return {}
    tracks = find_tracks(frame.preceding.truth, frame.truth, _truth_motion_flow())
    before = frame.preceding.pictures
    return {"flicker": [flicker(before[name], picture, tracks) for name, picture in frame.pictures.items()]}


def _masked_psnr(frame: ScoredFrame, mask: Tensor) -> list[float]:
    return [float(frame.reference.masked_psnr(levels, mask)) for levels in frame.levels]


class _ExactFields(NamedTuple):
    """The true fields of a simulated frame."""

    correction_field: Tensor  # [2, H, W]
    seen_in_truth: Tensor  # [1, H, W] bool, on the grid of the correction field
    distortion_field: Tensor  # [2, H, W]
    seen: Tensor  # [1, H, W] bool, on the grid of the distortion field


def _exact_fields(frame: ScoredFrame) -> _ExactFields | None:
    path = frame.folder / TRUTH_FILE
    if not path.is_file():
        return None
    with ArrayArchive(path) as arrays:
        if f"correction_field_{frame.at}/{frame.number:05d}" not in arrays.names:
            return None

    def read(name: str) -> Tensor:
        height, width = frame.truth.shape[-2:]
        return read_truth(frame.folder, name, frame.number, (height, width)).to(frame.truth.device)

    names = (f"correction_field_{frame.at}", f"distortion_field_{frame.at}")
    fields = [read(name).to(frame.truth) for name in names]
    seen = [read(f"{name}_visible") for name in names]
    return _ExactFields(fields[0], seen[0], fields[1], seen[1])


@lru_cache(1)
def _truth_motion_flow() -> FlowEstimator:
    return load_flow(TRUTH_MOTION_FLOW)
