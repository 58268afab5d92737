from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch
from torch import Tensor

from qrsc.motion.trajectory import solve_trajectory
from qrsc.points import FitOptions, Lens, correct_tracks
from qrsc.timing import SCANS, Readout, Scan
from tests.points.point_tracks import SIZE, quadratic_tracks, track

LENSES = {
    "none": None,
    "SIMPLE_RADIAL": Lens("SIMPLE_RADIAL", (500.0, 319.5, 239.5, -0.1)),
    "OPENCV": Lens("OPENCV", (510.0, 500.0, 322.0, 238.0, -0.12, 0.03, 0.001, -0.002)),
    "OPENCV_FISHEYE": Lens("OPENCV_FISHEYE", (400.0, 400.0, 319.5, 239.5, 0.02, -0.005, 0.0, 0.0)),
}


def errors(found: object, true: Tensor) -> Tensor:
    assert isinstance(found, Tensor)
    length: Tensor = (found - true).norm(dim=-1)
    return length


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("lens", LENSES)
def test_quadratic_motion_is_exact_in_every_scan_and_through_every_lens(scan: Scan, lens: str) -> None:
    readout = Readout(0.9, scan)
    tracks = quadratic_tracks(readout, lens=LENSES[lens])
    found = correct_tracks(tracks.seen, readout, SIZE, lens=LENSES[lens])
    enough = tracks.inside & (tracks.inside.sum(0) >= 3)
    before, after = errors(tracks.seen, tracks.true)[enough], errors(found.position, tracks.true)[enough]
    assert before.mean() > 2.0
    assert after.max() < 1e-6  # 5e-13; to be under 0.02
    assert bool((found.corrected == (tracks.inside & (tracks.inside.sum(0) >= 2))).all())


def test_in_single_precision() -> None:
    tracks = quadratic_tracks(Readout(0.9))
    found = correct_tracks(tracks.seen.float(), Readout(0.9), SIZE)
    enough = tracks.inside & (tracks.inside.sum(0) >= 3)
    assert isinstance(found.position, Tensor)
    assert found.position.dtype == torch.float32
    assert errors(found.position.double(), tracks.true)[enough].max() < 0.01  # 0.0001


def test_one_frame_and_its_neighbours_are_the_solver_of_dense_flow() -> None:
    readout = Readout(0.8)
    generator = torch.Generator().manual_seed(0)
    grid = torch.stack(torch.meshgrid(torch.arange(64.0), torch.arange(48.0), indexing="xy"), -1).reshape(-1, 2)
    flows = 6.0 * torch.randn(2, len(grid), 2, generator=generator, dtype=torch.float64)
    inside = 10.0 + 0.6 * grid.double()  # stays in the frame
    tracks = torch.stack([inside + flows[0], inside, inside + flows[1]]).clamp(0.0, 47.0)
    pictures = [(tracks[i] - tracks[1]).t().reshape(2, 48, 64) for i in (0, 2)]
    dense = solve_trajectory(pictures[0], pictures[1], readout)
    found = correct_tracks(tracks, readout, (48, 64))
    assert isinstance(found.velocity, Tensor)
    assert isinstance(found.acceleration, Tensor)
    assert dense.acceleration is not None
    torch.testing.assert_close(found.velocity[1], dense.velocity.reshape(2, -1).t())
    torch.testing.assert_close(found.acceleration[1], dense.acceleration.reshape(2, -1).t())


