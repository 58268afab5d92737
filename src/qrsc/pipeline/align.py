"""From flows to aligned frames: the one assembly that correction, training and scoring share.

Every function here is stateless and works on batches of clips. In the order in which they are called:

    trusted_flows    both flows of a pair of frames, with confidences
    prepared_flow    a flow that is filled where it is uncertain, if the motion model wants it so
    path_equations   what these flows say about the camera path (`qrsc.motion.path_fit`)
    frame_motion     the trajectory of a frame, from its flows and the path
    align            frames warped to one instant, with their correction fields
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from qrsc.flow.protocol import ConfidentFlows
from qrsc.fusion.aligned import AlignedFrames
from qrsc.image.resize import in_pixels_of
from qrsc.motion.along_path import borrow_acceleration, trajectory_along_path
from qrsc.motion.camera_path import PathOfFrame
from qrsc.motion.consistency import chain_flows, consistency_confidence
from qrsc.motion.fill import TrustedFlow, fill_uncertain_flow
from qrsc.motion.partial import fade_unsure, partial_correction_field
from qrsc.motion.trajectory import ORDERS, Trajectory, fit_trajectory
from qrsc.names import Interpolation, MotionName, Unsure, WarpMethod
from qrsc.pipeline.corrected import Seconds
from qrsc.pipeline.warping import warped_frames
from qrsc.timing import Readout

# The order of each pixel's own motion. With `path` that is the motion left over after the camera path.
MOTION_ORDERS = {**ORDERS, "path": ORDERS["quadratic"]}
# Pull of the acceleration towards zero (see `fit_trajectory`). With both flows trusted it costs 2 % of the
# acceleration; a pixel with a confidence of 0.01 in one flow is almost linear, from the other flow.
REGULARISATION = 0.01

_COUNTED = {1: "one neighbour", 2: "two neighbours"}
_ORDER_NAMES = {order: name for name, order in ORDERS.items()}


@dataclass(frozen=True)
class MotionModel:
    """How pixels are taken to move.

    Attributes:
        name: `linear`, `quadratic`, `cubic`, or `path`: a camera path with a quadratic motion of each pixel on top.
        regularisation: pull of the acceleration towards zero.
    """

    name: MotionName = "path"
    regularisation: float = REGULARISATION

    @property
    def order(self) -> int:
        """The order of each pixel's own motion."""
        return MOTION_ORDERS[self.name]

    @property
    def along_path(self) -> bool:
        """Whether pixels move along a camera path."""
        return self.name == "path"


@dataclass
class FrameFlows:
    """The flows of one frame of B clips.

    Attributes:
        time: at which its readout starts, in frame intervals.
        flows: `[B, 2, h, w]` by step: -1 to the previous frame, 1 to the next.
    """

    time: float
    flows: dict[int, TrustedFlow] = field(default_factory=dict)


class FrameMotion(NamedTuple):
    """The motion of a frame's pixels, and why it is of a simpler model than asked for; False if it is not."""

    trajectory: Trajectory
    fallback: str | Literal[False]


class MovingFrame(NamedTuple):
    """A frame of B clips that can be corrected to any instant.

    Attributes:
        frame: `[B, 3, H, W]`.
        time: at which its readout starts, in frame intervals.
        trajectory: of its pixels, on a grid `(h, w)` over the frame.
        limits: smallest and largest value of the result; cubic interpolation overshoots.
    """

    frame: Tensor
    time: float
    trajectory: Trajectory
    limits: tuple[Tensor | float, Tensor | float] = (0.0, 1.0)


@dataclass(frozen=True)
class Correction:
    """How frames are corrected once their motion is known; see the arguments of `qrsc.Corrector`."""

    warp: WarpMethod = "invert"
    interpolation: Interpolation = "bicubic"
    strength: float = 1.0
    unsure: Unsure = "linear"


# --- flows ---


def trusted_flows(found: ConfidentFlows) -> tuple[TrustedFlow, TrustedFlow]:
    """Both flows of frame pairs with their confidences: the estimator's own, or else by forward-backward consistency.

    The flow network's own confidence is the better one: +0.2 dB on sim-drive, +0.1 on sim-occlusion, +0.3 on sim-shake
    (two scenes each, no fusion). The product of both loses 0.05 to 0.2 dB.
    """
    (forward, backward), sure, back_sure = found
    return (
        TrustedFlow(forward, consistency_confidence(forward, backward) if sure is None else sure),
        TrustedFlow(backward, consistency_confidence(backward, forward) if back_sure is None else back_sure),
    )


