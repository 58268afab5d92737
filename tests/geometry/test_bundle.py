from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from qrsc.geometry import bundle as model
from qrsc.geometry.adjusted_motion import _anchored, adjusted_motion
from qrsc.geometry.bundle import Bundle, Observed
from qrsc.geometry.bundle_steps import adjusted
from qrsc.geometry.camera_motion import CameraMotion
from qrsc.geometry.corner_tracks import LONGEST, CornerTracker, CornerTracks
from qrsc.geometry.formats import gyroflow_log
from qrsc.geometry.motion_report import motion_text
from qrsc.geometry.rotations import rotation_matrices, rotation_vectors
from qrsc.timing import Readout

SIZE, FRAMES, FOCAL = (240, 320), 44, 260.0  # more frames than a track is long: two blocks of knots
MIDDLE = np.array([159.5, 119.5])


def given_motion(readout: Readout) -> CameraMotion:
    """A camera that sways, as the first fit might have found it."""
    times = (np.arange(140) - 12) / 2
    path = np.stack([0.05 * np.sin(0.4 * times), 0.06 * np.cos(0.3 * times), 0.02 * np.sin(0.5 * times)], 1)
    way = np.stack([0.2 * np.sin(0.1 * times), 0.1 * np.cos(0.15 * times), 0.01 * times], 1)
    both = np.concatenate([path, way], 1)
    return CameraMotion(both, np.stack([both, both]), FRAMES, FOCAL, True, 1.0, readout, 30.0, SIZE, 0.1)


def drifted(motion: CameraMotion) -> CameraMotion:
    """The same with slow errors: part of the translation is taken for rotation."""
    path = motion.path.copy()
    path[:, 1] += 0.03 * (path[:, 3] - path[:, 3].mean())
    path[:, 0] += 0.02 * np.linspace(-1.0, 1.0, len(path)) ** 2
    path[:, 3:] *= 0.8
    return replace(motion, path=path)


def tracks_of(motion: CameraMotion, *, points: int = 300, wrong: float = 0.0, noise: float = 0.0) -> CornerTracks:
    """Random points at many depths, as the rows of the frames see them; a part of them moves by itself."""
    generator = np.random.default_rng(0)
    readout, (height, width) = motion.readout, motion.size
    begin = generator.integers(0, FRAMES - 12, points)
    seen = generator.uniform([30, 30], [width - 30, height - 30], (points, 2))
    inverse_depth = generator.uniform(0.05, 2.0, points)
    observations = []
    axis = 0 if readout.sideways else 1

    def at_rows(place: np.ndarray, frame: np.ndarray) -> np.ndarray:
        rows = torch.from_numpy(place[:, axis].copy())
        return np.asarray(frame + readout.row_time(rows, height, width).numpy())

    time = at_rows(seen, begin)
    ray = np.concatenate([(seen - MIDDLE) / FOCAL, np.ones((points, 1))], 1)
    place = motion.positions(time) + np.einsum("nij,nj->ni", motion.rotations(time), ray) / inverse_depth[:, None]
    drift = np.where(generator.uniform(size=(points, 1)) < wrong, generator.normal(0, 0.01, (points, 3)), 0.0)
    for step in range(LONGEST):
        frame = begin + step
        pixel = seen
        for _ in range(3):  # the row decides on the time, and the time on the row
            time = at_rows(pixel, frame)
            there = place + step * drift - motion.positions(time)
            y = np.einsum("nji,nj->ni", motion.rotations(time), there)
            pixel = MIDDLE + FOCAL * y[:, :2] / np.maximum(y[:, 2:], 0.01)
        inside = ((pixel > 0) & (pixel < [width - 1, height - 1])).all(1) & (y[:, 2] > 0.05) & (frame < FRAMES)
        number = np.flatnonzero(inside)
        observations.append((pixel[number] + noise * generator.normal(size=(len(number), 2)), frame[number], number))
    position, frame, track = (np.concatenate(each) for each in zip(*observations, strict=True))
    everything = np.lexsort((frame, track))
    return CornerTracks(position[everything], frame[everything], track[everything]).split(np.zeros(0, np.int64))


def rotation_error(found: CameraMotion, true: CameraMotion) -> float:
    """Degrees rms, after the best turn."""
    times = np.arange(0.0, FRAMES - 1, 0.5)
    one, other = true.rotations(times), found.rotations(times)
    left, _, right = np.linalg.svd(np.einsum("tij,tkj->ik", one, other))
    turn = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    errors = np.degrees(rotation_vectors(one.transpose(0, 2, 1) @ turn @ other))
    return float(np.sqrt((errors**2).sum(1).mean()))


def test_the_drift_of_a_path_is_corrected() -> None:
    true = given_motion(Readout(0.8, "right-left"))
    found = adjusted_motion(drifted(true), tracks_of(true, wrong=0.2, noise=0.05))
    assert rotation_error(drifted(true), true) > 0.2
    error = rotation_error(found, true)
    assert error < 0.02  # degrees; 0.006
    assert found.tracks > 200
    assert found.focal == FOCAL  # it was given
    assert not set(found.weak) & set(range(12, FRAMES - 6))  # tracks begin at random: few reach the ends
    predicted = np.degrees(found.standard_errors(np.arange(13.0, FRAMES - 6, 2.0))[:, :3])
    assert 0.3 < float(np.sqrt((predicted**2).sum(1).mean())) / error < 5.0


def test_the_focal_length_is_found_with_the_path() -> None:
    true = given_motion(Readout(0.8))
    guess = replace(true, focal=1.05 * FOCAL, focal_given=False)
    assert adjusted_motion(guess, tracks_of(true, noise=0.05)).focal == pytest.approx(FOCAL, rel=0.01)


