"""The fast functions against their slow twins: values and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from qrsc import warp
from qrsc.motion import consistency
from qrsc.motion import trajectory as motion
from qrsc.motion.trajectory import Trajectory
from qrsc.reference import motion as reference_motion
from qrsc.reference import warp as reference_warp
from qrsc.timing import SCANS, Readout, Scan
from qrsc.warp import INTERPOLATIONS, Interpolation
from qrsc.warp.splatting import IMPORTANCE_RANGE, MAX_COVERAGE

LEADING: list[tuple[int, ...]] = [(), (2,), (2, 3)]
HEIGHT, WIDTH = 3, 4

# Largest differences, relative to the largest value, over 40 seeds: float64 6e-13 (cubic), 2e-13 (splat with
# importance), 3e-14 (the rest); float32 2e-6 (cubic), 1e-6 (warps), 3e-7 (linear and quadratic).
EXACT = 5e-12
SINGLE = {1: 2e-6, 2: 2e-6, 3: 2e-5}
SINGLE_WARP = 5e-6

Outputs = Sequence[Tensor]


def rand(*shape: int, seed: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)


def assert_close(fast: Tensor, slow: Tensor, tolerance: float, what: str) -> None:
    assert fast.shape == slow.shape, f"{what}: {tuple(fast.shape)} against {tuple(slow.shape)}"
    if fast.dtype == torch.bool:
        assert torch.equal(fast, slow), f"{what}: {int((fast != slow).sum())} pixels differ"
        return
    error = float((fast - slow).abs().max() / slow.abs().max().clamp(min=1.0))
    assert error < tolerance, f"{what}: relative difference {error:.2e}"


def assert_twins(
    fast: Callable[..., Outputs], slow: Callable[..., Outputs], inputs: list[Tensor], tolerance: float = EXACT
) -> None:
    """Values, and gradients of a random combination of all outputs with respect to all inputs."""
    results, gradients = [], []
    for function in (fast, slow):
        leaves = [i.clone().requires_grad_() for i in inputs]
        outputs = function(*leaves)
        smooth = [o for o in outputs if o.is_floating_point()]
        loss = sum((o * rand(*o.shape, seed=99 + n)).sum() for n, o in enumerate(smooth))
        assert isinstance(loss, Tensor)
        results.append([o.detach() for o in outputs])
        gradients.append(torch.autograd.grad(loss, leaves))
    for number, (ours, theirs) in enumerate(zip(*results, strict=True)):
        assert_close(ours, theirs, tolerance, f"output {number}")
    for number, (ours, theirs) in enumerate(zip(*gradients, strict=True)):
        assert float(theirs.abs().max()) > 0, f"input {number} has no gradient: the comparison says nothing"
        assert_close(ours, theirs, tolerance, f"gradient of input {number}")


def parts(trajectory: Trajectory) -> Outputs:
    motions = [trajectory.velocity, trajectory.acceleration, trajectory.jerk]
    return [*(m for m in motions if m is not None), trajectory.valid, trajectory.confidence]


# --- motion ---

FITS = [(1, (1,)), (1, (-1, 1)), (2, (-1, 1)), (2, (-1, 1, 2)), (3, (-1, 1, 2)), (3, (-2, -1, 1, 2))]


@pytest.mark.parametrize(("order", "steps"), FITS)
@pytest.mark.parametrize(
    ("scan", "leading"), [*((scan, ()) for scan in SCANS), *(("top-down", leading) for leading in LEADING[1:])]
)
def test_fit_trajectory(scan: Scan, leading: tuple[int, ...], order: int, steps: tuple[int, ...]) -> None:
    readout = Readout(0.8, scan)
    regularisation = 0.1 if order == 2 else 0.0
    inputs = [rand(*leading, 2, HEIGHT, WIDTH, seed=step, scale=0.4) + step for step in steps]
    inputs += [rand(*leading, 1, HEIGHT, WIDTH, seed=10 + step).sigmoid() for step in steps]

    def fit(twin: Callable[..., Trajectory]) -> Callable[..., Outputs]:
        def call(*tensors: Tensor) -> Outputs:
            flows = dict(zip(steps, tensors[: len(steps)], strict=True))
            confidences = dict(zip(steps, tensors[len(steps) :], strict=True))
            return parts(twin(flows, readout, order=order, confidences=confidences, regularisation=regularisation))

        return call

    assert_twins(fit(motion.fit_trajectory), fit(reference_motion.fit_trajectory), inputs)


@pytest.mark.parametrize(("order", "steps"), FITS)
def test_fit_trajectory_in_single_precision(order: int, steps: tuple[int, ...]) -> None:
    readout = Readout(0.8)
    flows = {step: rand(2, 2, 2, HEIGHT, WIDTH, seed=step, scale=0.4) + step for step in steps}
    ours = motion.fit_trajectory({step: flow.float() for step, flow in flows.items()}, readout, order=order)
    theirs = reference_motion.fit_trajectory(flows, readout, order=order)
    for number, (fast, slow) in enumerate(zip(parts(ours), parts(theirs), strict=True)):
        assert fast.dtype in (torch.float32, torch.bool)
        assert_close(fast.to(slow.dtype), slow, SINGLE[order], f"output {number}")


@pytest.mark.parametrize(("order", "steps"), FITS)
def test_fit_trajectory_with_unusable_flows(order: int, steps: tuple[int, ...]) -> None:
    readout = Readout(1.0)
    flows = {step: rand(2, HEIGHT, WIDTH, seed=step, scale=0.2) + step for step in steps}
    flows[steps[-1]][0, 0, 0] = float("nan")
    flows[steps[0]][1, 1, 1] = float("inf")
    flows[steps[0]][1, 0, 2] = -steps[0] * HEIGHT  # lands exactly at the row time at which it was exposed
    flows[1][1, 2, 3] = (steps[0] - 1 + 0.005) * HEIGHT + flows[steps[0]][1, 2, 3]  # both exposures 0.005 apart
    ours, theirs = (
        motion.fit_trajectory(flows, readout, order=order),
        reference_motion.fit_trajectory(flows, readout, order=order),
    )
    for number, (fast, slow) in enumerate(zip(parts(ours), parts(theirs), strict=True)):
        assert bool(torch.isfinite(fast).all())
        assert_close(fast, slow, EXACT, f"output {number}")
    assert int((~ours.valid).sum()) >= 3


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("leading", LEADING)
def test_displacement_at(order: int, leading: tuple[int, ...]) -> None:
    inputs = [rand(*leading, 2, HEIGHT, WIDTH, seed=n) for n in range(order)]
    inputs.append(rand(*leading, 1, HEIGHT, WIDTH, seed=7))

    def trajectory(terms: Sequence[Tensor]) -> Trajectory:
        motions = [*terms, None, None][:3]
        assert motions[0] is not None
        everywhere = torch.ones(*leading, 1, HEIGHT, WIDTH, dtype=torch.bool)
        return Trajectory(motions[0], motions[1], motions[2], everywhere, everywhere.double())

    assert_twins(
        lambda *t: [trajectory(t[:-1]).displacement_at(t[-1])],
        lambda *t: [reference_motion.displacement_at(trajectory(t[:-1]), t[-1])],
        inputs,
    )
    motions = trajectory(inputs[:-1])
    assert_close(
        motions.displacement_at(0.3), reference_motion.displacement_at(motions, 0.3), EXACT, "a number for the time"
    )


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("leading", LEADING)
def test_correction_field(scan: Scan, leading: tuple[int, ...]) -> None:
    readout = Readout(0.7, scan, offset=0.05)
    inputs = [rand(*leading, 2, HEIGHT, WIDTH, seed=n) for n in range(2)]

    def field(twin: Callable[..., Tensor]) -> Callable[..., Outputs]:
        def call(velocity: Tensor, acceleration: Tensor) -> Outputs:
            everywhere = torch.ones(*leading, 1, HEIGHT, WIDTH, dtype=torch.bool)
            moving = Trajectory(velocity, acceleration, None, everywhere, everywhere.double())
            return [twin(moving, readout, 0.3, frame_offset) for frame_offset in (-1, 0, 1)]

        return call

    assert_twins(field(motion.correction_field), field(reference_motion.correction_field), inputs)


@pytest.mark.parametrize("leading", LEADING)
def test_consistency_confidence(leading: tuple[int, ...]) -> None:
    flow = rand(*leading, 2, HEIGHT, WIDTH, seed=1, scale=0.7)
    reverse = -flow + rand(*leading, 2, HEIGHT, WIDTH, seed=2, scale=0.3)
    assert_twins(
        lambda f, r: [consistency.consistency_confidence(f, r)],
        lambda f, r: [reference_motion.consistency_confidence(f, r)],
        [flow, reverse],
    )


# --- warp ---


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("leading", LEADING)
def test_sample(interpolation: Interpolation, leading: tuple[int, ...]) -> None:
    image = rand(*leading, 3, HEIGHT, WIDTH, seed=1)
    position = 1.5 + rand(*leading, 2, 2, 5, seed=2, scale=1.5)  # another size, and some outside
    position[..., 0, 1, 2] = float("nan")
    assert bool((position < -0.5).any())
    ours, theirs = warp.sample(image, position, interpolation), reference_warp.sample(image, position, interpolation)
    assert_close(ours.image, theirs.image, EXACT, "image")
    assert_close(ours.valid, theirs.valid, EXACT, "valid")
    assert_twins(
        lambda i, p: warp.sample(i, p, interpolation),
        lambda i, p: reference_warp.sample(i, p, interpolation),
        [image, position.nan_to_num(nan=1.2)],
    )


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("leading", LEADING)
def test_backward_warp(interpolation: Interpolation, leading: tuple[int, ...]) -> None:
    inputs = [rand(*leading, 3, HEIGHT, WIDTH, seed=1), rand(*leading, 2, HEIGHT, WIDTH, seed=2)]
    assert_twins(
        lambda i, f: warp.backward_warp(i, f, interpolation),
        lambda i, f: reference_warp.backward_warp(i, f, interpolation),
        inputs,
    )
    single = warp.backward_warp(inputs[0].float(), inputs[1].float(), interpolation).image
    assert_close(
        single.double(),
        reference_warp.backward_warp(inputs[0], inputs[1], interpolation).image,
        SINGLE_WARP,
        "single precision",
    )


@pytest.mark.parametrize("leading", LEADING)
def test_invert_field(leading: tuple[int, ...]) -> None:
    # Smooth enough to converge in most places, rough enough to fold or leave in some.
    field = rand(*leading, 2, HEIGHT, WIDTH, seed=4, scale=0.45)
    valid = warp.invert_field(field).valid
    assert bool(valid.any())
    assert not bool(valid.all())
    assert_twins(lambda f: warp.invert_field(f, steps=4), lambda f: reference_warp.invert_field(f, steps=4), [field])


def test_invert_field_where_each_reason_for_not_valid_decides_alone() -> None:
    field = rand(2, 5, 6, seed=26, scale=0.45)
    inverse, valid = warp.invert_field(field, steps=4)
    settled = warp.sample(field, warp.pixel_grid(5, 6, dtype=torch.float64) + inverse).valid & ~valid
    folded, crowded = warp.jacobian(inverse) <= 0, warp.coverage(field) >= MAX_COVERAGE
    assert bool((settled & folded & ~crowded).any())
    assert bool((settled & crowded & ~folded).any())
    assert_close(valid, reference_warp.invert_field(field, steps=4).valid, EXACT, "valid")


@pytest.mark.parametrize("leading", LEADING)
def test_splat(leading: tuple[int, ...]) -> None:
    image, field = rand(*leading, 3, HEIGHT, WIDTH, seed=1), rand(*leading, 2, HEIGHT, WIDTH, seed=2)
    importance = rand(*leading, 1, HEIGHT, WIDTH, seed=3, scale=30.0)
    assert float(importance.max() - importance.min()) > IMPORTANCE_RANGE
    assert not bool(warp.splat(image, field).valid.all())
    assert_twins(warp.splat, reference_warp.splat, [image, field])
    assert_twins(warp.splat, reference_warp.splat, [image, field, importance])
    holed = field.clone()
    holed[..., 0, 1, 1] = float("nan")
    for fast, slow in zip(warp.splat(image, holed), reference_warp.splat(image, holed), strict=True):
        assert_close(fast, slow, EXACT, "a pixel that lands nowhere")
    single = warp.splat(image.float(), field.float()).image
    assert_close(single.double(), reference_warp.splat(image, field).image, SINGLE_WARP, "single precision")


def test_the_cubic_twin_refuses_what_it_does_not_model() -> None:
    flows = {step: torch.full((2, 2, 2), float(step)) for step in (-1, 1, 2)}
    with pytest.raises(ValueError, match="regularisation"):
        reference_motion.fit_trajectory(flows, Readout(0.5), order=3, regularisation=0.1)
