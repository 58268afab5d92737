from __future__ import annotations

import numpy as np
import pytest

from qrsc.calibrate.bending import bends, even_filters, learned_filters, penalties


def test_penalties_are_the_squares_of_what_comes_out() -> None:
    random = np.random.default_rng(0)
    filters, blocks, size = random.normal(size=(2, 5)), 3, 6
    path = random.normal(size=(blocks * size, 2))
    by_block = path.reshape(blocks, size * 2)
    both = np.concatenate([by_block, np.vstack([by_block[1:], np.zeros((1, size * 2))])], axis=1)
    added_up = (both[:, None] @ penalties(filters, blocks, size) @ both[..., None]).sum()
    assert added_up == pytest.approx((bends(path, filters) ** 2).sum())


def test_even_filters_scale_second_differences() -> None:
    path = np.random.default_rng(1).normal(size=(20, 2))
    np.testing.assert_allclose(bends(path, even_filters(np.array([4.0, 0.25]))), np.diff(path, 2, axis=0) / [2.0, 0.5])


def test_bends_that_follow_from_those_before_are_foretold() -> None:
    random = np.random.default_rng(2)
    accelerations = np.zeros((2000, 2))
    for knot in range(1, len(accelerations)):
        accelerations[knot] = 0.9 * accelerations[knot - 1] + random.normal(size=2)
    path = accelerations.cumsum(0).cumsum(0)
    learned = learned_filters(np.column_stack([path, path[:, 0]]), np.array([1.0, 1.0, 0.3]))
    even = even_filters(np.diff(path, 2, axis=0).var(0))
    # Less is left to expect than the size of the bends alone says. What comes out is a little smaller than expected,
    # since part of the variance is expected at all frequencies alike.
    assert np.all(learned[:2, 0] > 1.2 * even[:, 0])
    assert 0.5 < (bends(path, learned[:2]) ** 2).mean() < 1.0
    assert learned[2, 0] > 2.0 * learned[:2, 0].min()
