"""A picture that moves along a known curve, seen through a rolling shutter, with its exact flows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from qrsc.flow import FlowPair
from qrsc.timing import Readout
from qrsc.warp import pixel_grid


@dataclass
class KnownFlows:
    """A flow estimator that knows the answers, pair by pair, and keeps what it was asked."""

    pairs: list[FlowPair]
    asked: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        self.asked.append((first, second))
        return self.pairs[len(self.asked) - 1]


class Still:
    """A flow estimator for which nothing moves, and which counts."""

    calls = 0

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        self.calls += 1
        return FlowPair(torch.zeros_like(first[:, :2]), torch.zeros_like(first[:, :2]))


@dataclass(frozen=True)
class MovingTexture:
    """A smooth picture that moves along a known curve, seen through a rolling shutter."""

    readout: Readout
    acceleration: tuple[float, float] = (0.0, 0.0)
    jerk: tuple[float, float] = (0.0, 0.0)
    velocity: tuple[float, float] = (4.0, 3.0)
    size: tuple[int, int] = (48, 64)

    def place(self, time: Tensor) -> Tensor:
        """Where the picture's origin is at times `[1, H, W]`: `[2, H, W]`. Time 3 is the middle of these clips."""
        v, a, j = (
            torch.tensor(d, dtype=torch.float64).reshape(2, 1, 1) for d in (self.velocity, self.acceleration, self.jerk)
        )
        t = time - 3.0
        return t * (v + t * (a / 2 + t * j / 6))

    def seen(self, time: Tensor) -> Tensor:
        """The frame `[3, H, W]` whose pixels are exposed at times `[1, H, W]`."""
        x, y = pixel_grid(*self.size, dtype=torch.float64) - self.place(time)
        waves = [torch.sin(0.31 * x + 0.17 * y + n) + torch.cos(0.23 * y - 0.11 * (n + 1) * x) for n in range(3)]
        return 0.5 + 0.2 * torch.stack(waves)

    def exposed(self, frame: int) -> Tensor:
        return frame + self.readout.row_times(*self.size, dtype=torch.float64).expand(1, *self.size)

    def flow(self, frame: int, other: int) -> Tensor:
        """Exact flow `[1, 2, H, W]`: a point lands where it is when the row that it lands on is read."""
        start = self.exposed(frame)
        time = start + (other - frame)
        for _ in range(14):  # a tenth of the error is left after each
            moved = self.place(time) - self.place(start)
            time = start + self.readout.flight_time(moved, other - frame)
        return moved[None]

    def clip(self, count: int) -> Tensor:
        return torch.stack([self.seen(self.exposed(k)) for k in range(count)])

    def truth(self, count: int, tau: float) -> Tensor:
        return torch.stack([self.seen(torch.full((1, *self.size), k + tau)) for k in range(count)])

    def flows(self, count: int) -> KnownFlows:
        return KnownFlows([FlowPair(self.flow(k, k + 1), self.flow(k + 1, k)) for k in range(count - 1)])


def decibels(ours: Tensor, truth: Tensor, border: int = 12) -> float:
    inner = (ours - truth)[..., border:-border, border:-border]
    return -10.0 * math.log10(float(inner.square().mean()))


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
