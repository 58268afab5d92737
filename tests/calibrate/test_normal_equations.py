from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from qrsc.calibrate.camera_model import COORDINATES, CameraFit, CameraModel
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.normal_equations import PATH, normal_matrix, right_hand_side, with_noise

Shaken = Callable[..., ClipMotions]


@pytest.fixture
def model(shaken: Shaken) -> CameraModel:
    return CameraModel(shaken(0.5, pairs=12))


def some_fit(model: CameraModel) -> CameraFit:
    random = np.random.default_rng(0)
    path = random.normal(size=(model.blocks * PATH // COORDINATES, COORDINATES)).cumsum(0)
    inverse_depth = model.depth.prior_mean + 0.2 * random.normal(size=(model.blocks, len(model.depth.prior_mean)))
    weight = random.uniform(0.0, 1.0, model.weight.shape)
    return CameraFit(path, inverse_depth, 0.3, 0.45, weight, 0.3)


def moved(fit: CameraFit, change: np.ndarray, step: np.ndarray) -> CameraFit:
    """With `[N, M]` and `[2]` added."""
    path, inverse_depth = change[:, :PATH].reshape(-1, COORDINATES), change[:, PATH:]
    return replace(
        fit,
        path=fit.path + path,
        inverse_depth=fit.inverse_depth + inverse_depth,
        gamma=fit.gamma + float(step[0]),
        inverse_focal_squared=fit.inverse_focal_squared + float(step[1]),
    )


def test_right_hand_side_is_the_gradient_of_the_cost(model: CameraModel) -> None:
    fit, random = some_fit(model), np.random.default_rng(1)
    right = right_hand_side(model, fit, model.evaluate(fit))
    for _ in range(3):
        change, step = random.normal(size=right.blocks.shape), random.normal(size=2)
        either = [
            model.evaluate(moved(fit, sign * 1e-5 * change, sign * 1e-5 * step)).weighted_cost for sign in (1.0, -1.0)
        ]
        gradient = (either[0] - either[1]) / 2e-5
        expected = -2.0 * ((right.blocks * change).sum() + right.border @ step) / fit.noise**2
        assert gradient == pytest.approx(expected, rel=1e-5)


def test_normal_matrix_is_the_derivative_of_the_right_hand_side_at_zero_residual(model: CameraModel) -> None:
    # Residuals are zero, and path and scene at their prior means: Gauss-Newton then omits no second derivatives.
    fit = some_fit(model)
    fit = replace(
        fit, path=np.outer(np.arange(len(fit.path)), np.arange(1.0, 7.0)), inverse_depth=0.0 * fit.inverse_depth
    )
    fit = replace(fit, inverse_depth=fit.inverse_depth + model.depth.prior_mean)
    model.shift = model.shift - model.evaluate(fit).residual
    matrix = normal_matrix(model, fit, model.evaluate(fit))
    random = np.random.default_rng(2)
    change, step = random.normal(size=matrix.border.shape[:2]), random.normal(size=2)
    either = [moved(fit, sign * 1e-6 * change, sign * 1e-6 * step) for sign in (1.0, -1.0)]
    before, after = (right_hand_side(model, one, model.evaluate(one)) for one in either[::-1])
    product = (matrix.diagonal @ change[..., None])[..., 0] + matrix.border @ step
    product[1:] += (matrix.below @ change[:-1, :, None])[..., 0]
    product[:-1] += (matrix.below.transpose(0, 2, 1) @ change[1:, :, None])[..., 0]
    expected = (before.blocks - after.blocks) / 2e-6
    np.testing.assert_allclose(product, expected, atol=1e-4 * np.abs(expected).max())
    at_border = (matrix.border * change[..., None]).sum((0, 1)) + matrix.corner @ step
    np.testing.assert_allclose(at_border, (before.border - after.border) / 2e-6, rtol=1e-4)


def test_correlated_errors_are_integrated_out(model: CameraModel) -> None:
    fit = some_fit(model)
    modes = model.error_modes.transpose(0, 2, 1)  # [P, C, 3]
    own = model.error_modes @ (fit.weight[..., None] * modes) + np.eye(3) / 0.3**2
    assert normal_matrix(model, fit, model.evaluate(fit)).log_determinant == pytest.approx(
        2.0 * np.linalg.slogdet(own)[1].sum()
    )


def test_matrix_for_another_noise_equals_one_set_up_again(model: CameraModel) -> None:
    fit = some_fit(model)
    again = replace(fit, noise=0.12)
    expected = normal_matrix(model, again, model.evaluate(again))
    found = with_noise(model, normal_matrix(model, fit, model.evaluate(fit)), fit.noise, again.noise)
    for name in ("diagonal", "below", "border", "corner"):
        values = getattr(expected, name)
        np.testing.assert_allclose(getattr(found, name), values, atol=1e-9 * np.abs(values).max())
