"""Batches of planes that make up worlds, each with its appearance and its own motion.

Convention
    World axes as in `qrsc.simulate.camera.pinhole`: X to the right, Y down, Z ahead, metres; the ground is at y = 0.
    A plane's own coordinates (u, v) are in metres from its pivot, about which it turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from qrsc.simulate.paint.library import PaintedObject
from qrsc.simulate.render.surfaces import OPAQUE

NOWHERE = (1.0, 1.0, -1.0, -1.0)  # an empty extent


@dataclass(frozen=True)
class Draw:
    """Random numbers for a batch, float64 on the CPU; the order of the calls matters."""

    batch: int
    generator: torch.Generator

    def uniform(self, low: float, high: float, count: int) -> Tensor:
        """`[B, n]`, uniform between two bounds."""
        return low + (high - low) * self._rand(count)

    def spread(self, low: float, high: float, count: int) -> Tensor:
        """`[B, n]`, log-uniform between two positive bounds."""
        return low * (high / low) ** self._rand(count)

    def normal(self, *shape: int) -> Tensor:
        """`[B, ...]`, mean 0 and standard deviation 1."""
        return torch.randn(self.batch, *shape, generator=self.generator, dtype=torch.float64)

    def chance(self, share: float, count: int) -> Tensor:
        """`[B, n]`, true with probability `share`."""
        return self._rand(count) < share

    def one_of(self, numbers: Sequence[int], count: int) -> Tensor:
        """`[B, n]`, int64: random entries of a list."""
        table = torch.tensor(list(numbers))
        return table[torch.randint(len(table), (self.batch, count), generator=self.generator)]

    def painted_object(self, things: Sequence[PaintedObject], count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Texture, mask, width and height of random entries of a list: `[B, n]` each."""
        number = torch.randint(len(things), (self.batch, count), generator=self.generator)
        columns = [
            torch.tensor([painted_object.texture for painted_object in things])[number],
            torch.tensor([painted_object.mask for painted_object in things])[number],
        ]
        sizes = torch.tensor(
            [[painted_object.width, painted_object.height] for painted_object in things], dtype=torch.float64
        )[number]
        return columns[0], columns[1], sizes[..., 0], sizes[..., 1]

    def _rand(self, count: int) -> Tensor:
        return torch.rand(self.batch, count, generator=self.generator, dtype=torch.float64)


@dataclass(frozen=True)
class Planes:
    """A batch of planes; `[B, n]` of them.

    Attributes:
        pivot: `[B, n, 3]`.
        axis_u, axis_v: `[B, n, 3]`, unit vectors along which u and v are measured.
        extent: `[B, n, 4]`, as in `Surface`.
        texture, mask: `[B, n]`, int64.
        texture_map, mask_map: `[B, n, 2, 3]`.
        gain, offset: `[B, n, 3]`.
        velocity, acceleration: `[B, n, 5]`, of the coordinates of an object (see `qrsc.simulate.camera.motion_paths`),
            per frame interval and per frame interval squared.
        swing, swing_rate, swing_phase: `[B, n, 5]`, amplitude, frequency and phase of an added oscillation.
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
    """Create vertical planes that do not move.

    Args:
        pivot: `[B, n, 3]`.
        facing: `[B, n]`, rotation about the vertical of a plane that faces the camera.
        extent, texture, texture_map, mask, mask_map: as in `Planes`; opaque if there is no mask.
        present: `[B, n]`, bool: false leaves the plane out.
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
    """Concatenate several groups of planes."""
    columns = {item.name: [getattr(group, item.name) for group in groups] for item in fields(Planes)}
    return Planes(**{name: torch.cat(column, dim=1) for name, column in columns.items()})


def standing(width: Tensor, height: Tensor) -> Tensor:
    """Extent of rectangles that stand on their pivot: `[B, n, 4]`."""
    return torch.stack([-0.5 * width, -height, 0.5 * width, torch.zeros_like(width)], dim=-1)


def fitted(extent: Tensor, flip: Tensor | None = None) -> Tensor:
    """Texture maps that fill a rectangle, mirrored left to right where `flip` is true: `[B, n, 2, 3]`."""
    u_min, v_min, u_max, v_max = extent.unbind(-1)
    zero = torch.zeros_like(u_min)
    wide, tall = u_max - u_min, v_max - v_min
    scale, start = 1.0 / wide, -u_min / wide
    if flip is not None:
        scale, start = torch.where(flip, -scale, scale), torch.where(flip, 1.0 - start, start)
    rows = [torch.stack([scale, zero, start], dim=-1), torch.stack([zero, 1.0 / tall, -v_min / tall], dim=-1)]
    return torch.stack(rows, dim=-2)


def tiled(metres_u: Tensor, metres_v: Tensor, start_u: Tensor, start_v: Tensor, turn: Tensor | None = None) -> Tensor:
    """Texture maps that repeat after `metres_u` and `metres_v`, rotated by `turn`: `[B, n, 2, 3]`."""
    turn = torch.zeros_like(metres_u) if turn is None else turn
    rows = [
        torch.stack([turn.cos() / metres_u, -turn.sin() / metres_u, start_u], dim=-1),
        torch.stack([turn.sin() / metres_v, turn.cos() / metres_v, start_v], dim=-1),
    ]
    return torch.stack(rows, dim=-2)


def at(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """Points `[B, n, 3]` from coordinates `[B, n]`."""
    return torch.stack([x, y, z], dim=-1)
