"""The demonstration scene: the rolling shutter bends posts that are straight."""

from __future__ import annotations

import torch

from qrsc.simulate.render.rows import render_rs
from qrsc.simulate.render.truth import correction_field, rs_flow
from qrsc.simulate.scene.demo_scene import demo_scene
from qrsc.timing import Readout


def test_demo_scene_is_shaken_but_can_be_followed() -> None:
    scene, readout = demo_scene((120, 160), frames=6), Readout(0.9)
    flow, visible = rs_flow(scene, readout, 3, 4)
    speed = flow.norm(dim=1) * 4  # at 640 x 480
    assert 10 < speed.median() < 40
    assert speed.max() < 60
    assert visible.float().mean() > 0.8
    bends = [correction_field(scene, readout, frame, frame + 0.45)[0][:, 0].abs().max() for frame in range(5)]
    assert 4 * max(bends) > 8


def test_demo_scene_is_the_same_for_the_same_seed() -> None:
    first, second, other = (render_rs(demo_scene((60, 80), 3, seed), Readout(0.9), 1) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
