"""The frames of a window, with what has been found out about each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from qrsc.motion.camera_path import CameraPath, PathEquations
from qrsc.motion.consistency import chain_flows
from qrsc.motion.fill import TrustedFlow
from qrsc.motion.trajectory import Trajectory
from qrsc.pipeline.corrected import TimedFrame


@dataclass
class Moment:
    """A frame of the window with what has been found out about it; batch dimension 1 throughout."""

    frame: Tensor  # [1, 3, H, W]
    time: float
    until: float  # the time of the last frame that repeats it
    limits: tuple[float, float]  # of the values of its pictures: [0, 1], or beyond where the frame goes beyond
    shot: int = 0  # frames of one scene share a number
    searched: Tensor | None = None  # [1, 3, h, w], the frame at the size at which flow is found
    flows: dict[int, TrustedFlow] = field(default_factory=dict)  # to the neighbours -1 and 1, [1, 2, h, w]
    trajectory: Trajectory | None = None
    measured: tuple[tuple[PathEquations, PathEquations], ...] = ()  # both flows of the last pairs of frames, to here
    followed: int = 0  # how many pairs the path has been followed over until here, without a cut or a gap
    path: CameraPath | None = None  # the camera's, by the pairs that are kept
    repeats: int = 0  # how many frames after it show the same
    after_cut: bool = False


def limits_of(frame: Tensor) -> tuple[float, float]:
    """Where cubic interpolation that overshoots is cut off: [0, 1], or the values of a frame that goes beyond."""
    darkest, brightest = torch.aminmax(frame.detach())
    return min(0.0, float(darkest)), max(1.0, float(brightest))


def further_flows(window: Mapping[int, Moment], index: int) -> dict[float, TrustedFlow]:
    """The flows of a frame to those beyond both of its neighbours, by the time to them, as far as they are known."""
    moment, further = window[index], {}
    for step, flow in moment.flows.items():
        beyond = window.get(index + step)
        if beyond is not None and step in beyond.flows:
            onward = beyond.flows[step]
            chained = chain_flows(flow.flow, onward.flow, flow.confidence, onward.confidence)
            further[window[index + 2 * step].time - moment.time] = TrustedFlow(*chained)
    return further


def timed(frames: Iterable[Tensor | TimedFrame]) -> Iterator[TimedFrame]:
    for index, frame in enumerate(frames):
        yield frame if isinstance(frame, TimedFrame) else TimedFrame(frame, float(index))


def check_frame(frame: Tensor, index: int, previous: Tensor | None) -> None:
    if frame.ndim != 3 or frame.shape[0] != 3 or not frame.is_floating_point():
        raise ValueError(
            f"frames must be float tensors [3, H, W] in [0, 1]; frame {index} is {tuple(frame.shape)} of {frame.dtype}."
        )
    if previous is not None and frame.shape != previous.shape[1:]:
        raise ValueError(
            f"all frames of a clip must have one size; frame {index} is {tuple(frame.shape[1:])} after "
            f"{tuple(previous.shape[2:])}."
        )
