"""Bundle adjustment in continuous time: the camera's path corrected by points that are followed over many frames.

A path found from frame to frame drifts: over a short way a translation looks like a rotation. Over a longer one it does
not, because near points move by more than distant ones. Here each point has one place in the scene, with an inverse
depth of its own, and each observation has the time of its row.

Convention
    The rotation to the world at a time is `R0(t) exp(turn(t))` and the position `p0(t) + shift(t)`, with R0 and p0 of a
    path that is given, and turn and shift cubic B-splines. A point lies in the direction d from a centre c, at the
    inverse depth q: it is seen along `R(t)^T (d + q (c - p(t)))`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.path_prior import innovations, path_precision, white_filters
from qrsc.calibrate.spline import SUPPORT, bspline_values
from qrsc.geometry.corner_tracks import LONGEST, CornerTracks
from qrsc.geometry.rotations import cross_matrices, rotation_matrices

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

SPACING = 1.0  # frame intervals from one knot to the next
COORDINATES = 6  # of a knot: turn and shift
MARGIN = 2  # knots before the first frame
BLOCK = int(LONGEST / SPACING) + SUPPORT + 2  # knots; a track that begins in one block ends in the next at the latest
# Standard deviations of second differences of the turn (radians) and of the shift (typical depths), and of both
# themselves: what the clip does not determine stays as it was given.
TURN_STD = SHIFT_STD = 0.003
RIDGE_STD = 1.0
DEPTH_MEAN, DEPTH_STD = 1.0, 2.0  # of inverse depths
FOCAL_STD = 0.1  # of the logarithm of the focal length, if it is free
# Residual, in standard deviations of the noise, at which an observation has a quarter of its weight (Geman-McClure).
# The noise is that of the third of the observations that fit best: the rest may lie on things that move.
CUTOFF = 1.5
FITTING = 0.3
INITIAL_NOISE, LEAST_NOISE = 0.5, 0.03  # px
NEAREST = 0.05  # least depth, so that no point is behind the camera


class Observed(NamedTuple):
    """What is known of O observations of T points."""

    seen: Array  # [O, 2], (x, y) from the principal point, px
    track: Numbers  # [O], in ascending order
    starts: Numbers  # [T], the first observation of each point
    rotation: Array  # [O, 3, 3], R0
    position: Array  # [O, 3], p0
    first: Numbers  # [O], the first knot whose spline is not 0
    basis: Array  # [O, 4], splines of this knot and the next
    blocks: int  # of knots
    focal: float  # px
    filters: Array  # [6, 3], that whiten the path
    precision: Array  # [blocks, 2 U, 2 U], of the path's prior over each block and the next, U unknowns in a block


@dataclass(frozen=True)
class Bundle:
    """An estimate of path and points.

    Attributes:
        path: `[K, 6]`, coefficients of turn and shift.
        direction: `[T, 3]`, of length 1.
        centre: `[T, 3]`.
        inverse_depth: `[T]`.
        focal: px.
        noise: standard deviation of a coordinate of an observation, px.
    """

    path: Array
    direction: Array
    centre: Array
    inverse_depth: Array
    focal: float
    noise: float


class Linearised(NamedTuple):
    """Residuals, and derivatives of the positions of the observations."""

    residual: Array  # [O, 2], px
    by_pose: Array  # [O, 2, 6], by turn and shift
    by_point: Array  # [O, 2, 3], by two coordinates of the direction and the inverse depth
    by_focal: Array  # [O, 2]
    tangent: Array  # [T, 3, 2], the two coordinates of the direction


def observed(
    tracks: CornerTracks, times: Array, rotation: Array, position: Array, *, middle: Array, focal: float, frames: int
) -> Observed:
    """Set up the adjustment.

    Args:
        tracks: O observations.
        times: `[O]`, of their rows, in frame intervals.
        rotation, position: `[O, 3, 3]` and `[O, 3]`, of the given path at these times.
        middle: `[2]`, the principal point, px.
        focal: px.
        frames: how many there are in the clip.
    """
    first, basis = bspline_values(times / SPACING)
    knots = MARGIN + int(np.ceil((frames + 1) / SPACING)) + SUPPORT // 2
    blocks = -(-knots // BLOCK)
    filters = white_filters(np.repeat([TURN_STD**2, SHIFT_STD**2], 3))
    precision = path_precision(filters, blocks, BLOCK)
    every = np.arange(BLOCK * COORDINATES)
    precision[:, every, every] += RIDGE_STD**-2
    starts = np.flatnonzero(np.diff(tracks.track, prepend=-1))
    seen = tracks.position - middle
    return Observed(
        seen, tracks.track, starts, rotation, position, first + MARGIN, basis, blocks, focal, filters, precision
    )


def initial(known: Observed) -> Bundle:
    """The path as it is given, and each point where its middle observation sees it, at one depth."""
    middle = known.starts + np.diff(known.starts, append=len(known.track)) // 2
    ahead = np.concatenate([known.seen[middle] / known.focal, np.ones((len(middle), 1))], 1)
    direction = np.einsum("tij,tj->ti", known.rotation[middle], ahead)
    return Bundle(
        np.zeros((known.blocks * BLOCK, COORDINATES)),
        direction / np.linalg.norm(direction, axis=1, keepdims=True),
        known.position[middle],
        np.full(len(middle), DEPTH_MEAN),
        known.focal,
        INITIAL_NOISE,
    )


def path_at(path: Array, first: Numbers, basis: Array) -> Array:
    """Turn and shift `[O, 6]` from the values of the splines that are not 0."""
    moved: Array = np.einsum("ok,okd->od", basis, path[first[:, None] + np.arange(SUPPORT)])
    return moved


def linearised(known: Observed, bundle: Bundle) -> Linearised:
    """Linearise the model."""
    y, back, away = _rays(known, bundle)
    plane = y[:, :2] / y[:, 2:]
    project = np.zeros((len(y), 2, 3))
    project[:, 0, 0] = project[:, 1, 1] = bundle.focal / y[:, 2]
    project[:, :, 2] = -bundle.focal * plane / y[:, 2:]
    outwards = project @ back
    tangent = _tangents(bundle.direction)
    near = bundle.inverse_depth[known.track, None, None]
    return Linearised(
        known.seen - bundle.focal * plane,
        np.concatenate([project @ cross_matrices(y), -near * outwards], 2),
        outwards @ np.concatenate([tangent[known.track], away[..., None]], 2),
        plane,
        tangent,
    )


def residuals(known: Observed, bundle: Bundle) -> Array:
    """`[O, 2]`, px."""
    y, _, _ = _rays(known, bundle)
    left: Array = known.seen - bundle.focal * y[:, :2] / y[:, 2:]
    return left


def _rays(known: Observed, bundle: Bundle) -> tuple[Array, Array, Array]:
    """Each observation's ray `[O, 3]` in its camera, rotation from the world `[O, 3, 3]`, and `c - p` `[O, 3]`."""
    moved = path_at(bundle.path, known.first, known.basis)
    back = (known.rotation @ rotation_matrices(moved[:, :3])).transpose(0, 2, 1)
    away = bundle.centre[known.track] - known.position - moved[:, 3:]
    ray = bundle.direction[known.track] + bundle.inverse_depth[known.track, None] * away
    y = np.einsum("oij,oj->oi", back, ray)
    y[:, 2] = np.maximum(y[:, 2], NEAREST)
    return y, back, away


