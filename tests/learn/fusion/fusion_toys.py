"""Fusion networks and samples that are small enough for training in a test."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.learn.fusion.samples import FusionSamples
from qrsc.warp import backward_warp

TINY_LITE: dict[str, Any] = {"widths": (16, 16, 16), "depths": (1, 1, 1), "calm": False, "polish": 8, "polishes": 1}
TINY_RSA2: dict[str, Any] = {
    "calm": False,
    "stem": 4,
    "widths": (8, 8, 8, 8),
    "depths": (1, 1, 1, 1),
    "heads": (1, 1, 1, 1),
    "features": 8,
    "taps": 3,
}


class ToySamples:
    """Three copies of a smooth picture: the outer ones shifted a pixel to either side, all with a hole and noise."""

    def __init__(self, scenes: int = 4, size: tuple[int, int] = (48, 64)) -> None:
        self.scenes, self.size = scenes, size

    def __call__(self, generator: torch.Generator) -> FusionSamples:
        height, width = self.size
        truth = torch.rand(self.scenes, 3, height // 4, width // 4, generator=generator)
        truth = F.interpolate(truth, size=self.size, mode="bicubic", align_corners=False).clamp(0.0, 1.0)
        frames, valid = [], []
        for shift in (-1.5, 0.0, 1.5):
            field = torch.zeros(self.scenes, 2, height, width)
            field[:, 0] = shift
            frame = backward_warp(truth, field).image + 0.03 * torch.randn(truth.shape, generator=generator)
            seen = self._hole(generator)
            frames.append(torch.where(seen, frame, 0.0).clamp(0.0, 1.0))
            valid.append(seen)
        rows = torch.arange(height).reshape(1, 1, height, 1) / height
        distance = torch.stack([(i + 0.5 - rows).abs().expand(self.scenes, 1, height, width) for i in (1, 0, -1)], 1)
        return FusionSamples(
            torch.stack(frames, 1),
            torch.zeros(self.scenes, 3, 2, height, width),
            torch.stack(valid, 1),
            distance,
            torch.ones(self.scenes),
            truth,
            valid[1],
            torch.zeros(self.scenes, dtype=torch.int64),
        )

    def _hole(self, generator: torch.Generator) -> Tensor:
        height, width = self.size
        seen = torch.ones(self.scenes, 1, height, width, dtype=torch.bool)
        for scene in range(self.scenes):
            top, left = (int(torch.randint(side - 12, (), generator=generator)) for side in self.size)
            seen[scene, :, top : top + 12, left : left + 12] = False
        return seen
