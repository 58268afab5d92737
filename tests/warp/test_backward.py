from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qrsc.backend import opencv
from qrsc.backend.opencv import Plane
from qrsc.warp import (
    INTERPOLATIONS,
    WARP_METHODS,
    Interpolation,
    apply_correction,
    backward_warp,
    invert_field,
    pixel_grid,
    sample,
    splat,
)

from .fields import INF, NAN, assert_close, rand, translation


def test_pixel_grid_holds_x_then_y() -> None:
    grid = pixel_grid(2, 3)
    assert grid.tolist() == [[[0, 1, 2], [0, 1, 2]], [[0, 0, 0], [1, 1, 1]]]
    assert pixel_grid(2, 3, dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_no_displacement_changes_nothing(interpolation: Interpolation, leading: tuple[int, ...]) -> None:
    image = rand(*leading, 3, 5, 7)
    warped = backward_warp(image, torch.zeros(*leading, 2, 5, 7), interpolation)
    assert_close(warped.image, image)
    assert warped.valid.shape == (*leading, 1, 5, 7)
    assert bool(warped.valid.all())


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize(("dx", "dy"), [(1, 0), (0, 2), (-2, 1), (3, -3)])
def test_whole_shifts_move_pixels_and_repeat_the_edge(interpolation: Interpolation, dx: int, dy: int) -> None:
    image = rand(3, 6, 8)
    warped = backward_warp(image, translation(dx, dy, 6, 8), interpolation)
    rows = (torch.arange(6) + dy).clamp(0, 5)
    columns = (torch.arange(8) + dx).clamp(0, 7)
    assert_close(warped.image, image[:, rows][:, :, columns])
    inside_rows = (torch.arange(6) + dy == rows).reshape(1, 6, 1)
    assert torch.equal(warped.valid, inside_rows & (torch.arange(8) + dx == columns))


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_the_frame_ends_half_a_pixel_outside_its_last_centres(interpolation: Interpolation) -> None:
    image = rand(1, 4, 4, dtype=torch.float64) + 0.5
    for beyond, inside in ((0.0, True), (0.49, True), (0.51, False), (40.0, False), (1e20, False), (INF, False)):
        for sign in (-1.0, 1.0):
            edge = 0 if sign < 0 else 3
            position = torch.full((2, 1, 1), edge + sign * beyond, dtype=torch.float64)
            value, valid = sample(image, position, interpolation)
            assert_close(value[0, 0, 0], image[0, edge, edge], 1e-12)  # as bright as the edge, not darker
            assert bool(valid) is inside


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_a_white_picture_stays_white_to_the_edge(interpolation: Interpolation) -> None:
    field = 6.0 * (rand(2, 6, 8) - 0.5)
    assert_close(backward_warp(torch.ones(3, 6, 8), field, interpolation).image, torch.ones(3, 6, 8))


def test_a_slope_is_read_between_pixels() -> None:
    ramp = (2.0 * pixel_grid(6, 8, dtype=torch.float64)[0] + 1.0)[None]
    # Keys' cubic with a = -0.75 meets a straight line only at whole and half coordinates.
    for interpolation, x in (("bilinear", 3.25), ("bilinear", 3.5), ("bicubic", 3.5), ("bicubic", 3.0)):
        value = sample(ramp, translation(x, 2.5, 1, 1, torch.float64), interpolation).image  # type: ignore[arg-type]  # a name from a parameter
        assert value.item() == pytest.approx(2.0 * x + 1.0, abs=1e-12)


def test_a_field_that_is_not_a_number_is_not_valid() -> None:
    image, field = rand(3, 5, 5), torch.zeros(2, 5, 5)
    field[0, 1, 1], field[1, 2, 2], field[1, 3, 3] = NAN, INF, -INF
    for interpolation in INTERPOLATIONS:
        warped = backward_warp(image, field.requires_grad_(), interpolation)
        assert (~warped.valid).nonzero()[:, 1:].tolist() == [[1, 1], [2, 2], [3, 3]]
        assert bool(torch.isfinite(warped.image).all())
        (gradient,) = torch.autograd.grad(warped.image.sum(), field)
        assert bool(torch.isfinite(gradient).all())
    assert not bool(splat(image, torch.full((2, 5, 5), NAN)).valid.any())
    assert not bool(invert_field(torch.full((2, 5, 5), NAN)).valid.any())
    inverse = invert_field(field.detach())
    assert not bool(inverse.valid[0, 1, 1] | inverse.valid[0, 2, 2] | inverse.valid[0, 3, 3])


@settings(max_examples=40)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from(INTERPOLATIONS),
    st.sampled_from([0.0, 0.3, 3.0, 1e6]),
    st.integers(0, 1000),
)
def test_any_size_and_field_keeps_shape_dtype_and_range(
    size: tuple[int, int], dtype: torch.dtype, interpolation: Interpolation, scale: float, seed: int
) -> None:
    image = rand(2, 3, *size, seed=seed, dtype=dtype)
    field = scale * (rand(2, 2, *size, seed=seed + 1, dtype=dtype) - 0.5)
    for method in WARP_METHODS:
        warped = apply_correction(image, field, method, interpolation=interpolation)
        assert warped.image.shape == image.shape
        assert warped.image.dtype == dtype
        assert warped.valid.shape == (2, 1, *size)
        # Keys' cubic overshoots by at most 0.32 of the range between two steps in each direction.
        slack = 0.8 if interpolation == "bicubic" and method != "splat" else 1e-6
        assert -slack <= float(warped.image.min()) <= float(warped.image.max()) <= 1.0 + slack


