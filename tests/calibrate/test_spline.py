from __future__ import annotations

import numpy as np
import pytest

from qrsc.calibrate.spline import (
    bspline,
    bspline_slope,
    bspline_values,
    factored,
    log_determinant,
    solve_block_tridiagonal,
    solve_factored,
)


def test_values_add_up_to_one_and_follow_a_straight_line() -> None:
    times = np.linspace(-2.0, 3.0, 41)
    first, values = bspline_values(times)
    assert values.sum(-1) == pytest.approx(np.ones(41))
    centres = first[:, None] + np.arange(4)
    assert (values * centres).sum(-1) == pytest.approx(times)


def test_blocks_are_solved_as_the_whole_system() -> None:
    random = np.random.default_rng(1)
    blocks, size = 5, 3
    factor = random.normal(size=(blocks * size, blocks * size))
    # A band keeps a product of triangular factors within neighbouring blocks.
    factor = np.tril(factor) * (np.arange(15)[:, None] - np.arange(15) <= size)
    whole = factor @ factor.T + 15.0 * np.eye(15)
    block = [slice(index * size, (index + 1) * size) for index in range(blocks)]
    for row in range(blocks):
        for column in range(blocks):
            if abs(row - column) > 1:
                whole[block[row], block[column]] = 0.0
    right = random.normal(size=15)
    solved = solve_block_tridiagonal(
        np.stack([whole[b, b] for b in block]),
        np.stack([whole[block[index + 1], block[index]] for index in range(blocks - 1)]),
        right.reshape(blocks, size),
    )
    assert solved.ravel() == pytest.approx(np.linalg.solve(whole, right))


def test_one_spline_is_that_of_the_values_with_its_slope() -> None:
    times = np.array([0.2, 3.5, -1.7, 2.0])
    first, values = bspline_values(times)
    away = times[:, None] - (first[:, None] + np.arange(-1, 5))
    np.testing.assert_allclose(bspline(away), np.pad(values, ((0, 0), (1, 1))), atol=1e-12)
    np.testing.assert_allclose(bspline_slope(away), (bspline(away + 1e-5) - bspline(away - 1e-5)) / 2e-5, atol=1e-8)


def test_several_right_sides_and_the_determinant() -> None:
    random = np.random.default_rng(1)
    dense = np.zeros((9, 9))
    for block in range(2):
        part = random.normal(size=(6, 6))
        dense[3 * block : 3 * block + 6, 3 * block : 3 * block + 6] += part @ part.T
    dense += np.eye(9)
    diagonal = np.stack([dense[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] for i in range(3)])
    below = np.stack([dense[3 * i + 3 : 3 * i + 6, 3 * i : 3 * i + 3] for i in range(2)])
    right = random.normal(size=(3, 3, 2))
    inverses = factored(diagonal, below)
    expected = np.linalg.solve(dense, right.reshape(9, 2)).reshape(3, 3, 2)
    np.testing.assert_allclose(solve_factored(inverses, below, right), expected, atol=1e-9)
    assert log_determinant(inverses) == pytest.approx(np.linalg.slogdet(dense)[1])
