"""Camera path, scene and gamma of a clip: Gauss-Newton from coarse to fine, then gamma by its marginal likelihood."""

from __future__ import annotations

import math

import numpy as np

from qrsc.calibrate.camera_model import BLOCK, COORDINATES, KNOTS, MARGIN, CameraFit, CameraModel
from qrsc.calibrate.cell_noise import full_texture_noise
from qrsc.calibrate.gauss_newton import minimise
from qrsc.calibrate.marginal_likelihood import Likelihood, at_noise, cluster_standard_errors, likelihood_of, maximise
from qrsc.calibrate.path_prior import autoregressive_filters

INITIAL_INVERSE_FOCAL_SQUARED = 0.3
INITIAL_NOISE = 0.3  # pixels
# Errors of neighbouring cells are correlated. Against exact flows of 57 simulated clips, those of 4 x 4 cells together
# are 1.5 times as large as if they were independent, which is what the curvature assumes.
CORRELATION = 1.5
# Even with the largest motions and the least noise, gamma is off by about as much: on simulated clips by 0.008. One
# real clip (bottom_up.mp4), on which this was chosen, differs by 0.012 between forward and backward, and by 0.018
# between its pieces.
MIN_STANDARD_ERROR = 0.012


def fit_camera(model: CameraModel, gamma: float) -> tuple[CameraFit, float]:
    """Fit camera path, scene and gamma, initialised at a gamma nearby.

    Returns:
        The fit, and the standard error of its gamma.
    """
    fit = CameraFit(
        path=np.zeros((model.blocks * BLOCK, COORDINATES)),
        inverse_depth=np.tile(model.depth.prior_mean, (model.blocks, 1)),
        inverse_focal_squared=INITIAL_INVERSE_FOCAL_SQUARED,
        gamma=gamma,
        weight=model.weight,
        noise=INITIAL_NOISE,
    )
    # The path alone, then the scene with it, then gamma.
    fit = minimise(model, fit, 2, damping=1e6, free=(False, False), update_noise=True)
    fit = minimise(model, fit, 10, free=(False, True), update_noise=True)
    fit = minimise(model, fit, 8, update_noise=True)
    fit = minimise(model, fit, 8)
    observed = fit.path[MARGIN : MARGIN + model.pairs * KNOTS + 2]
    model.set_path_prior(autoregressive_filters(observed, model.proportions))
    fit = minimise(model, fit, 4, free=(False, True))
    # The marginal likelihood depends on the noise of a cell. Cells are weighted by their texture: with these weights,
    # the noise of a typical cell is too large (gamma comes out too small), and that of a cell with full texture is too
    # small, as neighbours are correlated. On simulated clips, the mean of both estimates is better than either, and
    # than one estimate with a noise between the two.
    start = likelihood_of(model, fit, model.evaluate(fit))
    typical, typical_error = _estimate(model, start, 1.0)
    full, full_error = _estimate(
        model, at_noise(model, start, full_texture_noise(model, start.evaluation)), CORRELATION
    )
    difference = full.gamma - typical.gamma
    return _midpoint(typical, full), math.hypot(0.5 * (typical_error + full_error), 0.5 * difference)


def _estimate(model: CameraModel, start: Likelihood, correlation: float) -> tuple[CameraFit, float]:
    """The fit of maximum marginal likelihood at the noise of a fit, and the standard error of its gamma.

    Args:
        model: of the clip.
        start: initialisation.
        correlation: how many times larger errors of neighbouring cells together are than if they were independent.
    """
    maximum, error = maximise(model, start)
    errors = (correlation * error, *cluster_standard_errors(model, maximum))
    return maximum.fit, max(MIN_STANDARD_ERROR, math.hypot(*errors))


def _midpoint(one: CameraFit, other: CameraFit) -> CameraFit:
    """The mean of two fits that have the same weights."""
    return CameraFit(
        path=0.5 * (one.path + other.path),
        inverse_depth=0.5 * (one.inverse_depth + other.inverse_depth),
        inverse_focal_squared=0.5 * (one.inverse_focal_squared + other.inverse_focal_squared),
        gamma=0.5 * (one.gamma + other.gamma),
        weight=one.weight,
        noise=0.5 * (one.noise + other.noise),
    )
