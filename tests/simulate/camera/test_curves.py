"""Homography curves: piecewise polynomials."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qrsc.simulate.camera.curves import (
    HomographyCurve,
    invert_homographies,
    polynomial_layers,
    sampled_curve,
    sinusoids,
)


def _random_curve(pieces: int = 3) -> HomographyCurve:
    generator = torch.Generator().manual_seed(0)
    return HomographyCurve(torch.randn(2, 3, pieces, 4, 3, 3, generator=generator, dtype=torch.float64), -0.5, 0.75)


def test_inverse_is_the_inverse() -> None:
    matrices = torch.randn(50, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.allclose(invert_homographies(matrices) @ matrices, torch.eye(3, dtype=torch.float64), atol=1e-9)


def test_a_singular_matrix_gives_zeros() -> None:
    assert torch.equal(invert_homographies(torch.ones(3, 3)), torch.zeros(3, 3))


def test_followed_points_are_those_of_the_matrices() -> None:
    curve = _random_curve()
    times = torch.tensor([-1.0, -0.2, 0.3, 0.9, 1.6, 2.5], dtype=torch.float64)
    matrices = curve.matrices(times)  # [2, 3, 6, 3, 3]
    surface = torch.tensor([0, 1, 2, 2, 1, 0]).reshape(1, 1, 6).expand(2, 1, 6)
    u = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(2, 1, 6)
    v = u.flip(2) + 0.3
    (point,) = curve.follow(surface, u, v, times.reshape(1, 1, 6).expand(2, 1, 6))
    for scene in range(2):
        for number in range(6):
            own = torch.stack([u[scene, 0, number], v[scene, 0, number], torch.ones_like(u[0, 0, 0])])
            expected = matrices[scene, int(surface[scene, 0, number]), number] @ own
            assert torch.allclose(point[:, scene, 0, number], expected)


def test_derivatives_agree_with_differences() -> None:
    curve = _random_curve()
    times = torch.tensor([-0.3, 0.4, 1.2], dtype=torch.float64).reshape(1, 1, 3).expand(2, 1, 3)
    surface = torch.ones(2, 1, 3, dtype=torch.int64)
    u, v = torch.full((2, 1, 3), 0.7, dtype=torch.float64), torch.full((2, 1, 3), -0.4, dtype=torch.float64)
    step = 1e-4
    _, first, second = curve.follow(surface, u, v, times, order=2)
    _, before, _ = curve.follow(surface, u, v, times - step, order=2)
    _, after, _ = curve.follow(surface, u, v, times + step, order=2)
    (low,), (high,) = curve.follow(surface, u, v, times - step), curve.follow(surface, u, v, times + step)
    assert torch.allclose(first, (high - low) / (2 * step), atol=1e-5)
    assert torch.allclose(second, (after - before) / (2 * step), atol=1e-4)


def test_a_sampled_polynomial_is_that_polynomial() -> None:
    affine = torch.randn(1, 2, 4, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    exact = polynomial_layers(affine, torch.tensor([[1.0, 2.0]]))
    sampled = sampled_curve(exact.matrices, -1.0, 3.0)
    times = torch.linspace(-1.0, 3.0, 41, dtype=torch.float64)
    assert torch.allclose(sampled.matrices(times), exact.matrices(times), atol=1e-10)


def test_fast_shake_is_followed_to_a_hundred_thousandth() -> None:
    """One cycle per frame, 30 Hz at 30 frames per second, is the highest frequency in worlds."""
    one = torch.ones(1, 2, 1, dtype=torch.float64)

    def shake(times: Tensor) -> Tensor:
        return sinusoids(times, one, one, torch.tensor([[[0.0], [1.0]]], dtype=torch.float64))

    def matrices(times: Tensor) -> Tensor:
        moved = torch.eye(3, dtype=torch.float64).repeat(1, 1, len(times), 1, 1)
        moved[..., :2, 2] += shake(times).transpose(1, 2)[:, None]
        return moved

    curve = sampled_curve(matrices, -2.0, 5.0)
    times = torch.linspace(-2.0, 5.0, 997, dtype=torch.float64)
    shift = curve.matrices(times)[0, 0, :, :2, 2].t()
    assert (shift - shake(times)[0]).abs().max() < 2e-5


def test_times_outside_a_curve_are_refused() -> None:
    with pytest.raises(ValueError, match=r"from time -0\.5 to 1\.75"):
        _random_curve().require(1.0, 2.0)
    _random_curve(pieces=1).require(-100.0, 100.0)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[B, S, D \+ 1, 2, 3\]"):
        polynomial_layers(torch.zeros(1, 2, 3, 3), torch.ones(1, 2))
    with pytest.raises(ValueError, match="stop must lie after start"):
        sampled_curve(_random_curve().matrices, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"\[B, S, K, D \+ 1, 3, 3\]"):
        HomographyCurve(torch.zeros(1, 2, 3, 3))
    with pytest.raises(ValueError, match="positive time"):
        HomographyCurve(torch.zeros(1, 1, 1, 1, 3, 3), step=0.0)
