"""Batches of planes to put into worlds, each with its looks and its own motion.

Convention
    World axes as in `camera`: X to the right, Y down, Z ahead, metres; the ground is at y = 0. A plane's own
    coordinates (u, v) are metres from its pivot, about which it turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from qrsc.simulate.paint.library import Thing
from qrsc.simulate.render.surfaces import OPAQUE

NOWHERE = (1.0, 1.0, -1.0, -1.0)  # an extent that holds nothing


@dataclass(frozen=True)
class Draw:
    """Random numbers for a batch, float64 on the CPU, in the order in which they are asked for."""

    batch: int
    generator: torch.Generator

    def uniform(self, low: float, high: float, count: int) -> Tensor:
        """`[B, n]` between two bounds."""
        return low + (high - low) * self._rand(count)

    def spread(self, low: float, high: float, count: int) -> Tensor:
        """`[B, n]` between two positive bounds, as likely in each octave."""
        return low * (high / low) ** self._rand(count)

    def normal(self, *shape: int) -> Tensor:
        """`[B, ...]`, mean 0 and standard deviation 1."""
        return torch.randn(self.batch, *shape, generator=self.generator, dtype=torch.float64)

    def chance(self, share: float, count: int) -> Tensor:
        """`[B, n]`, true with a probability."""
        return self._rand(count) < share

    def one_of(self, numbers: Sequence[int], count: int) -> Tensor:
        """`[B, n]`, int64: entries of a list."""
        table = torch.tensor(list(numbers))
        return table[torch.randint(len(table), (self.batch, count), generator=self.generator)]

    def thing(self, things: Sequence[Thing], count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Texture, mask, width and height of entries of a list: `[B, n]` each."""
        number = torch.randint(len(things), (self.batch, count), generator=self.generator)
        columns = [
            torch.tensor([thing.texture for thing in things])[number],
            torch.tensor([thing.mask for thing in things])[number],
        ]
        sizes = torch.tensor([[thing.width, thing.height] for thing in things], dtype=torch.float64)[number]
        return columns[0], columns[1], sizes[..., 0], sizes[..., 1]

    def _rand(self, count: int) -> Tensor:
        return torch.rand(self.batch, count, generator=self.generator, dtype=torch.float64)


@dataclass(frozen=True)
class Planes:
    """A batch of planes; `[B, n]` of them.

    Attributes:
        pivot: `[B, n, 3]`.
        axis_u, axis_v: `[B, n, 3]`, unit vectors that u and v count along.
        extent: `[B, n, 4]`, as in `Surface`.
        texture, mask: `[B, n]`, int64.
        texture_map, mask_map: `[B, n, 2, 3]`.
        gain, offset: `[B, n, 3]`.
        velocity, acceleration: `[B, n, 5]`, of the `THING_COORDINATES`, per frame and per frame squared.
        swing, swing_rate, swing_phase: `[B, n, 5]`, of an oscillation on top.
    """

    pivot: Tensor
    axis_u: Tensor
    axis_v: Tensor
    extent: Tensor
    texture: Tensor
    texture_map: Tensor
    mask: Tensor
    mask_map: Tensor
    gain: Tensor
    offset: Tensor
    velocity: Tensor
    acceleration: Tensor
    swing: Tensor
    swing_rate: Tensor
    swing_phase: Tensor

    def to(self, device: torch.device | str) -> Planes:
        """The same planes on another device."""
        return Planes(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


def upright(
    *,
    pivot: Tensor,
    facing: Tensor,
    extent: Tensor,
    texture: Tensor,
    texture_map: Tensor,
    mask: Tensor | None = None,
    mask_map: Tensor | None = None,
    present: Tensor | None = None,
) -> Planes:
    """Planes that stand on end and do not move.

    Args:
        pivot: `[B, n, 3]`.
        facing: `[B, n]`, angle by which a plane that faces the camera is turned about the vertical.
        extent, texture, texture_map, mask, mask_map: as in `Planes`; opaque unless there is a mask.
        present: `[B, n]`, bool: where false there is no plane.
    """
    zero = torch.zeros_like(facing)
    axis_u = torch.stack([facing.cos(), zero, -facing.sin()], dim=-1)
    axis_v = torch.stack([zero, zero + 1.0, zero], dim=-1)
    if present is not None:
        extent = torch.where(present[..., None], extent, torch.tensor(NOWHERE, dtype=extent.dtype))
    still = facing.new_zeros((*facing.shape, 5))
    return Planes(
        pivot=pivot,
        axis_u=axis_u,
        axis_v=axis_v,
        extent=extent,
        texture=texture,
        texture_map=texture_map,
        mask=torch.full_like(texture, OPAQUE) if mask is None else mask,
        mask_map=torch.zeros_like(texture_map) if mask_map is None else mask_map,
        gain=torch.ones_like(pivot),
        offset=torch.zeros_like(pivot),
        velocity=still,
        acceleration=still,
        swing=still,
        swing_rate=still,
        swing_phase=still,
    )


def joined(groups: Sequence[Planes]) -> Planes:
    """All planes of several groups, in their order."""
    columns = {item.name: [getattr(group, item.name) for group in groups] for item in fields(Planes)}
    return Planes(**{name: torch.cat(column, dim=1) for name, column in columns.items()})


def standing(width: Tensor, height: Tensor) -> Tensor:
    """Extent of rectangles that stand on their pivot: `[B, n, 4]`."""
    return torch.stack([-0.5 * width, -height, 0.5 * width, torch.zeros_like(width)], dim=-1)


def fitted(extent: Tensor, flip: Tensor | None = None) -> Tensor:
    """Maps under which a texture fills a rectangle, mirrored left to right where `flip`: `[B, n, 2, 3]`."""
    u_min, v_min, u_max, v_max = extent.unbind(-1)
    zero = torch.zeros_like(u_min)
    wide, tall = u_max - u_min, v_max - v_min
    scale, start = 1.0 / wide, -u_min / wide
    if flip is not None:
        scale, start = torch.where(flip, -scale, scale), torch.where(flip, 1.0 - start, start)
    rows = [torch.stack([scale, zero, start], dim=-1), torch.stack([zero, 1.0 / tall, -v_min / tall], dim=-1)]
    return torch.stack(rows, dim=-2)


def tiled(metres_u: Tensor, metres_v: Tensor, start_u: Tensor, start_v: Tensor, turn: Tensor | None = None) -> Tensor:
    """Maps under which a texture repeats every so many metres, turned by an angle: `[B, n, 2, 3]`."""
    turn = torch.zeros_like(metres_u) if turn is None else turn
    rows = [
        torch.stack([turn.cos() / metres_u, -turn.sin() / metres_u, start_u], dim=-1),
        torch.stack([turn.sin() / metres_v, turn.cos() / metres_v, start_v], dim=-1),
    ]
    return torch.stack(rows, dim=-2)


def at(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Points `[B, n, 3]` from coordinates `[B, n]`."""
    return torch.stack([x, y, z], dim=-1)
