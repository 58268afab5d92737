"""Kernels give way to their twins where they cannot be used, and say so where they should have been."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from qrsc.backend import kernels
from qrsc.backend.convolutions import convolved, convolved_both, gated, in_half_precision, rectified, state_of
from qrsc.backend.kernels import by_kernel, given_up, usable, without_kernels

VALUES = torch.arange(6.0)


@pytest.fixture
def as_on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "usable", lambda *tensors: True)
    monkeypatch.setattr(kernels, "_failed", {})


def broken() -> Tensor:
    raise RuntimeError("ptxas\nno such instruction")


def test_a_kernel_that_fails_is_given_up_and_named(as_on_gpu: None) -> None:
    assert by_kernel("sums", lambda: VALUES + 1.0, lambda: VALUES, VALUES)[0] == 1.0
    assert given_up() is None
    assert torch.equal(by_kernel("sums", broken, lambda: VALUES, VALUES), VALUES)
    assert given_up() == "no kernel for sums: no such instruction"
    # It is not tried again; others are.
    assert by_kernel("sums", lambda: VALUES + 1.0, lambda: VALUES, VALUES)[0] == 0.0
    assert by_kernel("means", lambda: VALUES + 1.0, lambda: VALUES, VALUES)[0] == 1.0


def test_on_a_cpu_nothing_is_tried_and_nothing_told() -> None:
    assert not usable(VALUES)
    with without_kernels():
        assert torch.equal(by_kernel("sums", broken, lambda: VALUES, VALUES), VALUES)
    assert torch.equal(by_kernel("sums", broken, lambda: VALUES, VALUES), VALUES)
    assert given_up() is None


def test_convolutions_with_what_follows_are_those_of_torch() -> None:
    torch.manual_seed(0)
    features, skip = torch.randn(2, 2, 3, 5, 6)
    layer, gate = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 6, 1)
    with torch.no_grad():
        assert torch.equal(rectified(features, layer), torch.relu(layer(features)))
        assert torch.equal(convolved(features, layer, skip), skip + layer(features))
        found, positive = convolved_both(features, layer, skip)
        assert torch.equal(found, skip + layer(features))
        assert torch.equal(positive, torch.relu(found))
        candidate, share = gate(features).chunk(2, 1)
        assert torch.equal(gated(features, gate, skip), torch.lerp(skip, torch.tanh(candidate), torch.sigmoid(share)))


def test_a_copy_in_half_precision_leaves_the_network_and_knows_when_it_changes() -> None:
    network = nn.Sequential(nn.Conv3d(2, 3, 1), nn.LayerNorm(3), nn.Linear(3, 4))
    before = state_of(network)
    with torch.inference_mode():
        quick = in_half_precision(network)
    assert [each.dtype for each in quick.parameters()] == 2 * [torch.bfloat16] + 2 * [torch.float32] + 2 * [
        torch.bfloat16
    ]
    assert state_of(network) == before
    assert {each.dtype for each in network.parameters()} == {torch.float32}
    with torch.no_grad():
        next(network.parameters()).add_(1.0)
    assert state_of(network) != before
