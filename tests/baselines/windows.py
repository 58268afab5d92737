"""A picture that moves at a constant speed, seen by a camera that reads from the top, with everything that is true."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.baselines.training.samples import WindowSamples, join_windows


def picture(x: Tensor, y: Tensor) -> Tensor:
    """A smooth picture at places `[H, W]`: `[3, H, W]` in [0, 1]."""
    return torch.stack([0.5 + 0.4 * torch.sin(0.21 * x + phase + 0.13 * y) for phase in (0.0, 1.0, 2.0)])


def panned(speed: float, gamma: float, size: tuple[int, int] = (32, 64)) -> WindowSamples:
    """One window of a picture that moves to the right by `speed` pixels in a frame interval."""
    height, width = size
    y, x = torch.meshgrid(torch.arange(height).float(), torch.arange(width).float(), indexing="ij")
    frames = torch.stack([picture(x - speed * (number + gamma * y / height), y) for number in (-1, 0, 1)])
    there = torch.zeros(2, height, width)
    there[0] = speed
    truths = (picture(x - speed * time, y)[None] for time in (gamma / 2 - 1.0, 0.0, gamma / 2))
    return WindowSamples(frames[None], torch.stack([there, -there])[None], torch.tensor([gamma]), *truths)


def panned_windows(generator: torch.Generator) -> WindowSamples:
    """Four windows with random speeds, all at gamma 1 or all at 0.5."""
    gamma = 1.0 if float(torch.rand((), generator=generator)) < 0.5 else 0.5
    return join_windows([panned(20.0 * float(torch.rand((), generator=generator)), gamma) for _ in range(4)])
