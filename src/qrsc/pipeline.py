"""Frames in, corrected frames out: flow, motion, warp and fusion over a sliding window of a clip."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.flow import FlowEstimator, load_flow
from qrsc.flow.filling import settle_flow
from qrsc.fusion import AlignedFrames, FusionName, load_fusion
from qrsc.motion import ORDERS, Trajectory, chain_flows, correction_field, fit_trajectory
from qrsc.timing import Readout
from qrsc.warp import INTERPOLATIONS, WARP_METHODS, Interpolation, Warped, WarpMethod, apply_correction

MotionName = Literal["linear", "quadratic", "cubic"]
WINDOWS = (3, 4, 5)

# Pull of the acceleration towards zero (see motion.fit_trajectory): with both flows trusted it costs 2 % of the
# acceleration; a pixel whose one flow has a confidence of 0.01 is all but linear from the other side.
REGULARISATION = 0.01

Clip = TypeVar("Clip", Tensor, npt.NDArray[Any])


@dataclass(frozen=True)
class Corrected:
    """One corrected frame.

    Attributes:
        frame: `[3, H, W]`, what a global shutter would have seen at the instant.
        valid: `[1, H, W]` bool; False where no frame of the window shows the pixel, and a nearby value stands in.
        correction_field: `[2, H, W]`, RS -> GS in pixels, on the grid of this frame as it came in.
    """

    frame: Tensor
    valid: Tensor
    correction_field: Tensor


@dataclass
class _Moment:
    """A frame of the window with what has been found out about it; batch dimension 1 throughout."""

    frame: Tensor  # [1, 3, H, W]
    flows: dict[int, Tensor] = field(default_factory=dict)  # to the neighbours -1 and 1, [1, 2, H, W]
    confidences: dict[int, Tensor] = field(default_factory=dict)  # [1, 1, H, W]
    trajectory: Trajectory | None = None


class Corrector:
    """Corrects clips frame by frame, each flow computed once.

    Args:
        readout: how the camera reads its frames.
        tau: the global-shutter instant, in frame intervals after the start of each frame; None is the middle row.
        motion: `linear` (order 1), `quadratic` (2) or `cubic` (3, from the flows to two frames on either side).
            The first and the last frame of a clip have one neighbour and are linear.
        fusion: `mean` merges neighbouring frames corrected to the same instant; `none` uses each frame alone.
        warp: `invert`, `splat` or `negate`; see `qrsc.warp.apply_correction`.
        flow: an estimator or its name.
        frames: 3, 4 or 5 frames are looked at for each output; the inner 1, 2 or 3 of them are fused.
        interpolation: `bilinear`, or `bicubic` (sharper; on noisy frames with imperfect flow about 0.3 dB behind).
        regularisation: pull of the acceleration towards zero.

    Device and dtype are those of the frames.
    """

    def __init__(
        self,
        readout: Readout,
        *,
        tau: float | None = None,
        motion: MotionName = "quadratic",
        fusion: FusionName = "mean",
        warp: WarpMethod = "invert",
        flow: FlowEstimator | str = "dis",
        frames: int = 5,
        interpolation: Interpolation = "bilinear",
        regularisation: float = REGULARISATION,
    ) -> None:
        if motion not in ORDERS:
            raise ValueError(f"unknown motion {motion!r}; choose one of {', '.join(ORDERS)}.")
        if warp not in WARP_METHODS:
            raise ValueError(f"unknown warp {warp!r}; choose one of {', '.join(WARP_METHODS)}.")
        if interpolation not in INTERPOLATIONS:
            raise ValueError(f"unknown interpolation {interpolation!r}; choose one of {', '.join(INTERPOLATIONS)}.")
        if frames not in WINDOWS:
            raise ValueError(f"frames must be one of {', '.join(map(str, WINDOWS))}; got {frames!r}.")
        self.readout = readout
        self.tau = readout.instant("middle") if tau is None else float(tau)
        self.warp = warp
        self.interpolation = interpolation
        self.regularisation = regularisation
        self._order = ORDERS[motion]
        self._fusion = load_fusion(fusion)
        self._flow = load_flow(flow) if isinstance(flow, str) else flow
        fused = frames - 2 if self._fusion is not None else 1
        self._behind = fused // 2
        self._ahead = fused - 1 - self._behind

    def __call__(self, frames: Tensor) -> Tensor:
        """Correct a whole clip `[T, 3, H, W]`; returns the same shape."""
        if frames.ndim != 4 or len(frames) == 0:
            raise ValueError(f"a clip is a tensor [T, 3, H, W] of one frame or more; got {tuple(frames.shape)}.")
        return torch.stack([corrected.frame for corrected in self.stream(frames)])

    def stream(self, frames: Iterable[Tensor]) -> Iterator[Corrected]:
        """Correct frames `[3, H, W]` as they come: one out for each one in, a few frames later, in order."""
        if self.readout.gamma == 0.0 and self.tau == self.readout.offset:
            yield from _unchanged(frames)
            return
        # Order 3 looks at two frames on either side, so a trajectory is complete one frame later.
        reach = 2 if self._order == 3 else 1
        window: dict[int, _Moment] = {}
        count = emitted = 0
        for frame in frames:
            self._append(window, count, frame)
            count += 1
            while emitted + self._ahead + reach < count:
                yield self._corrected(window, emitted)
                emitted += 1
                # The oldest frame that the next output looks at, with the frames that its trajectory looks at.
                window.pop(emitted - self._behind - reach - 1, None)
        if count == 1:
            warnings.warn("a clip of one frame shows no motion: it is returned as it is.", stacklevel=2)
            yield from _unchanged([window[0].frame[0]])
            return
        while emitted < count:
            yield self._corrected(window, emitted)
            emitted += 1

    def _append(self, window: dict[int, _Moment], index: int, frame: Tensor) -> None:
        _check_frame(frame, index, window[index - 1].frame if index else None)
        newest = window[index] = _Moment(frame.unsqueeze(0))
        if index == 0:
            return
        previous = window[index - 1]
        forward, backward = self._flow(previous.frame, newest.frame)
        previous.flows[1], previous.confidences[1] = settle_flow(forward, backward)
        newest.flows[-1], newest.confidences[-1] = settle_flow(backward, forward)

    def _corrected(self, window: dict[int, _Moment], centre: int) -> Corrected:
        indices = [i for i in range(centre - self._behind, centre + self._ahead + 1) if i in window]
        warped, fields = [], []
        for index in indices:
            trajectory = self._trajectory(window, index)
            fields.append(correction_field(trajectory, self.readout, self.tau, centre - index))
            warped.append(self._warped(window[index].frame, trajectory, fields[-1]))
        own = indices.index(centre)
        result = warped[own]
        if self._fusion is not None:
            result = self._fusion(self._aligned(indices, own, warped, fields))
        return Corrected(result.image[0], result.valid[0], fields[own][0])

    def _trajectory(self, window: dict[int, _Moment], index: int) -> Trajectory:
        moment = window[index]
        if moment.trajectory is None:
            flows, confidences = dict(moment.flows), dict(moment.confidences)
            order = self._order if len(flows) == 2 else 1
            if order == 3:
                for step in (-1, 1):
                    beyond = window.get(index + step)
                    if beyond is not None and step in beyond.flows:
                        flows[2 * step], confidences[2 * step] = chain_flows(
                            flows[step], beyond.flows[step], confidences[step], beyond.confidences[step]
                        )
            moment.trajectory = fit_trajectory(
                flows, self.readout, order=order, confidences=confidences, regularisation=self.regularisation
            )
        return moment.trajectory

    def _warped(self, frame: Tensor, trajectory: Trajectory, correction: Tensor) -> Warped:
        """A frame corrected to the instant, with the solver's validity carried along."""
        with_mask = torch.cat([frame, trajectory.valid.to(frame.dtype)], 1)
        image, valid = apply_correction(with_mask, correction, self.warp, interpolation=self.interpolation)
        valid = valid & (image[:, 3:] > 0.5)
        image = image[:, :3]
        if self.warp == "splat":  # holes show what an inverse warp would put there, and stay not valid
            filler = apply_correction(frame, correction, "invert", interpolation=self.interpolation).image
            image = torch.where(valid, image, filler)
        return Warped(image.clamp(0.0, 1.0), valid)

    def _aligned(self, indices: list[int], own: int, each: list[Warped], fields: list[Tensor]) -> AlignedFrames:
        image = each[own].image
        height, width = image.shape[-2:]
        exposed = self.readout.row_times(height, width, dtype=image.dtype, device=image.device)
        distance = [(indices[own] - i + self.tau - exposed).abs().expand(1, 1, height, width) for i in indices]
        return AlignedFrames(
            frames=torch.stack([w.image for w in each], 1),
            correction_fields=torch.stack(fields, 1),
            valid=torch.stack([w.valid for w in each], 1),
            time_distance=torch.stack(distance, 1),
            centre=own,
        )


