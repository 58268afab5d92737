"""Small scenes and helpers that the tests of the simulator share."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.simulate.camera.curves import HomographyCurve, polynomial_layers
from qrsc.simulate.camera.motion_paths import Camera
from qrsc.simulate.paint.atlas import build_atlas
from qrsc.simulate.paint.textures import band_limited
from qrsc.simulate.render.surfaces import INFINITE, OPAQUE, Rows, Scene, Surface, Surfaces
from qrsc.simulate.render.truth import seen_points
from qrsc.simulate.scene.worlds import World

SIZE = (96, 128)


def smooth_textures(count: int = 3, seed: int = 0) -> list[Tensor]:
    """Textures without waves under 24 texels."""
    generator = torch.Generator().manual_seed(seed)
    return [band_limited(256, 256, generator) for _ in range(count)]


def texture_map(number: int) -> Rows:
    """About one texel per pixel, each surface with another offset in its texture."""
    return ((1 / 256, 0.0, 0.13 + 0.2 * number), (0.0, 1 / 256, 0.31 * number))


def layered_scene(affine: Tensor | None = None, dtype: torch.dtype = torch.float32) -> Scene:
    """Three layers: a background, a rectangle and a disc, with different accelerated motions."""
    if affine is None:
        affine = torch.zeros(1, 3, 3, 2, 3)
        affine[:, :, 0] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        affine[0, :, 1, :, 2] = torch.tensor([[6.0, 3.0], [-7.0, -4.0], [9.0, 6.0]])
        affine[0, :, 2, :, 2] = torch.tensor([[1.5, -1.0], [-2.0, 3.0], [1.0, -2.0]])
        affine[0, 0, 1, :, :2] = torch.tensor([[0.02, -0.015], [0.01, 0.03]])
    curve = polynomial_layers(affine, torch.tensor([[3.0, 2.0, 1.0]]))
    return scene_of(curve, dtype)


def scene_of(curve: HomographyCurve, dtype: torch.dtype = torch.float32) -> Scene:
    """A background, a rectangle and a disc that move along a curve of three surfaces."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 64), torch.linspace(-1, 1, 64), indexing="ij")
    disc = (torch.hypot(x, y) < 0.9).float()[None]
    surfaces = [
        Surface(INFINITE, 0, texture_map(0)),
        Surface((25.0, 20.0, 70.0, 60.0), 1, texture_map(1), OPAQUE),
        Surface((70.0, 40.0, 110.0, 80.0), 2, texture_map(2), 0, ((1 / 40, 0.0, -70 / 40), (0.0, 1 / 40, -1.0))),
    ]
    scene = Scene(
        SIZE, curve, Surfaces.of([surfaces]), build_atlas(smooth_textures()), build_atlas([disc]), torch.zeros(1, 3)
    )
    return scene.to("cpu", dtype)


def sampled(picture: Tensor, flow: Tensor, mode: str = "bicubic") -> Tensor:
    """A picture `[B, C, H, W]` sampled at the pixels moved by a flow `[B, 2, H, W]`."""
    height, width = picture.shape[-2:]
    y, x = torch.meshgrid(
        torch.arange(height, dtype=picture.dtype), torch.arange(width, dtype=picture.dtype), indexing="ij"
    )
    grid = torch.stack([(x + flow[:, 0]) * 2 / (width - 1) - 1, (y + flow[:, 1]) * 2 / (height - 1) - 1], dim=-1)
    return F.grid_sample(picture, grid, mode=mode, align_corners=True)


def comparable(scene: Scene, times: Tensor, target_times: Tensor, flow: Tensor, visible: Tensor) -> Tensor:
    """Visible pixels that a flow can reproduce from another picture; `[B, 1, H, W]`, bool.

    A pixel within reach of an edge mixes two surfaces, in this picture or in the other: sampling between pixels takes
    in two of them to each side. Nor is there anything to mix with outside of the picture.
    """
    landing = sampled(_one_surface(scene, target_times), flow, mode="nearest")
    return visible & (_one_surface(scene, times) > 0) & (landing > 0)


def _one_surface(scene: Scene, times: Tensor, margin: int = 3) -> Tensor:
    surface = seen_points(scene, times).surface[:, None].to(scene.dtype)
    window = 2 * margin + 1
    highest = F.max_pool2d(surface, window, 1, margin)
    lowest = -F.max_pool2d(-surface, window, 1, margin)
    alike = (highest == lowest).to(scene.dtype)
    return F.pad(alike[..., margin:-margin, margin:-margin], [margin] * 4)


def psnr(first: Tensor, second: Tensor, mask: Tensor) -> float:
    """Peak signal-to-noise ratio in dB over the pixels of a mask `[B, 1, H, W]` and all channels."""
    error = ((first - second).square() * mask).sum() / (mask.sum() * first.shape[1])
    return float(-10.0 * torch.log10(error))


def quarter_turned(world: World) -> World:
    """The same worlds seen by a camera turned by a quarter, so that its pictures are those of `torch.rot90`."""
    height, width = world.scene.size
    turn = torch.tensor([[0.0, 1.0, 0.0], [-1.0, 0.0, width - 1.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    curve = replace(world.scene.curve, coefficients=turn @ world.scene.curve.coefficients)
    polynomial = world.camera.path.polynomial.clone()
    polynomial[:, 2, 0] += torch.pi / 2
    centre = torch.stack([world.camera.centre[:, 1], width - 1.0 - world.camera.centre[:, 0]], dim=-1)
    camera = Camera(replace(world.camera.path, polynomial=polynomial), centre)
    return replace(world, scene=replace(world.scene, size=(width, height), curve=curve), camera=camera)
