"""The path of the camera: recovered from flows that it made, with things in the way that it has nothing to do with."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.flow import FlowPair
from qrsc.motion.along_path import borrow_acceleration, trajectory_along_path
from qrsc.motion.camera_path import KNOTS, CameraPath, PathOfFrame
from qrsc.motion.fill import TrustedFlow
from qrsc.motion.path_fit import (
    PathEquations,
    first_round,
    fit_path,
    layout_of,
    path_equations,
    solve,
    solve_by_cholesky,
)
from qrsc.motion.trajectory import Trajectory, correction_field, fit_trajectory
from qrsc.pipeline import Corrector, TimedFrame
from qrsc.pipeline import window as window_module
from qrsc.timing import SCANS, Readout, Scan
from qrsc.warp import pixel_grid

SIZE = (60, 80)
FRAMES = 7
DOUBLE = torch.empty(0, dtype=torch.float64)


def shaking(seed: int = 0, perspective: float = 0.3, strength: float = 1.5) -> CameraPath:
    """A camera that turns, shifts and trembles, known from before the first frame until after the last."""
    generator = torch.Generator().manual_seed(seed)
    count = KNOTS * (FRAMES + 3)
    twice_a_frame = strength * torch.randn(1, 4, 2 * (FRAMES + 3), generator=generator, dtype=torch.float64)
    knots = F.interpolate(twice_a_frame, size=count, mode="linear", align_corners=True).transpose(1, 2)
    knots[..., 2:] *= 0.3
    knots[..., 0] += torch.linspace(0.0, 20.0, count, dtype=torch.float64)  # it pans, too
    return CameraPath(knots, -2 * KNOTS, torch.tensor([perspective], dtype=torch.float64))


def flow_along(path: CameraPath, readout: Readout, start: int, end: int, steady: Tensor | None = None) -> Tensor:
    """The flow `[1, 2, H, W]` of a camera that follows a path; places may have a velocity `[1, 2, H, W]` in addition.

    Where a point lands says when it was seen there, and the other way round.
    """
    frame = path.from_frame(float(start), readout, SIZE)
    flow = torch.zeros(1, 2, *SIZE, dtype=torch.float64)
    for _ in range(30):
        time = readout.flight_time(flow, end - start)
        flow = frame.displacement_at(time) + (0.0 if steady is None else steady * time)
    return flow


def equations(flows: dict[tuple[int, int], Tensor], readout: Readout) -> list[PathEquations]:
    sure = torch.ones(1, 1, *SIZE, dtype=torch.float64)
    return [path_equations(flow, sure, float(start), float(end), readout) for (start, end), flow in flows.items()]


def neighbours(path: CameraPath, readout: Readout, steady: Tensor | None = None) -> dict[tuple[int, int], Tensor]:
    pairs = [(k, k + 1) for k in range(FRAMES - 1)] + [(k + 1, k) for k in range(FRAMES - 1)]
    return {pair: flow_along(path, readout, *pair, steady) for pair in pairs}


def corrections(flows: dict[tuple[int, int], Tensor], readout: Readout, frame: int, found: CameraPath | None) -> Tensor:
    near = {step: flows[frame, frame + step] for step in (-1, 1)}
    shared = None if found is None else found.from_frame(float(frame), readout, SIZE)
    return correction_field(fit_trajectory(near, readout, shared=shared), readout, readout.instant("middle"))


def true_correction(path: CameraPath, readout: Readout, frame: int) -> Tensor:
    exposed = readout.row_times(*SIZE, dtype=torch.float64)
    return path.from_frame(float(frame), readout, SIZE).displacement_at(readout.instant("middle") - exposed)


def error(found: Tensor, truth: Tensor) -> float:
    """Mean distance where no point comes from outside the frame."""
    return float((found - truth).norm(dim=1)[:, 8:-8, 8:-8].mean())


# --- the spline ---


def test_states_are_sums_of_splines() -> None:
    path = shaking()
    times = torch.linspace(-1.0, FRAMES, 57, dtype=torch.float64)
    table = path.states(times.reshape(1, 1, -1))[0, :, 0]  # [4, T]
    for number, time in enumerate(times.tolist()):
        away = [abs(KNOTS * time - (path.first + index)) for index in range(path.knots.shape[1])]
        weights = [max(0.0, 2.0 - a) ** 3 / 6.0 - 4.0 * max(0.0, 1.0 - a) ** 3 / 6.0 for a in away]
        expected = sum(weight * knot for weight, knot in zip(weights, path.knots[0], strict=True))
        torch.testing.assert_close(table[:, number], expected, rtol=0.0, atol=3e-3)  # straight inside the table


def test_times_late_in_a_clip_are_as_exact_as_early_ones() -> None:
    early = CameraPath(shaking().knots.float(), -2 * KNOTS, torch.tensor([0.3]))
    late = CameraPath(early.knots, early.first + 100_000 * KNOTS, early.perspective)
    readout = Readout(0.8)
    expected = early.from_frame(2.0, readout, SIZE).displacement_at(0.7)
    torch.testing.assert_close(late.from_frame(100_002.0, readout, SIZE).displacement_at(0.7), expected)
    assert float(expected.abs().max()) > 0.5


def test_displacements_are_those_of_the_convention() -> None:
    path, readout = shaking(perspective=0.4), Readout(0.6)
    displacement = path.from_frame(2.0, readout, SIZE).displacement_at(0.5)
    row, column = 41, 13
    exposed = 0.6 * row / SIZE[0]
    before, after = (path.states(torch.tensor([[[2.0 + exposed + late]]], dtype=torch.float64)) for late in (0.0, 0.5))
    across, down, turn, scale = (after - before).flatten().tolist()
    found = displacement[0, :, row, column]
    half_way = pixel_grid(*SIZE, dtype=torch.float64)[:, row, column] + 0.5 * found
    x, y = ((half_way - torch.tensor([39.5, 29.5])) / 40.0).tolist()
    expected = [
        across * (1.0 + 0.4 * x * x) + down * 0.4 * x * y - turn * y + scale * x,
        down * (1.0 + 0.4 * y * y) + across * 0.4 * x * y + turn * x + scale * y,
    ]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0.0, atol=2e-3)


# --- the fit ---


@pytest.mark.parametrize("scan", SCANS)
def test_a_shaking_camera_is_followed_between_frames(scan: Scan) -> None:
    readout = Readout(0.9, scan)
    path = shaking()
    flows = neighbours(path, readout)
    found = fit_path(equations(flows, readout), DOUBLE)
    for frame in range(2, FRAMES - 2):
        truth = true_correction(path, readout, frame)
        plain = error(corrections(flows, readout, frame, None), truth)
        followed = error(corrections(flows, readout, frame, found), truth)
        assert followed < 0.4 * plain


def test_a_camera_that_turns_shows_its_focal_length() -> None:
    readout = Readout(0.9)
    for perspective in (0.0, 0.5):
        path = shaking(perspective=perspective, strength=3.0)
        found = fit_path(equations(neighbours(path, readout), readout), DOUBLE)
        assert float(found.perspective) == pytest.approx(perspective, abs=0.12)


def test_a_third_of_the_picture_may_move_differently() -> None:
    readout = Readout(0.9)
    path = shaking()
    flows = neighbours(path, readout)
    other = neighbours(shaking(seed=5, strength=4.0), readout)
    mixed = {pair: flow.clone() for pair, flow in flows.items()}
    for pair, flow in mixed.items():
        flow[..., 10:50, 20:52] = other[pair][..., 10:50, 20:52] + 3.0 * (pair[1] - pair[0])
    found = fit_path(equations(mixed, readout), DOUBLE)
    truth = true_correction(path, readout, 3)
    outside = torch.ones(SIZE, dtype=torch.bool)
    outside[2:58, 12:60] = False
    followed, plain = (
        float((corrections(flows, readout, 3, each) - truth).norm(dim=1)[0][outside].mean()) for each in (found, None)
    )
    assert followed < 0.6 * plain


def test_near_things_further_down_are_not_taken_for_a_camera_that_speeds_up() -> None:
    readout = Readout(0.95)
    still = shaking(strength=0.0)
    still.knots[..., 0] = 0.0
    ground = torch.linspace(0.0, 4.0, SIZE[0], dtype=torch.float64).reshape(1, 1, -1, 1) * torch.ones(SIZE).double()
    steady = torch.cat([ground, torch.zeros_like(ground)], 1)
    flows = neighbours(still, readout, steady)
    found = fit_path(equations(flows, readout), DOUBLE)
    truth = steady * (readout.instant("middle") - readout.row_times(*SIZE, dtype=torch.float64))
    assert error(corrections(flows, readout, 3, found), truth) < 0.02


def test_clips_of_a_batch_have_paths_of_their_own() -> None:
    readout = Readout(0.7)
    each = [equations(neighbours(shaking(seed), readout), readout) for seed in (1, 2)]
    joined = [
        PathEquations(one.first, *(torch.cat(both) for both in zip(one[1:], other[1:], strict=True)))
        for one, other in zip(*each, strict=True)
    ]
    together = fit_path(joined, DOUBLE)
    for number, (seed, alone) in enumerate(zip((1, 2), each, strict=True)):
        flows = neighbours(shaking(seed), readout)
        own = CameraPath(together.knots[number : number + 1], together.first, together.perspective[number : number + 1])
        expected = corrections(flows, readout, 3, fit_path(alone, DOUBLE))
        torch.testing.assert_close(corrections(flows, readout, 3, own), expected, rtol=0.0, atol=2e-3)


def test_a_gpu_s_way_to_solve_the_equations_is_as_good() -> None:
    readout = Readout(0.7)
    given = equations(neighbours(shaking(), readout), readout)
    _, matrix, right = first_round(layout_of(given), given)
    found, expected = solve_by_cholesky(matrix, right), solve(matrix, right)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-7)
    assert float(expected.abs().max()) > 1e-3


def test_flows_without_support_say_nothing() -> None:
    readout = Readout(0.7)
    flows = neighbours(shaking(), readout)
    none = torch.zeros(1, 1, *SIZE, dtype=torch.float64)
    doubted = [path_equations(flow, none, float(start), float(end), readout) for (start, end), flow in flows.items()]
    found = fit_path(doubted, torch.empty(0))
    assert float(found.knots.abs().max()) < 1e-6


# --- in the pipeline ---


class AlongPath:
    """Gives the flows of a path, pair by pair."""

    def __init__(self, path: CameraPath, readout: Readout) -> None:
        self.flows, self.number = neighbours(path, readout), 0

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        self.number += 1
        return FlowPair(self.flows[self.number - 1, self.number], self.flows[self.number, self.number - 1])


def test_the_corrector_follows_the_path_through_every_frame() -> None:
    readout = Readout(0.9)
    path = shaking()
    clip = torch.rand(FRAMES, 3, *SIZE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fields = {
        motion: [
            result.correction_field.unsqueeze(0)
            for result in Corrector(readout, motion=motion, fusion="none", flow=AlongPath(path, readout)).stream(clip)
        ]
        for motion in ("path", "quadratic")
    }
    errors = {
        motion: sum(error(field, true_correction(path, readout, frame)) for frame, field in enumerate(each))
        for motion, each in fields.items()
    }
    assert errors["path"] < 0.6 * errors["quadratic"]  # measured: 0.4 of it


def test_a_path_is_not_led_across_a_long_gap() -> None:
    readout = Readout(0.9)
    times = [0.0, 1.0, 2.0, 30.0, 31.0, 32.0, 33.0]
    clip = torch.rand(FRAMES, 3, *SIZE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    corrector = Corrector(readout, fusion="none", flow=AlongPath(shaking(), readout))
    results = list(corrector.stream(TimedFrame(frame, time) for frame, time in zip(clip, times, strict=True)))
    assert all(bool(result.correction_field.isfinite().all()) for result in results)


# --- what nobody has seen ---


def test_what_is_unsure_follows_the_path() -> None:
    readout, path = Readout(0.9), shaking(strength=3.0)
    hidden = torch.zeros(1, 1, *SIZE, dtype=torch.bool)
    hidden[..., 10:50, 20:60] = True
    found = {}
    for step in (-1, 1):
        flow = flow_along(path, readout, 3, 3 + step)
        found[float(step)] = TrustedFlow(torch.where(hidden, 0.5 * flow, flow), torch.where(hidden, 1e-3, 1.0).double())
    truth = true_correction(path, readout, 3)

    def off(path: PathOfFrame | None) -> float:
        trajectory = trajectory_along_path(found, path, readout, order=2, regularisation=0.01)
        correction = correction_field(trajectory, readout, readout.instant("middle"))
        return float((correction - truth).norm(dim=1)[hidden[:, 0]].mean())

    assert off(path.from_frame(3.0, readout, SIZE)) < 0.3 * off(None)


def test_a_pixel_seen_on_one_side_accelerates_as_those_around_it() -> None:
    readout, still = Readout(0.9), CameraPath(torch.zeros(1, 30, 4).double(), -6, torch.zeros(1).double())
    path = still.from_frame(0.0, readout, SIZE)
    velocity, acceleration = torch.tensor([4.0, 0.0]).double(), torch.tensor([2.0, 0.0]).double()
    leaving = torch.zeros(1, 1, *SIZE, dtype=torch.bool)
    leaving[..., -12:] = True
    found = {}
    for step in (-1.0, 1.0):  # sideways, so that every pixel is seen there after one frame interval
        flow = (velocity * step + 0.5 * acceleration * step**2).reshape(1, 2, 1, 1).expand(1, 2, *SIZE)
        unsure = leaving & (step > 0)
        found[step] = TrustedFlow(torch.where(unsure, 0.0, flow), torch.where(unsure, 1e-3, 1.0).double())

    def motion(path: PathOfFrame | None) -> Trajectory:
        return trajectory_along_path(found, path, readout, order=2, regularisation=0.01)

    alike, apart = motion(path), motion(None)
    assert alike.acceleration is not None
    assert apart.acceleration is not None
    edge = (0, 0, slice(None), slice(-10, None))
    torch.testing.assert_close(alike.acceleration[edge], torch.full((60, 10), 2.0).double(), atol=0.1, rtol=0)
    torch.testing.assert_close(alike.velocity[edge], torch.full((60, 10), 4.0).double(), atol=0.1, rtol=0)
    assert float(apart.acceleration[edge].abs().max()) < 0.5


def test_what_is_not_finite_moves_by_nothing_along_a_path() -> None:
    readout = Readout(0.9)
    path = shaking().from_frame(3.0, readout, SIZE)
    flow = torch.zeros(1, 2, *SIZE, dtype=torch.float64)
    flow[..., 20:30, 20:30] = torch.nan
    found = {step: TrustedFlow(flow, torch.ones(1, 1, *SIZE).double()) for step in (-1.0, 1.0)}
    trajectory = trajectory_along_path(found, path, readout, order=2, regularisation=0.01)
    assert trajectory.acceleration is not None
    assert not trajectory.valid[..., 20:30, 20:30].any()
    for values in (trajectory.velocity, trajectory.acceleration):
        assert values.isfinite().all()
        assert not values[..., 20:30, 20:30].any()


# --- the ends of a clip ---


@pytest.mark.parametrize(("beyond", "lasting"), [(2.0, 1.0), (1.0, 0.5), (-2.0, 0.0), (5.0, 1.0)])
def test_as_much_of_the_neighbours_acceleration_is_carried_on_as_lasts(beyond: float, lasting: float) -> None:
    readout, one = Readout(0.9), torch.ones(1, 1, *SIZE).double()
    sideways = torch.cat([one, torch.zeros_like(one)], 1)  # so that flows take one frame interval

    def moving(velocity: float, acceleration: float | None) -> Trajectory:
        bent = None if acceleration is None else acceleration * sideways
        return Trajectory(velocity * sideways, bent, None, one.bool(), one)

    flow = TrustedFlow(4.0 * sideways, one)
    motion = borrow_acceleration(moving(4.0, None), flow, 1.0, readout, moving(3.0, 2.0), flow, moving(3.0, beyond))
    assert motion.acceleration is not None
    torch.testing.assert_close(motion.acceleration, 2.0 * lasting * sideways)
    torch.testing.assert_close(motion.displacement_at(1.0), flow.flow)
    still = borrow_acceleration(moving(4.0, None), flow, 1.0, readout, moving(3.0, 0.0), flow, moving(3.0, beyond))
    torch.testing.assert_close(still.velocity, 4.0 * sideways)


class Accelerating:
    """Flows of a picture that moves sideways by `4 t + t^2`, whatever the frames show; `index` counts the pairs."""

    def __init__(self, readout: Readout) -> None:
        self.index, self.exposed = 0, readout.row_times(*SIZE, dtype=torch.float64)

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        before, after = (accelerated(self.index + later + self.exposed) for later in (0, 1))
        self.index += 1
        flow = torch.zeros_like(first[:, :2])
        flow[:, 0] = after - before
        return FlowPair(flow, -flow)


def accelerated(time: Tensor) -> Tensor:
    return 4.0 * time + time.square()


@pytest.mark.parametrize("frames", [2, 3, 4, 6])
def test_the_ends_of_a_clip_of_four_frames_and_more_accelerate(frames: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # With no path of the camera all of the motion is the pixels' own.
    monkeypatch.setattr(window_module, "_path_of_frame", lambda *given: None)
    clip = torch.rand(frames, 3, *SIZE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    readout = Readout(0.5)
    corrector = Corrector(readout, fusion="none", flow=Accelerating(readout))
    exposed = readout.row_times(*SIZE, dtype=torch.float64)
    fields = [each.correction_field for each in corrector.stream(clip)]
    for index in (0, frames - 1):
        asked = index + torch.full_like(exposed, readout.instant("middle"))
        truth = accelerated(asked) - accelerated(index + exposed)  # [1, H, 1]
        off = float((fields[index][:1] - truth)[..., 30:-30].abs().max())  # inside, where nothing leaves the picture
        assert off < 0.06 if frames >= 4 else off > 0.25
