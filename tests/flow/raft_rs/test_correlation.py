"""Each correlation against its plain definition."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from qrsc.flow.raft_rs.correlation import (
    correlation_pyramid,
    global_match,
    local_correlation,
    look_up,
    sample_at,
    standardised,
)
from qrsc.warp import pixel_grid

CPU = torch.device("cpu")


def features(seed: int, channels: int = 6, height: int = 8, width: int = 12) -> torch.Tensor:
    return torch.randn(2, channels, height, width, generator=torch.Generator().manual_seed(seed))


def test_look_up_at_whole_cells_reads_the_dot_products() -> None:
    source, target = features(0), features(1)
    flow = torch.zeros(2, 2, 8, 12)
    flow[:, 0], flow[:, 1] = 2.0, -1.0
    found = look_up(correlation_pyramid(source, target, 1), flow, radius=1)
    padded = F.pad(target, [4] * 4)
    for number, (down, right) in enumerate((y, x) for y in (-1, 0, 1) for x in (-1, 0, 1)):
        top, left = 4 - 1 + down, 4 + 2 + right
        expected = (source * padded[:, :, top : top + 8, left : left + 12]).sum(1) / 6**0.5
        torch.testing.assert_close(found[:, number], expected)


def test_a_coarser_level_is_the_correlation_with_pooled_features() -> None:
    source, target = features(2), features(3)
    pyramid = correlation_pyramid(source, target, 2)
    expected = torch.einsum("bcij,bckl->bijkl", source, F.avg_pool2d(target, 2)) / 6**0.5
    torch.testing.assert_close(pyramid[1].reshape(expected.shape), expected)


def test_coarse_levels_are_read_at_the_same_place_of_the_frame() -> None:
    ramp = pixel_grid(16, 16)[None, :1]  # a target whose correlation is its own x coordinate
    pyramid = correlation_pyramid(torch.ones(1, 1, 16, 16), ramp, 3)
    flow = torch.full((1, 2, 16, 16), 0.3)
    found = look_up(pyramid, flow, radius=0)[:, :, 6:10, 6:10]
    expected = (ramp + 0.3)[:, :, 6:10, 6:10].expand_as(found)
    torch.testing.assert_close(found, expected)


def test_local_correlation_is_that_with_the_shifted_warped_target() -> None:
    source, target = features(4), features(5)
    flow = 2.0 * torch.randn(2, 2, 8, 12, generator=torch.Generator().manual_seed(6))
    found = local_correlation(source, target, flow, radius=2)
    moved = F.pad(sample_at(target, flow + pixel_grid(8, 12)), [2] * 4)
    shifts = [(y, x) for y in range(5) for x in range(5)]
    expected = [(source * moved[:, :, y : y + 8, x : x + 12]).sum(1) / 6**0.5 for y, x in shifts]
    torch.testing.assert_close(found, torch.stack(expected, dim=1))


def test_global_match_finds_any_shift_of_distinct_cells() -> None:
    target = standardised(features(7, channels=128, height=10, width=14))
    source = torch.roll(target, shifts=(-3, -6), dims=(2, 3))  # source at (x, y) is target at (x + 6, y + 3)
    flow, log_probability = global_match(source, target, torch.tensor(2.0))
    torch.testing.assert_close(log_probability.exp().sum(-1), torch.ones(2, 140))
    inner = flow[:, :, :7, :8]
    torch.testing.assert_close(inner[:, 0], torch.full_like(inner[:, 0], 6.0), atol=0.05, rtol=0)
    torch.testing.assert_close(inner[:, 1], torch.full_like(inner[:, 1], 3.0), atol=0.05, rtol=0)


def test_standardised_features_have_no_mean_and_unit_size() -> None:
    result = standardised(5.0 + 3.0 * features(8))
    torch.testing.assert_close(result.square().mean(1), torch.ones(2, 8, 12), atol=1e-4, rtol=0)


def test_a_volume_in_half_precision_is_as_exact_as_its_dtype() -> None:
    source, target = (standardised(features(seed, channels=64)) for seed in (7, 8))
    exact = correlation_pyramid(source, target, 2)
    for found, expected in zip(correlation_pyramid(source, target, 2, torch.bfloat16), exact, strict=True):
        assert found.dtype == torch.bfloat16
        away = (found.float() - expected).abs()
        assert 0.0 < float(away.mean()) < 0.005  # 0.003, of correlations of about 1
        assert float(away.max()) < 0.04
