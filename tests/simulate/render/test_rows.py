"""Pictures: every row at its own time."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from qrsc.simulate.camera.curves import HomographyCurve
from qrsc.simulate.render.rows import render_gs, render_rows, render_rs
from qrsc.simulate.render.surfaces import Surfaces
from qrsc.timing import SCANS, Readout, Scan

from ..scenes import SIZE, layered_scene, scene_of


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


def test_scenes_that_do_not_fit_together_are_refused() -> None:
    scene = layered_scene()
    with pytest.raises(ValueError, match=r"\(1, 3\) surfaces, but \(1, 2\)"):
        replace(scene, surfaces=Surfaces(*(getattr(scene.surfaces, item.name)[:, :2] for item in fields(Surfaces))))
    with pytest.raises(ValueError, match="backdrop must be"):
        replace(scene, backdrop=torch.zeros(3))
    with pytest.raises(ValueError, match="same number of surfaces"):
        Surfaces.of([[], []])


def test_haze_hides_what_is_far() -> None:
    scene = replace(layered_scene(), haze=torch.tensor([[0.2, 0.4, 0.6, 100.0]]))
    grey = render_gs(scene, 0.0)
    assert torch.allclose(grey, torch.tensor([0.2, 0.4, 0.6]).reshape(3, 1, 1).expand_as(grey[0])[None], atol=1e-5)
    clear = render_gs(replace(scene, haze=torch.tensor([[0.2, 0.4, 0.6, 0.0]])), 0.0)
    assert torch.equal(clear, render_gs(layered_scene(), 0.0))


def test_planes_that_cut_each_other_meet_in_a_line() -> None:
    """One plane recedes to the right through another at constant depth: left of the cut it is in front."""
    wall = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]], dtype=torch.float64)
    # Inverse depth 0.5 - x / 256: it is 0.25, that of the wall, at x = 64.
    tilted = torch.linalg.inv(
        torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0 / 256, 0.0, 0.5]], dtype=torch.float64)
    )
    curve = HomographyCurve(torch.stack([wall, tilted, wall]).reshape(1, 3, 1, 1, 3, 3))
    scene = scene_of(curve)
    surfaces = scene.surfaces
    nowhere = torch.tensor([1.0, 1.0, -1.0, -1.0])
    extent = torch.stack([surfaces.extent[0, 0], surfaces.extent[0, 0], nowhere])[None]
    plain = replace(surfaces, extent=extent, gain=torch.zeros_like(surfaces.gain), offset=torch.eye(3)[None])
    row = render_gs(replace(scene, surfaces=plain), 0.0)[0, :, 50]
    assert torch.allclose(row[:, :63], torch.tensor([0.0, 1.0, 0.0])[:, None].expand(3, 63), atol=1e-4)
    assert torch.allclose(row[:, 64], torch.tensor([0.5, 0.5, 0.0]), atol=1e-3)
    assert torch.allclose(row[:, 66:], torch.tensor([1.0, 0.0, 0.0])[:, None].expand(3, SIZE[1] - 66), atol=1e-4)
