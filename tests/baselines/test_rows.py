"""The rows of `qrsc evaluate`: networks with weights from a folder, the paper's configuration, VideoRS, and costs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from qrsc.baselines.learned.networks import NETWORKS, build_baseline
from qrsc.baselines.learned.row import PAPER, VARIABLE, LearnedRow
from qrsc.baselines.rows import all_methods
from qrsc.baselines.training.learner import Learner
from qrsc.baselines.videors import VideoRs, nearest_patches, polished
from qrsc.evaluate.evaluate_data import evaluate_data
from qrsc.evaluate.methods.registry import load_method, method_instants
from qrsc.evaluate.methods.results import frame_of
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.flow import FlowPair
from qrsc.learn.trainer.schedule import Schedule
from qrsc.timing import Readout

from .windows import panned

GAMMA = 0.8


def weights_in(folder: Path, name: str) -> Path:
    torch.manual_seed(0)
    learner = Learner(name, build_baseline(name, 8), Schedule(steps=10), clip=1.0, decay=0.9)
    return learner.save(folder, 0.0, 1)


def pan_flow(speed: float) -> SharedFlow:
    """The exact flow of a picture that moves to the right."""

    def exact(first: Tensor, second: Tensor) -> FlowPair:
        forward = torch.zeros_like(first[:, :2])
        forward[:, 0] = speed
        return FlowPair(forward, -forward)

    return SharedFlow(exact)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_a_frame_for_each(name: str, tmp_path: Path) -> None:
    weights_in(tmp_path, name)
    frames = [panned(3.0, GAMMA, (33, 47)).frames[0, number] for number in range(3)]
    row = all_methods("sim", tmp_path)[name]
    results = [frame_of(each) for each in row(pan_flow(3.0))(frames, Readout(GAMMA), 0.5 * GAMMA)]
    assert [each.shape for each in results] == [frames[0].shape] * 3
    again = list(row(pan_flow(3.0))(frames[1:], Readout(GAMMA), 0.5 * GAMMA))
    assert not torch.equal(results[1], frame_of(again[0]))  # the frame before is seen
    ahead = list(row(pan_flow(3.0))(frames[:2], Readout(GAMMA), 0.5 * GAMMA))
    assert torch.equal(results[1], frame_of(ahead[1])) == (NETWORKS[name].inputs == 2)  # and the next one by some
    assert method_instants(name, all_methods("sim", tmp_path)) == NETWORKS[name].instants
    with pytest.raises(ValueError, match=f"{name} takes frames that are read from the top"):
        list(row(pan_flow(3.0))(frames, Readout(GAMMA, "bottom-up"), 0.0))


def test_without_weights_there_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    for name in (*NETWORKS, PAPER):
        with pytest.raises(ValueError, match=rf"{name} has no weights: .*qrsc train .*--baseline-weights DIR"):
            load_method(name, pan_flow(1.0), all_methods("sim", tmp_path))
    before = weights_in(tmp_path, "rssr")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    row = all_methods("sim")["rssr"]
    assert isinstance(row, LearnedRow)
    told = row.fingerprint()
    before.write_bytes(before.read_bytes() + b" ")
    assert row.fingerprint() != told


@pytest.mark.parametrize("scan", ["top-down", "right-left"])
def test_videors_undoes_a_pan(scan: str) -> None:
    """Along a sideways scan a picture that moves down is what a pan is for the others."""
    clip = panned(6.0, GAMMA, (48, 96))
    frames, speed, truth = list(clip.frames[0]), 6.0, clip.middle[0]
    flow = pan_flow(speed)
    readout = Readout(GAMMA)
    if scan == "right-left":
        frames, truth = [frame.mT.flip(-1) for frame in frames], truth.mT.flip(-1)
        readout = Readout(GAMMA, "right-left")

        def down(first: Tensor, second: Tensor) -> FlowPair:
            forward = torch.zeros_like(first[:, :2])
            forward[:, 1] = speed
            return FlowPair(forward, -forward)

        flow = SharedFlow(down)
    results = [frame_of(each) for each in VideoRs()(flow)(frames, readout, 0.5 * GAMMA)]
    assert len(results) == 3
    inner = (slice(None), slice(8, -8), slice(8, -8))
    found, before = (float((each - truth)[inner].abs().mean()) for each in (results[1], frames[1]))
    assert found < 0.15 * before  # measured 0.08


@pytest.mark.parametrize("count", [1, 2, 4])
def test_videors_gives_frames_at_rest_back(count: int) -> None:
    frame = torch.rand(3, 33, 47, generator=torch.Generator().manual_seed(0))
    results = list(VideoRs()(pan_flow(0.0))([frame.clone() for _ in range(count)], Readout(GAMMA), 0.3))
    assert len(results) == count
    for result in results:
        # Adam makes steps of rounding errors; measured 0.0002.
        torch.testing.assert_close(frame_of(result), frame, atol=5e-4, rtol=0.0)


def test_the_polish_moves_towards_patches() -> None:
    generator = torch.Generator().manual_seed(0)
    given = torch.rand(5, 3, 8, 40, generator=generator)
    shifted = given.roll(4, -1)
    assert float(nearest_patches(shifted, given)[:, 8:-8].max()) < 1e-10  # within reach
    assert float(nearest_patches(given.roll(10, -1), given)[:, 12:-12].mean()) > 0.02  # not within reach
    noisy = (shifted + 0.005 * torch.randn(shifted.shape, generator=generator)).clamp(0.0, 1.0)
    better = polished(noisy, given)
    assert float((better - noisy).abs().max()) <= 0.00401  # two steps of 0.002
    inner = (..., slice(10, -10))
    assert float((better - shifted)[inner].square().mean()) < 0.8 * float((noisy - shifted)[inner].square().mean())


def test_a_row_stands_at_the_instants_that_it_gives(sim_set: Path, tmp_path: Path) -> None:
    weights_in(tmp_path, "sunet")
    table = all_methods("sim", tmp_path)
    given = {"methods": ("rs", "sunet"), "flow": "dis-ultrafast", "metrics": ("psnr",), "window": 3, "table": table}
    evaluation = evaluate_data(sim_set, "sim", at="both", cost=True, **given)  # type: ignore[arg-type]
    rows = {(row["at"], row["method"]): row for row in evaluation.rows}
    assert list(rows) == [("first", "rs"), ("first", "sunet"), ("middle", "rs")]
    assert evaluation.table("markdown").endswith("\nsunet gives the instant of the first row alone.")
    own = rows["first", "sunet"]
    assert own["parameters"] == pytest.approx(
        sum(each.numel() for each in build_baseline("sunet", 8).parameters()) / 1e6
    )
    assert own["gflop"] > 0.1
    assert own["milliseconds"] > rows["first", "rs"]["milliseconds"] >= 0.0
    assert rows["first", "rs"]["parameters"] == rows["first", "rs"]["gflop"] == 0.0
    assert "| M weights | GFLOP | ms |" in evaluation.table("markdown")
    alone = {**given, "methods": ("sunet",)}
    with pytest.raises(ValueError, match="nothing to score: sunet gives the instant of the first row alone"):
        evaluate_data(sim_set, "sim", at="middle", **alone)  # type: ignore[arg-type]
