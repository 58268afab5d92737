"""The steps from flow to aligned frames, recorded as CUDA graphs on a GPU.

They are many small kernels, which take the CPU far longer to launch than the GPU to run: at 640 x 480 about 1400 for a
frame. Each step is a function of tensors and numbers without a decision that depends on their values, and is recorded
at its second call; see `qrsc.backend.cuda_graphs`. On other devices, and where a gradient is needed, the same functions
are called as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from qrsc.backend.cuda_graphs import Graphs
from qrsc.backend.fallback import fallback_of
from qrsc.fusion.aligned import AlignedFrames
from qrsc.image.resize import resized_field, resized_picture
from qrsc.motion.along_path import own_motion
from qrsc.motion.camera_path import KNOTS, CameraPath, PathOfFrame, PathTable
from qrsc.motion.fill import TrustedFlow
from qrsc.motion.path_fit import (
    PathEquations,
    equations_between,
    fit_path,
    fit_with,
    layout_of,
    period_of,
    spline_range,
)
from qrsc.motion.trajectory import Trajectory
from qrsc.pipeline.align import Correction, MovingFrame, align, align_at
from qrsc.pipeline.corrected import Seconds
from qrsc.timing import Readout

# Sets of shapes that are recorded: one for each number of frames that a path can be fitted to, and that can be fused.
MOST_GRAPHS = 48
_PARTS = len(PathEquations._fields) - 1  # tensors of the equations of one flow


class Steps:
    """The steps for the clips of one corrector.

    Flows are prepared in one thread and frames aligned in another, so that each has records of its own.

    Args:
        graphs: record them on a GPU.
    """

    def __init__(self, graphs: bool = True) -> None:
        self._of_flows = Graphs(MOST_GRAPHS) if graphs else None
        self._of_frames = Graphs(MOST_GRAPHS) if graphs else None

    @property
    def fallback(self) -> str | None:
        """Why the latest frame could not use a record; None if it did, or came first with its shapes."""
        return fallback_of(self._of_frames) or fallback_of(self._of_flows)

    # --- with each pair of frames ---

    def on_grid(
        self, flows: Sequence[Tensor], confidences: Sequence[Tensor | None], grid: tuple[int, int]
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """Both flows of a pair, and their confidences if known, resized to the grid of the motion."""
        known, count = [each for each in confidences if each is not None], len(flows)

        def run(*given: Tensor) -> tuple[Tensor, ...]:
            fields, pictures = given[:count], given[count:]
            smaller = [resized_field(each, grid) for each in fields]
            return *smaller, *(resized_picture(each, grid) for each in pictures)

        if tuple(flows[0].shape[-2:]) == grid:
            return list(flows), list(confidences)
        found = self._call(self._of_flows, run, ("grid", grid, len(known)), (*flows, *known))
        sure = iter(found[count:])
        return list(found[:count]), [None if each is None else next(sure) for each in confidences]

    def measured(
        self, forward: TrustedFlow, backward: TrustedFlow, start: float, end: float, readout: Readout
    ) -> tuple[PathEquations, PathEquations]:
        """What both flows of frames that started at two times say about the path; see `path_equations`."""
        origin, period = period_of(start, end, readout)

        def run(*given: Any) -> tuple[Tensor, ...]:
            flow, sure, back, back_sure, begun, done = given
            there = equations_between(flow, sure, begun, done, readout, period)
            return *there[1:], *equations_between(back, back_sure, done, begun, readout, period)[1:]

        times = start - origin, end - origin
        first, last = spline_range(period)
        found = self._call(self._of_flows, run, ("measured", readout, first, last), (*forward, *backward), times)
        number = first + origin * KNOTS
        return PathEquations(number, *found[:_PARTS]), PathEquations(number, *found[_PARTS:])

    # --- with each frame ---

    def path(self, equations: Sequence[PathEquations], like: Tensor) -> CameraPath:
        """The camera path; see `fit_path`."""
        layout = layout_of(equations)
        firsts = tuple(each.first - layout.first for each in equations)

        def run(*parts: Tensor) -> tuple[Tensor, ...]:
            given = [
                PathEquations(first, *parts[_PARTS * number : _PARTS * (number + 1)])
                for number, first in enumerate(firsts)
            ]
            path = fit_with(layout, given, like.new_empty(0))
            return path.knots, *path.tabulated

        graphs = self._recorder(self._of_frames, equations[0].shift)
        if graphs is None:
            return fit_path(equations, like)
        given = (part for each in equations for part in each[1:])
        knots, table, perspective = graphs(run, ("path", firsts, like.dtype), *given)
        return CameraPath(knots, layout.first, perspective, PathTable(table, perspective))

    def own_motion(
        self, found: Mapping[float, TrustedFlow], path: PathOfFrame, readout: Readout, regularisation: float
    ) -> Trajectory:
        """The motion of a frame's pixels along a path, from two flows; see `trajectory_along_path`."""
        steps = sorted(found)
        flows = [found[step] for step in steps]
        seen_by, size = path.readout, path.size

        def run(*given: Any) -> tuple[Tensor, ...]:
            table, perspective, origin, *times = given[4:]
            along = PathOfFrame(PathTable(table, perspective), origin, seen_by, size)
            made = own_motion(
                [TrustedFlow(*given[:2]), TrustedFlow(*given[2:4])],
                times,
                along,
                readout,
                order=2,
                regularisation=regularisation,
            )
            assert made.acceleration is not None  # of order 2
            return made.velocity, made.acceleration, made.valid, made.confidence

        tensors = (*flows[0], *flows[1], *path.path)
        key = ("motion", readout, seen_by, size, regularisation)
        velocity, acceleration, valid, confidence = self._call(
            self._of_frames, run, key, tensors, (path.origin, *steps)
        )
        return Trajectory(velocity, acceleration, None, valid, confidence, path)

    def align(
        self,
        frames: Sequence[MovingFrame],
        centre: int,
        tau: float,
        readout: Readout,
        correction: Correction,
        seconds: Seconds,
    ) -> AlignedFrames:
        """Correct frames to one instant; see `align`."""
        tensors = [tensor for each in frames for tensor in _tensors(each)]
        graphs = self._recorder(self._of_frames, *tensors)
        # The others look at times, or scatter.
        usual = correction.strength == 1.0 and correction.unsure == "linear" and correction.warp != "splat"
        if graphs is None or not usual:
            return align(frames, centre, tau, readout, correction, seconds=seconds)
        numbers = [number for each in frames for number in _numbers(each)]
        offsets = [frames[centre].time - each.time for each in frames]
        kinds, count = [_kind(each) for each in frames], len(tensors)

        def run(*given: Tensor) -> tuple[Tensor, ...]:
            values, times = iter(given[:count]), iter(given[count:])
            again = [_moving(kind, values, times) for kind in kinds]
            instant, *apart = times
            aligned = align_at(again, apart, centre, instant, readout, correction, Seconds())
            return aligned.frames, aligned.correction_fields, aligned.valid, aligned.time_distance

        key = ("align", readout, correction, centre, *kinds)
        with seconds.of("warp"):
            found = graphs(run, key, *tensors, *numbers, tau, *offsets)
        pictures, fields, valid, distances = found
        return AlignedFrames(pictures, fields, valid, distances, centre, readout.gamma)

    def _call(
        self,
        graphs: Graphs | None,
        run: Callable[..., tuple[Tensor, ...]],
        key: Hashable,
        tensors: Sequence[Tensor],
        numbers: Sequence[Tensor | float] = (),
    ) -> tuple[Tensor, ...]:
        """Call a function of tensors and numbers, from a record if possible."""
        recorder = self._recorder(graphs, *tensors)
        if recorder is None:
            return run(*tensors, *numbers)
        return recorder(run, key, *tensors, *numbers)

    def _recorder(self, graphs: Graphs | None, *tensors: Tensor) -> Graphs | None:
        gradient = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
        return graphs if recordable(tensors[0]) and not gradient else None


