"""Multi-QRS on batches of clips: the steps of the pipeline, for many clips of one readout at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from qrsc.flow import ConfidentFlows, FlowEstimator, FlowPair, find_flows
from qrsc.fusion import AlignedFrames
from qrsc.motion.along_path import carried_on, trajectory_along
from qrsc.motion.camera_path import CameraPath, fit_path, path_equations
from qrsc.motion.fill import TrustedFlow
from qrsc.motion.trajectory import Trajectory, correction_field
from qrsc.pipeline import MOTION_ORDERS, REGULARISATION
from qrsc.pipeline.align import trusted_flows
from qrsc.pipeline.warping import warped_frames
from qrsc.pipeline.window import Moment
from qrsc.timing import Readout
from qrsc.warp import Interpolation, Warped

# What neighbours are brought to the instant by. `none` leaves every frame as it came, with a field of zeros: what the
# fusion gets in an ablation that takes the correction away.
AlignmentMotion = Literal["path", "quadratic", "linear", "none"]
ALIGNMENT_MOTIONS: tuple[AlignmentMotion, ...] = get_args(AlignmentMotion)
PAIRS_AT_ONCE = 32


class Alignment:
    """Any frame corrected to an instant of any other, each motion found once.

    The same steps as in `qrsc.pipeline.Corrector`, with the same functions.

    Args:
        frames: `[B, N, 3, H, W]`.
        flows: N - 1 of them, of each frame and the next, with confidences where the estimator has any.
        readout: what the frames are taken to be read with.
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
        self.frames, self.readout, self.motion, self.interpolation = frames, readout, motion, interpolation
        self._flows: dict[tuple[int, int], TrustedFlow] = {}  # by frame and step
        for index, found in enumerate(flows if motion != "none" else ()):
            self._flows[index, 1], self._flows[index + 1, -1] = trusted_flows(found)
        self._path = self._fitted() if motion == "path" and flows else None
        self._trajectories: dict[int, Trajectory] = {}

    def _fitted(self) -> CameraPath:
        return fit_path(
            [
                path_equations(*trusted, float(index), float(index + step), self.readout)
                for (index, step), trusted in self._flows.items()
            ],
            self.frames,
        )

    def __call__(self, indices: Sequence[int], centre: int, tau: float) -> AlignedFrames:
        """Some of the frames, corrected to `tau` after the start of the one at `indices[centre]`."""
        warped, corrections, distances = [], [], []
        height, width = self.frames.shape[-2:]
        exposed = self.readout.row_times(height, width, dtype=self.frames.dtype, device=self.frames.device)
        for index in indices:
            apart = indices[centre] - index
            image, correction = self._corrected(index, apart + tau)
            warped.append(image)
            corrections.append(correction)
            distances.append((apart + tau - exposed).abs().expand(len(self.frames), 1, height, width))
        return AlignedFrames(
            torch.stack([each.image for each in warped], 1),
            torch.stack(corrections, 1),
            torch.stack([each.valid for each in warped], 1),
            torch.stack(distances, 1),
            centre,
            self.readout.gamma,
        )

    def _corrected(self, index: int, instant: float) -> tuple[Warped, Tensor]:
        """A frame at an instant after its own start, and its correction field `[B, 2, H, W]`."""
        frame = self.frames[:, index]
        if self.motion == "none":
            return Warped(frame, torch.ones_like(frame[:, :1], dtype=torch.bool)), torch.zeros_like(frame[:, :2])
        trajectory = self._trajectory(index)
        correction = correction_field(trajectory, self.readout, instant)
        moment = Moment(frame, float(index), float(index), (0.0, 1.0))
        [warped] = warped_frames([moment], [trajectory.valid], [correction], "invert", self.interpolation)
        return warped, correction

    def _trajectory(self, index: int) -> Trajectory:
        """How the pixels of a frame move, found once."""
        if index not in self._trajectories:
            size = (self.frames.shape[-2], self.frames.shape[-1])
            path = None if self._path is None else self._path.from_frame(float(index), self.readout, size)
            found = {float(step): self._flows[index, step] for step in (-1, 1) if (index, step) in self._flows}
            order = min(MOTION_ORDERS[self.motion], len(found))
            own = trajectory_along(found, path, self.readout, order=order, regularisation=REGULARISATION)
            self._trajectories[index] = own if path is None or len(found) == 2 else self._carried_on(own, index)
        return self._trajectories[index]

    def _carried_on(self, own: Trajectory, index: int) -> Trajectory:
        """See `carried_on`; nothing is, in a clip of fewer than four frames."""
        count = self.frames.shape[1]
        if count < 4:
            return own
        step = 1 if index == 0 else -1
        flow, onward = self._flows[index, step], self._flows[index + step, step]
        near, far = self._trajectory(index + step), self._trajectory(index + 2 * step)
        return carried_on(own, flow, float(step), self.readout, near, onward, far)


def clip_flows(frames: Tensor, flow: FlowEstimator) -> list[ConfidentFlows]:
    """Flows between neighbours of clips `[B, N, 3, H, W]`, with all that the estimator knows about them."""
    batch, count = frames.shape[:2]
    first, second = frames[:, :-1].flatten(0, 1), frames[:, 1:].flatten(0, 1)
    found = [
        find_flows(flow, first[start : start + PAIRS_AT_ONCE], second[start : start + PAIRS_AT_ONCE])
        for start in range(0, len(first), PAIRS_AT_ONCE)
    ]

    def joined(parts: Sequence[Tensor | None]) -> list[Tensor] | list[None]:
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return [None] * (count - 1)
        whole = torch.cat(known)
        return list(whole.reshape(batch, count - 1, *whole.shape[1:]).unbind(1))

    forward, backward = (joined([each.flows[side] for each in found]) for side in (0, 1))
    sure = joined([each.forward_confidence for each in found])
    back_sure = joined([each.backward_confidence for each in found])
    result = []
    for there, back, own, other in zip(forward, backward, sure, back_sure, strict=True):
        assert there is not None and back is not None  # every estimator gives flows  # noqa: PT018  # one fact of two
        result.append(ConfidentFlows(FlowPair(there, back), own, other))
    return result
