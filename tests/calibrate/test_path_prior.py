from __future__ import annotations

import numpy as np
import pytest

from qrsc.calibrate.path_prior import autoregressive_filters, innovations, path_precision, white_filters


def test_precision_gives_the_sum_of_squared_innovations() -> None:
    random = np.random.default_rng(0)
    filters, blocks, size = random.normal(size=(2, 5)), 3, 6
    path = random.normal(size=(blocks * size, 2))
    by_block = path.reshape(blocks, size * 2)
    both = np.concatenate([by_block, np.vstack([by_block[1:], np.zeros((1, size * 2))])], axis=1)
    cost = (both[:, None] @ path_precision(filters, blocks, size) @ both[..., None]).sum()
    assert cost == pytest.approx((innovations(path, filters) ** 2).sum())


def test_white_filters_scale_second_differences() -> None:
    path = np.random.default_rng(1).normal(size=(20, 2))
    np.testing.assert_allclose(
        innovations(path, white_filters(np.array([4.0, 0.25]))), np.diff(path, 2, axis=0) / [2.0, 0.5]
    )


def test_correlated_accelerations_are_predicted() -> None:
    random = np.random.default_rng(2)
    accelerations = np.zeros((2000, 2))
    for knot in range(1, len(accelerations)):
        accelerations[knot] = 0.9 * accelerations[knot - 1] + random.normal(size=2)
    path = accelerations.cumsum(0).cumsum(0)
    learned = autoregressive_filters(np.column_stack([path, path[:, 0]]), np.array([1.0, 1.0, 0.3]))
    white = white_filters(np.diff(path, 2, axis=0).var(0))
    # The innovations are smaller than the accelerations. Their variance is a little below 1, since white noise is added
    # to the learned spectrum.
    assert np.all(learned[:2, 0] > 1.2 * white[:, 0])
    assert 0.5 < (innovations(path, learned[:2]) ** 2).mean() < 1.0
    assert learned[2, 0] > 2.0 * learned[:2, 0].min()
