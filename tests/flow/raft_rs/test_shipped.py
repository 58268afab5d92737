"""The estimators that come with weights of the package."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from qrsc import weights
from qrsc.flow import load_flow
from qrsc.flow.protocol import FlowPair
from qrsc.flow.raft_rs.estimator import NeuralFlow, load_network
from qrsc.flow.refined import RefinedFlow
from qrsc.fusion.networks import load_network as load_fusion_network


def view(x: int, y: int, height: int = 192, width: int = 256) -> torch.Tensor:
    """A crop of a large random image with its corner at (x, y)."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(1, 3, 400, 500)
    for cell in (4, 9, 20, 50):
        noise = torch.rand(1, 3, 400 // cell + 2, 500 // cell + 2, generator=generator)
        total += F.interpolate(noise, size=(400, 500), mode="bicubic", align_corners=False) / 4
    return total.clamp(0.0, 1.0)[..., y : y + height, x : x + width]


@pytest.mark.parametrize("name", weights.shipped_weights())
def test_the_card_describes_the_network(name: str) -> None:
    network = load_network(name) if name == "raft-rs" else load_fusion_network(name)
    assert sum(value.numel() for value in network.parameters()) == weights.card(name)["parameters"]
    assert (weights.FOLDER / f"{name}.safetensors").stat().st_size <= 16e6


def test_the_network_finds_a_shift_of_a_quarter_of_the_width() -> None:
    first, second = view(100, 100), view(36, 84)  # what is at m in the first is at m + (64, 16) in the second
    pair = load_flow("raft-rs")(first, second)
    inner = pair.forward[..., 48:144, 48:150]
    error = (inner - torch.tensor([64.0, 16.0]).reshape(1, 2, 1, 1)).abs().flatten().median()
    assert float(error) < 2.0


def test_refinement_corrects_a_flow_that_is_a_pixel_off() -> None:
    first, second = view(100, 100), view(60, 92)

    def nearly(first: torch.Tensor, second: torch.Tensor) -> FlowPair:
        there = torch.tensor([41.0, 7.0]).reshape(1, 2, 1, 1).expand(1, 2, 192, 256)
        return FlowPair(there, -there)

    pair = RefinedFlow(nearly)(first, second)
    for flow, sign in ((pair.forward, 1.0), (pair.backward, -1.0)):
        inner = flow[..., 32:160, 64:192]
        error = (inner - sign * torch.tensor([40.0, 8.0]).reshape(1, 2, 1, 1)).abs().flatten().median()
        assert float(error) < 0.05


def test_frames_too_small_for_a_search_keep_the_flow_they_have() -> None:
    network = load_network("raft-rs")
    first, second = view(0, 0, 32, 48), view(2, 1, 32, 48)
    plain, refined = NeuralFlow(network)(first, second), RefinedFlow(NeuralFlow(network))(first, second)
    torch.testing.assert_close(plain.forward, refined.forward)


def test_a_search_alone_stands_in_where_the_other_flow_explains_nothing() -> None:
    first, second = view(100, 100), view(94, 97)

    def lost(first: torch.Tensor, second: torch.Tensor) -> FlowPair:
        there = torch.tensor([-60.0, 50.0]).reshape(1, 2, 1, 1).expand(1, 2, 192, 256)
        return FlowPair(there, -there)

    inner = RefinedFlow(lost)(first, second).forward[..., 32:160, 64:192]
    error = (inner - torch.tensor([6.0, 3.0]).reshape(1, 2, 1, 1)).abs().flatten().median()
    assert float(error) < 0.05
