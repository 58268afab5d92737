from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qrsc.motion import trajectory as motion
from qrsc.motion.consistency import MAX_FLOW
from qrsc.motion.trajectory import (
    ORDERS,
    Trajectory,
    _interpolate,
    correction_field,
    fit_trajectory,
    solve_trajectory,
)
from qrsc.timing import SCANS, Readout, Scan

NAN, INF = float("nan"), float("inf")
HEIGHT, WIDTH = 6, 8
# Flows of a few pixels and times of about 1 in float64: a hundred roundings, times the condition of the fit.
EXACT = 1e-11


def rand(*shape: int, seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def moving(order: int, leading: tuple[int, ...] = (), size: tuple[int, int] = (HEIGHT, WIDTH)) -> Trajectory:
    """A motion of this order, another one for each pixel; vertical, too, so that no flight time is whole."""
    terms = [rand(*leading, 2, *size, seed=n).tanh() * 0.9 / (n + 1) if n < order else None for n in range(3)]
    velocity, acceleration, jerk = terms
    assert velocity is not None
    everywhere = torch.ones_like(velocity[..., :1, :, :])
    return Trajectory(velocity, acceleration, jerk, everywhere.bool(), everywhere)


def exact_flow(motion: Trajectory, readout: Readout, step: int) -> Tensor:
    """The flow to another frame: where the point is when the row on which it lands is read."""
    time = torch.full_like(motion.confidence, float(step))
    for _ in range(200):
        previous, time = time, readout.flight_time(motion.displacement_at(time), step)
    assert float((time - previous).abs().max()) < 1e-14
    return motion.displacement_at(time)


def exact_flows(motion: Trajectory, readout: Readout, steps: tuple[int, ...]) -> dict[int, Tensor]:
    return {step: exact_flow(motion, readout, step) for step in steps}


def assert_close(ours: Tensor | None, expected: Tensor | None, tolerance: float = EXACT) -> None:
    if ours is None or expected is None:
        assert ours is expected
        return
    torch.testing.assert_close(ours, expected, rtol=0.0, atol=tolerance)


def assert_same_motion(ours: Trajectory, expected: Trajectory, tolerance: float = EXACT) -> None:
    assert_close(ours.velocity, expected.velocity, tolerance)
    assert_close(ours.acceleration, expected.acceleration, tolerance)
    assert_close(ours.jerk, expected.jerk, tolerance)
    assert torch.equal(ours.valid, expected.valid)
    assert_close(ours.confidence, expected.confidence, tolerance)


# --- golden cases ---


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("steps", [(1,), (-1, 1), (-2, -1, 1, 2)])
def test_a_still_picture_stays_where_it_is(scan: Scan, steps: tuple[int, ...]) -> None:
    readout = Readout(0.9, scan)
    still = torch.zeros(2, HEIGHT, WIDTH)
    for order in ORDERS.values():
        trajectory = fit_trajectory(dict.fromkeys(steps, still), readout, order=order)
        assert torch.equal(correction_field(trajectory, readout, 0.45), still)
        assert bool(trajectory.valid.all())


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize(("order", "steps"), [(1, (1,)), (1, (-1,)), (1, (-1, 1)), (2, (-1, 1)), (3, (-1, 1, 2))])
def test_constant_velocity_is_found_by_every_order(scan: Scan, order: int, steps: tuple[int, ...]) -> None:
    readout, motion = Readout(0.9, scan), moving(1)
    found = fit_trajectory(exact_flows(motion, readout, steps), readout, order=order)
    assert_close(found.velocity, motion.velocity)
    remaining = 0.3 - readout.row_times(HEIGHT, WIDTH, dtype=torch.float64)
    assert_close(correction_field(found, readout, 0.3), motion.velocity * remaining)


EXACT_FITS = [(2, (-1, 1)), (2, (-1, 1, 2)), (2, (1, 2)), (3, (-1, 1, 2)), (3, (-2, -1, 1)), (3, (-2, -1, 1, 2))]


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize(("order", "steps"), EXACT_FITS)
@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_known_acceleration_and_jerk_are_found(
    scan: Scan, order: int, steps: tuple[int, ...], leading: tuple[int, ...]
) -> None:
    readout, motion = Readout(0.9, scan), moving(order, leading)
    flows = exact_flows(motion, readout, steps)
    times = readout.flight_time(flows[1], 1)
    assert float((times - 1).abs().max()) > 0.1, "no point lands on another row: the case would be too easy"
    found = fit_trajectory(flows, readout, order=order)
    assert_same_motion(found, motion)
    for frame_offset in (-1, 0, 1, 2):
        exposed = readout.row_times(HEIGHT, WIDTH, dtype=torch.float64)
        truth = motion.displacement_at(frame_offset + 0.37 - exposed)
        assert_close(correction_field(found, readout, 0.37, frame_offset), truth)


@pytest.mark.parametrize("scan", SCANS)
def test_known_acceleration_in_single_precision(scan: Scan) -> None:
    readout, motion = Readout(0.9, scan), moving(2)
    flows = {step: flow.float() for step, flow in exact_flows(motion, readout, (-1, 1)).items()}
    found = fit_trajectory(flows, readout)
    for frame_offset in (0, 1):
        truth = correction_field(motion, readout, 0.45, frame_offset)
        # Largest error seen: 3e-7 px, for flows of up to 1.3 px.
        assert_close(correction_field(found, readout, 0.45, frame_offset).double(), truth, 2e-6)


def test_the_instant_at_which_a_row_is_read_leaves_that_row_alone() -> None:
    readout, motion = Readout(0.8), moving(2)
    field = correction_field(motion, readout, 0.8 * 4 / HEIGHT)
    assert_close(field[:, 4], torch.zeros(2, WIDTH, dtype=torch.float64))
    assert float(field[:, :4].abs().min()) > 0


# --- what the solver minimises ---


@pytest.mark.parametrize("scan", SCANS)
def test_equal_confidences_without_regularisation_are_the_papers_equations(scan: Scan) -> None:
    readout = Readout(0.8, scan)
    flow_prev, flow_next = rand(2, HEIGHT, WIDTH, seed=1), rand(2, HEIGHT, WIDTH, seed=2)
    t_prev, t_next = readout.flight_time(flow_prev, -1)[0], readout.flight_time(flow_next, 1)[0]
    matrix = torch.stack(  # [H, W, 2, 2]
        [torch.stack([t_prev, t_prev**2 / 2], -1), torch.stack([t_next, t_next**2 / 2], -1)], -2
    )
    solution = torch.linalg.solve(matrix, torch.stack([flow_prev, flow_next]).permute(2, 3, 0, 1))
    ones = torch.ones(1, HEIGHT, WIDTH, dtype=torch.float64)
    for confidence in (None, ones):
        found = solve_trajectory(
            flow_prev, flow_next, readout, confidence_prev=confidence, confidence_next=confidence, regularisation=0.0
        )
        assert_close(found.velocity, solution[:, :, 0].permute(2, 0, 1))
        assert_close(found.acceleration, solution[:, :, 1].permute(2, 0, 1))
        assert bool(found.valid.all())


def test_the_fast_path_is_the_regression() -> None:
    readout = Readout(0.8)
    flow_prev, flow_next = rand(2, 2, HEIGHT, WIDTH, seed=1), rand(2, 2, HEIGHT, WIDTH, seed=2)
    ones = torch.ones(2, 1, HEIGHT, WIDTH, dtype=torch.float64)

    def interpolate(before: Tensor, after: Tensor) -> Trajectory | None:
        return _interpolate([before, after], [readout.flight_time(before, -1), readout.flight_time(after, 1)])

    fast = interpolate(flow_prev, flow_next)
    assert fast is not None
    assert_same_motion(fast, fit_trajectory({-1: flow_prev, 1: flow_next}, readout, confidences={1: ones}))
    for bad in (NAN, INF, 2 * MAX_FLOW, -2 * MAX_FLOW):
        for component in (0, 1):
            spoilt = flow_next.clone()
            spoilt[1, component, 2, 3] = bad
            assert interpolate(flow_prev, spoilt) is None
            assert interpolate(spoilt, flow_next) is None


def test_linear_from_both_sides_is_least_squares() -> None:
    readout = Readout(0.8)
    u_prev, u_next = rand(2, HEIGHT, WIDTH, seed=1), rand(2, HEIGHT, WIDTH, seed=2)
    t_prev, t_next = readout.flight_time(u_prev, -1), readout.flight_time(u_next, 1)
    expected = (u_prev * t_prev + u_next * t_next) / (t_prev**2 + t_next**2)
    assert_close(solve_trajectory(u_prev, u_next, readout, order=1).velocity, expected)


@pytest.mark.parametrize("trusted", [-1, 1])
def test_a_pixel_seen_on_one_side_tends_to_the_linear_model_from_there(trusted: int) -> None:
    readout = Readout(0.8)
    flows = {-1: rand(2, HEIGHT, WIDTH, seed=1), 1: rand(2, HEIGHT, WIDTH, seed=2)}
    linear = fit_trajectory({trusted: flows[trusted]}, readout)
    assert linear.acceleration is None
    gaps = []
    for confidence in (1.0, 1e-2, 1e-4, 1e-6):
        doubted = torch.full((1, HEIGHT, WIDTH), confidence, dtype=torch.float64)
        found = fit_trajectory(flows, readout, confidences={-trusted: doubted}, regularisation=0.01)
        assert found.acceleration is not None
        gaps.append(float((found.velocity - linear.velocity).abs().max() + found.acceleration.abs().max()))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.5
    assert gaps[-1] < 1e-3


def test_without_any_confidence_on_one_side_the_other_is_linear_even_without_regularisation() -> None:
    readout = Readout(0.8)
    flow_prev, flow_next = rand(2, HEIGHT, WIDTH, seed=1), rand(2, HEIGHT, WIDTH, seed=2)
    none = torch.zeros(1, HEIGHT, WIDTH, dtype=torch.float64)
    found = solve_trajectory(flow_prev, flow_next, readout, confidence_prev=none)
    assert_close(found.velocity, flow_next / readout.flight_time(flow_next, 1))
    assert found.acceleration is not None
    assert float(found.acceleration.abs().max()) == 0.0


def test_regularisation_shrinks_the_acceleration_alone() -> None:
    # Without readout the times are -1 and 1, the spread is 2, and the ridge adds 4 of its own.
    acceleration = rand(2, HEIGHT, WIDTH, seed=1)
    velocity = rand(2, HEIGHT, WIDTH, seed=2)
    found = solve_trajectory(
        acceleration / 2 - velocity, acceleration / 2 + velocity, Readout(0.0), regularisation=0.01
    )
    assert_close(found.acceleration, acceleration * 2 / 2.04)
    assert_close(found.velocity, velocity)


@pytest.mark.parametrize("order", [1, 2])
def test_one_neighbour_gives_the_linear_model(order: int) -> None:
    readout, flow = Readout(0.8), rand(2, HEIGHT, WIDTH, seed=1)
    for prev, next_, step in ((None, flow, 1), (flow, None, -1)):
        found = solve_trajectory(prev, next_, readout, order=order)
        assert found.acceleration is None
        assert_close(found.velocity, flow / readout.flight_time(flow, step))


# --- degenerate pixels ---


def degenerate_flows(dtype: torch.dtype) -> tuple[dict[int, Tensor], Tensor]:
    """Flows to both neighbours for gamma = 1, and which pixels of them are degenerate, `[1, H, W]`."""
    flow_prev = rand(2, HEIGHT, WIDTH, seed=1, scale=0.3, dtype=dtype)
    flow_next = rand(2, HEIGHT, WIDTH, seed=2, scale=0.3, dtype=dtype)
    flow_prev[1, 0, 0] = HEIGHT * 1.004  # t_prev = 0.004
    flow_next[1, 0, 1] = -HEIGHT  # t_next = 0
    flow_prev[1, 0, 2], flow_next[1, 0, 2] = 1.5 * HEIGHT, -0.505 * HEIGHT  # 0.5 and 0.495
    flow_prev[0, 1, 0], flow_next[1, 1, 1] = NAN, NAN
    flow_prev[1, 1, 2], flow_next[0, 1, 3] = INF, -INF
    flow_prev[:, 1, 4], flow_next[:, 1, 4] = NAN, NAN
    flow_prev[0, 2, 0] = 1e30  # its square is no number in float32
    bad = torch.zeros(1, HEIGHT, WIDTH, dtype=torch.bool)
    for y, x in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 0)]:
        bad[0, y, x] = True
    return {-1: flow_prev, 1: flow_next}, bad