def test_a_long_focal_length_leaves_the_path_adjustable() -> None:
    """Turns and shifts are then nearly the same; steps along what they share must not stop the adjustment."""
    true = given_motion(Readout(0.8))
    path = true.path * [0.1, 0.1, 1.0, 0.1, 0.1, 0.1]
    long = replace(true, path=path, focal=10 * FOCAL, focal_given=False)
    found = adjusted_motion(long, tracks_of(true, noise=0.05))
    assert float(np.abs(found.path - path).max()) > 0.0
    assert float(found.standard_errors(found.times)[:, :3].min()) > 1e-6


def test_frames_without_connection_are_named() -> None:
    true = given_motion(Readout(0.8))
    tracks = tracks_of(true, noise=0.05)
    kept = (tracks.frame < 20) | (tracks.frame > 22)
    parted = CornerTracks(tracks.position[kept], tracks.frame[kept], tracks.track[kept]).split(np.array([21]))
    found = adjusted_motion(true, parted)
    assert {19, 20, 21, 22} <= set(found.weak)
    assert "hardly anything can be followed" in motion_text(found)
    assert "uncertain in frames" in gyroflow_log(found, "clip.mp4")
    times, tied = found.times, replace(found, weak=())
    before = np.degrees(tied.standard_errors(times)[:, :3]).mean()
    after = np.degrees(found.standard_errors(times)[:, :3]).mean()
    assert before < 0.2  # degrees; 0.12
    assert after > 0.5  # the camera turns by 1° from frame to frame


def test_tracks_that_lie_within_weak_frames_say_nothing() -> None:
    frame, track = np.array([4, 5, 6, 7, 8, 2, 3, 4, 5, 6, 7, 8, 9, 10]), np.repeat([0, 1], [5, 9])
    tracks = CornerTracks(np.zeros((14, 2)), frame, track)
    assert _anchored(tracks, tuple(range(4, 9))).tolist() == [False, True]


def test_too_few_tracks_leave_the_path_as_it_is() -> None:
    true = given_motion(Readout(0.8))
    found = adjusted_motion(true, tracks_of(true, points=20))
    assert found is true
    assert found.tracks == 0


def random_bundle() -> tuple[Observed, Bundle]:
    true = given_motion(Readout(0.5))
    tracks = tracks_of(true, points=12)
    times = np.asarray(tracks.frame + 0.3, dtype=np.float64)
    known = model.observed(
        tracks, times, true.rotations(times), true.positions(times), middle=MIDDLE, focal=FOCAL, frames=FRAMES
    )
    start = model.initial(known)
    generator = np.random.default_rng(1)
    return known, replace(start, path=0.01 * generator.normal(size=start.path.shape))


def test_derivatives_agree_with_differences() -> None:
    known, start = random_bundle()
    linear = model.linearised(known, start)
    nothing, still = np.zeros_like(start.path), np.zeros((len(start.direction), 3))
    step = 1e-6
    for coordinate in range(6):
        path = nothing.copy()
        path[:, coordinate] = step  # splines add up to 1: the same change everywhere
        change = model.residuals(known, model.moved_by(start, path, still, 0.0, linear.tangent)) - linear.residual
        # Turns are linearised at 0, so that this holds up to the size of the turn.
        np.testing.assert_allclose(-change / step, linear.by_pose[..., coordinate], rtol=0.05, atol=6.0)
    for coordinate in range(3):
        points = still.copy()
        points[:, coordinate] = step
        change = model.residuals(known, model.moved_by(start, nothing, points, 0.0, linear.tangent)) - linear.residual
        np.testing.assert_allclose(-change / step, linear.by_point[..., coordinate], rtol=1e-3, atol=1e-2)
    change = model.residuals(known, model.moved_by(start, nothing, still, step, linear.tangent)) - linear.residual
    np.testing.assert_allclose(-change / step, linear.by_focal, rtol=1e-4, atol=1e-5)


def test_steps_never_raise_the_cost() -> None:
    known, start = random_bundle()
    costs = [model.cost(known, start, model.residuals(known, start))]
    for _ in range(3):
        start = adjusted(known, start, steps=1)
        costs.append(model.cost(known, start, model.residuals(known, start)))
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 0.5 * costs[0]


def test_corners_are_followed() -> None:
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, 1, 40, 50, generator=generator)
    picture = torch.nn.functional.interpolate(coarse, scale_factor=8, mode="bicubic")[0, 0].clamp(0, 1)
    tracker = CornerTracker((480, 640))  # twice the size of the frames
    for number in range(8):
        frame = (255 * picture[20 + 2 * number : 260 + 2 * number, 40 - 3 * number : 360 - 3 * number]).byte().numpy()
        tracker.take(frame)
    tracks = tracker.tracks()
    assert tracks.number > 200
    same = np.diff(tracks.track) == 0
    steps = np.diff(tracks.position, axis=0)[same]
    np.testing.assert_allclose(np.median(steps, axis=0), [6.0, -4.0], atol=0.02)
    assert np.quantile(np.abs(steps - [6.0, -4.0]), 0.95) < 0.1
    halves = tracks.split(np.array([4]))
    assert halves.number > tracks.number
    assert all(
        len({int(frame) // 4 for frame in halves.frame[halves.track == number]}) == 1 for number in range(halves.number)
    )


def test_rotations_there_and_back() -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_allclose(rotation_vectors(rotation_matrices(vectors)), vectors, atol=1e-12)
    np.testing.assert_allclose(rotation_vectors(np.eye(3)), 0.0)
