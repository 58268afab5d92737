from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from qrsc.calibrate import fit_camera as camera
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.cells import GRID
from qrsc.calibrate.fit_camera import _full_error, _typical_error, _valley, fit_camera
from qrsc.calibrate.rigid import RigidFit, RigidModel

HEIGHT, WIDTH, PAIRS = 480, 640, 40
BEND = 0.3


def walked(gamma: float, seed: int) -> ClipMotions:
    """Motions seen while turning and moving through a scene with near ground and a wall on the left."""
    random = np.random.default_rng(seed)
    rate, phase = random.uniform(0.04, 0.3, (6, 4)), random.uniform(0.0, 2.0 * np.pi, (6, 4))
    # Speeds in pixels per frame: turns and roll, then shifts, which count as much as the scene is near.
    speed = np.array([4.0, 4.0, 2.0, 1.5, 1.5, 1.0])[:, None] * random.normal(size=(6, 4)) / 2.0

    def path(times: np.ndarray) -> np.ndarray:
        waves = np.sin(2.0 * np.pi * rate * times[..., None, None] + phase)
        coordinates: np.ndarray = (speed / (2.0 * np.pi * rate) * waves).sum(-1)  # [..., 6]
        coordinates[..., 5] += 2.0 * times
        return coordinates

    rows, columns = GRID
    y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
    near = (0.3 + 1.2 * np.maximum(y - 0.4, 0.0) + 1.5 * np.maximum(0.5 - x, 0.0)).reshape(-1)
    place = np.stack([x.ravel() * WIDTH, y.ravel() * HEIGHT], -1)[None].repeat(PAIRS, 0)
    start = np.arange(PAIRS)[:, None]
    shift = np.zeros_like(place)
    for _ in range(20):
        u, v = np.moveaxis((place + 0.5 * shift - np.array([WIDTH, HEIGHT]) / 2) / (WIDTH / 2), -1, 0)
        end = start + 1.0 + gamma * (place + shift)[..., 1] / HEIGHT
        step = path(end) - path(start + gamma * place[..., 1] / HEIGHT)
        across = BEND * (u * step[..., 0] + v * step[..., 1])
        shift = step[..., :2] + np.stack([u * across - v * step[..., 2], v * across + u * step[..., 2]], -1)
        shift = shift + near[:, None] * (step[..., 3:5] + np.stack([u, v], -1) * step[..., 5:])
    shift = shift + 0.05 * random.normal(size=shift.shape)
    return ClipMotions(place, shift, np.ones(shift.shape[:2]), (HEIGHT, WIDTH))


@pytest.mark.parametrize(("gamma", "start"), [(0.4, 0.6), (0.85, 0.6)])
def test_gamma_is_found_where_parallax_shears_the_picture(gamma: float, start: float) -> None:
    motions = walked(gamma, 1)
    fit, doubt = fit_camera(RigidModel(motions), start)
    assert fit.gamma == pytest.approx(gamma, abs=0.015)
    assert 0.0 < doubt < 0.03
    assert fit.bend == pytest.approx(BEND, abs=0.05)


def test_near_things_are_told_from_far_ones() -> None:
    model = RigidModel(walked(0.6, 2))
    fit, _ = fit_camera(model, 0.5)
    found = model.depth.at_cells(fit.nearness).mean(0).reshape(GRID)
    # Left and right are expected to be alike, so that the wall can only be known from its motion.
    assert found[:, :4].mean() > 1.3 * found[:, -4:].mean()


def test_a_thing_that_goes_its_own_way_loses_its_weight() -> None:
    motions = walked(0.6, 3)
    cells = motions.shift.reshape(PAIRS, *GRID, 2)
    cells[:, 2:6, 2:6] += np.array([7.0, -5.0])
    fit, _ = fit_camera(RigidModel(motions), 0.5)
    assert fit.gamma == pytest.approx(0.6, abs=0.02)
    assert fit.weight.reshape(PAIRS, *GRID)[:, 2:6, 2:6].max() < 0.05


