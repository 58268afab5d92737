from __future__ import annotations

import math

import numpy as np
import pytest

from qrsc.calibrate.marginal_likelihood import parabola_minimum


def test_uneven_deviances_have_the_minimum_of_a_parabola() -> None:
    gammas = 0.5 + 0.02 * np.arange(-6, 7)
    even = {gamma: 900.0 + 5000.0 * (gamma - 0.53) ** 2 for gamma in gammas.tolist()}
    lowest, width = parabola_minimum(even)
    assert lowest == pytest.approx(0.53)
    assert width == pytest.approx(1.0 / math.sqrt(5000.0))
    uneven = {gamma: height + 2.0 * (-1) ** step for step, (gamma, height) in enumerate(even.items())}
    moved, wider = parabola_minimum(uneven)
    assert moved == pytest.approx(0.53, abs=0.005)
    assert wider > width


def test_deviances_that_curve_down_have_no_minimum() -> None:
    assert parabola_minimum({0.4: 1.0, 0.44: 2.0, 0.48: 1.5}) == (0.4, math.inf)
