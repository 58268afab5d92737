"""The demonstration scene: a street filmed with a hand-held camera, with a van driving by."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.simulate.camera.curves import sampled_curve, sinusoids
from qrsc.simulate.camera.pinhole import plane_homographies, rotation_matrices
from qrsc.simulate.paint import street
from qrsc.simulate.paint.atlas import build_atlas
from qrsc.simulate.render.surfaces import INFINITE, OPAQUE, Rows, Scene, Surface, Surfaces

GROUND = 1.6  # metres below the camera
# Shake of the camera: amplitude in per cent of the picture's width, frequency in cycles per frame (times 30 for Hz).
# The fastest yaw is near 6 % of the width per frame: 38 px at 640.
YAW_SHAKE = ((8.0, 0.055), (2.5, 0.1), (0.3, 0.17))
PITCH_SHAKE = ((1.5, 0.05), (0.6, 0.09), (0.1, 0.16))
ROLL_SHAKE = ((0.9, 0.05), (0.3, 0.09))


def demo_scene(size: tuple[int, int] = (480, 640), frames: int = 30, seed: int = 0) -> Scene:
    """Create a street with straight posts, seen by a camera whose shake visibly bends them under a rolling shutter.

    Args:
        size: `(height, width)`; everything scales with the width.
        frames: number of frames to render; the scene is valid for times from -1 to `frames + 1`.
        seed: for the textures and the shake.
    """
    generator = torch.Generator().manual_seed(seed)
    placed, surfaces, colours, masks = _street(generator, frames)
    width = size[1]
    focal = 0.92 * width
    shake = _shake(generator, width, focal)
    centre = torch.tensor([[(width - 1) / 2, 0.57 * (size[0] - 1)]], dtype=torch.float64)

    def matrices(times: Tensor) -> Tensor:
        yaw, pitch, roll = (
            sinusoids(times, amplitude, frequency, phase)[None] for amplitude, frequency, phase in shake
        )
        rotation = rotation_matrices(yaw, pitch, roll)  # [1, N, 3, 3]
        # A slow walk to the right, with a slight bob from the steps.
        bob = 0.02 * torch.sin(2.0 * torch.pi * 0.06 * times)
        position = torch.stack([0.04 * times, bob, 0.0 * times], dim=-1)[None]
        origin, axis_u, axis_v = (value.expand(-1, -1, len(times), -1).clone() for value in placed[:, None])
        van_speed = torch.stack([0.16 * times, 0.0 * times, 0.0 * times], dim=-1)
        origin[:, -2:] += van_speed
        return plane_homographies(
            torch.full((1, len(times)), focal, dtype=torch.float64), centre, rotation, position, origin, axis_u, axis_v
        )

    return Scene(
        size,
        sampled_curve(matrices, -2.0, frames + 2.0),
        Surfaces.of([surfaces]),
        build_atlas(colours),
        build_atlas(masks),
        torch.full((1, 3), 0.5),
    )


def _shake(generator: torch.Generator, width: int, focal: float) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Amplitude (radians), frequency and phase of the components of yaw, pitch and roll."""
    shake = []
    for components in (YAW_SHAKE, PITCH_SHAKE, ROLL_SHAKE):
        table = torch.tensor(components, dtype=torch.float64)
        phase = 2.0 * torch.pi * torch.rand(len(components), generator=generator, dtype=torch.float64)
        shake.append((0.01 * table[:, 0] * width / focal, table[:, 1], phase))
    return shake


def _street(generator: torch.Generator, frames: int) -> tuple[Tensor, list[Surface], list[Tensor], list[Tensor]]:
    """Planes (origin, axis u, axis v as `[3, S, 1, 3]`), their appearance, colours and masks. The van comes last."""
    tree_colour, tree_mask = street.leaves(512, 512, generator)
    hill_colour, hill_mask = street.hills(256, 1024, generator)
    van_colour, van_mask = street.van(384, 1024, generator)
    colours = [
        street.sky(512, 1024, generator),
        hill_colour,
        street.house_front(1024, 1536, generator, storeys=3, bays=5, brick=(0.56, 0.3, 0.22), shop=(0.16, 0.3, 0.24)),
        street.house_front(768, 1536, generator, storeys=2, bays=5, brick=(0.66, 0.6, 0.47), shop=(0.45, 0.16, 0.14)),
        street.pavement(512, 2048, generator),
        street.post(1024, 16, generator),
        tree_colour,
        van_colour,
        torch.zeros(3, 1, 1),
    ]
    masks = [tree_mask, hill_mask, van_mask, street.soft_shadow(64, 128)]
    middle = 0.08 * frames  # puts the van in front of the camera halfway through the clip
    objects: list[tuple[tuple[float, float, float], str, Surface]] = [
        ((-400.0, -260.0, 300.0), "wall", Surface(INFINITE, 0, _stretch(800, 400))),
        ((-60.0, GROUND - 12, 90.0), "wall", _billboard(120, 14, 1, 1)),
        ((-16.0, GROUND - 9.6, 15.0), "wall", _billboard(15.6, 9.6, 2)),
        ((1.6, GROUND - 6.6, 16.5), "wall", _billboard(18.0, 6.6, 3)),
        ((-20.0, GROUND, 15.0), "ground", Surface((-60, -75, 90, 14.5), 4, ((1 / 24, 0, 0), (0, 1 / 11.0, 0)))),
        ((-4.4, GROUND - 7.2, 9.4), "wall", _billboard(0.15, 7.2, 5)),
        ((0.25, GROUND - 7.2, 9.4), "wall", _billboard(0.15, 7.2, 5)),
        ((4.9, GROUND - 7.2, 9.4), "wall", _billboard(0.15, 7.2, 5)),
        ((2.0, GROUND - 5.0, 12.5), "wall", _billboard(4.2, 5.0, 6, 0)),
        ((-9.5, GROUND - 5.4, 12.0), "wall", _billboard(4.6, 5.4, 6, 0)),
        ((-3.0 - middle, GROUND - 0.002, 7.3), "ground", _billboard(5.2, 1.6, 8, 3)),
        ((-2.6 - middle, GROUND - 1.95, 6.4), "wall", _billboard(4.6, 1.95, 7, 2)),
    ]
    axes = {"wall": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)), "ground": ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0))}
    planes = torch.tensor([[origin, *axes[kind]] for origin, kind, _ in objects], dtype=torch.float64)
    return planes.transpose(0, 1)[:, :, None], [surface for _, _, surface in objects], colours, masks


def _stretch(width: float, height: float) -> Rows:
    """A texture that fills a rectangle of this size from (0, 0)."""
    return ((1.0 / width, 0.0, 0.0), (0.0, 1.0 / height, 0.0))


def _billboard(width: float, height: float, texture: int, mask: int = OPAQUE) -> Surface:
    """A rectangle from (0, 0) that is filled by its texture and its mask."""
    stretch = _stretch(width, height)
    return Surface((0.0, 0.0, width, height), texture, stretch, mask, stretch)