def correct(frames: Clip, readout: Readout | float, *, tau: float | None = None, **options: Any) -> Clip:
    """Correct a clip that is an array.

    Args:
        frames: a torch tensor `[T, 3, H, W]` of floats in [0, 1], or a numpy array `[T, H, W, 3]` of uint8, uint16 or
            floats in [0, 1]; RGB.
        readout: a `Readout`, or gamma alone for a camera that reads from the top.
        tau: the instant; None is the middle row.
        **options: as for `Corrector`.

    Returns:
        The same kind, shape and dtype.
    """
    corrector = Corrector(readout if isinstance(readout, Readout) else Readout(readout), tau=tau, **options)
    if isinstance(frames, Tensor):
        return corrector(frames)
    if frames.ndim != 4 or frames.shape[-1] != 3:
        raise ValueError(f"a clip is an array [T, H, W, 3]; got {frames.shape}.")
    scale = float(np.iinfo(frames.dtype).max) if np.issubdtype(frames.dtype, np.unsignedinteger) else 1.0
    if scale == 1.0 and not np.issubdtype(frames.dtype, np.floating):
        raise ValueError(f"frames must be uint8, uint16 or floats in [0, 1]; got {frames.dtype}.")
    precision = np.float64 if frames.dtype == np.float64 else np.float32
    tensor = torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2), dtype=precision)) / scale
    result = corrector(tensor) * scale
    result = result.round() if scale != 1.0 else result
    return np.ascontiguousarray(result.numpy().transpose(0, 2, 3, 1), dtype=frames.dtype)


def _unchanged(frames: Iterable[Tensor]) -> Iterator[Corrected]:
    for index, frame in enumerate(frames):
        _check_frame(frame, index, None)
        everywhere = torch.ones_like(frame[:1], dtype=torch.bool)
        yield Corrected(frame, everywhere, torch.zeros_like(frame[:2]))


def _check_frame(frame: Tensor, index: int, previous: Tensor | None) -> None:
    if frame.ndim != 3 or frame.shape[0] != 3 or not frame.is_floating_point():
        raise ValueError(
            f"frames must be float tensors [3, H, W] in [0, 1]; frame {index} is {tuple(frame.shape)} of {frame.dtype}."
        )
    if previous is not None and frame.shape != previous.shape[1:]:
        raise ValueError(
            f"all frames of a clip must have one size; frame {index} is {tuple(frame.shape[1:])} after "
            f"{tuple(previous.shape[2:])}."
        )
