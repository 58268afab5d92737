"""Pictures: every row at its own time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from qrsc.simulate.render import render_gs, render_rows, render_rs
from qrsc.timing import SCANS, Readout, Scan

from .scenes import SIZE, layered_scene


@pytest.mark.parametrize("scan", SCANS)
def test_rolling_shutter_is_rows_of_global_shutter_frames(scan: Scan) -> None:
    scene = layered_scene()
    readout = Readout(0.8, scan)
    stacked = torch.empty(1, 3, *SIZE)
    times = readout.row_times(*SIZE, dtype=torch.float64)
    if readout.sideways:
        for column in range(SIZE[1]):
            stacked[..., column] = render_gs(scene, 1 + float(times[0, 0, column]))[..., column]
    else:
        for row in range(SIZE[0]):
            stacked[..., row, :] = render_gs(scene, 1 + float(times[0, row, 0]))[..., row, :]
    assert torch.allclose(render_rs(scene, readout, 1), stacked, atol=1e-6)


def test_gamma_zero_is_the_global_shutter_frame_to_the_bit() -> None:
    scene = layered_scene()
    assert torch.equal(render_rs(scene, Readout(0.0), 1), render_gs(scene, 1.0))
    assert torch.equal(render_rs(scene, Readout(0.0, "bottom-up"), 1), render_gs(scene, 1.0))


def test_edges_are_antialiased() -> None:
    """A shift of the rectangle by a quarter of a pixel changes its edge by a quarter, not by a whole pixel or none."""
    affine = torch.zeros(1, 3, 2, 2, 3)
    affine[:, :, 0] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    affine[0, 1, 1, 0, 2] = 1.0
    scene = layered_scene(affine)
    surfaces = scene.surfaces
    plain = replace(surfaces, gain=torch.zeros_like(surfaces.gain), offset=surfaces.offset + torch.eye(3))
    row = [render_gs(replace(scene, surfaces=plain), time)[0, :, 30, 70] for time in (0.0, 0.25)]
    assert torch.allclose(row[0], torch.tensor([0.5, 0.5, 0.0]), atol=1e-6)
    assert torch.allclose(row[1], torch.tensor([0.25, 0.75, 0.0]), atol=1e-6)


def test_exposure_blurs_along_the_motion() -> None:
    scene = layered_scene()
    readout = Readout(0.8)
    blurred = render_rs(scene, readout, 0, exposure=0.5, exposures=4)
    instants = [-0.1875, -0.0625, 0.0625, 0.1875]
    times = readout.row_times(*SIZE, dtype=torch.float64)[0]
    mean = torch.stack([render_rows(scene, times + instant) for instant in instants]).mean(0)
    assert torch.allclose(blurred, mean, atol=1e-6)


def test_more_samples_agree_with_one() -> None:
    scene = layered_scene()
    one, four = (render_rs(scene, Readout(0.8), 0, samples=samples) for samples in (1, 2))
    assert (one - four).abs().mean() < 2e-3


def test_a_negative_exposure_is_refused() -> None:
    with pytest.raises(ValueError, match="exposure must be 0 or more"):
        render_gs(layered_scene(), 0.0, exposure=-1.0)
