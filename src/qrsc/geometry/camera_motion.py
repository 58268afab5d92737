"""The camera's motion through a clip: rotation, translation up to scale and zoom at any time, with uncertainty.

The model is that of calibration (`qrsc.calibrate.camera_model`): one spline over time for three rotations and three
translations, fitted to the motions of all cells of the picture with an inverse depth for each region. The readout is
given here.

Convention
    Axes of the camera: x to the right, y down, z ahead, in the picture as it is stored. Rates are about these axes by
    the right-hand rule: a positive rate about x turns the view up, about y to the right, about z the camera clockwise.
    Times are in frame intervals since the start of the first frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from qrsc.backend.threads import at_most_threads
from qrsc.calibrate.camera_model import BLOCK, COORDINATES, KNOTS, MARGIN, CameraFit, CameraModel
from qrsc.calibrate.cell_motions import ClipMotions, MotionReader
from qrsc.calibrate.fit_camera import INITIAL_INVERSE_FOCAL_SQUARED, INITIAL_NOISE
from qrsc.calibrate.gauss_newton import FROZEN_DAMPING, gauss_newton_step, minimise
from qrsc.calibrate.grey_frames import ClipSource
from qrsc.calibrate.path_prior import autoregressive_filters
from qrsc.calibrate.spline import bspline
from qrsc.timing import Readout

Array = npt.NDArray[np.float64]

GROUPS = 4  # of cells, from which the path is found once more each: their spread is its uncertainty
MIN_FRAMES = 8
LONGEST_GAP = 1.1  # frame intervals; frames further apart share no motion
# Standard deviation of translations relative to pan and tilt. A scene of one depth hardly tells them apart; the smaller
# this is, the more is taken for rotation. On three simulated hand-held clips the rotation is off by 0.19° rms with 0.3,
# 0.15° with 0.03, and 0.57° with 0.003.
TRANSLATION = 0.03
STEPS = 20  # per frame interval, of the integration of rates


@dataclass(frozen=True)
class CameraMotion:
    """The motion of a camera through a clip.

    Attributes:
        path: `[K, 6]`, coefficients of a cubic B-spline: pan, tilt and roll in radians (integrals of the rates about y,
            x and z), then x, y and z in units of a typical depth.
        spread: `[G, K, 6]`, the same from each of G groups of cells alone.
        frames: how many frames the clip has.
        focal: focal length in pixels.
        focal_given: it was given; otherwise it was found with the motion, which is much less certain.
        depth: typical inverse depth of the picture, with which forward motion enlarges it.
        readout: how the frames were read.
        fps: frames per second; None if unknown.
        size: `(H, W)`.
        noise: standard deviation of the motion of a cell, px.
    """

    path: Array
    spread: Array
    frames: int
    focal: float
    focal_given: bool
    depth: float
    readout: Readout
    fps: float | None
    size: tuple[int, int]
    noise: float

    @property
    def times(self) -> Array:
        """`[N]`, the instants of the middle rows."""
        return np.arange(self.frames, dtype=np.float64) + self.readout.instant("middle")

    def coordinates(self, times: Array) -> Array:
        """`[T, 6]`: integrals of the rates about x, y and z in radians, and x, y, z in units of a typical depth."""
        return _basis(times, len(self.path)) @ self.path

    def standard_errors(self, times: Array) -> Array:
        """`[T, 6]`, of `coordinates` about their mean over the clip."""
        basis = _basis(times, len(self.path))
        each = np.stack([basis @ path for path in self.spread])
        each = each - each.mean(1, keepdims=True)
        errors: Array = each.std(0, ddof=1) / math.sqrt(len(each))
        return errors

    def rates(self, times: Array, step: float = 1.0 / STEPS) -> Array:
        """`[T, 3]`, mean rates about x, y and z over the `step` before each time, in radians per frame interval."""
        difference = self.coordinates(times)[:, :3] - self.coordinates(times - step)[:, :3]
        rates: Array = difference / step
        return rates

    def rotations(self, times: Array) -> Array:
        """`[T, 3, 3]`, from the camera at each time to the camera at the start of the first frame."""
        last = max(float(np.max(times)), 0.0)
        first = min(float(np.min(times)), 0.0)
        grid = np.arange(math.floor(first * STEPS) - 1, math.ceil(last * STEPS) + 2) / STEPS
        turns = rotation_matrices(self.rates(grid) / STEPS)
        reached = np.empty_like(turns)
        current = np.eye(3)
        for index, turn in enumerate(turns):
            current = current @ turn
            reached[index] = current
        start = reached[int(np.argmin(np.abs(grid)))]
        place = np.clip(((np.asarray(times) - grid[0]) * STEPS).astype(int), 0, len(grid) - 1)
        left = np.asarray(times) - grid[place]
        after: Array = (
            start.T @ reached[place] @ rotation_matrices(self.rates(grid[place] + 1.0 / STEPS) * left[:, None])
        )
        return after

    def positions(self, times: Array) -> Array:
        """`[T, 3]`, of the camera in the axes of the first frame, in units of a typical depth."""
        grid = np.arange(math.floor(min(0.0, float(np.min(times)))), float(np.max(times)) + 0.1, 0.1)
        moved = np.diff(self.coordinates(grid)[:, 3:], axis=0)
        middle = self.rotations(grid[:-1] + 0.05)
        way = np.concatenate([np.zeros((1, 3)), np.cumsum(np.einsum("tij,tj->ti", middle, moved), axis=0)])
        return np.stack([np.interp(times, grid, axis) for axis in (way - way[np.argmin(np.abs(grid))]).T], axis=1)

    def zoom(self, times: Array) -> Array:
        """`[T]`, how much larger the picture is than at the start: by a zoom or by moving ahead, which look alike."""
        ahead = self.coordinates(times)[:, 5] - self.coordinates(np.zeros(1))[:, 5]
        larger: Array = np.exp(self.depth * ahead)
        return larger


def find_camera_motion(
    clip: ClipSource,
    readout: Readout,
    *,
    focal: float | None = None,
    advance: Callable[[], None] | None = None,
) -> CameraMotion:
    """Find the camera's motion through a clip.

    Args:
        clip: from `qrsc.calibrate.grey_frames.open_clip`.
        readout: how its frames were read.
        focal: focal length in pixels, if it is known. Without it, it is found with the motion.
        advance: called for every frame.
    """
    if focal is not None and not focal > 0.0:
        raise ValueError(f"the focal length must be positive, in pixels; got {focal!r}.")
    with at_most_threads(1):
        motions, frames = _read(clip, advance)
        if frames < MIN_FRAMES:
            raise ValueError(f"the camera's motion needs at least {MIN_FRAMES} frames; {clip.path} has {frames}.")
        half = 0.5 * max(clip.size)
        inverse = None if focal is None else (half / focal) ** 2
        turned = _downwards(motions, readout)
        model = CameraModel(turned, TRANSLATION)
        fit = _fitted(model, readout, inverse)
        spread = [_refitted(model, turned, fit, group) for group in range(GROUPS)]
    found = half / math.sqrt(max(fit.inverse_focal_squared, 1e-4))
    focal_px = focal if focal is not None else found
    return CameraMotion(
        _in_radians(_turned_back(fit.path, readout), focal_px, half),
        np.stack([_in_radians(_turned_back(path, readout), focal_px, half) for path in spread]),
        frames,
        focal_px,
        focal is not None,
        float(np.median(model.depth.at_cells(fit.inverse_depth)[model.weight > 0.05])),
        readout,
        clip.fps,
        clip.size,
        fit.noise,
    )


def rotation_matrices(vectors: Array) -> Array:
    """Rotations `[..., 3, 3]` about vectors `[..., 3]` by their lengths in radians."""
    angle = np.linalg.norm(vectors, axis=-1)[..., None, None]
    safe = np.maximum(angle, 1e-12)
    x, y, z = np.moveaxis(vectors, -1, 0)
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(*vectors.shape[:-1], 3, 3)
    small = angle < 1e-6
    first = np.where(small, 1.0, np.sin(angle) / safe)
    second = np.where(small, 0.5, (1.0 - np.cos(angle)) / safe**2)
    matrices: Array = np.eye(3) + first * cross + second * (cross @ cross)
    return matrices


# --- the fit ---


def _read(clip: ClipSource, advance: Callable[[], None] | None) -> tuple[ClipMotions, int]:
    """The motions of all pairs of frames, and the number of frames; pairs across a gap in time say nothing."""
    reader = MotionReader(clip.size)
    times = []
    for frame, time in clip.timed_frames(advance=advance):
        reader.take(frame)
        times.append(time)
    if len(times) < 2:
        return ClipMotions(*(np.zeros((0, 1, 2)),) * 2, np.zeros((0, 1)), clip.size), len(times)
    motions = reader.motions()
    apart = np.array([not after - before <= LONGEST_GAP for before, after in pairwise(times)])
    return motions.without(apart), len(times)


def _fitted(model: CameraModel, readout: Readout, inverse_focal_squared: float | None) -> CameraFit:
    """Path and scene at a given readout, from coarse to fine."""
    free = (False, inverse_focal_squared is None)
    fit = CameraFit(
        np.zeros((model.blocks * BLOCK, COORDINATES)),
        np.tile(model.depth.prior_mean, (model.blocks, 1)),
        INITIAL_INVERSE_FOCAL_SQUARED if inverse_focal_squared is None else inverse_focal_squared,
        readout.gamma,
        model.weight,
        INITIAL_NOISE,
    )
    fit = minimise(model, fit, 2, damping=1e6, free=(False, False), update_noise=True)
    fit = minimise(model, fit, 10, free=free, update_noise=True)
    observed = fit.path[MARGIN : MARGIN + model.pairs * KNOTS + 2]
    model.set_path_prior(autoregressive_filters(observed, model.proportions))
    return minimise(model, fit, 8, free=free)


def _refitted(model: CameraModel, motions: ClipMotions, fit: CameraFit, group: int) -> Array:
    """The path from every fourth cell alone, with the scene and the focal length of the whole."""
    chosen = np.arange(model.cells) % GROUPS == group
    part = CameraModel(replace(motions, weight=np.where(chosen, motions.weight, 0.0)), TRANSLATION)
    part.set_path_prior(model.filters)
    part.depth = model.depth
    start = replace(fit, weight=part.weight)
    evaluation = part.evaluate(start)
    start = replace(start, weight=evaluation.weight)
    # With weights and scene held, the path is a linear problem: one step solves it.
    step = gauss_newton_step(
        part,
        start,
        part.reevaluate(start, evaluation),
        None,
        10.0 * FROZEN_DAMPING,
        (False, False),
        fixed_weights=True,
    )
    return fit.path if step is None else step.fit.path


def _basis(times: Array, count: int) -> Array:
    """Cubic B-splines `[T, K]` at times in frame intervals."""
    numbers = np.arange(count) - MARGIN
    return bspline(KNOTS * np.asarray(times, dtype=np.float64)[:, None] - numbers)


def _downwards(motions: ClipMotions, readout: Readout) -> ClipMotions:
    """The motions turned so that the scan runs downwards."""
    turned = motions.transposed() if readout.sideways else motions
    return turned.flipped() if readout.backwards else turned


def _turned_back(path: Array, readout: Readout) -> Array:
    """A path `[K, 6]` of turned motions in the picture as it is."""
    pan, tilt, roll, right, down, ahead = path.T
    if readout.backwards:
        tilt, roll, down = -tilt, -roll, -down
    if readout.sideways:
        pan, tilt, roll, right, down = tilt, pan, -roll, down, right
    turned: Array = np.stack([pan, tilt, roll, right, down, ahead], axis=1)
    return turned


def _in_radians(path: Array, focal: float, half: float) -> Array:
    """From motions of the picture in pixels to motions of the camera.

    A camera that turns right moves the picture to the left; one that looks up moves it down.
    """
    pan, tilt, roll, right, down, ahead = path.T
    turned: Array = np.stack([tilt / focal, -pan / focal, -roll / half, -right / focal, -down / focal, ahead / half], 1)
    return turned
