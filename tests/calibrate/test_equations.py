from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.equations import PATH, step_equations, step_pulls, with_error
from qrsc.calibrate.rigid import COORDINATES, RigidFit, RigidModel

Shaken = Callable[..., ClipMotions]


@pytest.fixture
def model(shaken: Shaken) -> RigidModel:
    return RigidModel(shaken(0.5, pairs=12))


def some_fit(model: RigidModel) -> RigidFit:
    random = np.random.default_rng(0)
    path = random.normal(size=(model.blocks * PATH // COORDINATES, COORDINATES)).cumsum(0)
    nearness = model.depth.expected + 0.2 * random.normal(size=(model.blocks, len(model.depth.expected)))
    weight = random.uniform(0.0, 1.0, model.weight.shape)
    return RigidFit(path, nearness, 0.3, 0.45, weight, 0.3)


def moved(fit: RigidFit, change: np.ndarray, step: np.ndarray) -> RigidFit:
    """With `[N, M]` and `[2]` added."""
    path, nearness = change[:, :PATH].reshape(-1, COORDINATES), change[:, PATH:]
    return replace(
        fit,
        path=fit.path + path,
        nearness=fit.nearness + nearness,
        gamma=fit.gamma + float(step[0]),
        bend=fit.bend + float(step[1]),
    )


def test_pulls_are_the_slopes_of_the_cost(model: RigidModel) -> None:
    fit, random = some_fit(model), np.random.default_rng(1)
    pulls = step_pulls(model, fit, model.look(fit))
    for _ in range(3):
        change, step = random.normal(size=pulls.blocks.shape), random.normal(size=2)
        either = [model.look(moved(fit, sign * 1e-5 * change, sign * 1e-5 * step)).held for sign in (1.0, -1.0)]
        slope = (either[0] - either[1]) / 2e-5
        expected = -2.0 * ((pulls.blocks * change).sum() + pulls.border @ step) / fit.error**2
        assert slope == pytest.approx(expected, rel=1e-5)


def test_equations_are_the_change_of_the_pulls_where_nothing_is_left(model: RigidModel) -> None:
    # Motions that the fit explains, of a path and a scene that are as expected: no second derivatives are left out.
    fit = some_fit(model)
    fit = replace(fit, path=np.outer(np.arange(len(fit.path)), np.arange(1.0, 7.0)), nearness=0.0 * fit.nearness)
    fit = replace(fit, nearness=fit.nearness + model.depth.expected)
    model.shift = model.shift - model.look(fit).residual
    system = step_equations(model, fit, model.look(fit))
    random = np.random.default_rng(2)
    change, step = random.normal(size=system.border.shape[:2]), random.normal(size=2)
    either = [moved(fit, sign * 1e-6 * change, sign * 1e-6 * step) for sign in (1.0, -1.0)]
    before, after = (step_pulls(model, one, model.look(one)) for one in either[::-1])
    product = (system.diagonal @ change[..., None])[..., 0] + system.border @ step
    product[1:] += (system.below @ change[:-1, :, None])[..., 0]
    product[:-1] += (system.below.transpose(0, 2, 1) @ change[1:, :, None])[..., 0]
    expected = (before.blocks - after.blocks) / 2e-6
    np.testing.assert_allclose(product, expected, atol=1e-4 * np.abs(expected).max())
    at_border = (system.border * change[..., None]).sum((0, 1)) + system.corner @ step
    np.testing.assert_allclose(at_border, (before.border - after.border) / 2e-6, rtol=1e-4)


def test_errors_in_common_are_integrated_out(model: RigidModel) -> None:
    fit = some_fit(model)
    shapes = model.shapes.transpose(0, 2, 1)  # [P, C, 3]
    own = model.shapes @ (fit.weight[..., None] * shapes) + np.eye(3) / 0.3**2
    assert step_equations(model, fit, model.look(fit)).log_determinant == pytest.approx(
        2.0 * np.linalg.slogdet(own)[1].sum()
    )


def test_equations_for_another_error_of_a_cell_need_not_be_set_up_anew(model: RigidModel) -> None:
    fit = some_fit(model)
    anew = replace(fit, error=0.12)
    expected = step_equations(model, anew, model.look(anew))
    found = with_error(model, step_equations(model, fit, model.look(fit)), fit.error, anew.error)
    for name in ("diagonal", "below", "border", "corner"):
        values = getattr(expected, name)
        np.testing.assert_allclose(getattr(found, name), values, atol=1e-9 * np.abs(values).max())
