from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from qrsc.fusion.adacof import operator
from qrsc.fusion.adacof.operator import adacof
from qrsc.reference import fusion as reference_fusion

from ..interpreted import interpreted, needs_triton

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def inputs(taps: int, size: tuple[int, int] = (4, 5), dtype: torch.dtype = torch.float64) -> Inputs:
    generator = torch.Generator().manual_seed(taps)
    frames = torch.rand(2, 3, *size, generator=generator, dtype=dtype)
    scales = (1.0, 2.0, 2.0)
    weights, alpha, beta = (
        scale * torch.randn(2, taps**2, *size, generator=generator, dtype=dtype) for scale in scales
    )
    return frames.requires_grad_(), weights.requires_grad_(), alpha.requires_grad_(), beta.requires_grad_()


@pytest.mark.parametrize(("taps", "dilation"), [(5, 1), (3, 2), (1, 1)])
def test_values_and_gradients_are_those_of_the_twin(taps: int, dilation: int) -> None:
    given = inputs(taps)
    found, expected = adacof(*given, dilation), reference_fusion.adacof(*given, dilation)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    gradient = torch.randn_like(found)
    for one, other in zip(
        torch.autograd.grad(found, given, gradient), torch.autograd.grad(expected, given, gradient), strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_gradients_are_those_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(adacof, inputs(3, (3, 3)))


def test_only_the_centre_tap_changes_nothing() -> None:
    frames = torch.rand(1, 3, 6, 7)
    weights = torch.zeros(1, 25, 6, 7)
    weights[:, 12] = 1.0
    still = torch.zeros_like(weights)
    torch.testing.assert_close(adacof(frames, weights, still, still), frames)
    right = still.clone()
    right[:, 12] = 2.0
    torch.testing.assert_close(adacof(frames, weights, right, still)[..., :5], frames[..., 2:])
    weights = weights.roll(5, 1)  # the tap below
    torch.testing.assert_close(adacof(frames, weights, still, still)[..., :5, :], frames[..., 1:, :])


def test_a_sample_on_a_pixel_has_the_slope_towards_the_next_and_none_beyond_the_edge() -> None:
    frames = torch.tensor([0.0, 1.0, 3.0, 7.0]).reshape(1, 1, 1, 4)
    weights = torch.ones(1, 1, 1, 4)
    alpha = torch.tensor([0.0, 0.0, 0.0, 1.0]).reshape(1, 1, 1, 4).requires_grad_()
    (slope,) = torch.autograd.grad(adacof(frames, weights, alpha, torch.zeros(1, 1, 1, 4)).sum(), alpha)
    assert slope.flatten().tolist() == [1.0, 2.0, 4.0, 0.0]


def test_half_precision_is_summed_in_full() -> None:
    frames, weights, alpha, beta = (value.detach().bfloat16() for value in inputs(5, (6, 8), torch.float32))
    found = adacof(frames, weights, alpha, beta)
    assert found.dtype == torch.bfloat16
    expected = adacof(frames.float(), weights.float(), alpha.float(), beta.float())
    torch.testing.assert_close(found.float(), expected, atol=0, rtol=2**-8)


def test_it_compiles_without_a_break_and_meets_the_rules_of_operators() -> None:
    torch.library.opcheck(torch.ops.qrsc.adacof.default, (*inputs(3, (3, 4), torch.float32), 1))


def test_without_gradients_the_compiler_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*values: object) -> Tensor:
        raise AssertionError("calling the operator imports PyTorch's compiler")

    given = inputs(3)
    expected = adacof(*given)
    monkeypatch.setattr(operator, "_forward", called)
    with torch.no_grad():
        torch.testing.assert_close(adacof(*given), expected.detach())


def test_bad_shapes_are_told() -> None:
    frames, weights = torch.zeros(1, 3, 4, 4), torch.zeros(1, 9, 4, 4)
    with pytest.raises(ValueError, match="K odd"):
        adacof(frames, weights[:, :4], weights[:, :4], weights[:, :4])
    with pytest.raises(ValueError, match=r"beta must be \(1, 9, 4, 4\)"):
        adacof(frames, weights, weights, weights[..., :3])
    with pytest.raises(ValueError, match="dilation must be at least 1"):
        adacof(frames, weights, weights, weights, 0)


@needs_triton
def test_triton_kernels_in_interpreter_mode_are_what_torch_makes_of_the_same() -> None:
    said = interpreted(Path(__file__).with_name("triton_check.py"))
    assert said.count("torch.") == 3
    assert said.count("windows") == 2
    assert said.count("as PyTorch") == 2
