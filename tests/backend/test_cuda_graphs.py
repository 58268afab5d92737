from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc.backend import cuda_graphs as graphs
from qrsc.backend.cuda_graphs import Graphs, unrecorded
from qrsc.flow.raft_rs.estimator import NeuralFlow, load_network
from qrsc.fusion import AlignedFrames
from qrsc.fusion.lite.network import LiteNetwork, LiteOptions
from qrsc.fusion.networks import FusionNetwork, NetworkFusion
from qrsc.fusion.rsa2.network import Rsa2Network
from qrsc.pipeline import Corrector
from qrsc.timing import Readout

from ..fusion.samples import SMALL, aligned_frames, randomise


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[list[Tensor]]:
    """Inputs of recorded calls; replaying a graph is simulated by calling the function again on them."""
    made: list[list[Tensor]] = []

    def record(function: Callable[..., Tensor], inputs: list[Tensor], pool: Any) -> tuple[Callable[[], None], Tensor]:
        made.append(inputs)
        result = torch.zeros_like(function(*inputs))
        return lambda: void(result.copy_(function(*inputs))), result

    def void(_: Tensor) -> None:
        return None

    monkeypatch.setattr(graphs, "record", record)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    return made


def test_the_second_call_of_a_shape_is_recorded_and_replayed_from_then_on(recordings: list[list[Tensor]]) -> None:
    calls = Graphs(most=2)

    def twice(values: Tensor) -> Tensor:
        return 2.0 * values

    results = [calls(twice, "twice", torch.full((3,), float(number))) for number in range(4)]
    assert [result.tolist() for result in results] == [[0.0] * 3, [2.0] * 3, [4.0] * 3, [6.0] * 3]
    assert len(recordings) == 1
    for _ in range(2):
        assert calls(twice, "twice", torch.ones(3, 1).expand(3, 2)).tolist() == [[2.0, 2.0]] * 3
        assert calls(twice, "twice", torch.ones(4)).tolist() == [2.0] * 4  # a third shape, beyond `most`
    assert len(recordings) == 2
    calls.clear()
    calls(twice, "twice", torch.ones(3))
    assert len(recordings) == 2


def test_what_else_a_result_depends_on_is_told_by_the_key(recordings: list[list[Tensor]]) -> None:
    calls = Graphs()
    for factor in (2.0, 3.0, 2.0, 3.0, 2.0):
        assert float(calls(lambda values, factor=factor: factor * values, factor, torch.ones(()))) == factor
    assert len(recordings) == 2


def test_recorded_in_inference_mode_and_used_outside(recordings: list[list[Tensor]]) -> None:
    calls = Graphs()
    for inference in (True, False, True):
        with torch.inference_mode(inference):
            assert float(calls(lambda values: values + 1.0, 0, torch.ones(()))) == 2.0
    assert len(recordings) == 1


