"""Random worlds: streets, squares, open ground and close views, with moving objects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qrsc.simulate.camera.curves import HomographyCurve, sampled_curve
from qrsc.simulate.camera.motion_paths import Camera, Path
from qrsc.simulate.camera.pinhole import plane_homographies
from qrsc.simulate.camera.styles import STYLES, draw_camera, draw_speeds, draw_styles, scaled_motion
from qrsc.simulate.paint.atlas import build_atlas
from qrsc.simulate.paint.library import TextureLibrary
from qrsc.simulate.render.surfaces import OPAQUE, Scene, Surfaces
from qrsc.simulate.render.truth import gs_kinematics
from qrsc.simulate.scene.furniture import Draw, Planes, joined
from qrsc.simulate.scene.placement import (
    backdrops,
    ground,
    light_up,
    near_leaves,
    objects,
    poles,
    railings,
    shadows,
    signs,
    walls,
)


@dataclass(frozen=True)
class World:
    """A batch of scenes with the cameras that see them.

    Attributes:
        scene: to render.
        camera: poses and intrinsics at any time.
        styles: name of the motion style of each clip.
    """

    scene: Scene
    camera: Camera
    styles: tuple[str, ...]

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> World:
        """The same worlds on another device or in another precision."""
        return replace(self, scene=self.scene.to(device, dtype), camera=self.camera.to(device))


def sample_scenes(
    batch: int,
    size: tuple[int, int],
    style: str,
    generator: torch.Generator,
    *,
    textures: TextureLibrary,
    frames: int = 3,
    speed: Tensor | float | None = None,
) -> World:
    """Create random worlds, seen by cameras that move in a style.

    Args:
        batch: number of worlds.
        size: `(height, width)` of the picture.
        style: one of `STYLES`, or `mixed` for any of them in each clip.
        generator: on the CPU; the same state gives the same worlds on any device.
        textures: to cover surfaces with; the worlds are on its device. Create it once and use it for all batches.
        frames: length of the clips; a world is valid for times from -1 to `frames + 1`.
        speed: typical image speed in pixels per frame interval, one for all or `[B]`; drawn from a heavy-tailed
            distribution if None.
    """
    if batch < 1 or frames < 1:
        raise ValueError(f"batch and frames must be at least 1; got {batch} and {frames}.")
    device = textures.colours.texels.device
    draw = Draw(batch, generator)
    styles = draw_styles(style, batch, generator)
    drone = styles == list(STYLES).index("drone")
    height = torch.where(drone, draw.spread(8.0, 40.0, 1)[:, 0], draw.uniform(1.1, 2.2, 1)[:, 0])
    pitch = torch.where(drone, draw.uniform(-0.9, -0.3, 1)[:, 0], draw.uniform(-0.14, 0.12, 1)[:, 0])
    drawn = draw_speeds(batch, size[1], generator)
    speeds = drawn if speed is None else torch.as_tensor(speed, dtype=torch.float64).expand(batch)
    camera = draw_camera(styles, size, frames, generator, pitch=pitch, height=height)
    planes = _furnish(draw, textures, height)
    haze = torch.cat([draw.uniform(0.7, 0.9, 1).expand(-1, 3) + 0.04 * draw.normal(3), _haze(draw)], dim=1)
    # First without textures and with all objects at rest, to measure the image speed that the camera causes.
    scene = Scene(
        size,
        _curve(_at_rest(planes), camera, frames),
        _appearance(planes),
        build_atlas([torch.zeros(3, 1, 1)]),
        build_atlas([torch.zeros(1, 1, 1)]),
        torch.full((batch, 3), 0.6),
        haze.float(),
    )
    camera = scaled_motion(camera, speeds / _typical_speed(scene, frames).clamp_min(1e-3), frames)
    # Thousands of matrices: half of the time to create worlds, unless a GPU computes them.
    curve = _curve(planes.to(device), camera.to(device), frames)
    scene = replace(scene, curve=curve, colours=textures.colours, masks=textures.masks)
    names = list(STYLES)
    world = World(scene, camera, tuple(names[number] for number in styles.tolist()))
    return world.to(device, textures.colours.texels.dtype)


def _at_rest(planes: Planes) -> Planes:
    return replace(
        planes,
        velocity=torch.zeros_like(planes.velocity),
        acceleration=torch.zeros_like(planes.acceleration),
        swing=torch.zeros_like(planes.swing),
    )


def _typical_speed(scene: Scene, frames: int) -> Tensor:
    """RMS image speed in pixels per frame interval, from a few thumbnails without masks: `[B]`."""
    height, width = scene.size
    small = (9, 12)
    scale = torch.diag(torch.tensor([small[1] / width, small[0] / height, 1.0], dtype=torch.float64))
    coefficients = scale @ scene.curve.coefficients
    surfaces = replace(scene.surfaces, mask=torch.full_like(scene.surfaces.mask, OPAQUE))
    reduced = replace(scene, size=small, curve=replace(scene.curve, coefficients=coefficients), surfaces=surfaces).to(
        "cpu", torch.float64
    )
    unscaled = torch.tensor([width / small[1], height / small[0]], dtype=torch.float64).reshape(1, 2, 1, 1)
    squares = [
        (gs_kinematics(reduced, time).velocity * unscaled).square().sum(1).mean((1, 2))
        for time in torch.linspace(0.25, frames - 0.25, 3).tolist()
    ]
    return torch.stack(squares).mean(0).sqrt()


def _haze(draw: Draw) -> Tensor:
    """Density of the haze per metre, zero in a third of the worlds: `[B, 1]`."""
    return torch.where(draw.chance(0.35, 1), 0.0, draw.spread(0.0006, 0.012, 1))


def _furnish(draw: Draw, textures: TextureLibrary, height: Tensor) -> Planes:
    """All planes of a batch of worlds."""
    plan = torch.multinomial(torch.tensor([0.35, 0.3, 0.2, 0.15]).expand(draw.batch, 4), 1, generator=draw.generator)
    flying = (height > 5.0)[:, None]
    plan = torch.where(flying & (plan == 3), 2, plan)
    reach = torch.where(flying, height[:, None] / 5.0, torch.ones_like(height[:, None]))
    half_width = draw.uniform(4.0, 11.0, 1) * reach
    moving = objects(draw, textures, plan, reach)
    planes = joined(
        [
            backdrops(draw, textures),
            ground(draw, textures, plan, half_width, reach),
            walls(draw, textures, plan, half_width, reach),
            signs(draw, textures, reach),
            poles(draw, textures, plan, half_width, reach),
            railings(draw, textures, plan, half_width, reach),
            near_leaves(draw, textures, flying),
            shadows(textures, moving),
            moving,
        ]
    )
    return light_up(draw, planes)


def _appearance(planes: Planes) -> Surfaces:
    return Surfaces(
        extent=planes.extent,
        texture=planes.texture,
        texture_map=planes.texture_map,
        mask=planes.mask,
        mask_map=planes.mask_map,
        gain=planes.gain,
        offset=planes.offset,
    )


def _curve(planes: Planes, camera: Camera, frames: int) -> HomographyCurve:
    polynomial = torch.stack([torch.zeros_like(planes.velocity), planes.velocity, 0.5 * planes.acceleration], dim=-1)
    motion = Path(
        polynomial,
        planes.swing[..., None],
        planes.swing_rate[..., None],
        planes.swing_phase[..., None],
        camera.path.middle,
    )

    def matrices(times: Tensor) -> Tensor:
        rotation, position = camera.pose(times)
        shift = motion.at(times)  # [B, S, 5, N]
        axis_u, axis_v = _turned(planes, shift[:, :, 3], shift[:, :, 4])
        origin = planes.pivot[:, :, None] + shift[:, :, :3].transpose(2, 3)
        return plane_homographies(camera.focal(times), camera.centre, rotation, position, origin, axis_u, axis_v)

    return sampled_curve(matrices, -2.0, frames + 2.0)


def _turned(planes: Planes, turn: Tensor, spin: Tensor) -> tuple[Tensor, Tensor]:
    """Axes `[B, S, N, 3]` of planes turned about the vertical and spun within themselves, by angles `[B, S, N]`."""
    axes = []
    for axis in (planes.axis_u, planes.axis_v):
        x, y, z = axis[:, :, None].expand(-1, -1, turn.shape[2], -1).unbind(-1)
        axes.append(torch.stack([x * turn.cos() + z * turn.sin(), y, z * turn.cos() - x * turn.sin()], dim=-1))
    cosine, sine = spin.cos()[..., None], spin.sin()[..., None]
    return cosine * axes[0] + sine * axes[1], cosine * axes[1] - sine * axes[0]