def prepared_flow(trusted: TrustedFlow, model: MotionModel) -> TrustedFlow:
    """A flow as `frame_motion` takes it: its uncertain parts are filled from the flow around them.

    Along a camera path nothing is filled here: `frame_motion` fills the motion left over after the path.
    """
    return trusted if model.along_path else fill_uncertain_flow(trusted)


def readout_on_grid(readout: Readout, size: tuple[int, ...], grid: tuple[int, ...]) -> Readout:
    """The readout of frames of size `(H, W)` on a grid `(h, w)` over them."""
    (height, width), (rows, columns) = size, grid
    return readout if (height, width) == (rows, columns) else readout.resized((height, width), (rows, columns))


# --- motion ---


def frame_motion(
    frames: Mapping[int, FrameFlows],
    index: int,
    readout: Readout,
    model: MotionModel,
    *,
    path: PathOfFrame | None = None,
    neighbour: Callable[[int], Trajectory] | None = None,
) -> FrameMotion:
    """How the pixels of a frame move.

    A frame with one neighbour (at the ends of a clip, beside a cut) gets a linear motion. Along a camera path it gets
    as much of its neighbour's acceleration as lasts, if the two frames next to it have two neighbours each.

    Args:
        frames: by number; the frame, its neighbours, and the frames beyond those as far as they are known.
        index: of the frame, which has one flow or two.
        readout: on the grid of the flows.
        model: the motion asked for.
        path: along which the pixels of the frame move; for the model `path` alone, None where no path is known.
        neighbour: gives the trajectory of another of the frames, for the model `path` alone.
    """
    frame = frames[index]
    found = {frames[index + step].time - frame.time: flow for step, flow in frame.flows.items()}
    if not model.along_path:
        return _own_motion(frames, index, found, readout, model)
    trajectory = trajectory_along_path(found, path, readout, order=len(found), regularisation=model.regularisation)
    if len(found) == 2:
        return FrameMotion(trajectory, path is None and "no camera path through this gap: quadratic motion")
    [(step, flow)], [time] = frame.flows.items(), found
    near, far = (frames.get(index + count * step) for count in (1, 2))
    if neighbour is None or near is None or far is None or len(near.flows) < 2 or len(far.flows) < 2:
        return FrameMotion(trajectory, f"one neighbour: linear motion{' along the camera path' if path else ''}")
    others = neighbour(index + step), near.flows[step], neighbour(index + 2 * step)
    borrowed = borrow_acceleration(trajectory, flow, time, readout, *others)
    return FrameMotion(borrowed, "one neighbour: acceleration taken from that neighbour")


def _own_motion(
    frames: Mapping[int, FrameFlows],
    index: int,
    found: dict[float, TrustedFlow],
    readout: Readout,
    model: MotionModel,
) -> FrameMotion:
    """The motion of each pixel by itself, from flows by their frame steps in time."""
    neighbours = len(found)
    order = model.order if neighbours == 2 else 1
    if order == 3:
        found = found | _further_flows(frames, index)
    trajectory = fit_trajectory(
        {time: each.flow for time, each in found.items()},
        readout,
        order=order,
        confidences={time: each.confidence for time, each in found.items()},
        regularisation=model.regularisation,
    )
    reached = min(order, len(found))
    return FrameMotion(trajectory, reached < model.order and f"{_COUNTED[neighbours]}: {_ORDER_NAMES[reached]} motion")


def _further_flows(frames: Mapping[int, FrameFlows], index: int) -> dict[float, TrustedFlow]:
    """The flows of a frame to those beyond its neighbours, by their frame steps in time, as far as they are known."""
    frame, further = frames[index], {}
    for step, flow in frame.flows.items():
        beyond = frames.get(index + step)
        if beyond is not None and step in beyond.flows:
            onward = beyond.flows[step]
            chained = chain_flows(flow.flow, onward.flow, flow.confidence, onward.confidence)
            further[frames[index + 2 * step].time - frame.time] = TrustedFlow(*chained)
    return further


# --- aligned frames ---


