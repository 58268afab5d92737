"""The frames of a sliding window, with what has been found out about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from qrsc.motion.camera_path import CameraPath, PathOfFrame
from qrsc.motion.path_fit import PathEquations
from qrsc.motion.trajectory import Trajectory
from qrsc.pipeline.align import FrameFlows, FrameMotion, MotionModel, frame_motion
from qrsc.pipeline.continuity import PairMotion
from qrsc.pipeline.input_frames import ReadyFrame
from qrsc.pipeline.recorded import Steps
from qrsc.timing import Readout

# A frame's path is fitted to the frames up to this many before and after it, or to as many further back at the end of
# a clip: 5, 7 and 9 frames gave 34.60, 34.71 and 34.71 dB on 10 simulated clips, no path 33.60.
PATH_REACH = 3
LONGEST_GAP = 4.0  # frame intervals without a frame that a path is fitted across


@dataclass(kw_only=True)
class WindowFrame(FrameFlows):
    """A frame of the window; batch dimension 1 throughout.

    Attributes:
        number: of the frame in the stream.
        frame: `[1, 3, H, W]`.
        until: the time of the last frame that repeats it.
        limits: of the values of its results: [0, 1], or those of a frame that goes beyond.
        shot: frames of one scene share a number.
        search_image: `[1, 3, h, w]`, the frame at the size at which flow is found; None once it is not needed.
        encoded: what a flow estimator has found of it alone, for the pair with the next frame; else None.
        motion: of its pixels, once it is found.
        measured: path equations of both flows of the last pairs of frames, up to this frame.
        path: the camera path fitted to `measured`, once it is asked for.
        repeats: number of following frames that show the same picture.
        after_cut: the first frame of its shot, after a cut.
        flow_fallback: why a flow of it was not found as asked; noted by the thread that found it.
        mended: pixels of it were not finite, and were filled.
        pair_motion: of the pair that it ends; None if unknown.
        light_changes: between the frame before and this one; the two are not fused.
        frozen: it still repeats the frame before, of which enough repeats have been counted.
    """

    number: int
    frame: Tensor
    until: float
    limits: tuple[float, float]
    shot: int = 0
    search_image: Tensor | None = None
    encoded: Any = None
    motion: FrameMotion | None = None
    measured: tuple[tuple[PathEquations, PathEquations], ...] = ()
    path: CameraPath | None = None
    repeats: int = 0
    after_cut: bool = False
    flow_fallback: str | None = None
    mended: bool = False
    pair_motion: PairMotion | None = None
    light_changes: bool = False
    frozen: bool = False


class FrameMark(NamedTuple):
    """What a stream remembers of a frame beyond its pixels. Where two streams over parts of one clip have the same
    marks for several consecutive frames, they correct the following frames alike.

    Attributes:
        number: of the frame in the stream.
        repeats, frozen, light_changes: as in `WindowFrame`.
        linked: it follows the frame before, without a cut.
        known: the motion of the pair that it ends is.
        measured: pairs of frames that its path is fitted to.
    """

    number: int
    repeats: int
    frozen: bool
    light_changes: bool
    linked: bool
    known: bool
    measured: int


def frame_mark(frame: WindowFrame) -> FrameMark:
    """The mark of a frame that has been linked to the one before it."""
    return FrameMark(
        frame.number,
        frame.repeats,
        frame.frozen,
        frame.light_changes,
        -1 in frame.flows,
        frame.pair_motion is not None,
        len(frame.measured),
    )


def window_frame(ready: ReadyFrame, number: int) -> WindowFrame:
    """A frame about which nothing has been found out yet."""
    return WindowFrame(
        ready.time,
        number=number,
        frame=ready.frame.unsqueeze(0),
        until=ready.time,
        limits=ready.limits,
        mended=ready.mended,
    )


def fused_with(window: Mapping[int, WindowFrame], index: int, behind: int, ahead: int) -> list[int]:
    """The frames of the window that a frame is fused with, and itself: of its shot, and in the same light."""
    first = last = index
    while first > index - behind and _alike(window, first):
        first -= 1
    while last < index + ahead and _alike(window, last + 1):
        last += 1
    return list(range(first, last + 1))


def _alike(window: Mapping[int, WindowFrame], index: int) -> bool:
    """Whether a frame and the one before are both there, of one shot, and in the same light."""
    if index not in window or index - 1 not in window:
        return False
    return window[index].shot == window[index - 1].shot and not window[index].light_changes


# --- the camera path through the window ---


def measure_path(previous: WindowFrame, newest: WindowFrame, readout: Readout, steps: Steps) -> None:
    """Keep what the flows of a pair of frames say about the camera path."""
    if newest.time - previous.time > LONGEST_GAP:
        return
    equations = steps.measured(previous.flows[1], newest.flows[-1], previous.time, newest.time, readout)
    newest.measured = (*previous.measured, equations)[-2 * PATH_REACH :]


def window_motion(
    window: Mapping[int, WindowFrame], index: int, readout: Readout, model: MotionModel, steps: Steps
) -> FrameMotion:
    """How the pixels of a frame of the window move; see `frame_motion`. The result is not kept."""

    def trajectory(place: int) -> Trajectory:
        # Not kept: the frame may be early, and frames that its path will be fitted to still to come.
        motion = window[place].motion or window_motion(window, place, readout, model, steps)
        return motion.trajectory

    path = _path_of_frame(window, index, readout, steps) if model.along_path else None
    frame = window[index]
    if path is not None and len(frame.flows) == 2:
        found = {window[index + step].time - frame.time: flow for step, flow in frame.flows.items()}
        return FrameMotion(steps.own_motion(found, path, readout, model.regularisation), False)
    return frame_motion(window, index, readout, model, path=path, neighbour=trajectory)


def _path_of_frame(window: Mapping[int, WindowFrame], index: int, readout: Readout, steps: Steps) -> PathOfFrame | None:
    """The path along which the pixels of a frame move; None without a frame near enough in time to measure it."""
    frame = window[index]
    last = index
    for later in range(index + 1, index + PATH_REACH + 1):
        # After a cut or a long gap, nothing is measured across it.
        if later not in window or not window[later].measured:
            break
        last = later
    if last == index + PATH_REACH and round(window[last].time) % 2:
        # Two consecutive frames share a path: half of the work, and both lie well inside it. Which two is told by their
        # time and not by a count, so that a part of a clip is corrected as it is in the whole.
        last -= 1
    latest = window[last]
    if not latest.measured:
        return None
    flow = next(iter(frame.flows.values())).flow  # [1, 2, h, w]
    if latest.path is None:
        latest.path = steps.path([each for pair in latest.measured for each in pair], flow)
    return latest.path.from_frame(frame.time, readout, (flow.shape[-2], flow.shape[-1]))
