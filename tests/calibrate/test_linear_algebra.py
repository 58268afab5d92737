from __future__ import annotations

import numpy as np
import pytest

from qrsc.calibrate.linear_algebra import factorised, log_determinant, solve_block_tridiagonal, solve_factorised


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
    inverses = factorised(diagonal, below)
    expected = np.linalg.solve(dense, right.reshape(9, 2)).reshape(3, 3, 2)
    np.testing.assert_allclose(solve_factorised(inverses, below, right), expected, atol=1e-9)
    assert log_determinant(inverses) == pytest.approx(np.linalg.slogdet(dense)[1])