def test_several_results_and_numbers_that_change(
    recordings: list[list[Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Graphs()
    kept = []

    def record(function: Callable[..., Any], inputs: list[Tensor], pool: Any) -> tuple[Callable[[], None], Any]:
        result = tuple(torch.zeros_like(each) for each in function(*inputs))

        def replay() -> None:
            for own, new in zip(result, function(*inputs), strict=True):
                own.copy_(new)

        return replay, result

    monkeypatch.setattr(graphs, "record", record)
    for number in range(4):
        values = torch.full((2,), float(number))
        # The first result is an input as it is: it must not change with the next call.
        kept.append(calls(lambda values, factor: (values, factor * values), "both", values, 0.5 + number))
    assert [[part.tolist() for part in each] for each in kept] == [
        [[float(number)] * 2, [(0.5 + number) * number] * 2] for number in range(4)
    ]


def test_a_thread_that_must_not_record_works_as_ever(recordings: list[list[Tensor]]) -> None:
    calls = Graphs()

    def one_more(value: float) -> float:
        return float(calls(lambda values: values + 1.0, 0, torch.full((), value)))

    with unrecorded():
        with unrecorded():
            assert [one_more(value) for value in (1.0, 2.0)] == [2.0, 3.0]
        assert one_more(3.0) == 4.0
        assert not recordings
        with ThreadPoolExecutor(1) as other:  # another thread may still record
            assert other.submit(one_more, 4.0).result() == 5.0
        assert len(recordings) == 1
        assert one_more(5.0) == 6.0
    calls.clear()
    assert [one_more(value) for value in (1.0, 2.0)] == [2.0, 3.0]
    assert len(recordings) == 2


# --- on a GPU ---

NETWORKS = [Rsa2Network(SMALL), Rsa2Network(replace(SMALL, time_grid="unit")), LiteNetwork(LiteOptions())]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("network", NETWORKS, ids=["rsa2", "unit", "rsa2-lite"])
def test_replayed_frames_are_those_of_ordinary_calls(network: FusionNetwork) -> None:
    randomise(network, 0.2)  # larger ones saturate everywhere
    plain, fast = NetworkFusion(network, tile=128 * 2, graphs=False), NetworkFusion(network, tile=128 * 2, graphs=True)
    for size in ((48, 64), (64, 300)):  # whole, and in tiles
        for seed in range(3):
            aligned = on_gpu(aligned_frames(3, size, seed=seed))
            aligned = replace(aligned, gamma=0.6 + 0.1 * seed)
            expected, found = plain(aligned).image, fast(aligned).image
            torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)
        assert float((plain(on_gpu(aligned_frames(3, size, seed=9))).image - expected).abs().mean()) > 0.01
    cpu = aligned_frames(3, (48, 64))
    assert fast(cpu).image.device.type == "cpu"  # the network moves between devices
    again = on_gpu(cpu)
    torch.testing.assert_close(fast(again).image, plain(again).image, atol=1e-3, rtol=0)


def on_gpu(aligned: AlignedFrames) -> AlignedFrames:
    return replace(
        aligned,
        frames=aligned.frames.cuda(),
        correction_fields=aligned.correction_fields.cuda(),
        valid=aligned.valid.cuda(),
        time_distance=aligned.time_distance.cuda(),
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_replayed_flows_are_those_of_ordinary_calls(scale: float) -> None:
    network = load_network("raft-rs")
    plain, fast = (NeuralFlow(network, scale=scale, filled=True, graphs=graphs) for graphs in (False, True))
    for seed in range(3):
        first = torch.rand(1, 3, 128, 192, generator=torch.Generator().manual_seed(seed)).cuda()
        expected, found = (flow.confident(first, first.roll(3, -1)) for flow in (plain, fast))
        torch.testing.assert_close(found.flows.forward, expected.flows.forward)
        torch.testing.assert_close(found.backward_confidence, expected.backward_confidence)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_flows_are_recorded_in_one_thread_while_another_works() -> None:
    network = load_network("raft-rs")
    plain, fast = (NeuralFlow(network, filled=True, graphs=graphs) for graphs in (False, True))
    pairs = [torch.rand(1, 3, 128, 192, generator=torch.Generator().manual_seed(seed)).cuda() for seed in range(6)]
    expected = [plain.confident(first, first.roll(3, -1)).flows.forward for first in pairs]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: [fast.confident(first, first.roll(3, -1)).flows.forward for first in pairs])
        own = torch.ones(64, 64, device="cuda")
        rounds = 0
        while not waiting.done() or rounds < 50:
            rounds += 1
            # New allocations of varying size, kernels and waits for their results, as a fusion would cause.
            other = torch.full((64, 64 + rounds % 97), float(rounds), device="cuda")
            assert float((own @ other).cpu()[0, 0]) == 64.0 * rounds
            if rounds % 20 == 0:
                torch.cuda.empty_cache()
        found = waiting.result()
    for each, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(each, wanted)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_clip_comes_out_the_same_with_flows_recorded_in_a_thread_of_their_own() -> None:
    generator = torch.Generator().manual_seed(2)
    wide = torch.nn.functional.interpolate(torch.rand(1, 3, 40, 60, generator=generator), scale_factor=8.0)[0]
    clip = torch.stack([wide[:, 30:158, 5 * step : 5 * step + 192] for step in range(12)]).cuda()
    results = []
    for recording, ahead in ((False, 0), (True, 2)):
        flow = NeuralFlow(load_network("raft-rs"), filled=True, graphs=recording)
        fusion = NetworkFusion(LiteNetwork(LiteOptions()), graphs=recording)
        results.append(Corrector(Readout(0.8), flow=flow, fusion=fusion, flows_ahead=ahead)(clip))
    torch.testing.assert_close(results[1], results[0], atol=5e-3, rtol=0)
    assert float((results[0] - clip).abs().mean()) > 1e-3
