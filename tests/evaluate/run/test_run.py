"""The figures of a run: which frames are scored, with which flows, and against what."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from qrsc.evaluate.methods.registry import FrameFolder, load_method, parse_folder
from qrsc.evaluate.methods.results import LateFrame
from qrsc.evaluate.methods.shared_flow import shared_flow
from qrsc.evaluate.metrics.image_quality import psnr
from qrsc.evaluate.run.plan import evaluate
from qrsc.evaluate.run.scores import mean_rows
from qrsc.flow import DisFlow, FlowPair
from qrsc.media.image_folder import read_frame
from qrsc.pipeline import Corrector, MotionName
from qrsc.timing import Readout, Scan

from ..plans import plan


def test_figures_are_those_of_the_corrector(sim_set: Path) -> None:
    scores = evaluate(plan(sim_set, instants=("first", "middle"), metrics=("psnr", "ssim")))
    assert len(scores) == 2 * 4 * 2 * 2  # sequences, frames, instants, methods
    readout = Readout(0.6)
    frames = torch.stack([read_frame(sim_set / "0001" / "RS" / f"{k:05d}.png").frame for k in range(4)])
    truth = read_frame(sim_set / "0001" / "GS_first" / "00002.png").frame
    expected = {
        "rs": frames[2],
        "qrs": Corrector(readout, tau=0.0, motion="quadratic", fusion="none", interpolation="bilinear")(frames)[2],
    }
    for name, frame in expected.items():
        [score] = [s for s in scores if (s.sequence, s.frame, s.at, s.method) == ("0001", 2, "first", name)]
        assert score.figures["psnr"] == pytest.approx(float(psnr(frame, truth)), abs=1e-3)


@pytest.mark.parametrize(("name", "motion"), [("linear", "linear"), ("qrs", "quadratic")])
@pytest.mark.parametrize("scan", ["top-down", "right-left"])
def test_single_frames_are_those_of_the_corrector(sim_set: Path, name: str, motion: MotionName, scan: Scan) -> None:
    frames = torch.stack([read_frame(sim_set / "0000" / "RS" / f"{k:05d}.png").frame for k in range(4)])
    readout = Readout(0.8, scan)
    expected = list(Corrector(readout, tau=0.3, motion=motion, fusion="none", interpolation="bilinear").stream(frames))
    results = list(load_method(name, shared_flow("dis"))(frames, readout, 0.3))
    for result, corrected in zip(results, expected, strict=True):
        assert isinstance(result, LateFrame)
        torch.testing.assert_close(result.correction_field, corrected.correction_field)
        # Where the inversion is sure of itself; measured 3e-5. Elsewhere several sources compete.
        assert (result.frame - corrected.frame)[corrected.valid.expand(3, -1, -1)].abs().max() < 2e-4


@pytest.mark.parametrize("batch", [2, 9])
def test_flows_in_batches_give_the_same_figures(sim_set: Path, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counting(self: DisFlow, first: Tensor, second: Tensor) -> FlowPair:
        sizes.append(len(first))
        return alone(self, first, second)

    expected = evaluate(plan(sim_set, methods=("qrs", "multi-qrs")))
    alone = DisFlow.__call__
    monkeypatch.setattr(DisFlow, "__call__", counting)
    assert evaluate(plan(sim_set, methods=("qrs", "multi-qrs"), batch=batch)) == expected
    assert sizes == ([2, 1] * 2 if batch == 2 else [3] * 2)  # two clips of four frames


def test_exact_flow_gives_nearly_the_true_fields(sim_set: Path) -> None:
    metrics = ("psnr", "masks", "fields")
    rows = {row["method"]: row for row in mean_rows(evaluate(plan(sim_set, flow="truth", metrics=metrics)))}
    # Measured: EPE 0.37 px before and 0.03 after, lines bent by 0.12 px and 0.01, PSNR on seen pixels 28.1 and 34.7 dB.
    assert rows["qrs"]["epe"] < 0.2 * rows["rs"]["epe"]
    assert rows["qrs"]["bend"] < 0.2 * rows["rs"]["bend"]
    assert rows["qrs"]["psnr_seen"] > rows["rs"]["psnr_seen"] + 5
    assert rows["rs"]["psnr_unseen"] < rows["qrs"]["psnr_seen"]
    assert "psnr_border" in rows["rs"]


def test_flows_are_computed_once_for_all_methods_and_instants(sim_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    class Counted(DisFlow):
        def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
            calls.append(1)
            return super().__call__(first, second)

    monkeypatch.setattr("qrsc.evaluate.methods.shared_flow.load_flow", lambda name: Counted("fast"))
    evaluate(plan(sim_set, methods=("linear", "qrs", "cubic", "multi-qrs"), instants=("first", "middle")))
    assert len(calls) == 2 * 3


def test_flows_on_disk_change_nothing_and_are_used(
    sim_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("qrs", "multi-qrs")  # which take filled flows and flows as they were found
    first = evaluate(plan(sim_set, methods=methods, flow_folder=tmp_path))
    assert first == evaluate(plan(sim_set, methods=methods))
    assert len(list(tmp_path.rglob("*-filled.npy"))) == 2 * 3
    assert len(list(tmp_path.rglob("*.npy"))) == 2 * 2 * 3

    def refuse(first: Tensor, second: Tensor) -> FlowPair:
        raise AssertionError("computed anew")

    monkeypatch.setattr("qrsc.evaluate.methods.shared_flow.load_flow", lambda name: refuse)
    monkeypatch.setattr("qrsc.evaluate.methods.shared_flow.fill_uncertain_flow", refuse)
    assert evaluate(plan(sim_set, methods=methods, flow_folder=tmp_path)) == first


def test_threads_share_the_cores_and_give_them_back(sim_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def looking(frames: Iterable[Tensor], readout: Readout, tau: float) -> Iterable[Tensor]:
        for frame in frames:
            seen.append(torch.get_num_threads())
            yield frame

    monkeypatch.setattr("os.cpu_count", lambda: 8)
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        evaluate(plan(sim_set, methods=("looking",), table={"looking": lambda flow: looking}))
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {2}


def test_frames_that_a_method_changed_get_flows_of_their_own(sim_set: Path) -> None:
    flow = shared_flow("dis-ultrafast")
    frames = torch.rand(2, 3, 64, 64)
    pair = flow(frames[:1], frames[1:])
    torch.testing.assert_close(pair.forward, DisFlow("ultrafast")(frames[:1], frames[1:]).forward)
    assert not flow._pairs


def test_saved_frames_score_the_same_as_a_folder(sim_set: Path, tmp_path: Path) -> None:
    both = ("first", "middle")
    scores = evaluate(plan(sim_set, instants=both, save_frames={"qrs": tmp_path / "qrs"}))
    folders = {"again": FrameFolder(tmp_path / "qrs")}
    again = evaluate(plan(sim_set, methods=(), folders=folders, instants=both))
    ours = [s.figures for s in scores if s.method == "qrs"]
    assert [s.figures for s in again] == ours


def test_folders_by_the_names_of_the_truth(sim_set: Path, tmp_path: Path) -> None:
    for sequence in ("0000", "0001"):
        shutil.copytree(sim_set / sequence / "GS_middle", tmp_path / sequence)
    name, folder = parse_folder(f"copy={tmp_path}")
    scores = evaluate(plan(sim_set, methods=(), folders={name: folder}))
    assert {s.figures["psnr"] for s in scores} == {math.inf}
    (tmp_path / "0001" / "00002.png").unlink()
    with pytest.raises(FileNotFoundError, match=r"no frame for .*0001/RS/00002\.png"):
        evaluate(plan(sim_set, methods=(), folders={name: folder}))


def test_gaps_are_not_bridged(sim_set: Path, tmp_path: Path) -> None:
    shutil.copytree(sim_set / "0000", tmp_path / "0000")
    (tmp_path / "0000" / "RS" / "00002.png").unlink()
    with pytest.warns(UserWarning, match="one frame"):
        scores = [s for s in evaluate(plan(tmp_path)) if s.method == "qrs"]
    assert [s.frame for s in scores] == [0, 1, 3]
    as_it_came = [s.figures for s in evaluate(plan(tmp_path, methods=("rs",))) if s.frame == 3]
    assert scores[2].figures == as_it_came[0]


def test_windows_leave_out_the_ends_of_clips(sim_set: Path, tmp_path: Path) -> None:
    whole = evaluate(plan(sim_set, resume=tmp_path / "record"))
    # From the same record: figures of all frames are not those of some.
    inner = evaluate(plan(sim_set, window=3, resume=tmp_path / "record", save_frames={"qrs": tmp_path / "qrs"}))
    assert inner == [score for score in whole if score.frame in (1, 2)]
    # Others need not have made the frames that nobody asks for.
    folders = {"qrs": FrameFolder(tmp_path / "qrs")}
    again = evaluate(plan(sim_set, methods=(), folders=folders, window=3))
    assert [score.frame for score in again] == [1, 2, 1, 2]
    with pytest.raises(FileNotFoundError, match=r"no frame for .*00000\.png"):
        evaluate(plan(sim_set, methods=(), folders=folders))


@pytest.mark.parametrize(("window", "message"), [(5, "middle of 5 consecutive"), (2, "1, 3, 5"), (0, "1, 3, 5")])
def test_windows_that_fit_no_frame_are_refused(sim_set: Path, window: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(plan(sim_set, window=window))
