"""Finding the camera's motion through a clip.

First from frame to frame, by the model of calibration (`qrsc.calibrate.camera_model`): one spline over time for three
rotations and three translations, fitted to the motions of all cells of the picture with an inverse depth for each
region. The readout is given here. Then its drift is corrected by points that are followed over many frames
(`qrsc.geometry.adjusted_motion`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from qrsc.backend.threads import at_most_threads
from qrsc.calibrate.camera_model import BLOCK, COORDINATES, KNOTS, MARGIN, CameraFit, CameraModel
from qrsc.calibrate.cell_motions import ClipMotions, MotionReader
from qrsc.calibrate.fit_camera import INITIAL_INVERSE_FOCAL_SQUARED, INITIAL_NOISE
from qrsc.calibrate.gauss_newton import FROZEN_DAMPING, gauss_newton_step, minimise
from qrsc.calibrate.grey_frames import ClipSource
from qrsc.calibrate.inverse_depth import GRID
from qrsc.calibrate.path_prior import autoregressive_filters
from qrsc.geometry.adjusted_motion import adjusted_motion
from qrsc.geometry.camera_motion import CameraMotion
from qrsc.geometry.corner_tracks import CornerTracker, CornerTracks
from qrsc.timing import Readout

Array = npt.NDArray[np.float64]

GROUPS = 4  # of cells, from which the path is found once more each: their spread is its uncertainty
MIN_FRAMES = 8
LONGEST_GAP = 1.1  # frame intervals; frames further apart share no motion
# Standard deviation of translations relative to pan and tilt. A scene of one depth hardly tells them apart; the smaller
# this is, the more is taken for rotation. Before the drift is corrected, the rotation of three simulated hand-held
# clips is off by 0.19° rms with 0.3, 0.15° with 0.03, and 0.57° with 0.003.
TRANSLATION = 0.03
# Focal lengths of cameras, in longer sides of the picture. What lies outside was not found but left open by the clip: a
# slight shake hardly says anything about it.
SHORTEST_FOCAL, LONGEST_FOCAL = 0.4, 4.0


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
        focal: focal length in pixels, if it is known. Without it, it is found with the motion, or assumed to be the
            longer side of the picture where the clip does not determine it.
        advance: called for every frame.
    """
    if focal is not None and not focal > 0.0:
        raise ValueError(f"the focal length must be positive, in pixels; got {focal!r}.")
    with at_most_threads(1):
        motions, tracks, frames = _read(clip, advance)
        if frames < MIN_FRAMES:
            raise ValueError(f"the camera's motion needs at least {MIN_FRAMES} frames; {clip.path} has {frames}.")
        half = 0.5 * max(clip.size)
        inverse = None if focal is None else (half / focal) ** 2
        turned = _downwards(motions, readout)
        model = CameraModel(turned, TRANSLATION)
        model.depth.prior_mean = _turned_ground(model.depth.prior_mean, readout)
        fit = _fitted(model, readout, inverse)
        spread = [_refitted(model, turned, fit, group) for group in range(GROUPS)]
        focal_px, assumed = (focal, False) if focal is not None else _likely_focal(fit, half)
        motion = CameraMotion(
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
            focal_assumed=assumed,
        )
        return adjusted_motion(motion, tracks)


def _likely_focal(fit: CameraFit, half: float) -> tuple[float, bool]:
    """The focal length in pixels, and whether it had to be assumed; `half` is half the longer side."""
    found = half / math.sqrt(max(fit.inverse_focal_squared, 1e-4))
    side = 2.0 * half
    assumed = not SHORTEST_FOCAL * side <= found <= LONGEST_FOCAL * side
    return (side if assumed else found), assumed


def _read(clip: ClipSource, advance: Callable[[], None] | None) -> tuple[ClipMotions, CornerTracks, int]:
    """The motions of all pairs of frames, corners followed through them, and the number of frames.

    Pairs across a gap in time or a cut say nothing.
    """
    reader, tracker, times = MotionReader(clip.size), CornerTracker(clip.size), []
    for frame, time in clip.timed_frames(advance=advance):
        reader.take(frame)
        tracker.take(frame)
        times.append(time)
    if len(times) < 2:
        return ClipMotions(*(np.zeros((0, 1, 2)),) * 2, np.zeros((0, 1)), clip.size), tracker.tracks(), len(times)
    motions = reader.motions()
    apart = np.array([not after - before <= LONGEST_GAP for before, after in pairwise(times)])
    motions = motions.without(apart)
    cuts = np.flatnonzero(motions.weight.max(1) == 0.0) + 1
    return motions, tracker.tracks().split(cuts), len(times)


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


def _downwards(motions: ClipMotions, readout: Readout) -> ClipMotions:
    """The motions turned so that the scan runs downwards."""
    turned = motions.transposed() if readout.sideways else motions
    return turned.flipped() if readout.backwards else turned


def _turned_ground(prior_mean: Array, readout: Readout) -> Array:
    """The prior mean of inverse depths `[G]` in turned motions, in which the near ground is not below any more."""
    rows, columns = GRID
    ground = prior_mean.reshape(rows, columns)[:, 0]  # from the upper edge of the picture to the lower
    if readout.sideways:
        across = np.interp((np.arange(columns) + 0.5) / columns, (np.arange(rows) + 0.5) / rows, ground)
        return np.tile(across, rows)
    return np.repeat(ground[::-1], columns) if readout.backwards else prior_mean


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
