from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from qrsc.calibrate import fit_camera as camera
from qrsc.calibrate.camera_model import CameraFit, CameraModel
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.cell_noise import full_texture_noise, typical_noise
from qrsc.calibrate.cells import GRID
from qrsc.calibrate.fit_camera import fit_camera
from qrsc.calibrate.marginal_likelihood import Likelihood

HEIGHT, WIDTH, PAIRS = 480, 640, 40
INVERSE_FOCAL_SQUARED = 0.3


def walked(gamma: float, seed: int) -> ClipMotions:
    """Motions of a camera that rotates and moves through a scene with near ground and a wall on the left."""
    random = np.random.default_rng(seed)
    rate, phase = random.uniform(0.04, 0.3, (6, 4)), random.uniform(0.0, 2.0 * np.pi, (6, 4))
    # Speeds in pixels per frame: rotations, then translations at an inverse depth of 1.
    speed = np.array([4.0, 4.0, 2.0, 1.5, 1.5, 1.0])[:, None] * random.normal(size=(6, 4)) / 2.0

    def path(times: np.ndarray) -> np.ndarray:
        waves = np.sin(2.0 * np.pi * rate * times[..., None, None] + phase)
        coordinates: np.ndarray = (speed / (2.0 * np.pi * rate) * waves).sum(-1)  # [..., 6]
        coordinates[..., 5] += 2.0 * times
        return coordinates

    rows, columns = GRID
    y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
    near = (0.3 + 1.2 * np.maximum(y - 0.4, 0.0) + 1.5 * np.maximum(0.5 - x, 0.0)).reshape(-1)
    position = np.stack([x.ravel() * WIDTH, y.ravel() * HEIGHT], -1)[None].repeat(PAIRS, 0)
    start = np.arange(PAIRS)[:, None]
    shift = np.zeros_like(position)
    for _ in range(20):
        u, v = np.moveaxis((position + 0.5 * shift - np.array([WIDTH, HEIGHT]) / 2) / (WIDTH / 2), -1, 0)
        end = start + 1.0 + gamma * (position + shift)[..., 1] / HEIGHT
        step = path(end) - path(start + gamma * position[..., 1] / HEIGHT)
        across = INVERSE_FOCAL_SQUARED * (u * step[..., 0] + v * step[..., 1])
        shift = step[..., :2] + np.stack([u * across - v * step[..., 2], v * across + u * step[..., 2]], -1)
        shift = shift + near[:, None] * (step[..., 3:5] + np.stack([u, v], -1) * step[..., 5:])
    shift = shift + 0.05 * random.normal(size=shift.shape)
    return ClipMotions(position, shift, np.ones(shift.shape[:2]), (HEIGHT, WIDTH))


@pytest.mark.parametrize(("gamma", "start"), [(0.4, 0.6), (0.85, 0.6)])
def test_gamma_is_found_where_parallax_shears_the_picture(gamma: float, start: float) -> None:
    motions = walked(gamma, 1)
    fit, error = fit_camera(CameraModel(motions), start)
    assert fit.gamma == pytest.approx(gamma, abs=0.015)
    assert 0.0 < error < 0.03
    assert fit.inverse_focal_squared == pytest.approx(INVERSE_FOCAL_SQUARED, abs=0.05)


def test_inverse_depth_tells_near_from_far() -> None:
    model = CameraModel(walked(0.6, 2))
    fit, _ = fit_camera(model, 0.5)
    found = model.depth.at_cells(fit.inverse_depth).mean(0).reshape(GRID)
    # The prior is the same on the left and on the right, so that the wall can only be known from its motion.
    assert found[:, :4].mean() > 1.3 * found[:, -4:].mean()


def test_an_independently_moving_object_loses_its_weight() -> None:
    motions = walked(0.6, 3)
    cells = motions.shift.reshape(PAIRS, *GRID, 2)
    cells[:, 2:6, 2:6] += np.array([7.0, -5.0])
    fit, _ = fit_camera(CameraModel(motions), 0.5)
    assert fit.gamma == pytest.approx(0.6, abs=0.02)
    assert fit.weight.reshape(PAIRS, *GRID)[:, 2:6, 2:6].max() < 0.05


def test_half_of_a_clip_has_a_larger_standard_error_than_the_whole() -> None:
    motions = walked(0.6, 4)
    motions.shift[:] += 0.3 * np.random.default_rng(4).normal(size=motions.shift.shape)
    position, shift, weight = (part[: PAIRS // 2] for part in (motions.position, motions.shift, motions.weight))
    half = ClipMotions(position, shift, weight, motions.size)
    assert fit_camera(CameraModel(half), 0.6)[1] > fit_camera(CameraModel(motions), 0.6)[1]


def test_noise_of_full_texture_scales_with_the_texture() -> None:
    motions = walked(0.6, 6)
    motions.shift[:] += 0.3 * np.random.default_rng(6).normal(size=motions.shift.shape)
    model, faint = CameraModel(motions), CameraModel(replace(motions, weight=0.25 * motions.weight))
    fit, _ = fit_camera(model, 0.6)
    evaluation = model.evaluate(fit)
    assert full_texture_noise(model, evaluation) == pytest.approx(typical_noise(model, evaluation))
    # The same residuals at a quarter of the texture: with texture everywhere, they would be half as large.
    assert full_texture_noise(faint, evaluation) == pytest.approx(0.5 * full_texture_noise(model, evaluation))
    assert typical_noise(faint, evaluation) == pytest.approx(typical_noise(model, evaluation))


def test_estimates_at_two_noises_are_averaged_and_their_difference_widens_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    motions = walked(0.6, 6)
    motions.shift[:] += 0.3 * np.random.default_rng(6).normal(size=motions.shift.shape)
    asked: list[tuple[float, float]] = []
    told = [(0.62, 0.010), (0.70, 0.014)]

    def estimated(model: CameraModel, start: Likelihood, correlation: float) -> tuple[CameraFit, float]:
        asked.append((start.fit.noise, correlation))
        gamma, error = told[len(asked) - 1]
        return replace(start.fit, gamma=gamma, path=np.full_like(start.fit.path, gamma)), error

    monkeypatch.setattr(camera, "_estimate", estimated)
    fit, error = fit_camera(CameraModel(replace(motions, weight=0.25 * motions.weight)), 0.6)
    assert fit.gamma == pytest.approx(0.66)
    assert fit.path == pytest.approx(0.66)
    assert error == pytest.approx(math.hypot(0.012, 0.04))
    (typical, single), (full, correlation) = asked
    assert full == pytest.approx(0.5 * typical, rel=0.1)
    assert correlation > single == 1.0


def test_strips_of_the_picture_that_disagree_raise_the_standard_error() -> None:
    left, right = walked(0.5, 5), walked(0.8, 5)
    cells = left.shift.reshape(PAIRS, *GRID, 2).copy()
    cells[:, :, 8:] = right.shift.reshape(PAIRS, *GRID, 2)[:, :, 8:]
    both = ClipMotions(left.position, cells.reshape(left.shift.shape), left.weight, left.size)
    _, error = fit_camera(CameraModel(both), 0.6)
    assert error > 2.0 * fit_camera(CameraModel(left), 0.6)[1]
