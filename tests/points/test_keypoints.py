from __future__ import annotations

import numpy as np
import pytest
import torch

from qrsc.points import Lens, correct_keypoints
from qrsc.timing import SCANS, Readout, Scan
from tests.points.point_tracks import SIZE, quadratic_tracks

HEIGHT, WIDTH = 48, 64


@pytest.mark.parametrize("scan", SCANS)
def test_exact_flow_gives_exact_positions(scan: Scan) -> None:
    """One parabola for all pixels: flows to the frames around, from where each pixel lands."""
    readout = Readout(0.8, scan)
    velocity, acceleration = torch.tensor([5.0, -3.0]).double(), torch.tensor([1.5, 2.0]).double()
    grid = torch.stack(torch.meshgrid(torch.arange(WIDTH), torch.arange(HEIGHT), indexing="xy"), -1).double()
    axis = 0 if readout.sideways else 1
    own = readout.row_time(grid[..., axis], HEIGHT, WIDTH)

    def shift(passed: torch.Tensor) -> torch.Tensor:
        at, since = own + passed, own
        return (at - since)[..., None] * velocity + 0.5 * (at**2 - since**2)[..., None] * acceleration

    flows = {}
    for step in (-1, 1):
        passed = torch.full_like(own, float(step))
        for _ in range(60):
            landing = grid + shift(passed)
            passed = step + readout.row_time(landing[..., axis], HEIGHT, WIDTH) - own
        flows[step] = shift(passed).permute(2, 0, 1)
    points = torch.tensor([[10.0, 8.0], [31.5, 20.25], [50.0, 40.0]]).double()
    found = correct_keypoints(points, flows, readout)
    since = readout.row_time(points[:, axis], HEIGHT, WIDTH)
    at = torch.full_like(since, readout.instant("middle"))
    true = points + (at - since)[:, None] * velocity + 0.5 * (at**2 - since**2)[:, None] * acceleration
    assert isinstance(found.position, torch.Tensor)
    assert (found.position - true).norm(dim=-1).max() < 1e-3  # flows are interpolated between pixels
    array = correct_keypoints(points.numpy(), flows, readout)
    assert isinstance(array.position, np.ndarray)
    np.testing.assert_allclose(array.position, found.position.numpy())


def test_the_same_as_tracks_through_a_lens() -> None:
    readout, lens = Readout(0.8), Lens("SIMPLE_RADIAL", (500.0, 319.5, 239.5, -0.1))
    tracks = quadratic_tracks(readout, frames=3, points=8, lens=lens, speed=8.0)
    kept = tracks.inside.all(0)
    seen, true = tracks.seen[:, kept], tracks.true[1, kept]
    for point, before, after, expected in zip(seen[1], seen[0], seen[2], true, strict=True):
        flows = {-1: (before - point), 1: (after - point)}
        fields = {step: flow.reshape(2, 1, 1).expand(2, *SIZE) for step, flow in flows.items()}
        found = correct_keypoints(point[None], fields, readout, lens=lens)
        assert isinstance(found.position, torch.Tensor)
        torch.testing.assert_close(found.position[0], expected, atol=1e-6, rtol=0.0)


def test_bad_input() -> None:
    flow = torch.zeros(2, 10, 12)
    with pytest.raises(ValueError, match=r"keypoints must be \[M points, 2\]"):
        correct_keypoints(torch.zeros(3), {1: flow}, Readout(0.5))
    with pytest.raises(ValueError, match="at least one is needed"):
        correct_keypoints(torch.zeros(3, 2), {}, Readout(0.5))
    with pytest.raises(ValueError, match="all be of the size of the frame"):
        correct_keypoints(torch.zeros(3, 2), {1: flow, -1: flow[:, 1:]}, Readout(0.5))
    with pytest.raises(ValueError, match="inside the frame of 12 x 10"):
        correct_keypoints(torch.full((3, 2), 20.0), {1: flow}, Readout(0.5))
