"""Cubic B-splines of time with uniform knots.

Convention
    Knots lie at whole numbers; spline `i` is centred at knot `i` and vanishes beyond `i - 2` and `i + 2`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SUPPORT = 4  # splines that are not 0 at a given time


class SplineValues(NamedTuple):
    """The cubic B-splines that are not 0 at given times: the index of the first, `[...]`, and values `[..., 4]`."""

    first: npt.NDArray[np.int64]
    values: Array


def bspline_values(times: Array) -> SplineValues:
    """Values of the cubic B-splines at given times."""
    below = np.floor(times)
    part = times - below
    values = np.stack(
        [
            (1.0 - part) ** 3,
            3.0 * part**3 - 6.0 * part**2 + 4.0,
            -3.0 * part**3 + 3.0 * part**2 + 3.0 * part + 1.0,
            part**3,
        ],
        axis=-1,
    )
    return SplineValues(below.astype(np.int64) - 1, values / 6.0)


def bspline(offset: Array) -> Array:
    """The cubic B-spline at offsets from its centre: of the same shape."""
    distance = np.abs(offset)
    wide, narrow = np.maximum(2.0 - distance, 0.0), np.maximum(1.0 - distance, 0.0)
    value: Array = (wide * wide * wide - 4.0 * (narrow * narrow * narrow)) / 6.0
    return value


def bspline_derivative(offset: Array) -> Array:
    """Derivative of `bspline`."""
    distance = np.abs(offset)
    wide, narrow = np.maximum(2.0 - distance, 0.0), np.maximum(1.0 - distance, 0.0)
    derivative: Array = np.sign(offset) * (2.0 * (narrow * narrow) - 0.5 * (wide * wide))
    return derivative