@pytest.mark.parametrize(("order", "neighbours"), [(1, 2), (2, 2), (2, 4), (3, 4)])
def test_noise_is_no_larger_than_it_has_to_be_and_is_predicted(order: int, neighbours: int) -> None:
    """The best that observations of a polynomial motion allow: the least-squares fit with known times."""
    readout = Readout(0.9)
    tracks = quadratic_tracks(readout, frames=9, points=1500, speed=1.5)
    noisy = tracks.seen + 0.5 * torch.randn(tracks.seen.shape, generator=torch.Generator().manual_seed(2))
    options = FitOptions(order=order, neighbours=neighbours)
    found = correct_tracks(noisy, readout, SIZE, options=options)
    assert isinstance(found.position, Tensor)
    assert isinstance(found.covariance, Tensor)
    inner = (slice(3, 6), tracks.inside.all(0))
    if order == 1:  # what this model cannot follow is no error of the noise
        exact = correct_tracks(tracks.seen, readout, SIZE, options=options)
        assert isinstance(exact.position, Tensor)
        rest = (found.position - exact.position)[inner]
    else:
        rest = (found.position - tracks.true)[inner]
    error = float(rest.square().mean().sqrt())
    predicted = float(found.covariance[inner][..., 0, 0].mean().sqrt())
    steps = torch.arange(neighbours + 1.0) - neighbours // 2
    powers = steps[:, None] ** torch.arange(order + 1.0)
    inverse = torch.linalg.inv(powers.t() @ powers)
    waits = torch.linspace(-0.2, 0.2, 21)[:, None] ** torch.arange(order + 1.0)  # most points are near the middle
    allowed = 0.5 * float(torch.einsum("ni,ij,nj->n", waits, inverse, waits).mean().sqrt())
    assert error == pytest.approx(predicted, rel=0.05)  # 0.012
    assert error < 1.2 * allowed  # 1.005 to 1.013
    assert error < 0.5  # one observation


def test_gaps_and_single_observations() -> None:
    readout = Readout(0.7)
    tracks = quadratic_tracks(readout, points=200, speed=5.0)
    hidden = torch.rand(tracks.inside.shape, generator=torch.Generator().manual_seed(3)) < 0.3
    seen = torch.where(hidden[..., None], torch.nan, tracks.seen)
    visible = ~seen.isnan().any(-1)
    found = correct_tracks(seen, readout, SIZE, options=FitOptions(reach=6.0))
    enough = visible & (visible.sum(0) >= 3)
    assert errors(found.position, tracks.true)[enough].max() < 1e-6
    assert isinstance(found.position, Tensor)
    assert bool((found.position.isnan().any(-1) == ~visible).all())
    same = correct_tracks(tracks.seen.nan_to_num(), readout, SIZE, visible=visible, options=FitOptions(reach=6.0))
    torch.testing.assert_close(same.position, found.position, equal_nan=True)
    alone = torch.full((3, 2, 2), torch.nan, dtype=torch.float64)
    alone[:, 0], alone[1, 1] = 100.0, 200.0
    lonely = correct_tracks(alone, readout, SIZE)
    assert lonely.corrected.tolist() == [[True, False], [True, False], [True, False]]
    assert lonely.position[1, 1].tolist() == [200.0, 200.0]
    assert float(lonely.confidence[1, 1]) == 0.0


def test_uneven_frame_times() -> None:
    readout = Readout(0.6)

    def place(at: Tensor) -> Tensor:
        return torch.tensor([[100.0, 200.0]]) + at * torch.tensor([[9.0, 4.0]]) + at**2 * torch.tensor([[0.4, -0.3]])

    tracks = track(place, 8, 1, readout, None)
    kept = [0, 1, 3, 4, 7]
    times = torch.tensor([10.0, 11.0, 13.0, 14.0, 17.0])
    found = correct_tracks(tracks.seen[kept], readout, SIZE, frame_times=times, options=FitOptions(reach=6.0))
    assert errors(found.position, tracks.true[kept]).max() < 1e-9


def test_arrays_give_arrays() -> None:
    tracks = quadratic_tracks(Readout(0.9), points=20)
    tensors = correct_tracks(tracks.seen, Readout(0.9), SIZE)
    arrays = correct_tracks(tracks.seen.numpy(), Readout(0.9), SIZE)
    assert isinstance(arrays.position, np.ndarray)
    assert isinstance(arrays.covariance, np.ndarray)
    assert arrays.covariance.shape == (7, 20, 2, 2)
    np.testing.assert_array_equal(arrays.position, np.asarray(tensors.position))


