from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qrsc.warp import coverage, pixel_grid, sample, splat
from qrsc.warp.splatting import MIN_COVERAGE

from .fields import assert_close, rand, translation


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_nothing_is_lost_and_nothing_made(seed: int) -> None:
    # The result is the landed sum over the landed weight; multiplied back, the sum of the image must be conserved.
    image = rand(1, 12, 12, seed=seed, dtype=torch.float64)
    field = 3.0 * (rand(2, 12, 12, seed=seed + 1, dtype=torch.float64) - 0.5)
    image[:, :2], image[:, -2:], image[..., :2], image[..., -2:] = 0.0, 0.0, 0.0, 0.0
    count = total_landed(torch.ones_like(image), field)
    assert_close(coverage(field), count, 1e-12)
    splatted = splat(image, field)
    thin = count <= MIN_COVERAGE
    kept = float((splatted.image * count)[~thin].sum()) + float(total_landed(image, field)[thin].sum())
    assert kept == pytest.approx(float(image.sum()), rel=1e-9)
    assert torch.equal(splat(image, field, torch.zeros_like(image)).valid, ~thin)
    assert bool((splatted.image[thin] == 0).all())


def total_landed(image: Tensor, field: Tensor) -> Tensor:
    """What lands on each pixel of `[1, H, W]`, as the transpose of bilinear sampling."""
    target = torch.zeros_like(image, requires_grad=True)
    padded = torch.nn.functional.pad(target, (4, 4, 4, 4))  # so that edges are not repeated
    shifted = sample(padded, pixel_grid(*image.shape[-2:], dtype=image.dtype) + field + 4.0).image
    (landed,) = torch.autograd.grad((shifted * image).sum(), target)
    return landed


def test_whole_shifts_are_exact_and_their_holes_reported() -> None:
    image = rand(3, 5, 7)
    shifted = splat(image, translation(2, -1, 5, 7))
    assert torch.equal(shifted.image[:, :4, 2:], image[:, 1:, :5])
    expected = torch.zeros(1, 5, 7, dtype=torch.bool)
    expected[:, :4, 2:] = True
    assert torch.equal(shifted.valid, expected)
    assert bool((shifted.image[:, ~expected[0]] == 0).all())


def test_stretching_leaves_holes_and_folding_a_mixture() -> None:
    image = rand(1, 1, 9)
    stretched = splat(image, 2.0 * pixel_grid(1, 9) - pixel_grid(1, 9))
    assert stretched.valid[0, 0].tolist() == [True, False] * 4 + [True]
    field = torch.zeros(2, 1, 9)
    field[0, 0, 6] = -3.0
    assert splat(image, field).valid[0, 0].tolist() == [True] * 3 + [False] + [True] * 2 + [False] + [True] * 2


@pytest.mark.parametrize("seen", ["the nearer", "the further"])
def test_the_important_surface_is_the_one_that_is_seen(seen: str) -> None:
    image = rand(3, 2, 9)
    field, importance = torch.zeros(2, 2, 9), torch.zeros(1, 2, 9)
    field[0, :, 6] = -3.0  # lands on column 3
    importance[..., 6] = 30.0 if seen == "the nearer" else -30.0
    splatted = splat(image, field, importance)
    assert_close(splatted.image[..., 3], image[..., 6 if seen == "the nearer" else 3], 1e-6)
    assert bool(splatted.valid[..., 3].all())
    mixed = splat(image, field, importance * 0.0)
    assert_close(mixed.image[..., 3], (image[..., 3] + image[..., 6]) / 2, 1e-6)


def test_splatting_does_not_care_for_the_level_of_the_importance() -> None:
    image, field = rand(3, 6, 6), 2.0 * rand(2, 6, 6, seed=1)
    importance = rand(1, 6, 6, seed=2)
    for level in (-1e4, 100.0, 1e4):
        assert_close(splat(image, field, importance + level).image, splat(image, field, importance).image, 1e-3)


@pytest.mark.parametrize("before", [False, True])
def test_the_deterministic_splat_repeats_itself_and_leaves_torch_as_it_was(before: bool) -> None:
    image, field = rand(2, 3, 30, 30), 8.0 * (rand(2, 2, 30, 30, seed=1) - 0.5)
    torch.use_deterministic_algorithms(before, warn_only=before)
    try:
        first, second = (splat(image, field, deterministic=True) for _ in range(2))
        assert torch.are_deterministic_algorithms_enabled() is before
        assert torch.is_deterministic_algorithms_warn_only_enabled() is before
        with pytest.raises(ValueError, match="importance"):
            splat(image, field, rand(1, 4, 4), deterministic=True)
        assert torch.are_deterministic_algorithms_enabled() is before
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(first.image, second.image)
    assert torch.equal(first.valid, second.valid)
    assert_close(first.image, splat(image, field).image, 1e-5)
