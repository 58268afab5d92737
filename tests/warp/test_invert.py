from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qrsc.warp import backward_warp, invert_cpu, invert_field, jacobian, pixel_grid, sample
from qrsc.warp.invert import _iterate, fixed_point_inverse
from qrsc.warp.invert_cpu import iterate_on_cpu

from ..interpreted import interpreted, needs_triton
from .fields import AFFINE, NAN, affine_field, assert_close, rand


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
    # The inverse solves this equation for the bilinearly interpolated field.
    assert float(((onward + inverse).abs() * valid).max()) < 1e-6
    assert float(valid.double().mean()) > 0.6
    again, both = invert_field(inverse, steps=30)
    inner = (both & backward_warp(valid.double(), again).image.gt(0.999))[:, 4:-4, 4:-4]
    assert bool(inner.any())
    # Largest value over 150 fields: 0.014, from linear interpolation of a curved field.
    assert float(((again - field)[:, 4:-4, 4:-4].abs() * inner).max()) < 0.03


@pytest.mark.parametrize("steepness", [1.5, 50.0])
def test_a_field_that_folds_over_is_not_invertible_there(steepness: float) -> None:
    # From column 20 on, everything moves 8 pixels left, over what is at rest: columns 12 to 19 have two sources.
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
    # A block moves 6.25 pixels to the right over a background at rest. Where it lands, all of it comes from the block,
    # up to its edges, where the interpolated field is a mixture of both motions.
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
    monkeypatch.setattr(invert_cpu, "BAND", band)
    monkeypatch.setattr(invert_cpu, "LIST", band // 7)
    fields = torch.stack([wavy(seed, 96) for seed in range(3)]).float()
    fields[1, 0, 30:50, 20:60] += 7.3  # with a surface of its own
    fields[2, :, 10, 10] = NAN
    early, moved = iterate_on_cpu(fields, 8)
    late, last = _iterate(fields, 8)
    converged = (last < 1e-3) & (moved < 1e-2)
    assert float(converged.float().mean()) > 0.9
    difference = (early - late).abs().amax(1, keepdim=True)
    # A point that stops at a step of 0.001 is off by that over 1 - g, where g is the field's gradient: up to 0.85 here.
    assert float(difference[converged].max()) < 1e-2
    assert float(difference[converged].mean()) < 2e-4
    assert torch.equal(early.isnan(), late.isnan())


def test_the_jacobian_is_the_area_of_a_pixel() -> None:
    for matrix, shift in AFFINE.values():
        area = torch.linalg.det(torch.tensor(matrix, dtype=torch.float64))
        assert_close(jacobian(affine_field(matrix, shift)[0]), area.expand(1, 40, 40), 1e-9)
    folded = -1.5 * pixel_grid(4, 6)
    folded[1] = 0.0  # mirrored in x only
    assert bool((jacobian(folded) < 0).all())
    assert_close(jacobian(torch.full((2, 1, 1), 5.0)), torch.ones(1, 1, 1))


@needs_triton
def test_triton_kernels_in_interpreter_mode_are_what_torch_makes_of_the_same() -> None:
    said = interpreted(Path(__file__).with_name("kernel_check.py"))
    assert "inverted" in said
    assert "cleaned" in said
