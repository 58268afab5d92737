"""Levenberg-Marquardt steps of the bundle adjustment.

Convention
    Points are eliminated (Schur complement). What remains are the unknowns of the path, in a block-tridiagonal matrix:
    a track reaches from the block of knots in which it begins to the next at most. The focal length is its border.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.linear_algebra import factorised, product, solve_factorised
from qrsc.calibrate.spline import SUPPORT
from qrsc.geometry.bundle import (
    BLOCK,
    COORDINATES,
    DEPTH_MEAN,
    DEPTH_STD,
    FOCAL_STD,
    Bundle,
    Linearised,
    Observed,
    cost,
    linearised,
    moved_by,
    noise_of,
    path_at,
    residuals,
    weights,
)

Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

UNKNOWNS = BLOCK * COORDINATES  # U, in a block
POINT = 3  # unknowns of a point
STEPS = 12
MAX_TRIES = 6  # of a step, with increasing damping; as many again in which it holds the path as well
DAMPING, LEAST_DAMPING = 1e-3, 1e-6
LAST_STEPS = 3  # at the end, in which the noise stays as it is
CONVERGED = 1e-4  # relative change of the cost
MAX_FOCAL_STEP = 0.1  # of the focal length


class _Eliminated(NamedTuple):
    """The points, whitened: their normal matrix is the identity."""

    inverse: Array  # [T, 3, 3], of the triangle of the normal matrix
    right: Array  # [T, 3]
    by_focal: Array  # [T, 3]
    by_pose: Array  # [O, 3, 6], of each observation


class _Reduced(NamedTuple):
    """Normal equations of the path and the focal length."""

    diagonal: Array  # [N, U, U]
    below: Array  # [N - 1, U, U]
    right: Array  # [N, U]
    border: Array  # [N, U]
    corner: float
    corner_right: float


def adjusted(known: Observed, bundle: Bundle, *, steps: int = STEPS, free_focal: bool = False) -> Bundle:
    """Minimise the robust cost.

    Args:
        known: the observations.
        bundle: initialisation.
        steps: at most.
        free_focal: whether the focal length may change.
    """
    damping, residual = DAMPING, residuals(known, bundle)
    reached = cost(known, bundle, residual)
    for number in range(steps):
        found = _lower(known, bundle, residual, reached, damping, free_focal)
        if found is None:
            break
        bundle, residual, lower, damping = found
        settled = lower > (1.0 - CONVERGED) * reached
        if number < steps - LAST_STEPS:
            noise = noise_of(residual)
            settled = settled and abs(noise / bundle.noise - 1.0) < 0.03
            bundle = replace(bundle, noise=noise)
        reached = cost(known, bundle, residual)
        if settled:
            break
    return bundle


def _lower(
    known: Observed, bundle: Bundle, residual: Array, reached: float, damping: float, free_focal: bool
) -> tuple[Bundle, Array, float, float] | None:
    """A bundle of lower cost, its residuals and cost, and the damping for the next step; None if no damping helps."""
    linear, weight = linearised(known, bundle), weights(residual, bundle.noise) / bundle.noise**2
    for hold_path in (False, True):
        tried = damping
        for _ in range(MAX_TRIES):
            moved = _step(known, bundle, linear, weight, tried, free_focal, hold_path)
            left = residuals(known, moved)
            lower = cost(known, moved, left)
            if lower < reached:
                return moved, left, lower, max(0.1 * tried, LEAST_DAMPING)
            tried *= 10.0
    return None


def _step(
    known: Observed,
    bundle: Bundle,
    linear: Linearised,
    weight: Array,
    damping: float,
    free_focal: bool,
    hold_path: bool,
) -> Bundle:
    """The bundle that the normal equations lead to; `weight` is `[O]`, damping holds the points where they are.

    With `hold_path` it holds the path and the focal length, too. With a long focal length, turns and shifts are nearly
    the same to first order, and steps along what they share are far too large. Elsewhere it only slows the path down.
    """
    points = _eliminated(known, bundle, linear, weight, damping)
    reduced = _reduced(known, bundle, linear, weight, points)
    every, hold = np.arange(UNKNOWNS), damping if hold_path else 0.0
    reduced.diagonal[:, every, every] *= 1.0 + hold
    inverses = factorised(reduced.diagonal, reduced.below)
    both = solve_factorised(inverses, reduced.below, np.stack([reduced.right, reduced.border], -1))
    change, response = both[..., 0], both[..., 1]
    focal = 0.0
    if free_focal:
        schur = (1.0 + hold) * reduced.corner - float((reduced.border * response).sum())
        schur += (FOCAL_STD * bundle.focal) ** -2.0
        right = reduced.corner_right - float((reduced.border * change).sum())
        right -= float(np.log(bundle.focal / known.focal)) / (FOCAL_STD**2 * bundle.focal)
        most = MAX_FOCAL_STEP * bundle.focal
        focal = min(max(right / schur, -most), most)
        change = change - response * focal
    path = change.reshape(-1, COORDINATES)
    of_poses = np.einsum("oad,od->oa", points.by_pose, path_at(path, known.first, known.basis))
    left = points.right - np.add.reduceat(of_poses, known.starts) - focal * points.by_focal
    return moved_by(bundle, path, np.einsum("tba,tb->ta", points.inverse, left), focal, linear.tangent)


def _eliminated(known: Observed, bundle: Bundle, linear: Linearised, weight: Array, damping: float) -> _Eliminated:
    weighted = weight[:, None, None] * linear.by_point  # [O, 2, 3]
    normal = np.add.reduceat(np.einsum("oka,okb->oab", weighted, linear.by_point), known.starts)
    right = np.add.reduceat(np.einsum("oka,ok->oa", weighted, linear.residual), known.starts)
    normal[:, 2, 2] += DEPTH_STD**-2
    right[:, 2] -= (bundle.inverse_depth - DEPTH_MEAN) / DEPTH_STD**2
    every = np.arange(POINT)
    normal[:, every, every] = (1.0 + damping) * normal[:, every, every] + 1e-6
    inverse: Array = np.linalg.inv(np.linalg.cholesky(normal)).astype(np.float64)
    white = np.einsum("oab,okb->oka", inverse[known.track], weighted)  # [O, 2, 3]
    return _Eliminated(
        inverse,
        np.einsum("tab,tb->ta", inverse, right),
        np.add.reduceat(np.einsum("oka,ok->oa", white, linear.by_focal), known.starts),
        np.einsum("oka,okd->oad", white, linear.by_pose),
    )


def _reduced(known: Observed, bundle: Bundle, linear: Linearised, weight: Array, points: _Eliminated) -> _Reduced:
    weighted = weight[:, None, None] * linear.by_pose  # [O, 2, 6]
    square = np.einsum("okc,okd->ocd", weighted, linear.by_pose)  # [O, 6, 6]
    size, blocks = UNKNOWNS, known.blocks
    diagonal, below, prior = np.zeros((blocks, size, size)), np.zeros((blocks - 1, size, size)), known.precision
    diagonal += prior[:, :size, :size]
    diagonal[1:] += prior[:-1, size:, size:]
    below += prior[:-1, size:, :size]
    right = _on_knots(known, np.einsum("okd,ok->od", weighted, linear.residual)) - _prior_gradient(known, bundle)
    border = _on_knots(known, np.einsum("okd,ok->od", weighted, linear.by_focal))
    owner = known.first[known.starts] // BLOCK  # [T]
    for number in np.unique(owner).tolist():
        tracks = slice(*np.searchsorted(owner, [number, number + 1]))
        ends = np.append(known.starts, len(known.track))
        mine = slice(ends[tracks.start], ends[tracks.stop])
        first, span = known.first[mine] - number * BLOCK, min(2, blocks - number)
        poses = (known.basis[mine], first, span * BLOCK)
        track = known.track[mine] - tracks.start
        by_points = _dense(points.by_pose[mine], track, tracks.stop - tracks.start, *poses)
        transposed = np.ascontiguousarray(by_points.T)
        local = _banded(square[mine], *poses) - product(transposed, by_points)
        here, there = slice(None, size), slice(size, None)
        diagonal[number] += local[here, here]
        if span == 2:
            diagonal[number + 1] += local[there, there]
            below[number] += local[there, here]
        for target, values in ((right, points.right), (border, points.by_focal)):
            target[number : number + span] -= product(transposed, values[tracks].reshape(-1, 1)).reshape(span, size)
    corner = float((weight[:, None] * linear.by_focal**2).sum() - (points.by_focal**2).sum())
    corner_right = float((weight[:, None] * linear.by_focal * linear.residual).sum())
    return _Reduced(
        diagonal, below, right, border, corner, corner_right - float((points.by_focal * points.right).sum())
    )


def _on_knots(known: Observed, values: Array) -> Array:
    """Values of poses `[O, 6]` summed at the knots they depend on, `[N, U]`."""
    summed = np.zeros((known.blocks * BLOCK, COORDINATES))
    for knot in range(SUPPORT):
        np.add.at(summed, known.first + knot, known.basis[:, knot, None] * values)
    return summed.reshape(known.blocks, UNKNOWNS)


def _prior_gradient(known: Observed, bundle: Bundle) -> Array:
    """Half the gradient of the path's prior, `[N, U]`."""
    path = bundle.path.reshape(known.blocks, UNKNOWNS)
    both = np.concatenate([path, np.vstack([path[1:], np.zeros_like(path[:1])])], 1)
    parts = (known.precision @ both[..., None])[..., 0]
    gradient: Array = parts[:, :UNKNOWNS].copy()
    gradient[1:] += parts[:-1, UNKNOWNS:]
    return gradient


