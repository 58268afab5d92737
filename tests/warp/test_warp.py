from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qrsc.backend import opencv
from qrsc.warp import (
    INTERPOLATIONS,
    MIN_COVERAGE,
    WARP_METHODS,
    Interpolation,
    apply_correction,
    backward_warp,
    coverage,
    invert_field,
    jacobian,
    pixel_grid,
    sample,
    splat,
)
from qrsc.warp import invert_cpu as settling
from qrsc.warp.invert import _settle_together, fixed_point_inverse
from qrsc.warp.invert_cpu import settle

NAN, INF = float("nan"), float("inf")
# Positions pass through the [-1, 1] of grid_sample: a few roundings of a value below 1 for these small pictures.
SINGLE = 2e-6


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def translation(dx: float, dy: float, height: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor([dx, dy], dtype=dtype).reshape(2, 1, 1).expand(2, height, width)


def assert_close(ours: Tensor, expected: Tensor, tolerance: float = SINGLE) -> None:
    torch.testing.assert_close(ours, expected, rtol=0.0, atol=tolerance)


def test_pixel_grid_holds_x_then_y() -> None:
    grid = pixel_grid(2, 3)
    assert grid.tolist() == [[[0, 1, 2], [0, 1, 2]], [[0, 0, 0], [1, 1, 1]]]
    assert pixel_grid(2, 3, dtype=torch.float64).dtype == torch.float64


# --- sampling ---


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
@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), st.integers(1, 3), st.integers(0, 1000))
def test_opencv_reads_what_torch_reads(size: tuple[int, int], pictures: int, seed: int) -> None:
    image = rand(pictures, 3, *size, seed=seed)
    position = torch.tensor(size[::-1]).reshape(2, 1, 1) * (1.4 * rand(pictures, 2, 7, 9, seed=seed + 1) - 0.2)
    position[0, :, 0, 0], position[0, 0, 0, 1] = NAN, INF
    by_opencv = sample(image, position)
    by_torch = sample(image.clone().requires_grad_(), position)  # a gradient is torch's business
    assert by_torch.image.requires_grad
    assert torch.equal(by_opencv.valid, by_torch.valid)
    assert_close(by_opencv.image, by_torch.image.detach(), 2e-5)
    exact = sample(image.double(), position.double()).image
    if opencv.remap_is_exact():
        assert_close(by_opencv.image, exact.float(), 2e-6)


def test_an_opencv_that_rounds_coordinates_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    image, field = rand(1, 3, 8, 9), rand(1, 2, 8, 9, seed=1)
    expected = backward_warp(image, field).image
    monkeypatch.setattr(opencv, "remap_is_exact", lambda: False)
    monkeypatch.setattr(opencv, "remapped", None)
    assert_close(backward_warp(image, field).image, expected, 1e-5)


# --- inverting ---


def affine_field(matrix: list[list[float]], shift: tuple[float, float], size: int = 40) -> tuple[Tensor, Tensor]:
    """The displacements `A (m - centre) + shift - (m - centre)` and their exact inverse, `[2, size, size]` each."""
    grid = pixel_grid(size, size, dtype=torch.float64)
    offset = torch.tensor(shift, dtype=torch.float64).reshape(2, 1, 1)
    middle = (size - 1) / 2
    a = torch.tensor(matrix, dtype=torch.float64)
    forward = torch.einsum("ij,jyx->iyx", a, grid - middle) + middle + offset - grid
    backward = torch.einsum("ij,jyx->iyx", torch.linalg.inv(a), grid - middle - offset) + middle - grid
    return forward, backward


def turn(degrees: float) -> list[list[float]]:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [[c, -s], [s, c]]


AFFINE: dict[str, tuple[list[list[float]], tuple[float, float]]] = {
    "translation": ([[1.0, 0.0], [0.0, 1.0]], (3.3, -2.6)),
    "zoom in": ([[1.2, 0.0], [0.0, 1.2]], (0.0, 0.5)),
    "zoom out": ([[0.85, 0.0], [0.0, 0.85]], (1.0, 0.0)),
    "rotation": (turn(10.0), (0.3, 0.2)),
    "shear": ([[1.0, 0.25], [0.0, 1.0]], (0.0, 0.0)),
    "squeeze and shear": ([[1.1, -0.2], [0.1, 0.9]], (-1.2, 0.7)),
}