def recordable(values: Tensor) -> bool:
    """Whether a function of these values can be recorded: on a CUDA device."""
    return values.is_cuda


# --- a moving frame as tensors and numbers, and back ---


class _Kind(NamedTuple):
    """What is left of a moving frame without `_tensors` and `_numbers`."""

    accelerated: bool
    jerking: bool
    path: tuple[Readout, tuple[int, int]] | None


def _kind(moving: MovingFrame) -> _Kind:
    trajectory, path = moving.trajectory, moving.trajectory.shared
    along = (path.readout, path.size) if isinstance(path, PathOfFrame) else None
    return _Kind(trajectory.acceleration is not None, trajectory.jerk is not None, along)


def _tensors(moving: MovingFrame) -> list[Tensor]:
    own = moving.trajectory
    terms = [term for term in (own.velocity, own.acceleration, own.jerk) if term is not None]
    path = own.shared.path if isinstance(own.shared, PathOfFrame) else ()
    return [moving.frame, *terms, own.valid, own.confidence, *path]


def _numbers(moving: MovingFrame) -> list[Tensor | float]:
    path = moving.trajectory.shared
    return [*moving.limits, *([path.origin] if isinstance(path, PathOfFrame) else [])]


def _moving(kind: _Kind, tensors: Iterator[Tensor], numbers: Iterator[Tensor]) -> MovingFrame:
    """A moving frame of a kind, with the next of the given tensors and numbers; without a time of its own."""
    frame, velocity = next(tensors), next(tensors)
    acceleration, jerk = (next(tensors) if there else None for there in kind[:2])
    valid, confidence, limits, shared = next(tensors), next(tensors), (next(numbers), next(numbers)), None
    if kind.path is not None:
        shared = PathOfFrame(PathTable(next(tensors), next(tensors)), next(numbers), *kind.path)
    return MovingFrame(frame, 0.0, Trajectory(velocity, acceleration, jerk, valid, confidence, shared), limits)
