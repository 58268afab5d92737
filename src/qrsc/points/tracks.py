"""Tracks of points, each observation corrected to the instant of its frame."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.motion.trajectory import ORDERS
from qrsc.names import Instant
from qrsc.points.lens import Lens
from qrsc.points.observations import ArrayLike, Observations, as_tensor, observe
from qrsc.points.shared_path import PathWindow, path_windows
from qrsc.points.solve import (
    SAMPLE,
    Solved,
    SolverOptions,
    Window,
    fitting_regularisation,
    solve,
    track_windows,
    typical_motion,
)
from qrsc.timing import Readout

NOISE = 0.5  # pixels
REACH = 3.0  # frame intervals
# Regularisation that lets a neighbour of no weight lose its say: a parabola passes through all three points, whatever
# their weights. It takes 1 % off the accelerations of all others.
ROBUST_PULL = 0.005


@dataclass(frozen=True)
class CorrectedPoints:
    """Points at the instant of their frame. Tensors or arrays, as the input was; `...` is its shape.

    Attributes:
        position: `[..., 2]`, (x, y) in pixels of the picture, lens included; NaN where the point is not seen.
        alpha: `[...]`, when the row of the observation was exposed, in frame intervals since the start of its frame.
        velocity: `[..., 2]`, px per frame interval at the exposure, without the lens.
        acceleration: `[..., 2]`, px per squared frame interval.
        variance: `[...]`, of each coordinate of the position in squared pixels, from the noise of the observations.
        confidence: `[...]` in [0, 1].
        corrected: `[...]`, bool; False where a point is not seen, or where nothing shows its motion: its position is
            then where it was seen.
    """

    position: ArrayLike
    alpha: ArrayLike
    velocity: ArrayLike
    acceleration: ArrayLike
    variance: ArrayLike
    confidence: ArrayLike
    corrected: Tensor | npt.NDArray[np.bool_]

    @property
    def covariance(self) -> ArrayLike:
        """`[..., 2, 2]`, of the position. Errors are taken as equal in x and y and independent between observations."""
        if isinstance(self.variance, Tensor):
            return self.variance[..., None, None] * torch.eye(2).to(self.variance)
        return self.variance[..., None, None] * np.eye(2, dtype=self.variance.dtype)

    def __repr__(self) -> str:
        count = int(self.corrected.sum())
        return f"CorrectedPoints({tuple(self.alpha.shape)}, {count} corrected)"


@dataclass(frozen=True)
class FitOptions:
    """How the motion of points is fitted.

    Attributes:
        order: 1 linear, 2 quadratic, 3 cubic; lower where a track has too few observations.
        neighbours: how many other observations of the track decide on the motion of one, the nearest in time. None is
            two, and four for the cubic motion. With more neighbours than the order, positions are smoothed.
        reach: frame intervals; an observation further away says nothing.
        path: follow the camera's path, found from all tracks together; only the rest is fitted point by point.
        robust: trust neighbours less that contradict each other.
        regularisation: pull of accelerations (with a path: beyond it) towards zero. `auto` finds what suits the noise.
        noise: standard deviation of an observed coordinate, px.
    """

    order: int = 2
    neighbours: int | None = None
    reach: float = REACH
    path: bool = False
    robust: bool = False
    regularisation: float | Literal["auto"] = 0.0
    noise: float = NOISE

    def __post_init__(self) -> None:
        if self.order not in ORDERS.values():
            known = ", ".join(f"{number} ({name})" for name, number in ORDERS.items())
            raise ValueError(f"order must be one of {known}; got {self.order!r}.")
        if self.neighbours is not None and not self.order <= self.neighbours <= 16:
            raise ValueError(
                f"neighbours must be at least the order, {self.order}, and at most 16; got {self.neighbours!r}."
            )
        if not (math.isfinite(self.noise) and self.noise >= 0.0):
            raise ValueError(f"noise must be a standard deviation in pixels, 0 or more; got {self.noise!r}.")
        if not self.reach > 0.0:
            raise ValueError(f"reach must be a positive number of frame intervals, got {self.reach!r}.")
        if self.regularisation != "auto" and not self.regularisation >= 0.0:
            raise ValueError(f"regularisation must be 0 or more, or auto; got {self.regularisation!r}.")

    @property
    def neighbour_count(self) -> int:
        """How many neighbours are used."""
        return self.neighbours if self.neighbours is not None else {1: 2, 2: 2, 3: 4}[self.order]


def correct_tracks(
    tracks: ArrayLike,
    readout: Readout,
    size: tuple[int, int],
    *,
    at: Instant | float = "middle",
    visible: Tensor | npt.NDArray[np.bool_] | None = None,
    confidence: ArrayLike | None = None,
    frame_times: ArrayLike | None = None,
    lens: Lens | None = None,
    options: FitOptions | None = None,
) -> CorrectedPoints:
    """Move every observation of tracked points to where the point is at the instant of its frame.

    Convention
        Positions are (x, y) in pixels, pixel centres at integer coordinates. With a lens, the row in the picture as it
        was taken says when a point was seen, its motion is fitted in pixels of a pinhole camera, and the result is in
        pixels of the picture again. Differentiable by the positions; the camera's path and what is typical of the clip
        are taken as known.

    Args:
        tracks: `[N, M, 2]`, of M points in N frames; a tensor or an array. A point that is not seen is NaN.
        readout: how the frames were read.
        size: `(H, W)` of the frames.
        at: the instant: first, middle, last, or a time after the start of the frame.
        visible: `[N, M]`, bool; seen where the position is finite if None.
        confidence: `[N, M]` in [0, 1]: an observation with confidence c has an error variance of `noise² / c`.
        frame_times: `[N]`, when each frame starts, in frame intervals; 0, 1, 2, ... if None.
        lens: of the camera; None for a pinhole, or points that are undistorted row by row.
        options: how the motion is fitted.

    Returns:
        `[N, M]` results.
    """
    positions = as_tensor(tracks, "tracks")
    if positions.ndim != 3 or positions.shape[-1] != 2:
        raise ValueError(f"tracks must be [N frames, M points, 2], got {tuple(positions.shape)}.")
    seen = _seen(positions, visible)
    starts = _frame_starts(frame_times, positions)
    trust = None if confidence is None else _same_shape(as_tensor(confidence, "confidence"), seen, "confidence")
    # One track after the other, its observations in the order of time.
    by_track = seen.t()
    frames, count = seen.shape
    flat = positions.permute(2, 1, 0).reshape(2, -1)  # [2, M N]
    number: Tensor | None = None
    start = starts.repeat(count)
    track = torch.arange(count, device=positions.device).repeat_interleave(frames)
    weight = None if trust is None else trust.t().reshape(-1)
    if not bool(seen.all()):
        number = torch.nonzero(by_track.flatten()).flatten()
        flat, start, track = flat[:, number], start[number], track[number]
        weight = None if weight is None else weight[number]
    observations = observe(flat.t(), start, track, readout, size, lens, weight)
    found = correct_observations(observations, readout, at=at, lens=lens, options=options)
    return as_given(_spread(found, number, by_track), tracks)


def correct_observations(
    observations: Observations,
    readout: Readout,
    *,
    at: Instant | float = "middle",
    lens: Lens | None = None,
    options: FitOptions | None = None,
) -> CorrectedPoints:
    """The same for a flat list of P observations, as `qrsc.points.observe` makes it: `[P]` results, tensors."""
    options = options or FitOptions()
    tau = readout.instant(at) if isinstance(at, str) else float(at)
    windows = track_windows(observations.track)
    if not bool((windows.first != windows.last).any()):
        raise ValueError(
            "every point is observed only once, so nothing shows how it moves. Give tracks over at least two frames "
            "(matches between consecutive frames), or optical flow: correct_keypoints, or --images with the command."
        )
    parts, order = [], []
    for which, path in _pieces(observations, readout, options):
        fitted = _adapted(observations, windows, which, readout, options, path)
        along = None if path is None else path.of_points(observations, which, readout)
        every = len(which) == len(observations)
        parts.append(solve(observations, windows, None if every else which, tau, fitted, along))
        order.append(which)
    solved = parts[0]
    if len(parts) > 1:
        back = torch.argsort(torch.cat(order))
        solved = Solved(*(torch.cat(values, -1)[..., back] for values in zip(*parts, strict=True)))
    known = solved.used > 0
    moved = (observations.position.t() + torch.where(known, solved.correction, 0.0)).t()
    return CorrectedPoints(
        moved if lens is None else lens.distorted(moved),
        observations.alpha,
        solved.velocity.t(),
        solved.acceleration.t(),
        options.noise**2 * torch.where(known, solved.gain, 1.0),
        torch.where(known, solved.confidence, 0.0),
        known,
    )


def _pieces(
    observations: Observations, readout: Readout, options: FitOptions
) -> list[tuple[Tensor, PathWindow | None]]:
    """Numbers of observations that are solved together, and the path that they share."""
    every = torch.arange(len(observations), device=observations.track.device)
    if not options.path:
        return [(every, None)]
    windows = list(path_windows(observations, readout))
    if len(windows) == 1:
        return [(every, windows[0])]
    pieces = [(every[(observations.start >= w.start) & (observations.start < w.end)], w) for w in windows]
    return [(which, window) for which, window in pieces if len(which)]


def _adapted(
    observations: Observations,
    windows: Window,
    which: Tensor,
    readout: Readout,
    options: FitOptions,
    path: PathWindow | None,
) -> SolverOptions:
    """The options of the solver, where they depend on what is typical of the clip."""
    typical = None
    if options.robust or options.regularisation == "auto":
        some = which[:: max(1, len(which) // SAMPLE)]
        along = None if path is None else path.of_points(observations, some, readout)
        typical = typical_motion(observations, windows, some, options.reach, along)
    pull = (
        fitting_regularisation(typical, options.noise) if options.regularisation == "auto" else options.regularisation
    )
    if not options.robust or typical is None:
        return SolverOptions(options.order, options.neighbour_count, options.reach, pull)
    return SolverOptions(
        options.order,
        options.neighbour_count,
        options.reach,
        max(pull, ROBUST_PULL),
        (typical.speed, typical.change),
    )


# --- arguments and results ---


def _seen(positions: Tensor, visible: Tensor | npt.NDArray[np.bool_] | None) -> Tensor:
    if visible is None:
        return ~positions.isnan().any(-1)
    given = visible if isinstance(visible, Tensor) else torch.from_numpy(np.ascontiguousarray(visible))
    if given.dtype != torch.bool or given.shape != positions.shape[:2]:
        raise ValueError(
            f"visible must be bool and [N, M] = {tuple(positions.shape[:2])}, got {given.dtype}, {tuple(given.shape)}."
        )
    return given.to(positions.device)


def _same_shape(values: Tensor, like: Tensor, name: str) -> Tensor:
    if values.shape != like.shape:
        raise ValueError(f"{name} must be [N, M] = {tuple(like.shape)}, got {tuple(values.shape)}.")
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise ValueError(f"{name} must be from 0 to 1.")
    return values


def _frame_starts(frame_times: ArrayLike | None, positions: Tensor) -> Tensor:
    """`[N]`, when each frame starts, since the first: relative to it, they keep their precision."""
    if frame_times is None:
        return torch.arange(len(positions)).to(positions)
    times = as_tensor(frame_times, "frame_times").double()
    if times.shape != (len(positions),) or not bool((times.diff() > 0).all()):
        raise ValueError(
            f"frame_times must be [N] = ({len(positions)},) and increase, in frame intervals; got {tuple(times.shape)}."
        )
    return (times - times[0]).to(positions)


def _spread(found: CorrectedPoints, number: Tensor | None, by_track: Tensor) -> CorrectedPoints:
    """Results of observations back on the grid `[N, M]`, from a mask `[M, N]`."""

    def placed(values: Tensor, empty: float) -> Tensor:
        rest = values.shape[1:]
        if number is not None:
            full = values.new_full((by_track.numel(), *rest), empty)
            values = full.index_copy(0, number, values)
        return values.reshape(*by_track.shape, *rest).transpose(0, 1)

    missing = {"position": math.nan, "alpha": math.nan, "variance": math.nan}
    return CorrectedPoints(**{name: placed(value, missing.get(name, 0.0)) for name, value in vars(found).items()})


def as_given(found: CorrectedPoints, like: ArrayLike) -> CorrectedPoints:
    """Arrays for arrays, tensors for tensors."""
    if isinstance(like, Tensor):
        return found
    return CorrectedPoints(**{name: value.numpy() for name, value in vars(found).items()})
