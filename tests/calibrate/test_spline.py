from __future__ import annotations

import numpy as np
import pytest

from qrsc.calibrate.spline import bspline, bspline_derivative, bspline_values


def test_values_add_up_to_one_and_follow_a_straight_line() -> None:
    times = np.linspace(-2.0, 3.0, 41)
    first, values = bspline_values(times)
    assert values.sum(-1) == pytest.approx(np.ones(41))
    centres = first[:, None] + np.arange(4)
    assert (values * centres).sum(-1) == pytest.approx(times)


def test_one_spline_agrees_with_the_values_and_its_derivative() -> None:
    times = np.array([0.2, 3.5, -1.7, 2.0])
    first, values = bspline_values(times)
    offset = times[:, None] - (first[:, None] + np.arange(-1, 5))
    np.testing.assert_allclose(bspline(offset), np.pad(values, ((0, 0), (1, 1))), atol=1e-12)
    np.testing.assert_allclose(
        bspline_derivative(offset), (bspline(offset + 1e-5) - bspline(offset - 1e-5)) / 2e-5, atol=1e-8
    )
