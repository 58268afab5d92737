"""Ground truth of a scene: exact flows, fields, visibility, depth, velocity and acceleration.

Convention
    A flow or a field `[B, 2, H, W]` (dx, dy) in pixels is defined on the grid of its source picture, and points to the
    position of the same surface point in the target picture. It is defined wherever the pixel sees a surface that stays
    in front of the camera, even if the point lands outside the target picture or is occluded there: `visible` tells.
    It belongs to the surface at the centre of the pixel. Times are absolute, in frame intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qrsc.simulate.paint.gather import weighted_rows
from qrsc.simulate.render.rays import Picks, cast, depth_within, inverse_rows, mask_opacity, pixel_grid, surface_groups
from qrsc.simulate.render.rows import instant, row_times
from qrsc.simulate.render.surfaces import OPAQUE, Scene
from qrsc.timing import Readout

# Newton steps on the landing time. The row of a point is nearly linear in time over one step, so that each step squares
# the error: after three, only rounding is left at 150 px per frame interval.
LANDING_STEPS = 3
# Largest length of the last step, in pixels, for a point to count as landed.
LANDED = 0.1


@dataclass(frozen=True)
class SeenPoints:
    """The surface points at the pixel centres of a picture.

    Attributes:
        surface: `[B, H, W]`, int64: number of the nearest surface, 0 where there is none.
        u, v: `[B, H, W]`, coordinates on it.
        inverse_depth: `[B, H, W]`, 0 where there is no surface.
    """

    surface: Tensor
    u: Tensor
    v: Tensor
    inverse_depth: Tensor


@dataclass(frozen=True)
class Kinematics:
    """Motion of the surface point at each pixel, at the time of its exposure.

    Attributes:
        velocity: `[B, 2, H, W]`, pixels per frame interval.
        acceleration: `[B, 2, H, W]`, pixels per frame interval squared.
        depth: `[B, 1, H, W]`, in the units of the scene; 0 where there is no surface.
    """

    velocity: Tensor
    acceleration: Tensor
    depth: Tensor


def rs_flow(scene: Scene, readout: Readout, source: int, target: int) -> tuple[Tensor, Tensor]:
    """Flow from one rolling-shutter frame to another.

    A point lands in the other frame on the row that is exposed when the point is there. Newton's method solves for
    that time, to rounding.

    Returns:
        flow: `[B, 2, H, W]`.
        visible: `[B, 1, H, W]`, bool: lands inside the other frame and is not occluded there.
    """
    times = row_times(scene, readout, source)
    return _displacement(scene, times, row_times(scene, readout, target), readout, target)


def correction_field(scene: Scene, readout: Readout, frame: int, time: float) -> tuple[Tensor, Tensor]:
    """Field from a rolling-shutter frame to the global-shutter frame at a time, on the rolling-shutter grid.

    Returns:
        correction_field: `[B, 2, H, W]`.
        visible: `[B, 1, H, W]`, bool, as for `rs_flow`.
    """
    return _displacement(scene, row_times(scene, readout, frame), instant(scene, time), Readout(0.0), time)


def distortion_field(scene: Scene, readout: Readout, frame: int, time: float) -> tuple[Tensor, Tensor]:
    """Field from the global-shutter frame at a time to a rolling-shutter frame, on the global-shutter grid.

    Returns:
        distortion_field: `[B, 2, H, W]`, what a backward warp samples the rolling-shutter frame with.
        visible: `[B, 1, H, W]`, bool, as for `rs_flow`.
    """
    return _displacement(scene, instant(scene, time), row_times(scene, readout, frame), readout, frame)


def rs_kinematics(scene: Scene, readout: Readout, frame: int) -> Kinematics:
    """Velocity, acceleration and depth of the points in a rolling-shutter frame."""
    return _kinematics(scene, row_times(scene, readout, frame))


def gs_kinematics(scene: Scene, time: float) -> Kinematics:
    """Velocity, acceleration and depth of the points in the global-shutter frame at a time."""
    return _kinematics(scene, instant(scene, time))


def seen_points(scene: Scene, times: Tensor) -> SeenPoints:
    """Surface points at the pixel centres when rows are exposed at times `[H, 1]` (or `[1, W]` for columns)."""
    inverse = inverse_rows(scene, times)
    x, y = pixel_grid(scene)
    depths = x.new_zeros((scene.count, scene.batch, *scene.size))
    for group in surface_groups(scene):
        depths[group] = depth_within(scene, group, inverse[group], x, y)
    picks = Picks.where((depths > 0) & _has_mask(scene))
    hits = cast(picks.matrices(inverse), x.flatten()[picks.column], y.flatten()[picks.row])
    solid = mask_opacity(scene, picks, hits) >= 0.5
    depths[picks.surface, picks.scene, picks.row, picks.column] = torch.where(solid, hits.inverse_depth, 0.0)
    inverse_depth, nearest = depths.max(dim=0)
    whole = Picks.where(torch.ones_like(nearest, dtype=torch.bool)[None])
    own = replace(whole, surface=nearest.flatten())
    place = cast(own.matrices(inverse), x.expand_as(nearest).flatten(), y.expand_as(nearest).flatten())
    return SeenPoints(nearest, place.u.reshape(nearest.shape), place.v.reshape(nearest.shape), inverse_depth)


def _has_mask(scene: Scene) -> Tensor:
    """Which surfaces have a mask: `[S, B, 1, 1]`, bool."""
    return (scene.surfaces.mask != OPAQUE).t()[:, :, None, None]


def _displacement(
    scene: Scene, times: Tensor, target_times: Tensor, readout: Readout, start: float
) -> tuple[Tensor, Tensor]:
    """Displacement of the points seen at `times` to the picture whose `readout` begins at `start`."""
    seen = seen_points(scene, times)
    place, inverse_depth, landed = _land(scene, seen, readout, start)
    x, y = pixel_grid(scene)
    flow = torch.stack([place[0] - x, place[1] - y], dim=1)
    height, width = scene.size
    within = (place[0] >= 0) & (place[0] <= width - 1) & (place[1] >= 0) & (place[1] <= height - 1)
    known = (seen.inverse_depth > 0) & landed
    occluded = _occluded(scene, seen.surface, place, inverse_depth, target_times)
    return torch.where(known[:, None], flow, 0.0), (known & within & ~occluded)[:, None]


def _land(scene: Scene, seen: SeenPoints, readout: Readout, start: float) -> tuple[Tensor, Tensor, Tensor]:
    """Position `[2, B, H, W]`, inverse depth and success (`[B, H, W]`) of points in a picture read by `readout`."""
    height, width = scene.size
    axis = 0 if readout.sideways else 1
    slope = readout.time_per_pixel(height, width)
    x, y = pixel_grid(scene)
    first_guess = start + readout.row_time(x if readout.sideways else y, height, width)
    times = first_guess.expand(scene.batch, height, width)
    for _ in range(LANDING_STEPS if slope != 0 else 1):
        point, speed = scene.curve.follow(seen.surface, seen.u, seen.v, times, order=1)
        place, inverse_depth = _projected(point)
        velocity = (speed[:2] - place * speed[2]) * inverse_depth
        late = times - start - readout.row_time(place[axis], height, width)
        rate = 1.0 - slope * velocity[axis]
        # A point that moves with the scan never lands; the clamps keep its iteration finite.
        step = -(late / torch.where(rate.abs() < 0.05, 0.05, rate)).clamp(-1.0, 1.0)
        times = times + step
    # The path is straight over the short last step: the point need not be looked up again.
    landed = (point[2] > 0) & ((velocity * step).square().sum(0) < LANDED**2)
    return place + velocity * step, 1.0 / torch.where(landed, point[2] + speed[2] * step, 1.0), landed


def _projected(point: Tensor) -> tuple[Tensor, Tensor]:
    """Pixel `[2, B, H, W]` and inverse depth `[B, H, W]` of `(d x, d y, d)`; zeros where d is not positive."""
    ahead = point[2] > 0
    inverse_depth = torch.where(ahead, 1.0 / torch.where(ahead, point[2], 1.0), 0.0)
    return point[:2] * inverse_depth, inverse_depth


def _occluded(scene: Scene, surface: Tensor, place: Tensor, inverse_depth: Tensor, times: Tensor) -> Tensor:
    """Whether another surface occludes points in a picture exposed at `times`; `[B, H, W]`, bool.

    A point lands between two rows. Occlusion is tested with a homography interpolated between these two rows: they
    differ by the motion within a row, so that the error is quadratic in it, far below a hundredth of a pixel.
    """
    inverse = inverse_rows(scene, times)
    rows = times.numel()
    table = inverse.reshape(scene.count, scene.batch, 9, rows).transpose(2, 3).reshape(scene.count, -1, 9)
    coordinate = (place[0] if times.shape[0] == 1 else place[1]).clamp(0, rows - 1)
    lower = coordinate.floor().clamp_max(max(rows - 2, 0))
    first = (lower.long() + rows * torch.arange(scene.batch, device=scene.device).reshape(-1, 1, 1)).flatten()
    index = torch.stack([first, (first + 1).clamp_max(table.shape[1] - 1)], dim=1)  # [P, 2]
    upper_part = (coordinate - lower).flatten()
    weight = torch.stack([1.0 - upper_part, upper_part], dim=1)
    nearer = torch.zeros((scene.count, *surface.shape), dtype=torch.bool, device=scene.device)
    numbers = torch.arange(scene.count, device=scene.device).reshape(-1, 1, 1, 1)
    for group in surface_groups(scene):
        mixed = weighted_rows(index, table[group], weight)  # [G, 9, P]
        matrices = mixed.reshape(-1, 3, 3, *surface.shape).permute(0, 3, 1, 2, 4, 5)
        ahead = depth_within(scene, group, matrices, place[0], place[1]) > inverse_depth
        nearer[group] = ahead & (surface != numbers[group])
    picks = Picks.where(nearer & _has_mask(scene))
    if picks.pixel.numel() == 0:
        return nearer.any(dim=0)
    chosen = index[picks.pixel] + (picks.surface * table.shape[1])[:, None]
    mixed = weighted_rows(chosen, table.flatten(0, 1)[None], weight[picks.pixel])[0]  # [9, M]
    hits = cast(mixed.t().reshape(-1, 3, 3), place[0].flatten()[picks.pixel], place[1].flatten()[picks.pixel])
    nearer[picks.surface, picks.scene, picks.row, picks.column] = mask_opacity(scene, picks, hits) >= 0.5
    return nearer.any(dim=0)


def _kinematics(scene: Scene, times: Tensor) -> Kinematics:
    seen = seen_points(scene, times)
    expanded = times.to(scene.dtype).expand(scene.batch, *scene.size)
    point, speed, change = scene.curve.follow(seen.surface, seen.u, seen.v, expanded, order=2)
    place, inverse_depth = _projected(point)
    velocity = (speed[:2] - place * speed[2]) * inverse_depth
    acceleration = (change[:2] - 2.0 * velocity * speed[2] - place * change[2]) * inverse_depth
    known = seen.inverse_depth > 0
    return Kinematics(
        torch.where(known, velocity, 0.0).transpose(0, 1),
        torch.where(known, acceleration, 0.0).transpose(0, 1),
        torch.where(known, point[2], 0.0)[:, None],
    )
