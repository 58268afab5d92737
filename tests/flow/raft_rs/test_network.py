"""The flow network, in a size that is small enough for tests."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from qrsc.backend.device import computes_in_half_precision
from qrsc.flow.raft_rs import estimator as estimators
from qrsc.flow.raft_rs.certainty import confidence, negative_log_likelihood
from qrsc.flow.raft_rs.estimator import BRIEF_PIXELS, CPU_PIXELS, GPU_PIXELS, NeuralFlow, suitable_scale
from qrsc.flow.raft_rs.network import FlowNetwork, parameter_count
from qrsc.flow.raft_rs.update import Upsampler

from ...interpreted import interpreted, needs_triton
from .tiny_network import TINY


@pytest.fixture(scope="module")
def network() -> FlowNetwork:
    torch.manual_seed(0)
    return FlowNetwork(TINY).eval()


def frames(height: int, width: int, seed: int = 0, batch: int = 1) -> torch.Tensor:
    return torch.rand(batch, 3, height, width, generator=torch.Generator().manual_seed(seed))


def test_every_step_is_returned_for_training(network: FlowNetwork) -> None:
    first, second = frames(64, 96, 1, batch=2), frames(64, 96, 2, batch=2)
    estimates = network(first, second, True)
    assert estimates.initial.shape == (4, 2, 4, 6)
    assert [tuple(value.shape) for value in estimates.coarse] == [(4, 4, 16, 24)] * TINY.steps
    assert [tuple(value.shape) for value in estimates.fine] == [(4, 4, 64, 96)] * TINY.fine_steps
    last = network(first, second)
    assert len(last.fine) == len(last.coarse) == 1
    torch.testing.assert_close(last.fine[0], estimates.fine[-1])


@pytest.mark.parametrize("halved", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.7])
def test_frames_encoded_once_give_the_flows_of_the_pair(
    network: FlowNetwork, halved: bool, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = [frames(72, 96, seed, batch=2) for seed in range(3)]
    plain = NeuralFlow(network, halved=halved, scale=scale, filled=True)
    expected = [plain.confident(*pair) for pair in pairwise(clip)]
    # As on a GPU, but for its precision.
    monkeypatch.setattr(NeuralFlow, "_by_frames", lambda self, given: True)
    monkeypatch.setattr(estimators, "in_half_precision", lambda given: given)
    quick = NeuralFlow(network, halved=halved, scale=scale, filled=True, graphs=False)
    encoded = [quick.encoded(frame) for frame in clip]
    for (first, second), wanted in zip(pairwise(encoded), expected, strict=True):
        assert first.parts is not None
        found = quick.between(first, second)
        torch.testing.assert_close(found.flows.forward, wanted.flows.forward, atol=1e-3, rtol=0)
        torch.testing.assert_close(found.flows.backward, wanted.flows.backward, atol=1e-3, rtol=0)
        torch.testing.assert_close(found.backward_confidence, wanted.backward_confidence, atol=1e-4, rtol=0)
    assert float((expected[0].flows.forward - expected[1].flows.forward).abs().mean()) > 0.1


@needs_triton
@pytest.mark.parametrize(("name", "cases"), [("norm_check.py", 3), ("step_check.py", 4)])
def test_triton_kernels_are_what_torch_makes_of_the_same(name: str, cases: int) -> None:
    said = interpreted(Path(__file__).with_name(name))
    assert said.count("as PyTorch") == cases


def test_exchanged_frames_give_exchanged_flows(network: FlowNetwork) -> None:
    estimator = NeuralFlow(network)
    first, second = frames(64, 80, 3), frames(64, 80, 4)
    there, back = estimator(first, second), estimator(second, first)
    torch.testing.assert_close(there.forward, back.backward)
    torch.testing.assert_close(there.backward, back.forward)
    assert not torch.equal(there.forward, there.backward)


def test_a_pair_does_not_depend_on_its_batch(network: FlowNetwork) -> None:
    estimator = NeuralFlow(network)
    first, second = frames(64, 64, 5, batch=3), frames(64, 64, 6, batch=3)
    together = estimator(first, second)
    alone = estimator(first[1:2], second[1:2])
    torch.testing.assert_close(together.forward[1:2], alone.forward, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("size", [(1, 1), (17, 90), (65, 66), (80, 64)])
def test_any_size_goes_through(network: FlowNetwork, size: tuple[int, int]) -> None:
    found = NeuralFlow(network).confident(frames(*size, 7), frames(*size, 8))
    for flow in found.flows:
        assert flow.shape == (1, 2, *size)
        assert bool(flow.isfinite().all())
    for sure in (found.forward_confidence, found.backward_confidence):
        assert sure is not None
        assert sure.shape == (1, 1, *size)
        assert 0.0 <= float(sure.min()) <= float(sure.max()) <= 1.0


def test_flows_have_the_dtype_of_the_frames(network: FlowNetwork) -> None:
    pair = NeuralFlow(network)(frames(64, 64, 1).double(), frames(64, 64, 2).double())
    assert pair.forward.dtype == pair.backward.dtype == torch.float64


def test_a_brief_flow_ends_before_the_steps_at_stride_4(network: FlowNetwork) -> None:
    first, second = frames(128, 160, 9), frames(128, 160, 10)
    found = NeuralFlow(network, brief=True, halved=False).confident(first, second)
    half = computes_in_half_precision(first.device)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
        coarse = network.brief(first, second).float()
    whole = F.interpolate(coarse[:, :2], size=(128, 160), mode="bilinear", align_corners=False)
    torch.testing.assert_close(torch.cat(found.flows), whole)
    assert found.forward_confidence is not None
    assert found.forward_confidence.shape == (1, 1, 128, 160)
    with pytest.raises(ValueError, match="thorough or brief"):
        NeuralFlow(network, brief=True, thorough=True)


def test_reduced_size_gives_flows_in_pixels_of_the_frame(network: FlowNetwork) -> None:
    first, second = frames(128, 160, 9), frames(128, 160, 10)
    reduced = [F.interpolate(f, size=(64, 80), mode="bilinear", antialias=True) for f in (first, second)]
    half = NeuralFlow(network, scale=0.5)(first, second).forward
    expected = 2.0 * F.interpolate(NeuralFlow(network)(*reduced).forward, size=(128, 160), mode="bilinear")
    torch.testing.assert_close(half, expected)


def test_large_frames_are_reduced_on_a_cpu_unless_thorough() -> None:
    large, huge = torch.empty(1, 3, 480, 640), torch.empty(1, 3, 2160, 3840)
    assert suitable_scale(large) == pytest.approx((CPU_PIXELS / (480 * 640)) ** 0.5)
    assert suitable_scale(large, brief=True) == pytest.approx((BRIEF_PIXELS / (480 * 640)) ** 0.5)
    assert suitable_scale(large, thorough=True) == 1.0
    assert suitable_scale(huge, thorough=True) == pytest.approx((GPU_PIXELS / (2160 * 3840)) ** 0.5)


def test_wrong_input_is_refused(network: FlowNetwork) -> None:
    with pytest.raises(ValueError, match="of one size"):
        NeuralFlow(network)(frames(64, 64), frames(64, 80))
    with pytest.raises(ValueError, match="scale must be over 0"):
        NeuralFlow(network, scale=0.0)


def test_the_shipped_size_fits_the_package() -> None:
    assert 2 * parameter_count(FlowNetwork()) < 16e6  # bytes in half precision


def test_enlarging_keeps_a_constant_and_stays_between_neighbours() -> None:
    torch.manual_seed(0)
    upsampler = Upsampler(8, 4)
    state = torch.randn(1, 8, 5, 6)
    torch.testing.assert_close(upsampler(torch.full((1, 2, 5, 6), 3.5), state), torch.full((1, 2, 20, 24), 3.5))
    values = torch.randn(1, 1, 5, 6)
    around = F.pad(values, (1, 1, 1, 1), mode="replicate")
    highest = F.max_pool2d(around, 3, 1).repeat_interleave(4, 2).repeat_interleave(4, 3)
    assert bool((upsampler(values, state) <= highest + 1e-6).all())


def test_the_likelihood_is_an_l1_distance_where_sure() -> None:
    error = torch.tensor([0.5, -1.5]).reshape(1, 2, 1, 1)
    sure = torch.tensor([40.0, 0.0]).reshape(1, 2, 1, 1)
    torch.testing.assert_close(float(negative_log_likelihood(error, sure)), 1.0 + 0.6931, atol=1e-3, rtol=0)


def test_the_likelihood_is_a_density() -> None:
    error = torch.linspace(-3000.0, 3000.0, 600_001).reshape(1, 1, 1, -1).expand(1, 2, 1, -1)
    certainty = torch.tensor([0.3, 2.0]).reshape(1, 2, 1, 1).expand(1, 2, 1, error.shape[-1])
    total = torch.exp(-negative_log_likelihood(error, certainty)).sum() * 0.01
    torch.testing.assert_close(float(total), 1.0, atol=1e-3, rtol=0)


def test_confidence_grows_with_certainty() -> None:
    share = torch.tensor([-5.0, 0.0, 5.0])
    certainty = torch.stack([share, torch.full((3,), 3.0)]).reshape(1, 2, 1, 3)
    sure = confidence(certainty).flatten()
    assert float(sure[0]) < 0.1 < float(sure[1]) < 0.6 < 0.95 < float(sure[2]) <= 1.0
