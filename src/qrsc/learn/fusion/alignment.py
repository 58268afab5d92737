"""Batches of clips aligned for training: the pipeline's own steps, with each motion found once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor

from qrsc.flow import ConfidentFlows, FlowEstimator, FlowPair, find_flows
from qrsc.fusion import AlignedFrames
from qrsc.motion.path_fit import fit_path, path_equations
from qrsc.motion.trajectory import Trajectory
from qrsc.names import AlignmentMotion as AlignmentMotion
from qrsc.names import Interpolation
from qrsc.pipeline.align import (
    Correction,
    FrameFlows,
    MotionModel,
    MovingFrame,
    align,
    frame_motion,
    prepared_flow,
    trusted_flows,
    uncorrected,
)
from qrsc.timing import Readout

ALIGNMENT_MOTIONS: tuple[AlignmentMotion, ...] = get_args(AlignmentMotion)
PAIRS_AT_ONCE = 32


class Alignment:
    """Aligns any frames of a batch of clips to an instant of one of them.

    Args:
        frames: `[B, N, 3, H, W]`.
        flows: N - 1 of them, of each frame and the next, with confidences where the estimator has any.
        readout: the readout that the frames are corrected for.
        motion: `path` (one for all frames, and a quadratic motion of each pixel), `quadratic`, `linear` or `none`.
        interpolation: of the frames.
    """

    def __init__(
        self,
        frames: Tensor,
        flows: Sequence[ConfidentFlows],
        readout: Readout,
        *,
        motion: AlignmentMotion = "path",
        interpolation: Interpolation = "bilinear",
    ) -> None:
        if motion not in ALIGNMENT_MOTIONS:
            raise ValueError(f"unknown motion {motion!r}; choose one of {', '.join(ALIGNMENT_MOTIONS)}.")
        if motion != "none" and len(flows) != frames.shape[1] - 1:
            raise ValueError(f"{frames.shape[1]} frames have flows between neighbours, one less; got {len(flows)}.")
        self.frames, self.readout = frames, readout
        self._correction = Correction(interpolation=interpolation)
        self._model = None if motion == "none" else MotionModel(motion)
        self._flows = {index: FrameFlows(float(index)) for index in range(frames.shape[1])}
        self._trajectories: dict[int, Trajectory] = {}
        self._path = None
        if self._model is None:
            return
        equations = []
        for index, found in enumerate(flows):
            forward, backward = (prepared_flow(each, self._model) for each in trusted_flows(found))
            self._flows[index].flows[1], self._flows[index + 1].flows[-1] = forward, backward
            if self._model.along_path:
                equations.append(path_equations(*forward, float(index), float(index + 1), readout))
                equations.append(path_equations(*backward, float(index + 1), float(index), readout))
        if equations:
            self._path = fit_path(equations, frames)

    def __call__(self, indices: Sequence[int], centre: int, tau: float) -> AlignedFrames:
        """Some of the frames, corrected to `tau` after the start of the one at `indices[centre]`."""
        if self._model is None:
            return uncorrected(self.frames[:, list(indices)], list(indices), centre, tau, self.readout)
        moving = [MovingFrame(self.frames[:, i], float(i), self._trajectory(i)) for i in indices]
        return align(moving, centre, tau, self.readout, self._correction)

    def _trajectory(self, index: int) -> Trajectory:
        """How the pixels of a frame move, found once."""
        assert self._model is not None
        if index not in self._trajectories:
            size = (self.frames.shape[-2], self.frames.shape[-1])
            path = None if self._path is None else self._path.from_frame(float(index), self.readout, size)
            motion = frame_motion(self._flows, index, self.readout, self._model, path=path, neighbour=self._trajectory)
            self._trajectories[index] = motion.trajectory
        return self._trajectories[index]


def clip_flows(frames: Tensor, flow: FlowEstimator) -> list[ConfidentFlows]:
    """Flows between neighbours of clips `[B, N, 3, H, W]`, with the estimator's confidences if it has any."""
    batch, count = frames.shape[:2]
    first, second = frames[:, :-1].flatten(0, 1), frames[:, 1:].flatten(0, 1)
    found = [
        find_flows(flow, first[start : start + PAIRS_AT_ONCE], second[start : start + PAIRS_AT_ONCE])
        for start in range(0, len(first), PAIRS_AT_ONCE)
    ]

    def joined(parts: Sequence[Tensor]) -> list[Tensor]:
        """The N - 1 parts `[B, C, H, W]` of all pairs."""
        whole = torch.cat(list(parts))
        return list(whole.reshape(batch, count - 1, *whole.shape[1:]).unbind(1))

    def joined_confidences(parts: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
        known = [part for part in parts if part is not None]
        return joined(known) if len(known) == len(parts) else [None] * (count - 1)

    forward, backward = (joined([each.flows[side] for each in found]) for side in (0, 1))
    sure = joined_confidences([each.forward_confidence for each in found])
    back_sure = joined_confidences([each.backward_confidence for each in found])
    return [
        ConfidentFlows(FlowPair(*flows), *confidences)
        for *flows, confidences in zip(forward, backward, zip(sure, back_sure, strict=True), strict=True)
    ]
