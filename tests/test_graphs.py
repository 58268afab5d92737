from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc import graphs
from qrsc.flow import neural
from qrsc.flow.neural import NeuralFlow, load_network
from qrsc.fusion import AlignedFrames
from qrsc.fusion.lite import LiteNetwork, LiteOptions
from qrsc.fusion.neural import FusionNetwork, NetworkFusion
from qrsc.fusion.rsa2 import Rsa2Network
from qrsc.graphs import Graphs

from .fusion.samples import SMALL, aligned_frames, randomise


@pytest.fixture
def recordings(monkeypatch: pytest.MonkeyPatch) -> list[list[Tensor]]:
    """Inputs of what is recorded; a graph is played here by computing everything again where it was recorded."""
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
        assert calls(twice, "twice", torch.ones(4)).tolist() == [2.0] * 4  # a third shape, beyond the most
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


# --- on a GPU ---

NETWORKS = [Rsa2Network(SMALL), Rsa2Network(replace(SMALL, time_grid="unit")), LiteNetwork(LiteOptions())]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("network", NETWORKS, ids=["rsa2", "unit", "rsa2-lite"])
def test_replayed_frames_are_those_of_ordinary_calls(network: FusionNetwork) -> None:
    randomise(network, 0.2)  # larger ones are out of range all over
    plain, fast = NetworkFusion(network, tile=128 * 2, graphs=False), NetworkFusion(network, tile=128 * 2, graphs=True)
    for size in ((48, 64), (64, 300)):  # whole, and in tiles
        for seed in range(3):
            aligned = on_gpu(aligned_frames(3, size, seed=seed))
            aligned = replace(aligned, gamma=0.6 + 0.1 * seed)
            expected, found = plain(aligned).image, fast(aligned).image
            torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)
        assert float((plain(on_gpu(aligned_frames(3, size, seed=9))).image - expected).abs().mean()) > 0.01
    cpu = aligned_frames(3, (48, 64))
    assert fast(cpu).image.device.type == "cpu"  # the network goes back and forth
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


def test_flows_are_recorded_in_the_main_thread_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert neural._in_main_thread()
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(neural._in_main_thread).result()
    network = load_network("raft-rs")
    asked: list[str] = []

    def record(self: Graphs, function: Callable[..., Tensor], key: str, *inputs: Tensor) -> Tensor:
        asked.append(key)
        return function(*inputs)

    monkeypatch.setattr(Graphs, "__call__", record)
    # A pair that says it is on a GPU: what is asked is whether its work would be recorded.
    pair = torch.rand(1, 3, 64, 64).as_subclass(OnGpu), torch.rand(1, 3, 64, 64).as_subclass(OnGpu)
    cases: list[tuple[bool | None, bool, int]] = [(None, False, 1), (None, True, 0), (True, True, 1), (False, False, 0)]
    for recording, threaded, recorded in cases:
        flow = NeuralFlow(network, graphs=recording)
        flow._found = lambda first, second: torch.zeros(2, 3, 64, 64)  # type: ignore[method-assign]  # no network needed
        asked.clear()
        if threaded:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(flow.confident, *pair).result()
        else:
            flow.confident(*pair)
        assert len(asked) == recorded, (recording, threaded)


class OnGpu(torch.Tensor):
    """A tensor on the processor that says otherwise."""

    is_cuda = True
