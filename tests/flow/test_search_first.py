"""The search first: the network is asked only about pairs on which the search contradicts itself."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.flow import for_even_light, load_flow
from qrsc.flow.dis import DisFlow
from qrsc.flow.protocol import FlowPair
from qrsc.flow.refined import RefinedFlow
from qrsc.flow.search_first import MOST_CONTRADICTED, SearchFirstFlow, contradicted_part
from qrsc.image.blur import box_mean
from qrsc.motion.fill import fill_leaving


class CountedFlow:
    """No motion, and how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        self.calls += 1
        return FlowPair(torch.zeros_like(first[:, :2]), torch.zeros_like(first[:, :2]))


def texture(seed: int) -> Tensor:
    """`[1, 3, 96, 128]`, grey and smooth enough to be searched in."""
    noise = torch.rand(1, 1, 96, 128, generator=torch.Generator().manual_seed(seed))
    return (0.5 + 3.0 * (box_mean(noise, 5) - 0.5)).clamp(0.0, 1.0).expand(-1, 3, -1, -1).contiguous()


def test_a_pair_that_the_search_explains_takes_its_flow_and_asks_no_network() -> None:
    counted = CountedFlow()
    flow = SearchFirstFlow(RefinedFlow(counted))
    first = texture(0)
    second = first.roll(3, -1)
    found, alone = flow(first, second), DisFlow("medium")(first, second)
    assert counted.calls == 0
    assert not flow.used_network
    assert flow.contradicted < MOST_CONTRADICTED
    assert flow.fallback is None
    assert torch.equal(found.forward, fill_leaving(alone.forward))
    assert torch.equal(found.backward, fill_leaving(alone.backward))


def test_a_pair_that_the_search_cannot_explain_is_the_same_as_refined() -> None:
    counted = CountedFlow()
    flow = SearchFirstFlow(RefinedFlow(counted))
    first, second = texture(1), texture(2)
    found = flow(first, second)
    assert counted.calls == 1
    assert flow.used_network
    assert flow.contradicted > MOST_CONTRADICTED
    for mine, plain in zip(found, RefinedFlow(CountedFlow())(first, second), strict=True):
        assert torch.equal(mine, plain)


def test_frames_too_small_for_the_search_go_to_the_network() -> None:
    counted = CountedFlow()
    flow = SearchFirstFlow(RefinedFlow(counted))
    small = texture(0)[..., :40, :40]
    assert flow(small, small).forward.shape == (1, 2, 40, 40)
    assert counted.calls == 1
    assert flow.fallback is not None
    assert "not refined" in flow.fallback


def test_contradiction_counts_the_points_that_stay_in_the_frame() -> None:
    right = torch.zeros(1, 2, 64, 64)
    right[:, 0] = 8.0
    assert contradicted_part(right, -right) == 0.0  # the last columns leave, and do not count
    wrong = -right.clone()
    wrong[..., 32:, :] *= -1.0
    assert abs(contradicted_part(right, wrong) - 0.5) < 0.04  # half of the rows; 0.5 +- a row of the grid
    assert contradicted_part(torch.full((1, 2, 64, 64), 500.0), right) == 1.0  # nothing stays


def test_frames_in_even_light_are_for_the_search_alone() -> None:
    flow = SearchFirstFlow(RefinedFlow(CountedFlow()))
    assert isinstance(for_even_light(flow), DisFlow)
    other = CountedFlow()
    assert for_even_light(other) is other


def test_it_is_loaded_by_name() -> None:
    assert isinstance(load_flow("dis-or-raft-rs"), SearchFirstFlow)
