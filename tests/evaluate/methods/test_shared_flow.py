"""Flows that methods share, with what their estimator knows about them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from qrsc.data.dataset import LoadedFrame
from qrsc.data.layouts import FrameFiles
from qrsc.evaluate.methods import shared_flow as shared_flow_module
from qrsc.evaluate.methods.shared_flow import SharedFlow, shared_flow
from qrsc.flow import ClipFlow, ConfidentFlows, FlowPair, find_flows
from qrsc.pipeline import Corrector
from qrsc.timing import Readout


class Sure:
    """An estimator that is sure of the left half of a frame only."""

    def __init__(self) -> None:
        self.asked = 0
        self.batches: list[int] = []

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        return self.confident(first, second).flows

    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows:
        self.asked += 1
        self.batches.append(len(first))
        flow = torch.zeros_like(first[:, :2])
        confidence = torch.ones_like(first[:, :1])
        confidence[..., first.shape[-1] // 2 :] = 0.25
        return ConfidentFlows(FlowPair(flow + 1.0, flow - 1.0), confidence, 0.5 * confidence)


def loaded(folder: Path, number: int) -> LoadedFrame:
    path = folder / f"{number}.png"
    path.write_bytes(b"stands in for a picture")
    rolling = torch.rand(3, 12, 16, generator=torch.Generator().manual_seed(number))
    return LoadedFrame(FrameFiles(number, {"rolling": path}), rolling)


@pytest.mark.parametrize("kept", [False, True])
def test_confidence_is_shared_and_kept_on_disk(tmp_path: Path, kept: bool) -> None:
    frames = [loaded(tmp_path, number) for number in (0, 1)]
    pair = [frame.rolling.unsqueeze(0) for frame in frames]
    estimator = Sure()
    folder = tmp_path / "cache" if kept else None
    for _ in range(2):  # the second time from disk, if there is one
        flow = SharedFlow(estimator, folder=folder)
        for frame in frames:
            flow.announce(frame)
        (forward, sure), (_, back_sure) = flow.filled(pair[0], pair[1])
        expected = Sure().confident(pair[0], pair[1])
        torch.testing.assert_close(sure, expected.forward_confidence)
        torch.testing.assert_close(back_sure, expected.backward_confidence)
        torch.testing.assert_close(forward[..., :8], expected.flows.forward[..., :8])
        torch.testing.assert_close(flow.confident(pair[0], pair[1]).forward_confidence, sure)
    assert estimator.asked == (1 if kept else 2)


@pytest.mark.parametrize("kept", [False, True])
def test_flows_of_frames_announced_early_are_found_in_batches(tmp_path: Path, kept: bool) -> None:
    frames = [loaded(tmp_path, number) for number in range(6)]
    estimator = Sure()
    flow = SharedFlow(estimator, folder=tmp_path / "cache" if kept else None, batch=2)
    for frame in frames:
        flow.announce(frame)
    for first, second in pairwise(frames):
        pair = first.rolling.unsqueeze(0), second.rolling.unsqueeze(0)
        found, alone = flow.confident(*pair), Sure().confident(*pair)
        torch.testing.assert_close(found, alone)
        assert found.flows.forward.shape == (1, 2, 12, 16)
    assert estimator.batches == [2, 2, 1]
    skipping = frames[0].rolling.unsqueeze(0), frames[2].rolling.unsqueeze(0)
    flow.confident(*skipping)
    assert estimator.batches[3:] == [1], "pairs after one that skips a frame are no neighbours of it"


def test_the_flows_of_one_clip_are_not_those_of_a_data_set(tmp_path: Path) -> None:
    np.savez(tmp_path / "flows.npz", forward=np.zeros((1, 2, 4, 4)), backward=np.zeros((1, 2, 4, 4)))
    with pytest.raises(ValueError, match="holds the flows of one clip"):
        shared_flow(str(tmp_path / "flows.npz"))


def clip_of(frames: list[LoadedFrame], estimator: Sure) -> SharedFlow:
    flow = SharedFlow(estimator)
    for frame in frames:
        flow.announce(frame)
    return flow


def test_pairs_are_known_by_their_number_and_their_pixels(tmp_path: Path) -> None:
    frames = [loaded(tmp_path, number) for number in range(3)]
    first, second, third = (frame.rolling.unsqueeze(0) for frame in frames)
    estimator = Sure()
    flow = clip_of(frames, estimator)
    assert isinstance(flow, ClipFlow)
    found = find_flows(flow, first, second, 0)
    assert found.forward_confidence is not None
    # A copy is the same frame, wherever it lies in memory; so is one that is asked about without a number.
    assert find_flows(flow, first.clone(), second.clone(), 0) is found
    assert flow.confident(first[:, :, :], second) is found
    assert estimator.asked == 1
    # Changed frames, smaller ones, and a number that belongs to others get flows of their own, which are not kept.
    for asked, pair in enumerate(((first + 0.1, second), (first[..., :8], second[..., :8]), (second, third)), 2):
        find_flows(flow, *pair, 0)
        assert estimator.asked == asked
    assert find_flows(flow, first, second, 0) is found


def test_frames_that_are_taken_back_are_forgotten(tmp_path: Path) -> None:
    frames = [loaded(tmp_path, number) for number in range(3)]
    pairs = [(a.rolling.unsqueeze(0), b.rolling.unsqueeze(0)) for a, b in pairwise(frames)]
    estimator = Sure()
    flow = clip_of(frames, estimator)
    kept = [find_flows(flow, *pair, number) for number, pair in enumerate(pairs)]
    flow.take_back(frames[0])
    assert find_flows(flow, *pairs[1], 1) is kept[1]
    assert find_flows(flow, *pairs[0], 0) is not kept[0]
    flow.start_clip()
    flow.announce(frames[1])
    flow.announce(frames[2])
    again = find_flows(flow, *pairs[1], 0)
    assert again is not kept[1]
    assert find_flows(flow, *pairs[1], 0) is again, "numbers count from the clip's first frame"


def test_correctors_share_flows_and_confidences(tmp_path: Path) -> None:
    frames = [loaded(tmp_path, number) for number in range(4)]
    clip = torch.stack([frame.rolling for frame in frames])
    estimator = Sure()
    flow = clip_of(frames, estimator)
    for motion in ("linear", "quadratic", "cubic", "path"):
        shared = Corrector(Readout(0.8), motion=motion, fusion="mean", flow=flow)(clip)
        alone = Corrector(Readout(0.8), motion=motion, fusion="mean", flow=Sure())(clip)
        assert torch.equal(shared, alone)
    assert estimator.asked == 3
    # At half the size it looks at other pictures than the clip's.
    smaller = Corrector(Readout(0.8), motion="linear", fusion="mean", flow=flow, scale=0.5)(clip)
    assert torch.equal(smaller, Corrector(Readout(0.8), motion="linear", fusion="mean", flow=Sure(), scale=0.5)(clip))


def test_kept_flows_are_those_of_the_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [loaded(tmp_path, number) for number in (0, 1)]
    pair = [frame.rolling.unsqueeze(0) for frame in frames]
    estimator = Sure()
    monkeypatch.setattr(shared_flow_module, "load_flow", lambda name: estimator)

    def computed(sha256: str) -> bool:
        """Whether the flows of a pair are computed, by a network with these weights."""
        monkeypatch.setattr("qrsc.flow.card", lambda name: {"sha256": sha256})
        before = estimator.asked
        flow = shared_flow("raft-rs", tmp_path / "cache")
        for frame in frames:
            flow.announce(frame)
        flow.confident(*pair)
        flow.filled(*pair)
        return estimator.asked > before

    assert computed("first")
    assert not computed("first")
    assert computed("trained again")
    assert not computed("trained again")
    assert not computed("first"), "those of the first weights are still there"
    assert len(list((tmp_path / "cache").iterdir())) == 2
