"""Truth, augmentation, losses and scores of pairs."""

from __future__ import annotations

import pytest
import torch

from qrsc.flow import DisFlow, FlowPair
from qrsc.flow.raft_rs.network import Estimates
from qrsc.learn.flow.endpoint_scores import score_flow, score_table
from qrsc.learn.flow.pairs import FlowPairs, mirrored
from qrsc.learn.flow.sequence_loss import flow_loss
from qrsc.learn.flow.world_pairs import WorldPairs
from qrsc.learn.pool.augment import photometric
from qrsc.learn.pool.world_settings import training_textures
from qrsc.warp import backward_warp

from .toys import SIZE, LayeredPairs


@pytest.fixture(scope="module")
def pairs() -> FlowPairs:
    return LayeredPairs()(torch.Generator().manual_seed(0))


def explained(pairs: FlowPairs) -> float:
    """Mean difference between the first frames and the second ones brought onto them, where visible."""
    moved = backward_warp(pairs.second, pairs.forward).image
    error = (moved - pairs.first).abs().mean(1, keepdim=True)
    return float(error[pairs.forward_visible].mean())


def test_true_flow_explains_the_pairs_also_when_mirrored(pairs: FlowPairs) -> None:
    assert explained(pairs) < 0.02
    assert float((pairs.second - pairs.first).abs().mean()) > 0.04
    turned = mirrored(pairs, torch.Generator().manual_seed(2))
    assert not torch.equal(turned.first, pairs.first)
    assert explained(turned) < 0.02


def test_colours_change_but_hardly_between_the_frames_of_a_pair() -> None:
    frame = LayeredPairs(scenes=64, size=(32, 32))(torch.Generator().manual_seed(3)).first
    first, second = photometric(frame, frame, torch.Generator().manual_seed(4))
    assert 0.0 <= float(first.min()) <= float(first.max()) <= 1.0
    torch.testing.assert_close((first * 255.0).round(), first * 255.0, atol=1e-3, rtol=0)
    between = (first.mean((2, 3)) - second.mean((2, 3))).abs().mean(1)
    changed = (first.mean((2, 3)) - frame.mean((2, 3))).abs().mean(1)
    assert float(between.median()) < 0.005 < 0.03 < float(changed.median())


def estimates_from(pairs: FlowPairs, offset: float) -> Estimates:
    truth = pairs.both_flows + offset
    quarter = torch.nn.functional.avg_pool2d(truth, 4)
    cells = (SIZE[0] // 16) * (SIZE[1] // 16)
    sure = torch.tensor([6.0, 0.0]).reshape(1, 2, 1, 1)
    chance = torch.full((len(truth), cells, cells), 1.0 / cells).log()
    sixteenth = torch.nn.functional.avg_pool2d(truth, 16)
    return Estimates(
        sixteenth,
        chance,
        [torch.cat([quarter, sure.expand(len(truth), 2, *quarter.shape[2:])], 1)],
        [torch.cat([truth, sure.expand(len(truth), 2, *truth.shape[2:])], 1)],
    )


def test_the_loss_grows_with_the_error(pairs: FlowPairs) -> None:
    losses = [float(flow_loss(estimates_from(pairs, offset), pairs)) for offset in (0.0, 0.1, 1.0, 10.0)]
    assert losses == sorted(losses)
    # At full size 0.1 pixels cost 0.1, a quarter of the size 0.8 times that.
    assert losses[1] - losses[0] == pytest.approx(0.18, abs=0.02)


def test_the_loss_knows_a_right_match_from_a_wrong_one(pairs: FlowPairs) -> None:
    columns = SIZE[1] // 16
    cells = (SIZE[0] // 16) * columns
    still = FlowPairs(
        pairs.first,
        pairs.second,
        *(torch.zeros_like(pairs.forward) for _ in range(2)),
        *(torch.ones_like(pairs.forward_visible) for _ in range(4)),
    )
    estimates = estimates_from(still, 0.0)
    right = torch.eye(cells).clamp_min(1e-4).log().expand(len(still) * 2, -1, -1)
    wrong = right.roll(columns, dims=2)
    losses = []
    for chance in (right, wrong):
        estimates.log_probability = chance
        losses.append(float(flow_loss(estimates, still)))
    assert losses[1] - losses[0] == pytest.approx(0.5 * 9.21, abs=0.01)  # - log 1e-4


def test_scores_are_distances_by_length() -> None:
    still = LayeredPairs(scenes=2, fastest=0.0)(torch.Generator().manual_seed(5))
    score = score_flow(lambda first, second: FlowPair(torch.full_like(first[:, :2], 3.0), 0 * second[:, :2]), still)
    assert score.visible == pytest.approx(0.5 * 18**0.5)
    assert score.by_length[0] == pytest.approx(0.5 * 18**0.5)
    assert score.within_one == pytest.approx(0.5)
    assert "| still | 2.121 | 2.121 | 2.121 | nan | nan | 50.0 % |" in score_table({"still": score})


def test_dis_is_scored_well_on_small_motion() -> None:
    slow = LayeredPairs(scenes=2, size=(96, 128), fastest=1.5)(torch.Generator().manual_seed(6))
    assert score_flow(DisFlow(), slow).visible < 0.5


def test_worlds_render_pairs_whose_truth_explains_them() -> None:
    generator = torch.Generator().manual_seed(7)
    render = WorldPairs(training_textures(None, "cpu", variety=1), SIZE, scenes=2, frames=3, progress=0.0)
    pairs = render(generator)
    assert pairs.first.shape == (4, 3, *SIZE)
    assert float(pairs.both_known.float().mean()) > 0.95
    assert explained(pairs) < 0.06
