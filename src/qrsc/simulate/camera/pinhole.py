"""A pinhole camera that moves through a world of planes.

Convention
    World and camera axes: X to the right, Y down, Z ahead; lengths in metres. Yaw turns the view to the right, pitch
    up, roll turns the camera clockwise as seen from behind it. Times are absolute, in frame intervals.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rotation_matrices(yaw: Tensor, pitch: Tensor, roll: Tensor) -> Tensor:
    """Rotations from the world to the camera.

    Args:
        yaw, pitch, roll: angles in radians, all of one shape.

    Returns:
        `[..., 3, 3]`.
    """
    zero, one = torch.zeros_like(yaw), torch.ones_like(yaw)
    about_y = _matrix([[yaw.cos(), zero, yaw.sin()], [zero, one, zero], [-yaw.sin(), zero, yaw.cos()]])
    about_x = _matrix([[one, zero, zero], [zero, pitch.cos(), -pitch.sin()], [zero, pitch.sin(), pitch.cos()]])
    about_z = _matrix([[roll.cos(), -roll.sin(), zero], [roll.sin(), roll.cos(), zero], [zero, zero, one]])
    return (about_y @ about_x @ about_z).transpose(-1, -2)


def plane_homographies(
    focal: Tensor, centre: Tensor, rotation: Tensor, position: Tensor, origin: Tensor, axis_u: Tensor, axis_v: Tensor
) -> Tensor:
    """Homographies of planes seen by a moving camera.

    Args:
        focal: `[B, N]`, focal length in pixels at each of N times.
        centre: `[B, 2]`, principal point (x, y) in pixels.
        rotation: `[B, N, 3, 3]`, from the world to the camera.
        position: `[B, N, 3]`, of the camera in the world.
        origin: `[B, S, N, 3]`, the world point with (u, v) = (0, 0) of each plane.
        axis_u, axis_v: `[B, S, N, 3]`, the world vectors along which u and v are measured.

    Returns:
        `[B, S, N, 3, 3]`, from (u, v, 1) to (depth x, depth y, depth).
    """
    frame = torch.stack([axis_u, axis_v, origin - position[:, None]], dim=-1)  # [B, S, N, 3, 3]
    seen = rotation[:, None] @ frame
    depth = seen[..., 2, :]
    x = focal[:, None, :, None] * seen[..., 0, :] + centre[:, None, None, 0:1] * depth
    y = focal[:, None, :, None] * seen[..., 1, :] + centre[:, None, None, 1:2] * depth
    return torch.stack([x, y, depth], dim=-2)


def _matrix(rows: list[list[Tensor]]) -> Tensor:
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)
