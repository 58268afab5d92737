"""Aligned frames and networks for the tests of fusion."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from qrsc.fusion import AlignedFrames
from qrsc.fusion.rsa2.network import Rsa2Options

SMALL = Rsa2Options(
    stem=4, widths=(8, 8, 16, 16), depths=(1, 2, 2, 1), heads=(2, 2, 4, 4), features=8, taps=3, calm=False
)


def aligned_frames(
    count: int, size: tuple[int, int], *, batch: int = 1, seed: int = 0, dtype: torch.dtype = torch.float32
) -> AlignedFrames:
    """Similar frames, most of their pixels valid, with the time distances of gamma 0.8 and the middle row."""
    generator = torch.Generator().manual_seed(seed)
    height, width = size

    def rand(channels: int, of: int = count) -> Tensor:
        return torch.rand(batch, of, channels, height, width, generator=generator, dtype=dtype)

    centre = count // 2
    rows = torch.arange(height, dtype=dtype) / height
    distance = torch.stack([(centre - i + 0.4 - 0.8 * rows).abs() for i in range(count)])
    return AlignedFrames(
        frames=0.1 + 0.7 * rand(3, 1) + 0.1 * rand(3),
        correction_fields=20.0 * rand(2) - 10.0,
        valid=rand(1) > 0.2,
        time_distance=distance.reshape(1, count, 1, height, 1).expand(batch, count, 1, height, width).contiguous(),
        centre=centre,
        gamma=0.8,
    )


def randomise(network: nn.Module, size: float = 1.0) -> None:
    """Random weights for all layers, also those initialised to zero."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            fan = max(parameter[0].numel(), 1) if parameter.ndim > 1 else 4
            parameter.copy_(size * torch.randn(parameter.shape, generator=generator) / fan**0.5)


def aligned(frames: Tensor, valid: Tensor, distance: Tensor, centre: int = 1) -> AlignedFrames:
    """From `[T, 3, H, W]`, `[T, 1, H, W]` and `[T, 1, H, W]`, as a batch of one."""
    fields = torch.zeros_like(frames[:, :2])
    return AlignedFrames(frames[None], fields[None], valid[None], distance[None], centre)


def noisy_frames(noise: float, count: int = 3, size: tuple[int, int] = (64, 96)) -> tuple[Tensor, AlignedFrames]:
    """An image with fine detail, and frames of it that differ by noise only."""
    generator = torch.Generator().manual_seed(1)
    scene = 0.3 + 0.4 * torch.rand(1, 3, *size, generator=generator)
    scene[..., : size[1] // 2] = 0.5  # half of it is flat
    frames = scene.expand(count, -1, -1, -1) + noise * torch.randn(count, 3, *size, generator=generator)
    return scene, aligned(frames, torch.ones(count, 1, *size, dtype=torch.bool), torch.full((count, 1, *size), 0.2))
