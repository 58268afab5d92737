"""Noise of the motions of cells, estimated robustly from the residuals of a fit."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.camera_model import CameraModel, Evaluation

Array = npt.NDArray[np.float64]

MIN_TYPICAL_NOISE = 0.03  # pixels
MIN_FULL_TEXTURE_NOISE = 0.015


def typical_noise(model: CameraModel, evaluation: Evaluation) -> float:
    """Noise standard deviation of a cell in pixels, whatever its texture."""
    squares = (evaluation.own_residual**2).sum(1)
    return max(MIN_TYPICAL_NOISE, _robust_deviation(squares[model.weight > 0.05]))


def full_texture_noise(model: CameraModel, evaluation: Evaluation) -> float:
    """Noise standard deviation in pixels of a cell with texture everywhere, about half of the typical one.

    The variance of a cell is inversely proportional to its texture, and cells are weighted by their texture. The noise
    of a typical cell, used as that of a cell of weight 1, counts this twice and overstates the noise of all cells.
    """
    squares = model.weight * (evaluation.own_residual**2).sum(1)
    return max(MIN_FULL_TEXTURE_NOISE, _robust_deviation(squares[model.weight > 0.05]))


def _robust_deviation(squares: Array) -> float:
    """Standard deviation of either component of errors, from the median of their squared lengths."""
    return math.sqrt(float(np.median(squares))) / 1.18 if squares.size else 1.0