def align(
    frames: Sequence[MovingFrame],
    centre: int,
    tau: float,
    readout: Readout,
    correction: Correction | None = None,
    *,
    seconds: Seconds | None = None,
) -> AlignedFrames:
    """Correct frames to one instant.

    Convention
        The instant is `tau` after the start of the frame at `centre`. Correction fields are RS -> GS, each on the grid
        of its frame's trajectory, in pixels of the full frame. Time is in frame intervals.

    Args:
        frames: T frames of the same B clips.
        centre: which of them.
        tau: the instant.
        readout: of the full frames.
        correction: how they are corrected; wholly, by inverted fields, if None.
        seconds: counts the time of the steps.
    """
    offsets = [frames[centre].time - frame.time for frame in frames]
    return align_at(frames, offsets, centre, tau, readout, correction or Correction(), seconds or Seconds())


def align_at(
    frames: Sequence[MovingFrame],
    offsets: Sequence[Tensor | float],
    centre: int,
    tau: Tensor | float,
    readout: Readout,
    correction: Correction,
    seconds: Seconds,
) -> AlignedFrames:
    """The same for frames by the times from their starts to that of the centre frame, whatever their own times say.

    These times and the instant may be tensors `[]` if the correction is whole.
    """
    size = frames[0].frame.shape[-2:]
    with seconds.of("motion"):
        moved = [
            _correction_field(frame.trajectory, size, tau, offset, readout, correction, own=number == centre)
            for number, (frame, offset) in enumerate(zip(frames, offsets, strict=True))
        ]
    fields, usable = zip(*moved, strict=True)
    with seconds.of("warp"):
        warped = warped_frames(
            [frame.frame for frame in frames],
            fields,
            usable,
            [frame.limits for frame in frames],
            correction.warp,
            correction.interpolation,
        )
    return AlignedFrames(
        frames=_stacked([each.image for each in warped]),
        correction_fields=_stacked([in_pixels_of(each, each.shape[-2:], size) for each in fields]),
        valid=_stacked([each.valid for each in warped]),
        time_distance=_time_distances(warped[centre].image, offsets, tau, readout, correction.strength),
        centre=centre,
        gamma=readout.gamma,
    )


def uncorrected(frames: Tensor, times: Sequence[float], centre: int, tau: float, readout: Readout) -> AlignedFrames:
    """Frames as they came, in the form of aligned ones: zero fields, all pixels valid.

    Args:
        frames: `[B, T, 3, H, W]`.
        times: at which their readouts start, T of them.
        centre: which of them has the instant.
        tau: the instant, after the start of that frame.
        readout: of the frames.
    """
    return AlignedFrames(
        frames=frames,
        correction_fields=torch.zeros_like(frames[:, :, :2]),
        valid=torch.ones_like(frames[:, :, :1], dtype=torch.bool),
        time_distance=_time_distances(frames[:, 0], [times[centre] - time for time in times], tau, readout),
        centre=centre,
        gamma=readout.gamma,
    )


def _correction_field(
    trajectory: Trajectory,
    size: tuple[int, ...],
    tau: Tensor | float,
    offset: Tensor | float,
    readout: Readout,
    correction: Correction,
    *,
    own: bool,
) -> tuple[Tensor, Tensor]:
    """RS -> GS `[B, 2, h, w]`, and where it can be used, `[B, 1, h, w]` bool; `own` is the frame of the instant."""
    on_grid = readout_on_grid(readout, size, trajectory.velocity.shape[-2:])
    moved = partial_correction_field(trajectory, on_grid, tau, offset, correction.strength)
    if correction.unsure == "input":
        return fade_unsure(moved, trajectory, aligned=not own)
    return moved, trajectory.valid


def _time_distances(
    like: Tensor, offsets: Sequence[Tensor | float], tau: Tensor | float, readout: Readout, strength: float = 1.0
) -> Tensor:
    """How far each row of T frames was exposed from the instant: `[B, T, 1, H, W]` for pictures `[B, 3, H, W]`."""
    height, width = like.shape[-2:]
    exposed = readout.row_times(height, width, dtype=like.dtype, device=like.device)
    instant = torch.lerp(exposed, torch.full_like(exposed, float(tau)), strength) if strength < 1.0 else tau
    distances = [(offset + instant - exposed).abs().expand(len(like), 1, height, width) for offset in offsets]
    return _stacked(distances)


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """Parts `[B, C, H, W]` as `[B, T, C, H, W]`; a single one is not copied."""
    return parts[0].unsqueeze(1) if len(parts) == 1 else torch.stack(list(parts), 1)