def test_the_path_follows_a_shake_that_no_parabola_does() -> None:
    readout = Readout(0.8)
    generator = torch.Generator().manual_seed(5)
    start = torch.rand(400, 2, generator=generator, dtype=torch.float64) * torch.tensor([540.0, 380.0]) + 50.0
    nearness = 1.0 + 0.3 * torch.rand(400, 1, generator=generator, dtype=torch.float64)

    def place(at: Tensor) -> Tensor:
        shake = torch.cat([12.0 * torch.sin(1.7 * at), 9.0 * torch.sin(1.3 * at + 1.0)], -1)
        return start + shake + nearness * torch.tensor([2.0, 0.5]) * (at - 5.0)

    tracks = track(place, 11, 400, readout, None)
    inner = (slice(1, -1), tracks.inside.all(0))
    plain, along = (
        errors(
            correct_tracks(tracks.seen, readout, SIZE, options=FitOptions(path=path, robust=path)).position, tracks.true
        )[inner]
        for path in (False, True)
    )
    assert along.mean() < 0.2 * plain.mean()
    assert along.mean() < 0.15


def test_a_wrong_match_spoils_its_neighbours_less_if_robust() -> None:
    readout = Readout(0.8)
    tracks = quadratic_tracks(readout, points=300, speed=3.0)
    wrong = tracks.seen.clone()
    wrong[3, ::10] += 40.0
    others = tracks.inside.clone()
    others[3] = False
    beside = others[[2, 4]][:, ::10]
    plain, robust = (
        errors(
            correct_tracks(wrong.nan_to_num(nan=-1.0), readout, SIZE, visible=tracks.inside, options=o).position,
            tracks.true,
        )[[2, 4]][:, ::10][beside].mean()
        for o in (FitOptions(), FitOptions(robust=True))
    )
    assert robust < 0.6 * plain  # 1.1 and 2.3 px


def test_gradients() -> None:
    readout = Readout(0.5)
    tracks = quadratic_tracks(readout, frames=4, points=3, speed=3.0).seen
    for options in (FitOptions(), FitOptions(order=3), FitOptions(neighbours=3, regularisation=0.1)):

        def moved(positions: Tensor, options: FitOptions = options) -> tuple[Tensor, Tensor]:
            found = correct_tracks(positions, readout, SIZE, lens=LENSES["OPENCV"], options=options)
            assert isinstance(found.position, Tensor)
            assert isinstance(found.variance, Tensor)
            return found.position, found.variance

        assert torch.autograd.gradcheck(moved, (tracks.clone().requires_grad_(),), atol=1e-4)


def test_a_hundred_thousand_points_in_thirty_frames_take_less_than_a_second() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.rand(100_000, 2, generator=generator) * torch.tensor([500.0, 400.0])
    tracks = start + torch.arange(30.0).reshape(-1, 1, 1) * torch.tensor([3.0, 2.0])
    taken = []
    for _ in range(3):
        before = time.process_time()
        correct_tracks(tracks, Readout(0.8), SIZE)
        taken.append(time.process_time() - before)
    # Two cores have two seconds of processor time in one second; 0.45 measured on one.
    assert min(taken) < 2.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tracks": torch.zeros(3, 2)}, r"\[N frames, M points, 2\]"),
        ({"tracks": torch.zeros(3, 4, 2, dtype=torch.int64)}, "floating point"),
        ({"tracks": torch.full((3, 4, 2), 700.0)}, r"inside the frame of 640 x 480.*700.*visible = False"),
        ({"tracks": torch.full((1, 4, 2), 100.0)}, "observed only once.*correct_keypoints"),
        ({"visible": torch.ones(3, 5, dtype=torch.bool)}, r"visible must be bool and \[N, M\]"),
        ({"confidence": torch.full((3, 4), 2.0)}, "from 0 to 1"),
        ({"frame_times": torch.tensor([0.0, 2.0, 1.0])}, "increase"),
    ],
)
def test_bad_input(change: dict[str, Tensor], message: str) -> None:
    given = {"tracks": torch.full((3, 4, 2), 100.0)} | change
    with pytest.raises(ValueError, match=message):
        correct_tracks(given.pop("tracks"), Readout(0.5), SIZE, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"order": 4}, {"neighbours": 1}, {"noise": -1.0}, {"reach": 0.0}, {"regularisation": math.nan}]
)
def test_bad_options(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="got"):
        FitOptions(**options)  # type: ignore[arg-type]
