"""Ground truth: flows, fields, visibility and velocities."""

from __future__ import annotations

import pytest
import torch

from qrsc.simulate.render.rows import render_gs, render_rs, row_times
from qrsc.simulate.render.truth import correction_field, distortion_field, gs_kinematics, rs_flow, rs_kinematics
from qrsc.timing import SCANS, Readout, Scan

from ..scenes import SIZE, comparable, layered_scene, psnr, sampled


@pytest.mark.parametrize("scan", SCANS)
def test_flow_takes_one_frame_to_the_next(scan: Scan) -> None:
    scene, readout = layered_scene(), Readout(0.9, scan)
    here, there = render_rs(scene, readout, 0), render_rs(scene, readout, 1)
    flow, visible = rs_flow(scene, readout, 0, 1)
    mask = comparable(scene, row_times(scene, readout, 0), row_times(scene, readout, 1), flow, visible)
    assert mask.double().mean() > 0.4
    assert psnr(sampled(there, flow), here, mask) > 45


@pytest.mark.parametrize("scan", SCANS)
def test_fields_take_the_rolling_to_the_global_frame_and_back(scan: Scan) -> None:
    scene, readout = layered_scene(), Readout(0.9, scan)
    rolling, still = render_rs(scene, readout, 0), render_gs(scene, 0.45)
    rolling_times, still_times = row_times(scene, readout, 0), torch.full((SIZE[0], 1), 0.45, dtype=torch.float64)
    field, visible = distortion_field(scene, readout, 0, 0.45)
    mask = comparable(scene, still_times, rolling_times, field, visible)
    assert psnr(sampled(rolling, field), still, mask) > 45
    field, visible = correction_field(scene, readout, 0, 0.45)
    mask = comparable(scene, rolling_times, still_times, field, visible)
    assert psnr(sampled(still, field), rolling, mask) > 45


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_flow_of_an_accelerated_layer_is_its_path(dtype: torch.dtype) -> None:
    """x = x0 + 6 t + 1.5 t^2 and y = y0 + 3 t - t^2: the landing row solves a quadratic in closed form."""
    affine = torch.zeros(1, 3, 3, 2, 3)
    affine[:, :, 0] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    affine[:, :, 1, :, 2] = torch.tensor([6.0, 3.0])
    affine[:, :, 2, :, 2] = torch.tensor([1.5, -1.0])
    scene, readout = layered_scene(affine, dtype), Readout(0.9)
    flow, _ = rs_flow(scene, readout, 0, 1)
    y = torch.arange(SIZE[0], dtype=torch.float64)
    slope = 0.9 / SIZE[0]
    start = slope * y
    origin = y - 3 * start + start**2
    # t = 1 + slope (origin + 3 t - t^2)
    half = (1 - 3 * slope) / 2
    time = (-half + (half**2 + slope * (1 + slope * origin)).sqrt()) / slope
    expected = torch.stack([6 * (time - start) + 1.5 * (time**2 - start**2), 3 * (time - start) - (time**2 - start**2)])
    error = (flow[0] - expected[:, :, None]).abs().max()
    assert error < (2e-4 if dtype == torch.float32 else 1e-10)


def test_correction_and_distortion_are_inverse() -> None:
    scene, readout = layered_scene(dtype=torch.float64), Readout(0.7)
    correction, visible = correction_field(scene, readout, 1, 1.35)
    distortion, _ = distortion_field(scene, readout, 1, 1.35)
    back = correction + sampled(distortion, correction, mode="bilinear")
    times = row_times(scene, readout, 1)
    mask = comparable(scene, times, torch.full_like(times, 1.35), correction, visible)
    assert float(back.abs().amax(1, keepdim=True)[mask].max()) < 1e-3


def test_landing_is_exact_where_the_motion_is_fast() -> None:
    """160 px per frame along the scan of a picture of 96 rows would outrun it; along x it must be exact."""
    affine = torch.zeros(1, 3, 2, 2, 3)
    affine[:, :, 0] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    affine[:, :, 1, :, 2] = torch.tensor([-160.0, -45.0])
    scene = layered_scene(affine, torch.float64)
    flow, _ = rs_flow(scene, Readout(1.0), 0, 1)
    time = 1.0 / (1.0 + 45.0 / SIZE[0])
    expected = torch.tensor([-160.0 * time, -45.0 * time], dtype=torch.float64)
    assert torch.allclose(flow[0], expected[:, None, None].expand(2, *SIZE), atol=1e-9)


def test_what_is_hidden_or_outside_is_not_visible() -> None:
    affine = torch.zeros(1, 3, 2, 2, 3)
    affine[:, :, 0] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    affine[0, 1, 1, 0, 2] = 10.0  # the rectangle, 25 to 70, moves over the background
    affine[0, 2, 1, 0, 2] = 40.0  # the disc, 70 to 110, leaves the picture on the right
    flow, visible = rs_flow(layered_scene(affine), Readout(0.0), 0, 1)
    assert bool(visible[0, 0, 40, 20])
    assert bool(visible[0, 0, 40, 40])
    assert not visible[0, 0, 30, 71:80].any()
    assert bool(visible[0, 0, 30, 81])
    assert bool(visible[0, 0, 60, 80])
    assert not visible[0, 0, 60, 90:104].any()
    assert torch.equal(flow[0, :, 60, 95], torch.tensor([40.0, 0.0]))


def test_speeds_agree_with_differences() -> None:
    scene = layered_scene(dtype=torch.float64)
    kinematics = gs_kinematics(scene, 0.5)
    step = 1e-3
    ahead, _ = correction_field(scene, Readout(0.0, offset=0.5), 0, 0.5 + step)
    behind, _ = correction_field(scene, Readout(0.0, offset=0.5), 0, 0.5 - step)
    assert torch.allclose(kinematics.velocity, (ahead - behind) / (2 * step), atol=1e-6)
    assert torch.allclose(kinematics.acceleration, (ahead + behind) / step**2, atol=1e-6)
    assert set(kinematics.depth.flatten().tolist()) == {1.0, 2.0, 3.0}


def test_rolling_speeds_are_those_at_the_row_times() -> None:
    scene, readout = layered_scene(dtype=torch.float64), Readout(0.5)
    rolling = rs_kinematics(scene, readout, 0)
    row = 37
    still = gs_kinematics(scene, 0.5 * row / SIZE[0])
    assert torch.allclose(rolling.velocity[..., row, :], still.velocity[..., row, :])
    assert torch.allclose(rolling.depth[..., row, :], still.depth[..., row, :])
