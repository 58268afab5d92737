from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.fusion.denoise import calmed
from qrsc.fusion.lite.polish import Polish

from .samples import aligned_frames, randomise


def polished(polish: Polish, count: int = 3, centre: int = 1, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A fused frame before and after refinement."""
    aligned = replace(calmed(aligned_frames(count, (16, 24), seed=seed)), centre=centre)
    weight = torch.softmax(torch.rand(1, count, 1, 16, 24, generator=torch.Generator().manual_seed(3)), 1)
    fused = (weight * aligned.frames).sum(1)
    around = torch.rand(1, 5, 4, 6, generator=torch.Generator().manual_seed(4))
    return fused, polish(fused, aligned, aligned.frames, weight, torch.full((1, 3, 1, 1), 0.4), around)


def test_untrained_it_changes_nothing() -> None:
    fused, result = polished(Polish(calm=True, around=5, width=8, pairs=2))
    assert torch.equal(fused, result)


@pytest.mark.parametrize(("count", "centre"), [(1, 0), (2, 0), (2, 1), (3, 1), (5, 2)])
def test_any_number_of_frames_on_either_side(count: int, centre: int) -> None:
    polish = Polish(calm=True, around=5, width=8, pairs=1)
    randomise(polish, 0.5)
    fused, result = polished(polish, count, centre)
    assert result.shape == fused.shape
    assert float((result - fused).detach().abs().mean()) > 0.01


def test_it_adds_at_most_half_of_the_range_around() -> None:
    polish = Polish(calm=True, around=5, width=8, pairs=1)
    randomise(polish, 3.0)
    fused, result = polished(polish, count=1, centre=0)
    around = F.unfold(F.pad(fused, (1, 1, 1, 1), mode="replicate"), 3).reshape(3, 9, 16, 24)
    most = 0.5 * (around.amax(1) - around.amin(1))
    added = (result - fused)[0].detach().abs()
    assert float((added - most).max()) < 1e-6
    assert float((added > 0.99 * most).float().mean()) > 0.5, "the limit is reached"


def test_it_tells_the_frames_before_from_those_after() -> None:
    polish = Polish(calm=True, around=5, width=8, pairs=1)
    aligned = calmed(aligned_frames(3, (16, 24)))
    weight = torch.full((1, 3, 1, 16, 24), 1 / 3)
    fused = aligned.frames[:, 1]
    colours = torch.zeros(1, 3, 1, 1)
    seen = polish._seen(fused, aligned, aligned.frames, weight, colours)
    back = replace(aligned, frames=aligned.frames.flip(1), detail=_flipped(aligned.detail))
    turned = polish._seen(fused, back, back.frames, weight, colours)
    torch.testing.assert_close(turned[:, 3:6], seen[:, 9:12])
    torch.testing.assert_close(turned[:, 9:12], seen[:, 3:6])
    rest = [0, 1, 2, 6, 7, 8, 12, 13, 14]
    torch.testing.assert_close(turned[:, rest], seen[:, rest])
    assert float((seen[:, 3:6] - seen[:, 9:12]).abs().mean()) > 0.01


def _flipped(detail: Tensor | None) -> Tensor:
    assert detail is not None
    return detail.flip(1)