CONFIDENCES = [False, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("weighted", CONFIDENCES)
def test_degenerate_pixels_are_finite_and_not_valid(dtype: torch.dtype, order: int, weighted: bool) -> None:
    readout = Readout(1.0)
    flows, bad = degenerate_flows(dtype)
    leaves = {step: flow.requires_grad_() for step, flow in flows.items()}
    confidences = {1: torch.full((1, HEIGHT, WIDTH), 0.5, dtype=dtype)} if weighted else None
    found = fit_trajectory(leaves, readout, order=order, confidences=confidences, regularisation=0.01 * weighted)
    field = correction_field(found, readout, 0.5, 1)
    assert field.dtype == dtype
    assert bool(torch.isfinite(field).all())
    expected = bad.clone()
    if order == 1:
        expected[0, 0, 2] = False  # a line asks for no more than one time
    assert torch.equal(found.valid, ~expected)
    for gradient in torch.autograd.grad(field.square().sum(), list(leaves.values())):
        assert bool(torch.isfinite(gradient).all())
        assert bool((gradient[:, ~bad[0]] != 0).any(0).all()), "a regular pixel lost its gradient"


def test_degenerate_pixels_get_the_best_lower_order() -> None:
    readout = Readout(1.0)
    flows, _ = degenerate_flows(torch.float64)
    found = fit_trajectory(flows, readout)
    assert found.acceleration is not None
    from_next, from_prev = fit_trajectory({1: flows[1]}, readout), fit_trajectory({-1: flows[-1]}, readout)
    both = fit_trajectory(flows, readout, order=1)
    for places, linear in (
        ([(0, 0), (1, 0), (1, 2), (2, 0)], from_next),
        ([(0, 1), (1, 1), (1, 3)], from_prev),
        ([(0, 2)], both),
    ):
        for y, x in places:
            assert_close(found.velocity[:, y, x], linear.velocity[:, y, x])
            assert float(linear.velocity[:, y, x].abs().min()) > 0
            assert float(found.acceleration[:, y, x].abs().max()) == 0.0
    assert float(found.velocity[:, 1, 4].abs().max()) == 0.0
    assert found.confidence[0, 1, 4] == 0.0
    assert found.confidence[0, 1, 0] == 1.0


def test_a_cubic_pixel_without_one_of_its_three_flows_is_quadratic() -> None:
    readout, motion = Readout(0.9), moving(2)
    flows = exact_flows(motion, readout, (-1, 1, 2))
    flows[2][0, 3, 3] = NAN
    found = fit_trajectory(flows, readout, order=3)
    assert found.jerk is not None
    assert_close(found.acceleration, motion.acceleration)
    assert float(found.jerk[:, 3, 3].abs().max()) == 0.0
    assert int((~found.valid).sum()) == 1


@pytest.mark.parametrize(("order", "steps"), [(1, (-1, 1)), (2, (-1, 1)), (3, (-1, 1, 2))])
@pytest.mark.parametrize("weighted", CONFIDENCES)
def test_gradcheck_beside_singular_pixels(order: int, steps: tuple[int, ...], weighted: bool) -> None:
    readout = Readout(1.0)
    flows, bad = degenerate_flows(torch.float64)
    flows[2] = rand(2, HEIGHT, WIDTH, seed=3, scale=0.3)
    flows = {step: flows[step][:, :3, :4] for step in steps}
    regular = ~bad[0, :3, :4]
    trust = {step: rand(1, 3, 4, seed=20 + step).sigmoid() for step in steps} if weighted else None

    def solve(*values: Tensor) -> tuple[Tensor, ...]:
        filled = {step: flows[step].clone() for step in steps}
        for flow, value in zip(filled.values(), values, strict=True):
            flow[:, regular] = value
        found = fit_trajectory(filled, readout, order=order, confidences=trust, regularisation=0.02 * weighted)
        return found.velocity, correction_field(found, readout, 0.4, 1)

    inputs = [flows[step][:, regular].requires_grad_() for step in steps]
    assert torch.autograd.gradcheck(solve, inputs, fast_mode=True)


# --- arguments ---


def test_wrong_arguments_say_what_was_expected() -> None:
    flow, readout = torch.zeros(2, 4, 4), Readout(0.5)
    with pytest.raises(ValueError, match=r"1 \(linear\), 2 \(quadratic\), 3 \(cubic\); got 4"):
        fit_trajectory({1: flow}, readout, order=4)
    with pytest.raises(ValueError, match=r"one or more other frames; got frame steps \[\]"):
        solve_trajectory(None, None, readout)
    with pytest.raises(ValueError, match=r"frame steps \[0, 1\]"):
        fit_trajectory({0: flow, 1: flow}, readout)
    with pytest.raises(ValueError, match=r"\[\.\.\., 2, H, W\] of one size; the one to frame \+1 is \(2, 4, 5\)"):
        solve_trajectory(flow, torch.zeros(2, 4, 5), readout)
    with pytest.raises(ValueError, match=r"\(3, 4, 4\)"):
        solve_trajectory(torch.zeros(3, 4, 4), None, readout)
    with pytest.raises(ValueError, match=r"must go with a flow and be \(1, 4, 4\); got \(4, 4\)"):
        solve_trajectory(flow, flow, readout, confidence_prev=torch.ones(4, 4))
    with pytest.raises(ValueError, match="regularisation must be 0 or more, got nan"):
        solve_trajectory(flow, flow, readout, regularisation=NAN)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("regularisation", [0.0, 0.01])
@pytest.mark.parametrize("steps", [(-1, 1), (-1.25, 0.75)])
def test_two_flows_are_fitted_at_once_as_by_the_regression(
    order: int, regularisation: float, steps: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(order)
    flows = {step: 0.8 * torch.randn(2, 2, 6, 8, generator=generator, dtype=torch.float64) for step in steps}
    confidences = {step: 0.001 + 0.999 * torch.rand(2, 1, 6, 8, generator=generator).double() for step in steps}
    settings = {"order": order, "confidences": confidences, "regularisation": regularisation}
    times = [Readout(0.8).flight_time(flow, step) for step, flow in flows.items()]
    at_once = motion._fit_two(list(flows.values()), times, order, list(confidences.values()), regularisation)
    assert at_once is not None
    monkeypatch.setattr(motion, "_fit_two", lambda *_: None)
    expected = motion.fit_trajectory(flows, Readout(0.8), **settings)  # type: ignore[arg-type]  # settings by name
    assert_close(at_once.velocity, expected.velocity)
    if order == 2:
        assert at_once.acceleration is not None
        assert expected.acceleration is not None
        assert_close(at_once.acceleration, expected.acceleration)
    assert torch.equal(at_once.valid, expected.valid)
    assert_close(at_once.confidence, expected.confidence)


def test_pixels_that_need_care_are_not_fitted_at_once() -> None:
    flow, sure = torch.zeros(2, 4, 4), torch.ones(1, 4, 4)

    def fitted(after: Tensor, confidences: list[Tensor | None]) -> Trajectory | None:
        times = [Readout(1.0).flight_time(flow, -1), Readout(1.0).flight_time(after, 1)]
        return motion._fit_two([flow, after], times, 2, confidences, 0.01)

    for spoilt in (float("nan"), 2e5, -3.99 * 4):  # not a number, an overflow, seen again too soon
        other = flow.clone()
        other[1, 2, 2] = spoilt
        assert fitted(other, [None, sure]) is None
    assert fitted(flow, [0.0 * sure, 0.0 * sure]) is None