def _banded(square: Array, basis: Array, first: Numbers, count: int) -> Array:
    """Normal matrix `[6 k, 6 k]` of `count` knots, from that of each observation `[o, 6, 6]` and its splines."""
    order = np.argsort(first, kind="stable")
    knots, starts = np.unique(first[order], return_index=True)
    square, basis = square[order], basis[order]
    matrix = np.zeros((count, COORDINATES, count, COORDINATES))
    for one in range(SUPPORT):
        for other in range(SUPPORT):
            products = (basis[:, one] * basis[:, other])[:, None, None] * square
            matrix[knots + one, :, knots + other] += np.add.reduceat(products, starts)
    return matrix.reshape(count * COORDINATES, -1)


def _dense(by_pose: Array, track: Numbers, tracks: int, basis: Array, first: Numbers, count: int) -> Array:
    """Derivatives `[3 t, 6 k]` of whitened points by `count` knots, from those of each observation `[o, 3, 6]`."""
    matrix = np.zeros((tracks, count, POINT, COORDINATES))
    for knot in range(SUPPORT):
        # Two observations of a track may share their first knot.
        np.add.at(matrix, (track, first + knot), basis[:, knot, None, None] * by_pose)
    return matrix.transpose(0, 2, 1, 3).reshape(tracks * POINT, -1)
