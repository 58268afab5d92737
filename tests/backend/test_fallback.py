"""What estimators and fusions say about a call that did not run as asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc.backend import cuda_graphs
from qrsc.backend.cuda_graphs import Graphs, unrecorded
from qrsc.backend.fallback import fallback_of, joined
from qrsc.flow import FlowPair
from qrsc.flow.dis import DisFlow, on_cpu
from qrsc.flow.raft_rs.estimator import NeuralFlow
from qrsc.flow.raft_rs.network import FlowNetwork, NetworkSize
from qrsc.flow.refined import RefinedFlow
from qrsc.fusion.lite.network import LiteNetwork, LiteOptions
from qrsc.fusion.networks import NetworkFusion

from ..fusion.samples import aligned_frames

TINY = NetworkSize(
    stem=16, widths=(16, 16, 16), depths=(1, 1, 1), matching=16, fine_matching=16, hidden=16, fine_hidden=16, steps=1
)


def pair(side: int = 72) -> tuple[Tensor, Tensor]:
    """Two frames `[1, 3, side, side + 24]`, the second shifted to the right by 3 pixels."""
    coarse = torch.rand(1, 3, side // 6, side // 6 + 8, generator=torch.Generator().manual_seed(0))
    wide = torch.nn.functional.interpolate(coarse, (side, side + 48), mode="bicubic").clamp(0, 1)
    return wide[..., 10 : side + 34].clone(), wide[..., 7 : side + 31].clone()


def test_what_has_no_fallback_has_none_to_tell() -> None:
    assert fallback_of(object()) is None
    assert joined(None, None) is None
    assert joined("one", None, "two") == "one; two"


def test_a_search_says_that_it_runs_on_the_cpu() -> None:
    flow = DisFlow("ultrafast")
    flow(*pair())
    assert fallback_of(flow) is None
    assert on_cpu(torch.device("cuda", 0)) == "the search for flow runs on the CPU, while the frames are on cuda:0"


class Still:
    """An estimator that finds the motion of one half of the frame only."""

    fallback = "no reason at all"

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        flow = torch.zeros_like(first[:, :2])
        flow[:, 0] = 3.0
        flow[:, 0, :, : first.shape[-1] // 2] = -40.0
        return FlowPair(flow, -flow)


def test_a_refined_flow_says_where_the_search_replaced_it() -> None:
    refined = RefinedFlow(Still())
    refined(*pair(144))
    assert 0.0 < refined.replaced < 1.0
    replaced = "the search's own flow replaces the estimator's where its residual is smaller"
    assert refined.fallback == f"no reason at all; {replaced}"
    refined(*pair(48))
    assert refined.replaced == 0.0
    assert refined.fallback == "no reason at all; frames with a side under 64 pixels are not refined by the search"


def test_networks_say_that_they_compute_in_another_precision() -> None:
    flow = NeuralFlow(FlowNetwork(TINY))
    flow(*pair())
    assert fallback_of(flow) is None
    flow(*(frame.double() for frame in pair()))
    assert fallback_of(flow) == "frames in float64 are processed in float32"
    fusion = NetworkFusion(LiteNetwork(LiteOptions(widths=(8, 8, 8), depths=(1, 1, 1), polish=0)))
    fusion(aligned_frames(3, (48, 64)))
    assert fallback_of(fusion) is None
    fusion(aligned_frames(3, (48, 64), dtype=torch.float64))
    assert fallback_of(fusion) == "frames in float64 are processed in float32"


@pytest.fixture
def _recorded_by_calling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph without a GPU: the function is called once more."""

    def record(function: Callable[..., Tensor], inputs: list[Tensor], pool: Any) -> tuple[Callable[[], None], Tensor]:
        return lambda: None, function(*inputs)

    monkeypatch.setattr(cuda_graphs, "record", record)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))


@pytest.mark.usefixtures("_recorded_by_calling")
def test_graphs_say_why_there_is_none() -> None:
    graphs = Graphs(most=1)
    for _ in range(3):
        graphs(torch.neg, "negated", torch.ones(2))
        assert fallback_of(graphs) is None
    graphs(torch.neg, "negated", torch.ones(3))
    assert fallback_of(graphs) == "no CUDA graph for these shapes: the 1 that are kept are in use"
    graphs(torch.neg, "negated", torch.ones(2))
    assert fallback_of(graphs) is None
    graphs.clear()
    with unrecorded():
        graphs(torch.neg, "negated", torch.ones(2))
        graphs(torch.neg, "negated", torch.ones(2))
    assert fallback_of(graphs) == "no CUDA graph: this thread must not record one now"


@pytest.mark.usefixtures("_recorded_by_calling")
def test_a_fusion_says_that_a_part_of_it_has_no_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    fusion = NetworkFusion(LiteNetwork(LiteOptions(widths=(8, 8, 8), depths=(1, 1, 1), polish=0)))
    graphs = Graphs(most=1)
    monkeypatch.setattr(fusion, "_recorder", lambda *inputs: graphs)
    fusion(replace(aligned_frames(3, (48, 64)), gamma=None))
    assert fallback_of(fusion) == "no CUDA graph for these shapes: the 1 that are kept are in use"
