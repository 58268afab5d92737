"""The contact sheet."""

from __future__ import annotations

from pathlib import Path

import torch

from qrsc.media.annotate import GAP, mask_picture
from qrsc.media.image_folder import read_frame
from qrsc.simulate.output.sheet import sheet_row, write_sheet
from qrsc.simulate.paint.library import texture_library
from qrsc.simulate.render.rows import render_rs
from qrsc.simulate.scene.worlds import sample_scenes
from qrsc.timing import Readout

SIZE = (96, 128)


def test_sheet_shows_the_scenes(tmp_path: Path) -> None:
    textures = texture_library(torch.Generator().manual_seed(0), variety=1, resolution=32)
    rows, frames = [], []
    for seed in range(2):
        generator = torch.Generator().manual_seed(seed)
        world = sample_scenes(1, SIZE, "panning", generator, textures=textures, frames=2, speed=9.0)
        rows.append(sheet_row(world, Readout(0.8), 0))
        frames.append(render_rs(world.scene, Readout(0.8), 0)[0])
    write_sheet(tmp_path / "sheet.png", rows)
    sheet = read_frame(tmp_path / "sheet.png").frame
    height, width = SIZE
    assert sheet.shape == (3, 2 * height + GAP, 5 * width + 4 * GAP)
    # Below its label, each row starts with its rolling-shutter frame; pixels that leave the picture are red.
    for number, frame in enumerate(frames):
        top = number * (height + GAP)
        assert float((sheet[:, top + 40 : top + height, :width] - frame[:, 40:]).abs().max()) < 0.003
        hidden = sheet[:, top : top + height, 3 * (width + GAP) : 4 * width + 3 * GAP]
        assert bool(((hidden[0] > 0.9) & (hidden[1] < 0.2)).any())


def test_mask_picture_colours_the_mask_alone() -> None:
    mask = torch.zeros(1, 4, 4, dtype=torch.bool)
    mask[0, 1, 2] = True
    picture = mask_picture(torch.rand(3, 4, 4), mask, (1.0, 0.0, 0.5))
    assert picture[:, 1, 2].tolist() == [1.0, 0.0, 0.5]
    assert torch.equal(picture[0][~mask[0]], picture[2][~mask[0]])