@settings(max_examples=25)
@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.integers(1, 3),
    st.integers(0, 1000),
    st.sampled_from(INTERPOLATIONS),
)
def test_opencv_reads_what_torch_reads(
    size: tuple[int, int], pictures: int, seed: int, interpolation: Interpolation
) -> None:
    image = rand(pictures, 3, *size, seed=seed)
    position = torch.tensor(size[::-1]).reshape(2, 1, 1) * (1.4 * rand(pictures, 2, 7, 9, seed=seed + 1) - 0.2)
    position[0, :, 0, 0], position[0, 0, 0, 1] = NAN, INF
    by_opencv = sample(image, position, interpolation)
    by_torch = sample(image.clone().requires_grad_(), position, interpolation)  # with a gradient, PyTorch samples
    assert by_torch.image.requires_grad
    assert torch.equal(by_opencv.valid, by_torch.valid)
    assert_close(by_opencv.image, by_torch.image.detach(), 2e-5)
    exact = sample(image.double(), position.double(), interpolation).image
    if opencv.remap_is_exact(interpolation):
        assert_close(by_opencv.image, exact.float(), 2e-6)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_an_opencv_that_rounds_coordinates_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, interpolation: Interpolation
) -> None:
    image, field = rand(1, 3, 8, 9), rand(1, 2, 8, 9, seed=1)
    expected = backward_warp(image, field, interpolation).image
    monkeypatch.setattr(opencv, "remap_is_exact", lambda interpolation: False)
    monkeypatch.setattr(opencv, "remap", None)
    assert_close(backward_warp(image, field, interpolation).image, expected, 1e-5)


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
def test_rounded_coordinates_are_noticed(monkeypatch: pytest.MonkeyPatch, interpolation: Interpolation) -> None:
    exact = opencv.remap_plane

    def rounding(plane: Plane, x: Plane, y: Plane, target: Plane, how: Interpolation) -> None:
        coarse_x, coarse_y = (np.round(32 * part).astype(np.float32) / np.float32(32) for part in (x, y))
        exact(plane, coarse_x, coarse_y, target, how)

    opencv.remap_is_exact.cache_clear()
    monkeypatch.setattr(opencv, "remap_plane", rounding)
    assert not opencv.remap_is_exact(interpolation)
    opencv.remap_is_exact.cache_clear()