@pytest.mark.parametrize("name", list(AFFINE))
def test_known_fields_are_inverted(name: str) -> None:
    field, truth = affine_field(*AFFINE[name])
    inverse, valid = invert_field(field, steps=12)
    inner = slice(8, -8)
    assert float((inverse - truth)[:, inner, inner].abs().max()) < 1e-3
    assert bool(valid[:, inner, inner].all())
    negated = float((-field - truth)[:, inner, inner].abs().max())
    assert (negated < 1e-9) == (name in ("translation", "shear")), "these two alone are inverted by their negative"
    came_from = pixel_grid(40, 40, dtype=torch.float64) + truth
    outside = ((came_from < -1.0) | (came_from > 40.0)).any(0)
    assert not bool(valid[0][outside].any())


def wavy(seed: int, size: int = 32, steepness: float = 0.35) -> Tensor:
    """A smooth field, `[2, size, size]`, that changes by at most `steepness` pixels per pixel."""
    phase = rand(2, 2, seed=seed, dtype=torch.float64) * 2 * math.pi
    x, y = pixel_grid(size, size, dtype=torch.float64) * (2 * math.pi / size)
    waves = [torch.sin(x + phase[n, 0]) * torch.cos(y + phase[n, 1]) for n in range(2)]
    return torch.stack(waves) * steepness * size / (4 * math.pi)


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_there_and_back_again_is_where_it_started(seed: int) -> None:
    field = wavy(seed)
    inverse, valid = invert_field(field, steps=30)
    landed = pixel_grid(32, 32, dtype=torch.float64) + inverse
    onward = sample(field, landed).image
    # The inverse solves this equation for the field as bilinear interpolation sees it.
    assert float(((onward + inverse).abs() * valid).max()) < 1e-6
    assert float(valid.double().mean()) > 0.6
    again, both = invert_field(inverse, steps=30)
    inner = (both & backward_warp(valid.double(), again).image.gt(0.999))[:, 4:-4, 4:-4]
    assert bool(inner.any())
    # Largest value seen over 150 fields: 0.014, from reading a curved field along straight lines.
    assert float(((again - field)[:, 4:-4, 4:-4].abs() * inner).max()) < 0.03


@pytest.mark.parametrize("steepness", [1.5, 50.0])
def test_a_field_that_folds_over_is_not_invertible_there(steepness: float) -> None:
    # From column 20 on, everything moves 8 pixels left, over what stays: columns 12 to 19 have two sources.
    field = torch.zeros(2, 24, 40)
    field[0] = -8.0 * torch.sigmoid((pixel_grid(24, 40)[0] - 19.5) * steepness)
    valid = invert_field(field).valid[0, 12]
    assert not bool(valid[14:18].any())
    assert bool(valid[:10].all())
    assert bool(valid[22:31].all())
    assert not bool(valid[33:].any()), "nothing lands there"


def test_a_field_that_tears_apart_is_not_invertible_in_the_gap() -> None:
    field = torch.zeros(2, 24, 40)
    field[0, :, 20:] = 8.0
    valid = invert_field(field).valid[0, 12]
    assert not bool(valid[21:27].any())
    assert bool(valid[:19].all())
    assert bool(valid[29:].all())


def test_a_surface_keeps_its_edge_at_a_motion_boundary() -> None:
    # A block moves 6.25 pixels to the right over a ground that rests. Where it lands, all of it comes from the block,
    # up to its edges, where a field read between pixels is a mixture of both motions.
    field = torch.zeros(2, 20, 40, dtype=torch.float64)
    field[0, 5:15, 10:20] = 6.25
    inverse, _ = fixed_point_inverse(field)
    assert_close(inverse[0, 5:15, 16:26], torch.full((10, 10), -6.25, dtype=torch.float64), 1e-9)
    assert_close(inverse[:, :, 27:], torch.zeros(2, 20, 13, dtype=torch.float64), 1e-9)
    assert_close(inverse[:, :, :9], torch.zeros(2, 20, 9, dtype=torch.float64), 1e-9)
    grid = pixel_grid(20, 40, dtype=torch.float64)
    plain = -field
    for _ in range(8):
        plain = -sample(field, grid + plain).image
    assert float((plain[0, 5:15, 16:26] + 6.25).abs().max()) > 1.0, "what the iteration alone makes of it"


