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
from qrsc.evaluate.methods.shared_flow import SharedFlow, shared_flow
from qrsc.flow import ConfidentFlows, FlowPair


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
        (forward, sure), (_, back_sure) = flow.settled(pair[0], pair[1])
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
