"""Clips frame by frame: pictures, masks and truth belong together."""

from __future__ import annotations

import pytest
import torch

from qrsc.simulate.camera.sensor import apply_sensor, sample_sensor
from qrsc.simulate.paint.library import texture_library
from qrsc.simulate.render.clip import KINDS, TRUTH_GROUPS, TRUTH_NAMES, ClipFrame, recorded, render_clip
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.render.truth import rs_flow
from qrsc.simulate.scene.worlds import World, sample_scenes
from qrsc.timing import SCANS, Readout, Scan

from ..scenes import layered_scene, psnr, sampled

SIZE = (24, 32)


@pytest.fixture(scope="module")
def world() -> World:
    textures = texture_library(torch.Generator().manual_seed(0), variety=1, resolution=32)
    generator = torch.Generator().manual_seed(3)
    return sample_scenes(1, SIZE, "walking", generator, textures=textures, frames=3, speed=3.0)


def test_frames_hold_what_the_renderer_gives(world: World) -> None:
    readout = Readout(0.7)
    frames = list(render_clip(world.scene, readout, 3))
    assert [frame.number for frame in frames] == [0, 1, 2]
    assert all(set(frame.pictures) == set(KINDS) and not frame.truth for frame in frames)
    assert torch.equal(frames[2].pictures["rolling"], render_rs(world.scene, readout, 2)[0])
    assert torch.equal(frames[2].pictures["first"], render_gs(world.scene, 2.0)[0])
    assert torch.equal(frames[2].pictures["middle"], render_gs(world.scene, 2.35)[0])


def test_only_what_is_asked_for_is_rendered(world: World) -> None:
    frame = next(render_clip(world.scene, Readout(0.7), 1, kinds=["middle"], truth=["motion"]))
    assert set(frame.pictures) == {"rolling", "middle"}
    assert set(frame.truth) == set(TRUTH_NAMES["motion"])


@pytest.mark.parametrize("scan", SCANS)
def test_truth_has_all_its_names_and_shapes(world: World, scan: Scan) -> None:
    readout = Readout(0.7, scan)
    frames = list(render_clip(world.scene, readout, 3, truth=TRUTH_GROUPS, camera=world.camera))
    names = {name: text for group in TRUTH_NAMES.values() for name, text in group.items()}
    previous = {"flow_prev", "flow_prev_visible"}
    following = {"flow_next", "flow_next_visible"}
    assert set(frames[0].truth) == set(names) - previous
    assert set(frames[1].truth) == set(names)
    assert set(frames[2].truth) == set(names) - following
    sides = {"H": SIZE[0], "W": SIZE[1], "N": readout.row_count(*SIZE)}
    for name, value in frames[1].truth.items():
        shape = names[name].split("]")[0].strip("[").split(", ")
        assert list(value.shape) == [sides.get(side) or int(side) for side in shape], name
        assert (value.dtype == torch.bool) == name.endswith("_visible")
    assert torch.equal(frames[1].truth["flow_prev"], rs_flow(world.scene, readout, 1, 0)[0][0])


def test_poses_are_those_of_the_rows(world: World) -> None:
    readout = Readout(1.0)
    first, second = render_clip(world.scene, readout, 2, kinds=[], truth=["camera"], camera=world.camera)
    times = first.truth["row_time"]
    assert torch.allclose(times, torch.arange(SIZE[0], dtype=torch.float64) / SIZE[0])
    assert torch.allclose(second.truth["row_time"], times + 1.0)
    rotation = first.truth["rotation"]
    assert torch.allclose(rotation @ rotation.transpose(1, 2), torch.eye(3, dtype=torch.float64).expand_as(rotation))
    # The camera moves evenly across the end of the frame: as far from the last row to the next frame as between rows.
    path = torch.cat([first.truth["position"], second.truth["position"][:1]])
    steps = path.diff(dim=0).norm(dim=1)
    assert 0.8 < float(steps[-1] / steps[-2]) < 1.25


def test_mask_is_where_the_frame_shows_the_truth() -> None:
    scene, readout = layered_scene(), Readout(0.9)
    frame: ClipFrame = next(render_clip(scene, readout, 1, truth=["fields"]))
    mask = frame.pictures["middle_mask"]
    assert torch.equal(mask, frame.truth["distortion_field_middle_visible"])
    assert 0.5 < float(mask.float().mean()) < 1.0
    corrected = sampled(frame.pictures["rolling"][None], frame.truth["distortion_field_middle"][None])
    truth = frame.pictures["middle"][None]
    # Edges blend two surfaces inside the mask, too, but the pixels outside it are clearly worse.
    assert psnr(corrected, truth, mask[None]) > psnr(corrected, truth, ~mask[None]) + 6.0


def test_the_truth_has_the_colours_of_the_camera_but_not_its_damage(world: World) -> None:
    frames = list(render_clip(world.scene, Readout(0.0), 2))
    generator = torch.Generator().manual_seed(1)
    sensor = sample_sensor(1, 2, generator)
    for clean, seen in zip(frames, recorded(frames, sensor, generator), strict=True):
        # With gamma 0 both show the same: what differs is noise, blur and compression.
        assert torch.equal(clean.pictures["rolling"], clean.pictures["first"])
        assert torch.equal(seen.pictures["first_mask"], clean.pictures["first_mask"])
        expected = apply_sensor(
            clean.pictures["first"][None, None], sensor.without_damage().at_frames([seen.number]), generator
        )
        assert torch.equal(seen.pictures["first"], expected[0, 0])
        damage = float((seen.pictures["rolling"] - seen.pictures["first"]).abs().mean())
        change = float((seen.pictures["first"] - clean.pictures["first"]).abs().mean())
        assert 0.001 < damage < 0.1
        assert change > 0.005


def test_refusals(world: World) -> None:
    with pytest.raises(ValueError, match="no camera was given"):
        next(render_clip(world.scene, Readout(0.5), 1, truth=["camera"]))
    with pytest.raises(ValueError, match=r"unknown truth speed; choose from flows"):
        next(render_clip(world.scene, Readout(0.5), 1, truth=["speed"]))  # type: ignore[list-item]  # wrong on purpose
    with pytest.raises(ValueError, match="at least one frame"):
        next(render_clip(world.scene, Readout(0.5), 0))
