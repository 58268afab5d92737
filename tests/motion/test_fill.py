"""Flows taken from their surroundings."""

from __future__ import annotations

import torch

from qrsc.flow import ConfidentFlows, FlowPair
from qrsc.motion.consistency import consistency_confidence
from qrsc.motion.fill import TrustedFlow, fill_leaving, fill_uncertain_flow, fill_unsure
from qrsc.pipeline.align import trusted_flows


def constant(dx: float, dy: float, height: int = 40, width: int = 50) -> torch.Tensor:
    return torch.tensor([dx, dy]).reshape(1, 2, 1, 1).repeat(1, 1, height, width)


def test_a_hole_takes_the_flow_around_it() -> None:
    flow = constant(3.0, -1.0)
    sure = torch.ones(1, 1, 40, 50)
    flow[..., 15:25, 20:30] = 40.0
    sure[..., 15:25, 20:30] = 0.0
    torch.testing.assert_close(fill_unsure(flow, sure), constant(3.0, -1.0), atol=1e-3, rtol=0)


def test_sure_flow_hardly_changes() -> None:
    columns = torch.linspace(-2.0, 2.0, 50).expand(1, 2, 40, 50)
    filled = fill_unsure(columns, torch.ones(1, 1, 40, 50))
    torch.testing.assert_close(filled[..., 3:-3, 3:-3], columns[..., 3:-3, 3:-3], atol=0.02, rtol=0)


def test_flow_out_of_the_frame_is_replaced_and_all_other_flow_is_kept() -> None:
    flow = constant(8.0, 0.0)
    flow[..., 42:] = 100.0  # guessed where nothing is to be seen
    flow[:, 1] = 0.0
    filled = fill_leaving(flow)
    assert torch.equal(filled[..., :42], flow[..., :42])
    torch.testing.assert_close(filled[:, 0, :, 42:], torch.full((1, 40, 8), 8.0), atol=0.05, rtol=0)


def test_nothing_sure_at_all_is_no_error() -> None:
    flow = constant(1.0, 2.0)
    filled = fill_unsure(flow, torch.zeros(1, 1, 40, 50))
    torch.testing.assert_close(filled, flow)


def test_one_pixel() -> None:
    flow = torch.tensor([0.0, 0.0]).reshape(1, 2, 1, 1)
    torch.testing.assert_close(fill_unsure(flow, torch.ones(1, 1, 1, 1)), flow)


def test_flows_are_trusted_by_the_estimators_word_or_by_their_agreement() -> None:
    flows, word = FlowPair(constant(3.0, -1.0), constant(-3.0, 1.0)), torch.full((1, 1, 40, 50), 0.25)
    forward, backward = trusted_flows(ConfidentFlows(flows, word, None))
    assert forward.confidence is word
    torch.testing.assert_close(backward.confidence, consistency_confidence(flows.backward, flows.forward))


def test_what_is_not_finite_stays_so() -> None:
    flow = constant(3.0, -1.0).clone()
    flow[..., 20, 20] = torch.nan
    for shared in (None, constant(1.0, 1.0)):
        settled = fill_uncertain_flow(TrustedFlow(flow, torch.full((1, 1, 40, 50), 0.5)), shared).flow
        assert not settled[..., 20, 20].isfinite().any()
        settled[..., 20, 20] = flow[..., 0, 0]
        torch.testing.assert_close(settled, constant(3.0, -1.0), atol=1e-3, rtol=0)
