"""What holds of the solver for any flow, any readout and any way to run it."""

from __future__ import annotations

import shutil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qrsc.motion.trajectory import ORDERS, correction_field, fit_trajectory, solve_trajectory
from qrsc.timing import SCANS, Readout

from ..edits import EDITS

NAN, INF = float("nan"), float("inf")


def rand(*shape: int, seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


sizes = st.tuples(st.integers(1, 7), st.integers(1, 7))
readouts = st.builds(Readout, st.floats(0.0, 1.0), st.sampled_from(SCANS))
scales = st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e4, 1e30, INF, NAN])


@settings(max_examples=60)
@given(
    readout=readouts,
    size=sizes,
    leading=st.sampled_from([(), (2,), (2, 1)]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    order=st.sampled_from(list(ORDERS.values())),
    steps=st.sampled_from([(1,), (-1,), (-1, 1), (-1, 1, 2), (-2, -1, 1, 2)]),
    scale=scales,
    tau=st.floats(-2.0, 3.0),
    regularisation=st.sampled_from([0.0, 0.01]),
    seed=st.integers(0, 1000),
)
def test_any_flow_gives_a_finite_motion(
    readout: Readout,
    size: tuple[int, int],
    leading: tuple[int, ...],
    dtype: torch.dtype,
    order: int,
    steps: tuple[int, ...],
    scale: float,
    tau: float,
    regularisation: float,
    seed: int,
) -> None:
    flows = {step: rand(*leading, 2, *size, seed=seed + step + 2, scale=scale, dtype=dtype) for step in steps}
    found = fit_trajectory(flows, readout, order=order, regularisation=regularisation)
    field = correction_field(found, readout, tau)
    assert field.shape == (*leading, 2, *size)
    assert found.valid.shape == found.confidence.shape == (*leading, 1, *size)
    assert field.dtype == found.confidence.dtype == dtype
    assert bool(torch.isfinite(field).all())
    assert bool(((found.confidence >= 0) & (found.confidence <= 1)).all())
    if scale <= 1e-3:
        assert bool(found.valid.all())
    if not scale < 1e10:
        assert not bool(found.valid.any())
        assert float(field.abs().max()) == 0.0


@settings(max_examples=25)
@given(
    readout=readouts, size=sizes, tau=st.floats(-1.0, 2.0), order=st.sampled_from([1, 2, 3]), seed=st.integers(0, 1000)
)
@pytest.mark.parametrize("name", list(EDITS))
def test_an_edited_clip_with_the_edited_readout_moves_the_same(
    name: str, readout: Readout, size: tuple[int, int], tau: float, order: int, seed: int
) -> None:
    edit_picture, edit_flow, edit_readout = EDITS[name]
    flows = {step: rand(2, *size, seed=seed + step + 2, scale=0.2) for step in (-2, -1, 1, 2)}
    edited = {step: edit_flow(flow) for step, flow in flows.items()}
    ours = fit_trajectory(flows, readout, order=order)
    theirs = fit_trajectory(edited, edit_readout(readout), order=order)
    field = edit_flow(correction_field(ours, readout, tau, 1))
    tolerance = 1e-10 * (1.0 + float(field.abs().max()))
    torch.testing.assert_close(correction_field(theirs, edit_readout(readout), tau, 1), field, rtol=0.0, atol=tolerance)
    assert torch.equal(theirs.valid, edit_picture(ours.valid))


# --- one graph ---


def corrected_in_one(flow_prev: Tensor, flow_next: Tensor, trust: Tensor, readout: Readout) -> tuple[Tensor, Tensor]:
    found = solve_trajectory(flow_prev, flow_next, readout, confidence_next=trust, regularisation=0.01)
    return correction_field(found, readout, 0.4, 1), found.valid


def flows_with_bad_pixels() -> tuple[Tensor, Tensor, Tensor]:
    flow_prev, flow_next = (rand(2, 2, 8, 8, seed=seed, dtype=torch.float32) for seed in (1, 2))
    flow_prev[:, 0, 1, 1], flow_next[:, 1, 2, 2], flow_prev[:, 1, 3, 3] = NAN, INF, -8.0
    return flow_prev, flow_next, torch.full((2, 1, 8, 8), 0.5)


@pytest.mark.filterwarnings("ignore:.*script_method:DeprecationWarning")  # torch's own, while it loads the compiler
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_solver_and_field_compile_to_one_graph(backend: str) -> None:
    if backend == "inductor" and not (shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("inductor needs a C++ compiler")
    readout = Readout(1.0, "bottom-up")
    flow_prev, flow_next, trust = flows_with_bad_pixels()
    expected, expected_valid = corrected_in_one(flow_prev, flow_next, trust, readout)
    assert int((~expected_valid).sum()) == 6
    compiled = torch.compile(corrected_in_one, fullgraph=True, backend=backend)
    field, valid = compiled(flow_prev, flow_next, trust, readout)
    assert torch.equal(valid, expected_valid)
    torch.testing.assert_close(field, expected, rtol=1e-5, atol=1e-5)


def test_the_compiled_graph_has_the_same_gradients() -> None:
    readout = Readout(1.0, "bottom-up")
    *flows, trust = flows_with_bad_pixels()
    gradients = []
    for function in (corrected_in_one, torch.compile(corrected_in_one, fullgraph=True, backend="aot_eager")):
        leaves = [flow.clone().requires_grad_() for flow in flows]
        field, _ = function(leaves[0], leaves[1], trust, readout)
        gradients.append(torch.autograd.grad(field.square().sum(), leaves))
    for ours, theirs in zip(*gradients, strict=True):
        assert bool(torch.isfinite(ours).all())
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-3)
