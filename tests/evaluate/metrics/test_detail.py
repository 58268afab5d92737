from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from qrsc.evaluate.metrics.detail import detail


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def by_hand(picture: Tensor, truth: Tensor) -> float:
    """The same for one picture, pixel by pixel."""

    def energy(values: Tensor) -> float:
        levels = np.round(255 * values.double().numpy().clip(0, 1)) / 255
        luma = 0.299 * levels[0] + 0.587 * levels[1] + 0.114 * levels[2]
        reach = range(-6, 7)
        weights = {step: math.exp(-0.5 * (step / 1.5) ** 2) for step in reach}
        total = sum(weights.values())
        height, width = luma.shape

        def mirrored(place: int, size: int) -> int:
            place = abs(place)
            return 2 * (size - 1) - place if place >= size else place

        fine = np.empty_like(luma)
        for y in range(height):
            for x in range(width):
                blurred = sum(
                    weights[dy] * weights[dx] * luma[mirrored(y + dy, height), mirrored(x + dx, width)]
                    for dy in reach
                    for dx in reach
                )
                fine[y, x] = luma[y, x] - blurred / total**2
        return float(((fine - fine.mean()) ** 2).mean())

    return energy(picture) / energy(truth)


def test_as_by_hand() -> None:
    picture, truth = noise(3, 9, 14), noise(3, 9, 14, seed=1)
    assert detail(picture, truth).item() == pytest.approx(by_hand(picture, truth), rel=1e-9)


def test_of_known_pictures() -> None:
    stripes = torch.zeros(3, 24, 24)
    stripes[..., ::2] = 1.0
    assert detail(stripes, stripes).item() == 1.0
    fainter = 0.25 + 0.5 * (stripes * 255).round() / 255
    assert detail(fainter, stripes).item() == pytest.approx(0.25, rel=0.02), "half the contrast, but for rounding"
    assert detail(1.0 - stripes, stripes).item() == pytest.approx(1.0), "of which sign does not matter"


def test_brightness_and_what_is_smooth_do_not_count() -> None:
    truth = 0.25 + 0.25 * noise(3, 32, 32)
    ramp = torch.linspace(0.0, 0.5, 32).reshape(1, 1, -1)
    assert detail(truth + ramp, truth).item() == pytest.approx(1.0, abs=0.02)


def test_a_blur_takes_detail_away() -> None:
    truth = noise(2, 3, 40, 40)
    soft = torch.nn.functional.avg_pool2d(truth, 3, 1, 1)
    assert bool((detail(soft, truth) < 0.3).all())


def test_leading_dimensions_are_kept() -> None:
    picture, truth = noise(2, 4, 3, 16, 12), noise(2, 4, 3, 16, 12, seed=1)
    found = detail(picture, truth)
    assert found.shape == (2, 4)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found[1, 2], detail(picture[1, 2], truth[1, 2]))


def test_a_plain_truth_has_nothing_to_compare_with() -> None:
    assert math.isnan(detail(noise(3, 16, 16), torch.full((3, 16, 16), 0.3)).item())


def test_refuses_what_it_cannot_measure() -> None:
    with pytest.raises(ValueError, match="of one shape"):
        detail(noise(3, 16, 16), noise(3, 16, 17))
    with pytest.raises(ValueError, match="more than 6 pixels"):
        detail(noise(3, 6, 16), noise(3, 6, 16))
