"""A camera path corrected by points that are followed over many frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from qrsc.calibrate.camera_model import KNOTS, MARGIN
from qrsc.calibrate.spline import bspline_values
from qrsc.geometry import bundle as model
from qrsc.geometry.bundle import Bundle, Observed
from qrsc.geometry.bundle_steps import adjusted
from qrsc.geometry.camera_motion import STEPS, CameraMotion
from qrsc.geometry.corner_tracks import CornerTracks
from qrsc.geometry.rotations import rotation_matrices, rotation_vectors

Array = npt.NDArray[np.float64]

FEWEST = 40  # tracks; with fewer the path stays as it is
MOST = 1_000_000  # observations; of more, tracks are left out evenly
# Rows and columns of regions of the picture. The path is found once more without the tracks of each (jackknife):
# what moves by itself, or is followed badly, is mostly in one region.
REGIONS = (2, 3)
REFITTING = 4  # steps
# Frames are weakly connected by fewer points than this, or than this part of what is usual in the clip.
FEW, FEW_PART = 20, 0.15
ANCHOR = 3  # observations of a track in frames that are not weak, if there are weak ones
# How many times larger errors are than this says, on six simulated hand-held clips: errors of regions are correlated.
CORRELATION = 2.5


def adjusted_motion(motion: CameraMotion, tracks: CornerTracks) -> CameraMotion:
    """A camera path that also agrees with tracks; the focal length is adjusted if it was found with the path."""
    free_focal = not (motion.focal_given or motion.focal_assumed)
    if len(tracks.track) > MOST:
        every = np.arange(tracks.number)
        tracks = tracks.chosen(every % -(-len(tracks.track) // MOST) == 0)
    if tracks.number < FEWEST:
        return motion
    known = _observed(motion, tracks)
    found = adjusted(known, model.initial(known), free_focal=free_focal)
    weak = _weak_frames(known, found, tracks, motion.frames)
    if weak:
        anchored = _anchored(tracks, weak)
        if anchored.sum() < FEWEST:
            return replace(motion, weak=weak)
        tracks = tracks.chosen(anchored)
        known = _observed(motion, tracks)
        found = adjusted(known, model.initial(known), free_focal=free_focal)
    path = _path(motion, found.path)
    without = [
        _path(motion, adjusted(*_part(known, found, kept), steps=REFITTING).path) for kept in _regions_left_out(known)
    ]
    return replace(
        motion,
        path=path,
        # Pseudo-values: their mean has the standard error of the jackknife.
        spread=np.stack([path + CORRELATION * (len(without) - 1) * (path - each) for each in without]),
        focal=found.focal,
        depth=float(np.median(found.inverse_depth)),
        tracks=tracks.number,
        weak=weak,
    )


def _observed(motion: CameraMotion, tracks: CornerTracks) -> Observed:
    height, width = motion.size
    rows = torch.from_numpy(tracks.position[:, 0 if motion.readout.sideways else 1])
    times = tracks.frame + motion.readout.row_time(rows, height, width).numpy()
    return model.observed(
        tracks,
        times,
        motion.rotations(times),
        motion.positions(times),
        middle=np.array([(width - 1) / 2, (height - 1) / 2]),
        focal=motion.focal,
        frames=motion.frames,
    )


def _weak_frames(known: Observed, found: Bundle, tracks: CornerTracks, frames: int) -> tuple[int, ...]:
    """Frames from which few tracks that fit the path lead to the next frame."""
    fitting = model.weights(model.residuals(known, found), found.noise) > 0.25
    leads = (np.diff(tracks.track) == 0) & (np.diff(tracks.frame) == 1) & fitting[:-1] & fitting[1:]
    counts = np.bincount(tracks.frame[:-1][leads], minlength=frames - 1)[: frames - 1]
    few = counts < max(FEW, FEW_PART * float(np.median(counts)))
    return tuple(np.flatnonzero(few).tolist())


def _anchored(tracks: CornerTracks, weak: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Tracks `[T]` of which enough is seen outside weak frames.

    The others lie on the thing that fills the picture, as far as anyone can tell. Without them the path keeps its
    course from frame to frame there, and what leads in and out of the weak frames still counts.
    """
    outside = np.bincount(tracks.track, ~np.isin(tracks.frame, weak), minlength=tracks.number)
    anchored: npt.NDArray[np.bool_] = outside >= ANCHOR
    return anchored


def _regions_left_out(known: Observed) -> list[npt.NDArray[np.bool_]]:
    """For each region of the picture, the tracks `[T]` that do not begin in it."""
    start = known.seen[known.starts]
    # Regions of as many tracks each: first rows, then columns within each.
    rows, columns = REGIONS
    row = _shares(start[:, 1], rows)
    region = np.zeros(len(start), dtype=np.int64)
    for number in range(rows):
        region[row == number] = columns * number + _shares(start[row == number, 0], columns)
    return [region != number for number in range(rows * columns)]


def _shares(values: Array, count: int) -> npt.NDArray[np.int64]:
    """The number from 0 to `count - 1` of the equal share in which each value `[N]` lies, by rank."""
    return np.argsort(np.argsort(values)) * count // max(len(values), 1)


def _part(known: Observed, found: Bundle, tracks: npt.NDArray[np.bool_]) -> tuple[Observed, Bundle]:
    """Some of the tracks alone."""
    kept = tracks[known.track]
    _, track = np.unique(known.track[kept], return_inverse=True)
    part = known._replace(
        seen=known.seen[kept],
        track=track.astype(np.int64),
        starts=np.flatnonzero(np.diff(track, prepend=-1)),
        rotation=known.rotation[kept],
        position=known.position[kept],
        first=known.first[kept],
        basis=known.basis[kept],
        focal=found.focal,
    )
    start = replace(
        found,
        direction=found.direction[tracks],
        centre=found.centre[tracks],
        inverse_depth=found.inverse_depth[tracks],
    )
    return part, start


def _path(motion: CameraMotion, correction: Array) -> Array:
    """The coefficients `[K, 6]` of `CameraMotion.path` with turn and shift added, `[k, 6]` as in `Bundle`.

    Both are summed up along the path: angles about the axes of the camera of each time, and the way along them.
    """
    count = len(motion.path)
    knots = (np.arange(count + 2) - 1 - MARGIN) / KNOTS  # one more on either side
    first, last = -0.5, motion.frames + 0.5  # the path is known within these
    grid = np.arange(round(first * STEPS), round(last * STEPS) + 1) / STEPS
    splines = bspline_values(grid / model.SPACING)
    moved = model.path_at(correction, splines.first + model.MARGIN, splines.values)  # [T, 6]
    given = motion.rotations(grid)
    rotation, position = given @ rotation_matrices(moved[:, :3]), motion.positions(grid) + moved[:, 3:]
    turns = rotation_vectors(rotation[:-1].transpose(0, 2, 1) @ rotation[1:])
    halfway = rotation[:-1] @ rotation_matrices(0.5 * turns)
    ways = np.einsum("tji,tj->ti", halfway, np.diff(position, axis=0))
    summed = np.concatenate([np.zeros((1, 6)), np.cumsum(np.concatenate([turns, ways], 1), axis=0)])
    difference = summed - motion.coordinates(grid)
    at_knots = np.stack([np.interp(knots, grid, each) for each in difference.T], 1)
    # Coefficients of a cubic spline that passes by the values at the knots to third order, from three of them each.
    added = (8.0 * at_knots[1:-1] - at_knots[:-2] - at_knots[2:]) / 6.0
    path: Array = motion.path + added
    return path