def test_half_of_a_clip_is_less_sure_than_the_whole() -> None:
    motions = walked(0.6, 4)
    motions.shift[:] += 0.3 * np.random.default_rng(4).normal(size=motions.shift.shape)
    place, shift, weight = (part[: PAIRS // 2] for part in (motions.place, motions.shift, motions.weight))
    half = ClipMotions(place, shift, weight, motions.size)
    assert fit_camera(RigidModel(half), 0.6)[1] > fit_camera(RigidModel(motions), 0.6)[1]


def test_the_error_of_a_cell_with_texture_everywhere_goes_with_the_texture() -> None:
    motions = walked(0.6, 6)
    motions.shift[:] += 0.3 * np.random.default_rng(6).normal(size=motions.shift.shape)
    model, faint = RigidModel(motions), RigidModel(replace(motions, weight=0.25 * motions.weight))
    fit, _ = fit_camera(model, 0.6)
    look = model.look(fit)
    assert _full_error(model, look) == pytest.approx(_typical_error(model, look))
    # The same errors at a quarter of the texture: with texture everywhere, they would be half as large.
    assert _full_error(faint, look) == pytest.approx(0.5 * _full_error(model, look))
    assert _typical_error(faint, look) == pytest.approx(_typical_error(model, look))


def test_two_opinions_on_the_errors_of_cells_are_averaged_and_their_distance_is_doubt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    motions = walked(0.6, 6)
    motions.shift[:] += 0.3 * np.random.default_rng(6).normal(size=motions.shift.shape)
    asked: list[tuple[float, float]] = []
    told = [(0.62, 0.010), (0.70, 0.014)]

    def estimated(model: RigidModel, start: camera._Likelihood, alike: float) -> tuple[RigidFit, float]:
        asked.append((start.fit.error, alike))
        gamma, doubt = told[len(asked) - 1]
        return replace(start.fit, gamma=gamma, path=np.full_like(start.fit.path, gamma)), doubt

    monkeypatch.setattr(camera, "_estimated", estimated)
    fit, doubt = fit_camera(RigidModel(replace(motions, weight=0.25 * motions.weight)), 0.6)
    assert fit.gamma == pytest.approx(0.66)
    assert fit.path == pytest.approx(0.66)
    assert doubt == pytest.approx(math.hypot(0.012, 0.04))
    (typical, single), (full, alike) = asked
    assert full == pytest.approx(0.5 * typical, rel=0.1)
    assert alike > single == 1.0


def test_sides_of_the_picture_that_disagree_make_gamma_doubtful() -> None:
    left, right = walked(0.5, 5), walked(0.8, 5)
    cells = left.shift.reshape(PAIRS, *GRID, 2).copy()
    cells[:, :, 8:] = right.shift.reshape(PAIRS, *GRID, 2)[:, :, 8:]
    both = ClipMotions(left.place, cells.reshape(left.shift.shape), left.weight, left.size)
    _, doubt = fit_camera(RigidModel(both), 0.6)
    assert doubt > 2.0 * fit_camera(RigidModel(left), 0.6)[1]


def test_an_uneven_valley_has_its_bottom_where_all_of_it_says() -> None:
    gammas = 0.5 + 0.02 * np.arange(-6, 7)
    even = {gamma: 900.0 + 5000.0 * (gamma - 0.53) ** 2 for gamma in gammas.tolist()}
    lowest, width = _valley(even)
    assert lowest == pytest.approx(0.53)
    assert width == pytest.approx(1.0 / math.sqrt(5000.0))
    uneven = {gamma: height + 2.0 * (-1) ** step for step, (gamma, height) in enumerate(even.items())}
    moved, wider = _valley(uneven)
    assert moved == pytest.approx(0.53, abs=0.005)
    assert wider > width


def test_a_ridge_has_no_bottom() -> None:
    assert _valley({0.4: 1.0, 0.44: 2.0, 0.48: 1.5}) == (0.4, math.inf)
