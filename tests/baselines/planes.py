"""Upright planes at several depths, seen by a camera that moves at a constant velocity."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.simulate.camera.curves import sampled_curve
from qrsc.simulate.camera.pinhole import plane_homographies, rotation_matrices
from qrsc.simulate.paint.atlas import build_atlas
from qrsc.simulate.paint.textures import band_limited
from qrsc.simulate.render.surfaces import INFINITE, Scene, Surface, Surfaces

SIZE = (120, 160)
FOCAL = 160.0
CENTRE = ((SIZE[1] - 1) / 2, (SIZE[0] - 1) / 2)
NEAR = ((-9.0, -9.0, 0.0, 0.4), (0.3, -1.5, 9.0, 0.9))  # extents (u, v) of the planes before the wall, metres


def planes_scene(
    depths: tuple[float, ...] = (12.0, 4.0, 6.0),
    drift: tuple[float, float, float] = (0.25, 0.06, 0.0),
    turn: tuple[float, float, float] = (0.02, 0.008, 0.004),
    acceleration: float = 0.0,
) -> Scene:
    """A wall and up to two planes before it.

    Args:
        depths: metres; the wall comes first.
        drift, turn: of the camera in a frame interval: x, y, z in metres, yaw, pitch, roll in radians.
        acceleration: k, the change of the speed in a frame interval over the speed at time 1.
    """
    generator = torch.Generator().manual_seed(0)
    steps = torch.tensor([*turn, *drift], dtype=torch.float64)

    def matrices(times: Tensor) -> Tensor:
        since = times - 1.0
        passed = (since + 0.5 * acceleration * since.square()) * 2.0 / (2.0 + acceleration)
        motion = steps[:, None] * passed
        rotation = rotation_matrices(*motion[:3, None])
        origin = torch.tensor([[0.0, 0.0, depth] for depth in depths], dtype=torch.float64)
        axes = torch.eye(3, dtype=torch.float64)
        shape = (1, len(depths), len(times), 3)
        return plane_homographies(
            torch.full((1, len(times)), FOCAL, dtype=torch.float64),
            torch.tensor([CENTRE], dtype=torch.float64),
            rotation,
            motion[3:].T[None],
            origin[None, :, None].expand(shape),
            axes[0].expand(shape),
            axes[1].expand(shape),
        )

    extents = [INFINITE, *NEAR][: len(depths)]
    # About a texel for each pixel.
    surfaces = [
        Surface(extent, 0, ((FOCAL / depth / 256, 0.0, 0.1), (0.0, FOCAL / depth / 256, 0.2)))
        for extent, depth in zip(extents, depths, strict=True)
    ]
    return Scene(
        SIZE,
        sampled_curve(matrices, -2.0, 5.0),
        Surfaces.of([surfaces]),
        build_atlas([band_limited(256, 256, generator)]),
        build_atlas([torch.ones(1, 1, 1)]),
        torch.full((1, 3), 0.5),
    ).to("cpu", torch.float64)