@pytest.mark.parametrize("band", [65536, 700])
def test_points_that_stop_early_are_where_all_steps_lead(band: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "BAND", band)
    monkeypatch.setattr(settling, "LIST", band // 7)
    fields = torch.stack([wavy(seed, 96) for seed in range(3)]).float()
    fields[1, 0, 30:50, 20:60] += 7.3  # with a surface of its own
    fields[2, :, 10, 10] = NAN
    early, moved = settle(fields, 8)
    late, last = _settle_together(fields, 8)
    settled = (last < 1e-3) & (moved < 1e-2)
    assert float(settled.float().mean()) > 0.9
    difference = (early - late).abs().amax(1, keepdim=True)
    # A point that stops at a step of 0.001 is off by that over 1 - g, where g is the field's gradient: up to 0.85 here.
    assert float(difference[settled].max()) < 1e-2
    assert float(difference[settled].mean()) < 2e-4
    assert torch.equal(early.isnan(), late.isnan())


def test_the_jacobian_is_the_area_of_a_pixel() -> None:
    for matrix, shift in AFFINE.values():
        area = torch.linalg.det(torch.tensor(matrix, dtype=torch.float64))
        assert_close(jacobian(affine_field(matrix, shift)[0]), area.expand(1, 40, 40), 1e-9)
    folded = -1.5 * pixel_grid(4, 6)
    folded[1] = 0.0  # mirrored in x alone
    assert bool((jacobian(folded) < 0).all())
    assert_close(jacobian(torch.full((2, 1, 1), 5.0)), torch.ones(1, 1, 1))


# --- splatting ---


@settings(max_examples=20)
@given(st.integers(0, 10_000))
def test_nothing_is_lost_and_nothing_made(seed: int) -> None:
    # The result is what landed over how much landed; multiplied back, all of the picture must be there again.
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


# --- corrections ---


def texture(position: Tensor) -> Tensor:
    """A smooth picture, known everywhere: `[3, H, W]` at positions `[2, H, W]`."""
    x, y = position
    waves = [torch.sin(0.31 * x + 0.17 * y + n) + torch.cos(0.23 * y - 0.11 * x * (n + 1)) for n in range(3)]
    return 0.5 + 0.2 * torch.stack(waves)


@pytest.mark.parametrize("name", ["zoom in", "zoom out", "rotation", "squeeze and shear"])
def test_inverting_comes_closer_than_negating(name: str) -> None:
    # What was at p in the picture belongs at p + field(p), so the truth at m is the picture at m + inverse(m).
    field, inverse = affine_field(*AFFINE[name])
    grid = pixel_grid(40, 40, dtype=torch.float64)
    frame, truth = texture(grid), texture(grid + inverse)
    inner = (slice(None), slice(10, -10), slice(10, -10))
    errors = {
        method: float((apply_correction(frame, field, method).image - truth)[inner].abs().max())
        for method in WARP_METHODS
    }
    assert errors["invert"] < 0.007  # seen: 0.0065, what cubic interpolation leaves of this texture without any motion
    assert errors["invert"] < errors["negate"] / 4
    assert errors["splat"] < errors["negate"] / 1.8


def test_a_translation_is_corrected_alike_by_every_method() -> None:
    frame = rand(3, 10, 10)
    for method in WARP_METHODS:
        corrected, valid = apply_correction(frame, translation(2, 1, 10, 10), method)
        assert_close(corrected[:, 1:, 2:], frame[:, :-1, :-2], 1e-5)
        assert int(valid.sum()) == 9 * 8


def test_wrong_arguments_say_what_was_expected() -> None:
    image, field = rand(3, 4, 4), torch.zeros(2, 4, 4)
    with pytest.raises(ValueError, match="choose one of bilinear, bicubic"):
        sample(image, field, "nearest")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="choose one of invert, splat, negate"):
        apply_correction(image, field, "inverse")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match=r"field must be \[\.\.\., 2, H, W\].*got \(3, 4, 4\)"):
        backward_warp(image, image)
    with pytest.raises(ValueError, match=r"same leading dimensions; got \(1, 3, 4, 4\) and \(2, 4, 4\)"):
        sample(image[None], field)
    with pytest.raises(ValueError, match=r"must agree but for the channels; got \(3, 4, 4\) and \(2, 4, 5\)"):
        splat(image, torch.zeros(2, 4, 5))
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        invert_field(field, steps=0)
    with pytest.raises(ValueError, match=r"field must be .* got \(4, 4\)"):
        jacobian(torch.zeros(4, 4))
