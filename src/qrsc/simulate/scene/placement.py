"""Placement and motion of the objects in a random world.

Every function returns a group of `Planes` for the whole batch. `plan` is the kind of place: 0 a street along the view,
1 a square with house fronts ahead, 2 open ground, 3 a close view of a wall. `reach` scales distances up for cameras
that fly high.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from qrsc.simulate.paint.library import PaintedObject, TextureLibrary
from qrsc.simulate.scene.furniture import Draw, Planes, at, fitted, standing, tiled, upright

STREET, SQUARE, OPEN, CLOSE = range(4)
# Swing amplitude of vehicles, people, trees and other shapes: metres along x, y and z, radians of turn and spin.
SWINGS = (
    (0.0, 0.01, 0.0, 0.0, 0.003),
    (0.01, 0.02, 0.0, 0.05, 0.02),
    (0.01, 0.0, 0.0, 0.02, 0.01),
    (0.1, 0.1, 0.05, 0.2, 0.2),
)


def backdrops(draw: Draw, textures: TextureLibrary) -> Planes:
    """Three infinite vertical planes, far away, that enclose the view on all sides."""
    number = torch.arange(3)
    far = draw.spread(120.0, 300.0, 1).expand(-1, 3)
    angle = draw.uniform(0.0, 2.0 * math.pi, 1) + number * (2.0 * math.pi / 3.0)
    zero = torch.zeros_like(angle)
    # From edge to edge, a plane measures 2 sqrt(3) times its distance. With two thirds of a mirrored pair of textures
    # on each, the pattern closes after three planes, and no seam shows.
    across = far * (2.0 * math.sqrt(3.0) * 3.0 / 4.0)
    start = (number + 0.5) * (4.0 / 3.0) + draw.uniform(0.0, 2.0, 1)
    infinite = torch.tensor([-math.inf, -math.inf, math.inf, math.inf], dtype=torch.float64).expand(draw.batch, 3, 4)
    return upright(
        pivot=at(far * angle.sin(), zero, far * angle.cos()),
        facing=angle,
        extent=infinite,
        texture=draw.one_of(textures.backdrops, 1).expand(-1, 3),
        texture_map=tiled(across, 0.5 * across, start, zero + 0.5),
    )


def ground(draw: Draw, textures: TextureLibrary, plan: Tensor, half_width: Tensor, reach: Tensor) -> Planes:
    """The ground: a road between the kerbs of a street, or an infinite textured plane."""
    zero = torch.zeros_like(half_width)
    road = (plan == STREET) & draw.chance(0.8, 1)
    # The middle of a road texture is at t = 1, where it is mirrored: from kerb to kerb, t runs from 0 to 2.
    along = tiled(2.0 * half_width, half_width, draw.uniform(0.0, 1.0, 1), zero + 1.0, zero + 0.5 * math.pi)
    metres = draw.spread(2.0, 8.0, 1) * reach.sqrt()
    turned = tiled(metres, metres, draw.uniform(0.0, 1.0, 1), draw.uniform(0.0, 1.0, 1), draw.uniform(0.0, 6.3, 1))
    plane = upright(
        pivot=at(zero, zero, zero),
        facing=zero,
        extent=torch.tensor([-math.inf, -math.inf, math.inf, math.inf], dtype=torch.float64).expand(draw.batch, 1, 4),
        texture=torch.where(road, draw.one_of(textures.roads, 1), draw.one_of(textures.grounds, 1)),
        texture_map=torch.where(road[..., None, None], along, turned),
    )
    return replace(plane, axis_v=at(zero, zero, zero + 1.0))


def walls(draw: Draw, textures: TextureLibrary, plan: Tensor, half_width: Tensor, reach: Tensor) -> Planes:
    """Two walls: the sides of a street, house fronts across a square, or a nearby wall."""
    side = torch.tensor([[-1.0, 1.0]], dtype=torch.float64).expand(draw.batch, 2)
    street, close, empty = plan == STREET, plan == CLOSE, plan == OPEN
    texture, _, width, height = draw.painted_object(textures.fronts, 2)
    plain = draw.chance(0.4, 2) | close
    distance = torch.where(close, draw.uniform(2.5, 6.0, 2), draw.spread(7.0, 30.0, 2) * reach)
    distance = torch.cat([distance[:, :1], distance[:, 1:] + torch.where(close, 4.0, 0.0)], dim=1)
    x = torch.where(street, side * half_width, side * draw.uniform(0.0, 9.0, 2) * reach)
    x = torch.where(close & (side < 0), 0.0, x)
    z = torch.where(street, 0.0, distance)
    facing = torch.where(street, -side * (0.5 * math.pi), 0.35 * draw.normal(2))
    facing = torch.where(close, 0.4 * facing, facing)
    long = torch.where(street, 130.0, torch.where(close, 14.0, draw.uniform(8.0, 24.0, 2)))
    tall = torch.where(plain, draw.uniform(2.0, 9.0, 2), height)
    tall = torch.where(close, 8.0, tall)
    extent = standing(long, tall)
    shift = torch.where(street, 45.0 * side, torch.zeros_like(x))
    extent = extent + torch.stack([shift, torch.zeros_like(shift), shift, torch.zeros_like(shift)], dim=-1)
    metres = torch.where(close, draw.spread(1.5, 6.0, 2), draw.spread(2.5, 7.0, 2))
    start = draw.uniform(0.0, 1.0, 2)
    covered = tiled(metres, metres, start, draw.uniform(0.0, 1.0, 2))
    return upright(
        pivot=at(x, torch.zeros_like(x), z),
        facing=facing,
        extent=extent,
        texture=torch.where(plain, draw.one_of(textures.walls, 2), texture),
        texture_map=torch.where(plain[..., None, None], covered, tiled(width, height, start, torch.ones_like(x))),
        present=~(empty & draw.chance(0.8, 2)),
    )


def objects(draw: Draw, textures: TextureLibrary, plan: Tensor, reach: Tensor) -> Planes:
    """Vehicles, people, trees and cut-out shapes on the ground, most of them moving; four in each world."""
    nearest = torch.where(plan == CLOSE, 1.2, 3.5)
    distance = nearest * (torch.where(plan == CLOSE, 3.0, 9.0) ** draw.uniform(0.0, 1.0, 4)) * reach
    x = distance * draw.uniform(-0.75, 0.75, 4)
    cut = draw.chance(0.4, 4)
    kind = draw.one_of([0, 0, 1, 2], 4)  # vehicle, person, tree
    painted = [draw.painted_object(group, 4) for group in (textures.vehicles, textures.people, textures.trees)]
    texture, mask, width, height = (
        torch.where(kind == 0, cars, torch.where(kind == 1, people, trees))
        for cars, people, trees in zip(*painted, strict=True)
    )
    side = draw.spread(0.4, 3.0, 4) * torch.where(plan == CLOSE, 0.25, 1.0)
    width, height = torch.where(cut, side, width), torch.where(cut, side * draw.spread(0.5, 2.0, 4), height)
    width, height = width * draw.spread(0.85, 1.2, 1), height * draw.spread(0.9, 1.1, 1)
    extent = standing(width, height)
    raised = torch.where(cut, -draw.uniform(0.0, 2.0, 4), 0.0)
    flip = draw.chance(0.5, 4)
    shown = tiled(width * draw.spread(0.7, 2.0, 4), height * draw.spread(0.7, 2.0, 4), draw.uniform(0, 1, 4), 0 * x)
    planes = upright(
        pivot=at(x, raised, distance),
        facing=draw.normal(4) * torch.where(cut, 0.5, 0.3),
        extent=extent,
        texture=torch.where(cut, draw.one_of(textures.anything, 4), texture),
        texture_map=torch.where(cut[..., None, None], shown, fitted(extent, flip)),
        mask=torch.where(cut, draw.one_of(textures.outlines, 4), mask),
        mask_map=fitted(extent, flip),
        present=draw.chance(0.75, 4),
    )
    return _moving(draw, planes, torch.where(cut, 3, kind), flip)


def _moving(draw: Draw, planes: Planes, kind: Tensor, flip: Tensor) -> Planes:
    """Add motion by kind: 0 vehicles, 1 people, 2 trees, 3 other shapes."""
    count = kind.shape[1]
    speed = torch.tensor([0.3, 0.05, 0.0, 0.08], dtype=torch.float64)[kind] * draw.normal(count).abs()
    speed = speed * torch.where(draw.chance(0.12, count), 4.0, 1.0) * draw.chance(0.7, count)
    forward = torch.where(flip, -speed, speed)
    velocity = torch.cat([planes.axis_u * forward[..., None], torch.zeros(draw.batch, count, 2)], dim=-1)
    acceleration = velocity * (0.25 * draw.normal(count) * draw.chance(0.5, count))[..., None]
    free = (kind == 3)[..., None]
    velocity = velocity + free * draw.normal(count, 5) * torch.tensor([0.05, 0.03, 0.04, 0.03, 0.03])
    acceleration = acceleration + free * draw.normal(count, 5) * torch.tensor([0.01, 0.008, 0.01, 0.006, 0.006])
    swing = torch.tensor(SWINGS, dtype=torch.float64)[kind] * draw.normal(count, 5) * draw.chance(0.5, count)[..., None]
    rate = draw.spread(0.03, 0.3, 5 * count).reshape(-1, count, 5)
    phase = draw.uniform(0.0, 2.0 * math.pi, 5 * count).reshape(-1, count, 5)
    return replace(
        planes, velocity=velocity, acceleration=acceleration, swing=swing, swing_rate=rate, swing_phase=phase
    )


def shadows(textures: TextureLibrary, moving: Planes) -> Planes:
    """Soft shadows on the ground that follow the objects above them."""
    width = 1.25 * (moving.extent[..., 2] - moving.extent[..., 0])
    depth = 0.3 * width + 0.3
    extent = torch.stack([-0.5 * width, -0.5 * depth, 0.5 * width, 0.5 * depth], dim=-1)
    on_ground = moving.pivot[..., 1] > -0.05
    zero = torch.zeros_like(width)
    flat = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    planes = upright(
        # Slightly above the ground, so that the shadow stays in front of it despite rounding.
        pivot=at(moving.pivot[..., 0], zero - 0.004, moving.pivot[..., 2]),
        facing=zero,
        extent=extent,
        texture=moving.texture,
        texture_map=torch.zeros_like(moving.texture_map),
        mask=torch.full_like(moving.mask, textures.shadow),
        mask_map=fitted(extent),
        present=on_ground & (width > 0),
    )
    axis_v = torch.stack([-moving.axis_u[..., 2], zero, moving.axis_u[..., 0]], dim=-1)
    return replace(
        planes,
        axis_u=moving.axis_u,
        axis_v=axis_v,
        gain=torch.zeros_like(planes.gain),
        velocity=moving.velocity * flat,
        acceleration=moving.acceleration * flat,
        swing=moving.swing * flat,
        swing_rate=moving.swing_rate,
        swing_phase=moving.swing_phase,
    )


def signs(draw: Draw, textures: TextureLibrary, reach: Tensor) -> Planes:
    """A board above the ground, with writing or a picture, static or swinging."""
    distance = draw.spread(3.0, 20.0, 1) * reach
    wide = draw.spread(0.5, 3.0, 1)
    tall = wide * draw.spread(0.4, 1.5, 1)
    extent = torch.stack([-0.5 * wide, -0.5 * tall, 0.5 * wide, 0.5 * tall], dim=-1)
    part = draw.spread(1.0, 2.0, 1)
    plane = upright(
        pivot=at(distance * draw.uniform(-0.6, 0.6, 1), -draw.uniform(1.0, 4.0, 1), distance),
        facing=0.5 * draw.normal(1),
        extent=extent,
        texture=draw.one_of(textures.anything, 1),
        texture_map=tiled(wide * part, tall * part, draw.uniform(0.3, 0.7, 1), draw.uniform(0.3, 0.7, 1)),
        present=draw.chance(0.4, 1),
    )
    return _moving(draw, plane, torch.where(draw.chance(0.5, 1), 3, 2), draw.chance(0.5, 1))


def poles(draw: Draw, textures: TextureLibrary, plan: Tensor, half_width: Tensor, reach: Tensor) -> Planes:
    """Three thin vertical posts, along the kerb of a street or anywhere."""
    distance = draw.spread(3.0, 25.0, 3) * reach
    side = torch.where(draw.chance(0.5, 3), -1.0, 1.0)
    x = torch.where(plan == STREET, side * 0.6 * half_width, distance * draw.uniform(-0.8, 0.8, 3))
    wide, tall = draw.spread(0.04, 0.3, 3), draw.uniform(2.5, 8.0, 3) * reach.sqrt()
    extent = standing(wide, tall)
    return upright(
        pivot=at(x, torch.zeros_like(x), distance),
        facing=torch.zeros_like(x),
        extent=extent,
        texture=draw.one_of(textures.posts, 1).expand(-1, 3),
        texture_map=fitted(extent),
        present=draw.chance(0.65, 3) & (plan != CLOSE),
    )


def railings(draw: Draw, textures: TextureLibrary, plan: Tensor, half_width: Tensor, reach: Tensor) -> Planes:
    """A railing or fence, along the street or across the view."""
    side = torch.where(draw.chance(0.5, 1), -1.0, 1.0)
    along = plan == STREET
    distance = draw.spread(2.5, 12.0, 1) * reach
    zero = torch.zeros_like(distance)
    tall = draw.uniform(0.8, 1.6, 1)
    extent = standing(torch.where(along, 60.0, draw.uniform(4.0, 15.0, 1)), tall)
    post = tiled(zero + 2.0, tall, zero, zero + 1.0)
    return upright(
        pivot=at(
            torch.where(along, side * 0.55 * half_width, distance * draw.uniform(-0.5, 0.5, 1)),
            zero,
            torch.where(along, zero + 20.0, distance),
        ),
        facing=torch.where(along, zero - 0.5 * math.pi, 0.4 * draw.normal(1)),
        extent=extent,
        texture=draw.one_of(textures.posts, 1),
        texture_map=tiled(zero + 9.0, zero + 9.0, zero, zero),
        mask=draw.one_of(textures.lattices, 1),
        mask_map=post,
        present=draw.chance(0.4, 1),
    )


def near_leaves(draw: Draw, textures: TextureLibrary, flying: Tensor) -> Planes:
    """A swaying branch that hangs into the view."""
    distance = draw.spread(2.0, 9.0, 1)
    wide, tall = distance * draw.uniform(0.4, 1.1, 1), distance * draw.uniform(0.3, 0.7, 1)
    extent = torch.stack([-0.5 * wide, -0.5 * tall, 0.5 * wide, 0.5 * tall], dim=-1)
    metres = draw.spread(1.0, 2.5, 1)
    start = draw.uniform(0.0, 1.0, 1)
    trees: tuple[PaintedObject, ...] = textures.trees
    plane = upright(
        pivot=at(distance * draw.uniform(-0.6, 0.6, 1), -1.6 - distance * draw.uniform(0.1, 0.5, 1), distance),
        facing=0.3 * draw.normal(1),
        extent=extent,
        texture=draw.one_of([tree.texture for tree in trees], 1),
        texture_map=tiled(2.0 * metres, 2.0 * metres, start, draw.uniform(0.2, 0.3, 1)),
        mask=draw.one_of(textures.foliage, 1),
        mask_map=fitted(extent, draw.chance(0.5, 1)),
        present=draw.chance(0.35, 1) & ~flying,
    )
    return _moving(draw, plane, torch.full_like(plane.mask, 2), draw.chance(0.5, 1))


def light_up(draw: Draw, planes: Planes) -> Planes:
    """Light planes by one sun: brighter where they face it, all with the same colour of light.

    The first three planes, the backdrops, are not shaded, because they must match where they meet.
    """
    count = planes.texture.shape[1]
    near = torch.arange(count) >= 3
    sun = draw.uniform(0.0, 2.0 * math.pi, 1)
    across = torch.stack([planes.axis_u[..., 2], -planes.axis_u[..., 0]], dim=-1)  # the horizontal normal
    facing = (across[..., 0] * sun.sin() + across[..., 1] * sun.cos()).abs()
    shade = torch.where(near, (0.75 + 0.3 * facing) * (1.0 + 0.06 * draw.normal(count)), 1.0)
    tint = torch.where(near[:, None], 1.0 + 0.05 * draw.normal(count, 3), 1.0)
    light = draw.uniform(0.8, 1.3, 1)[..., None] * (1.0 + 0.05 * draw.normal(1, 3))
    return replace(planes, gain=planes.gain * light * shade[..., None] * tint)
