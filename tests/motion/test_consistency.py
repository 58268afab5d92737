from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qrsc.motion.consistency import MIN_CONFIDENCE, chain_flows, consistency_confidence

NAN, INF = float("nan"), float("inf")
HEIGHT, WIDTH = 6, 8


def rand(*shape: int, seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_flows_that_lead_back_are_trusted_and_others_less() -> None:
    flow = torch.zeros(2, HEIGHT, WIDTH, dtype=torch.float64)
    flow[0] = 2.0
    confidence = [consistency_confidence(flow, gap - flow)[0, 3, 3].item() for gap in (0.0, 0.2, 0.5, 1.0, 5.0)]
    assert confidence[0] == 1.0
    assert confidence == sorted(confidence, reverse=True)
    assert confidence[-1] == MIN_CONFIDENCE
    assert bool((consistency_confidence(flow, -flow)[..., -2:] == MIN_CONFIDENCE).all()), "it left the frame"
    assert bool((consistency_confidence(flow, -flow)[..., :-2] == 1.0).all())


@pytest.mark.parametrize("bad", [NAN, INF, -INF, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_flows_that_are_not_finite_are_not_trusted_and_harm_no_gradient(bad: float, dtype: torch.dtype) -> None:
    flow = rand(2, HEIGHT, WIDTH, seed=1, scale=0.1, dtype=dtype)
    reverse = -flow
    flow[0, 1, 1], reverse[1, 4, 4] = bad, bad
    flow.requires_grad_()
    reverse.requires_grad_()
    confidence = consistency_confidence(flow, reverse)
    assert confidence[0, 1, 1] == MIN_CONFIDENCE
    assert confidence[0, 4, 4] == MIN_CONFIDENCE
    assert confidence[0, 2, 2] > 0.9
    for gradient in torch.autograd.grad(confidence.sum(), [flow, reverse]):
        assert bool(torch.isfinite(gradient).all())
        assert float(gradient.abs().max()) > 0


def test_chained_flows_add_up_where_the_first_one_lands() -> None:
    first = torch.zeros(2, HEIGHT, WIDTH)
    first[0] = 2.0
    second = torch.arange(WIDTH).float().expand(2, HEIGHT, WIDTH) / 10
    half, quarter = torch.full((1, HEIGHT, WIDTH), 0.5), torch.full((1, HEIGHT, WIDTH), 0.25)
    chained, confidence = chain_flows(first, second, half, quarter)
    expected = first[..., :-2] + second[..., 2:]
    torch.testing.assert_close(chained[..., :-2], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(confidence[..., :-2], torch.full((1, HEIGHT, WIDTH - 2), 0.125), atol=1e-6, rtol=0)
    assert bool((confidence[..., -2:] == MIN_CONFIDENCE).all())
