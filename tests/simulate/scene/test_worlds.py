"""Random worlds, and the motion of cameras in them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from qrsc.simulate.camera.styles import STYLES, draw_speeds
from qrsc.simulate.output.preview import depth_colours, flow_colours
from qrsc.simulate.paint.atlas import build_atlas
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.paint.textures import band_limited
from qrsc.simulate.render.rows import render_gs, render_rs, row_times
from qrsc.simulate.render.surfaces import OPAQUE
from qrsc.simulate.render.truth import correction_field, distortion_field, gs_kinematics, rs_flow, seen_points
from qrsc.simulate.scene.worlds import World, sample_scenes
from qrsc.timing import SCANS, Readout, Scan

from ..scenes import comparable, psnr, quarter_turned, sampled

SIZE = (48, 64)
GROUND = 3  # number of the ground among the surfaces of a world


@pytest.fixture(scope="module")
def library() -> TextureLibrary:
    return texture_library(torch.Generator().manual_seed(0), variety=1, resolution=64)


@pytest.fixture(scope="module")
def smooth_library() -> TextureLibrary:
    """Band-limited textures in place of all others."""
    generator = torch.Generator().manual_seed(0)
    painted = texture_library(generator, variety=1, resolution=64)
    count = painted.colours.offset.shape[0]
    smooth = [band_limited(256, 256, generator, waves=8, shortest=100.0) for _ in range(count)]
    return replace(painted, colours=build_atlas(smooth))


def _world(library: TextureLibrary, batch: int = 3, style: str = "mixed", seed: int = 1, speed: float = 4.0) -> World:
    return sample_scenes(
        batch, SIZE, style, torch.Generator().manual_seed(seed), textures=library, frames=3, speed=speed
    )


def _smooth_world(library: TextureLibrary, size: tuple[int, int]) -> World:
    """Solid surfaces with waves of many metres, so that they are long in the image as well, and no haze."""
    world = sample_scenes(4, size, "mixed", torch.Generator().manual_seed(5), textures=library, frames=3, speed=10.0)
    surfaces = world.scene.surfaces
    texture_map = surfaces.texture_map.clone()
    texture_map[:, GROUND:, :, :2] *= 0.05
    nowhere = torch.tensor([1.0, 1.0, -1.0, -1.0])
    extent = torch.where((surfaces.mask == OPAQUE)[..., None], surfaces.extent, nowhere)
    surfaces = replace(surfaces, texture_map=texture_map, extent=extent)
    return replace(world, scene=replace(world.scene, surfaces=surfaces, haze=None))


def test_flow_and_fields_reproduce_pictures_of_worlds(smooth_library: TextureLibrary) -> None:
    scene, readout = _smooth_world(smooth_library, (96, 128)).scene, Readout(0.9)
    rolling, following, still = render_rs(scene, readout, 1), render_rs(scene, readout, 2), render_gs(scene, 1.45)
    times = [row_times(scene, readout, frame) for frame in (1, 2)]
    instant = torch.full_like(times[0], 1.45)
    flow, visible = rs_flow(scene, readout, 1, 2)
    mask = comparable(scene, times[0], times[1], flow, visible)
    assert mask.double().mean() > 0.4
    assert psnr(sampled(following, flow), rolling, mask) > 45
    field, visible = distortion_field(scene, readout, 1, 1.45)
    assert psnr(sampled(rolling, field), still, comparable(scene, instant, times[0], field, visible)) > 45


@pytest.mark.parametrize("scan", SCANS)
def test_scans_agree_under_rotation_of_the_world(library: TextureLibrary, scan: Scan) -> None:
    world, readout = _world(library), Readout(0.8, scan)
    world = world.to("cpu", torch.float64)
    turned = quarter_turned(world)
    picture, flow = render_rs(world.scene, readout, 1), rs_flow(world.scene, readout, 1, 2)[0]
    other = readout.rotated(1)
    assert torch.allclose(render_rs(turned.scene, other, 1), torch.rot90(picture, 1, (2, 3)), atol=1e-6)
    turned_flow, _ = rs_flow(turned.scene, other, 1, 2)
    expected = torch.rot90(torch.stack([flow[:, 1], -flow[:, 0]], dim=1), 1, (2, 3))
    assert torch.allclose(turned_flow, expected, atol=1e-6)


def test_rotated_cameras_know_their_pose(library: TextureLibrary) -> None:
    world = _world(library)
    turned = quarter_turned(world)
    times = torch.tensor([0.3, 1.7], dtype=torch.float64)
    point = torch.tensor([1.0, -0.5, 9.0], dtype=torch.float64)
    pixels = []
    for each in (world, turned):
        rotation, position = each.camera.pose(times)
        seen = each.camera.intrinsics(times) @ (rotation @ (point - position)[..., None])
        pixels.append(seen[..., :2, 0] / seen[..., 2:, 0])
    assert torch.allclose(pixels[1][..., 0], pixels[0][..., 1])
    assert torch.allclose(pixels[1][..., 1], SIZE[1] - 1 - pixels[0][..., 0])


def test_rolling_shutter_is_rows_of_global_shutter_frames(library: TextureLibrary) -> None:
    scene, readout = _world(library).scene, Readout(0.9)
    rolling = render_rs(scene, readout, 1)
    for row in (0, 13, 30, SIZE[0] - 1):
        still = render_gs(scene, 1 + 0.9 * row / SIZE[0])
        assert torch.allclose(rolling[:, :, row], still[:, :, row], atol=1e-5)


def test_poses_and_intrinsics_are_those_of_the_picture(library: TextureLibrary) -> None:
    """A point (u, v) of the ground is at (u, 0, v) in the world: the camera must see it where the picture does."""
    world = _world(library, batch=6).to("cpu", torch.float64)
    time = 1.3
    seen = seen_points(world.scene, torch.full((SIZE[0], 1), time, dtype=torch.float64))
    times = torch.tensor([time], dtype=torch.float64)
    rotation, position = world.camera.pose(times)
    matrix = world.camera.intrinsics(times)[:, 0] @ rotation[:, 0]
    points = torch.stack([seen.u, torch.zeros_like(seen.u), seen.v], dim=-1)  # [B, H, W, 3]
    pixels = torch.einsum("bij,bhwj->bhwi", matrix, points - position[:, 0, None, None])
    on_ground = (seen.surface == GROUND) & (seen.inverse_depth > 0.01)
    assert on_ground.sum() > 200
    y, x = torch.meshgrid(*(torch.arange(side, dtype=torch.float64) for side in SIZE), indexing="ij")
    error = torch.hypot(pixels[..., 0] / pixels[..., 2] - x, pixels[..., 1] / pixels[..., 2] - y)
    assert error[on_ground].max() < 1e-3
    assert torch.allclose(pixels[..., 2][on_ground] * seen.inverse_depth[on_ground], torch.ones(1).double(), atol=1e-5)


def test_speeds_agree_with_differences(library: TextureLibrary) -> None:
    scene = _world(library).to("cpu", torch.float64).scene
    kinematics = gs_kinematics(scene, 1.4)
    step = 1e-4
    ahead, _ = correction_field(scene, Readout(0.0, offset=1.4), 0, 1.4 + step)
    behind, _ = correction_field(scene, Readout(0.0, offset=1.4), 0, 1.4 - step)
    assert torch.allclose(kinematics.velocity, (ahead - behind) / (2 * step), rtol=1e-4, atol=1e-4)
    assert torch.allclose(kinematics.acceleration, (ahead + behind) / step**2, rtol=1e-3, atol=1e-2)
    assert kinematics.depth.min() > 0


@pytest.mark.parametrize("style", STYLES)
def test_every_style_moves_at_the_speed_asked_for(library: TextureLibrary, style: str) -> None:
    world = _world(library, batch=6, style=style, speed=4.0)
    assert world.styles == (style,) * 6
    speed = torch.stack([gs_kinematics(world.scene, time).velocity.norm(dim=1) for time in (0.2, 1.5, 2.8)])
    typical = speed.square().mean((0, 2, 3)).sqrt()
    assert 2.0 < typical.median() < 10.0
    picture = render_rs(world.scene, Readout(1.0), 1)
    assert picture.isfinite().all()
    assert picture.std() > 0.05


def test_speeds_are_heavy_tailed() -> None:
    speeds = draw_speeds(4000, 512, torch.Generator().manual_seed(0))
    assert 15 < speeds.median() < 25
    assert (speeds > 150).double().mean() > 0.01
    assert (speeds < 1).double().mean() > 0.04
    assert speeds.max() < 0.5 * 512


def test_most_pixels_see_something_and_some_are_hidden(library: TextureLibrary) -> None:
    world = _world(library, batch=8, speed=8.0)
    _, visible = rs_flow(world.scene, Readout(1.0), 1, 2)
    assert 0.5 < visible.double().mean() < 0.98
    seen = seen_points(world.scene, row_times(world.scene, Readout(1.0), 1))
    assert (seen.inverse_depth > 0).double().mean() > 0.999


def test_the_same_seed_gives_the_same_world(library: TextureLibrary) -> None:
    first, again, other = (_world(library, seed=seed) for seed in (1, 1, 2))
    pictures = [render_rs(world.scene, Readout(0.9), 1) for world in (first, again, other)]
    assert torch.equal(pictures[0], pictures[1])
    assert not torch.equal(pictures[0], pictures[2])


def test_a_world_ends() -> None:
    library = texture_library(torch.Generator().manual_seed(0), variety=1, resolution=32)
    world = _world(library, batch=1)
    with pytest.raises(ValueError, match="request frames within it"):
        render_rs(world.scene, Readout(1.0), 9)


def test_wrong_input_is_refused(library: TextureLibrary) -> None:
    with pytest.raises(ValueError, match="unknown motion style 'swimming'; choose one of driving"):
        _world(library, style="swimming")
    with pytest.raises(ValueError, match="at least 1"):
        _world(library, batch=0)
    with pytest.raises(ValueError, match="variety must be at least 1"):
        texture_library(torch.Generator(), variety=0)


def test_a_library_and_a_world_change_precision(library: TextureLibrary) -> None:
    precise = _world(library.to("cpu", torch.float64), batch=1).scene
    assert precise.dtype == torch.float64
    picture = render_gs(precise, 1.0)
    assert picture.dtype == torch.float64
    assert torch.allclose(picture.float(), render_gs(_world(library, batch=1).scene, 1.0), atol=1e-2)


def test_flow_colours_tell_directions_apart() -> None:
    flow = torch.zeros(1, 2, 1, 4)
    flow[0, :, 0, 1:] = torch.tensor([[5.0, -5.0, 0.0], [0.0, 0.0, 5.0]])
    colours = flow_colours(flow, fastest=5.0)
    assert torch.equal(colours[0, :, 0, 0], torch.ones(3))
    assert all((colours[0, :, 0, i] - colours[0, :, 0, j]).abs().max() > 0.3 for i in range(4) for j in range(i))
    assert torch.allclose(flow_colours(flow), colours, atol=1e-6)


def test_depth_colours_are_brighter_near_by() -> None:
    colours = depth_colours(torch.tensor([1.0, 5.0, 50.0, 0.0]).reshape(1, 1, 1, 4))
    brightness = colours.mean(1).flatten()
    assert (brightness[:-1] > brightness[1:]).all()