def _tangents(direction: Array) -> Array:
    """Two unit vectors `[T, 3, 2]` at right angles to directions `[T, 3]`."""
    helper = np.where(np.abs(direction[:, :1]) < 0.7, np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0]]))
    one = np.cross(direction, helper)
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    return np.stack([one, np.cross(direction, one)], 2)


def noise_of(residual: Array) -> float:
    """The standard deviation of a coordinate, from residuals `[O, 2]` of which some are outliers."""
    lengths = np.hypot(residual[:, 0], residual[:, 1])
    return max(LEAST_NOISE, float(np.quantile(lengths, FITTING)) / float(np.sqrt(-2.0 * np.log(1.0 - FITTING))))


def weights(residual: Array, noise: float) -> Array:
    """Robust weights `[O]`."""
    weight: Array = (1.0 + (residual**2).sum(1) / (CUTOFF * noise) ** 2) ** -2.0
    return weight


def cost(known: Observed, bundle: Bundle, residual: Array) -> float:
    """The robust cost: -2 times the logarithm of the posterior, but for a constant."""
    ratio = (residual**2).sum(1) / (CUTOFF * bundle.noise) ** 2
    return float(
        CUTOFF**2 * (ratio / (1.0 + ratio)).sum()
        + (innovations(bundle.path, known.filters) ** 2).sum()
        + (bundle.path**2).sum() / RIDGE_STD**2
        + ((bundle.inverse_depth - DEPTH_MEAN) ** 2).sum() / DEPTH_STD**2
        + (np.log(bundle.focal / known.focal) / FOCAL_STD) ** 2
    )


def moved_by(bundle: Bundle, path: Array, points: Array, focal: float, tangent: Array) -> Bundle:
    """A bundle with changes of the path `[K, 6]`, the points `[T, 3]` and the focal length added."""
    direction = bundle.direction + np.einsum("tij,tj->ti", tangent, points[:, :2])
    length = np.linalg.norm(direction, axis=1)
    return replace(
        bundle,
        path=bundle.path + path,
        direction=direction / length[:, None],
        inverse_depth=(bundle.inverse_depth + points[:, 2]) / length,
        focal=bundle.focal + focal,
    )
