from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc.backend.progress import Cancelled, Progress
from qrsc.data.dataset import ClipFiles, index_data
from qrsc.evaluate.methods.registry import (
    METHODS,
    FrameFolder,
    Method,
    load_method,
    method_fingerprint,
    parse_folder,
    unchanged,
    windowed,
)
from qrsc.evaluate.methods.results import LateFrame
from qrsc.evaluate.methods.shared_flow import SharedFlow, shared_flow
from qrsc.evaluate.metrics.image_quality import psnr
from qrsc.evaluate.report.tables import format_rows, frame_rows
from qrsc.evaluate.report.worst_frames import write_charts, write_worst
from qrsc.evaluate.run import plan as plan_module
from qrsc.evaluate.run.plan import Plan, evaluate
from qrsc.evaluate.run.scores import FrameScore, mean_rows
from qrsc.flow import DisFlow, FlowPair
from qrsc.media.image_folder import read_frame
from qrsc.pipeline import Corrector, MotionName
from qrsc.timing import Readout, Scan
from qrsc.weights import card


def plan(root: Path, **changes: object) -> Plan:
    settings: dict[str, object] = {"methods": ("rs", "qrs"), "metrics": ("psnr",), "sequences": index_data(root, "sim")}
    return Plan(root.name, **(settings | changes))  # type: ignore[arg-type]  # settings by name


def test_figures_are_those_of_the_corrector(sim_set: Path) -> None:
    scores = evaluate(plan(sim_set, instants=("first", "middle"), metrics=("psnr", "ssim")))
    assert len(scores) == 2 * 4 * 2 * 2  # sequences, frames, instants, methods
    readout = Readout(0.6)
    frames = torch.stack([read_frame(sim_set / "0001" / "RS" / f"{k:05d}.png").frame for k in range(4)])
    truth = read_frame(sim_set / "0001" / "GS_first" / "00002.png").frame
    expected = {"rs": frames[2], "qrs": Corrector(readout, tau=0.0, motion="quadratic", fusion="none")(frames)[2]}
    for name, frame in expected.items():
        [score] = [s for s in scores if (s.sequence, s.frame, s.at, s.method) == ("0001", 2, "first", name)]
        assert score.figures["psnr"] == pytest.approx(float(psnr(frame, truth)), abs=1e-3)


@pytest.mark.parametrize(("name", "motion"), [("linear", "linear"), ("qrs", "quadratic")])
@pytest.mark.parametrize("scan", ["top-down", "right-left"])
def test_single_frames_are_those_of_the_corrector(sim_set: Path, name: str, motion: MotionName, scan: Scan) -> None:
    frames = torch.stack([read_frame(sim_set / "0000" / "RS" / f"{k:05d}.png").frame for k in range(4)])
    readout = Readout(0.8, scan)
    expected = list(Corrector(readout, tau=0.3, motion=motion, fusion="none").stream(frames))
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


def test_a_run_goes_on_where_it_was_cut_off(sim_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evaluate(plan(sim_set, resume=tmp_path))
    lines = (tmp_path / "sequences.jsonl").read_text().splitlines()
    assert len(lines) == 2
    (tmp_path / "sequences.jsonl").write_text(lines[0] + "\n" + lines[1][:40])
    scored: list[str] = []
    score_clip = plan_module._score_clip

    def counted(clip: ClipFiles, *rest: Any) -> list[FrameScore]:
        scored.append(clip.sequence)
        return score_clip(clip, *rest)

    monkeypatch.setattr(plan_module, "_score_clip", counted)
    seen: list[int] = []
    assert evaluate(plan(sim_set, resume=tmp_path), progress=lambda each: seen.append(each.done)) == whole
    assert scored == ["0001"], "the second sequence alone"
    assert seen == list(range(1, 9))
    monkeypatch.setattr("qrsc.evaluate.run.plan._score_clip", None)
    assert evaluate(plan(sim_set, resume=tmp_path)) == whole


def test_a_cancelled_run_keeps_what_was_finished(sim_set: Path, tmp_path: Path) -> None:
    stop = Event()
    done: list[int] = []

    def watch(progress: Progress) -> None:
        done.append(progress.done)
        if progress.done == 6:
            stop.set()

    with pytest.raises(Cancelled):
        evaluate(plan(sim_set, resume=tmp_path), progress=watch, cancel=stop)
    assert done[-1] == 6
    assert len((tmp_path / "sequences.jsonl").read_text().splitlines()) == 1


class Weighted:
    """An entry of a table of methods: the input, said to be made with some weights."""

    def __init__(self, weights: str) -> None:
        self.weights = weights

    def __call__(self, flow: SharedFlow) -> Method:
        return unchanged

    def fingerprint(self) -> str:
        return self.weights


def test_kept_figures_are_those_of_the_weights_and_settings(
    sim_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qrsc.flow._SHIPPED_WEIGHTS", {"dis": "stands in for a network"})
    scored: list[str] = []
    score_clip = plan_module._score_clip

    def counted(clip: ClipFiles, *rest: Any) -> list[FrameScore]:
        scored.append(clip.sequence)
        return score_clip(clip, *rest)

    monkeypatch.setattr(plan_module, "_score_clip", counted)

    def computed(fusion: str, flow_network: str, **changes: object) -> bool:
        """Whether figures are computed with a method and a flow of these weights."""
        monkeypatch.setattr("qrsc.flow.card", lambda name: {"sha256": flow_network})
        settings = {"methods": ("mine",), "table": {"mine": Weighted(fusion)}, "resume": tmp_path, **changes}
        scored.clear()
        evaluate(plan(sim_set, **settings))
        assert scored in ([], ["0000", "0001"])
        return bool(scored)

    assert computed("a", "b")
    assert not computed("a", "b")
    assert computed("trained again", "b")
    assert computed("a", "trained again")
    assert not computed("a", "b")
    turned = [replace(each, readout=Readout(0.5, "bottom-up")) for each in index_data(sim_set, "sim")]
    slower = [replace(each, readout=Readout(0.5)) for each in index_data(sim_set, "sim")]
    for changes in (
        {"metrics": ("psnr", "ssim")},
        {"instants": ("first",)},
        {"window": 3},
        {"flow": "dis-fast"},
        {"sequences": slower},
        {"sequences": turned},
    ):
        assert computed("a", "b", **changes), changes
        assert not computed("a", "b", **changes), changes


def test_a_fusion_network_is_known_by_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = card("rsa2-lite")["sha256"]
    assert method_fingerprint("rsa2-lite").endswith(f"@{sha256}")
    assert "@" not in method_fingerprint("multi-path")
    assert len({method_fingerprint(name) for name in METHODS}) == len(METHODS)
    monkeypatch.setattr("qrsc.evaluate.methods.registry.card", lambda name: {"sha256": "trained again"})
    assert method_fingerprint("rsa2-lite").endswith("@trained again")


def test_the_table_of_methods_is_read_only() -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        METHODS["mine"] = lambda flow: unchanged  # type: ignore[index]  # which is the point


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


# --- methods of others ---


def mirrored(frames: Tensor, readout: Readout, tau: float) -> Tensor:
    """Takes the whole clip at once."""
    return torch.stack(list(frames)).flip(-1)


def too_few(frames: Tensor, readout: Readout, tau: float) -> list[Tensor]:
    return list(frames)[1:]


def too_small(frames: Tensor, readout: Readout, tau: float) -> list[Tensor]:
    return [frame[..., 1:] for frame in frames]


def test_functions_of_others_are_scored(sim_set: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "their_network.py").write_text("def run(frames, readout, tau):\n    return [f * 0 for f in frames]\n")
    monkeypatch.chdir(tmp_path)
    table = {**METHODS, "mirrored": lambda flow: mirrored}
    rows = mean_rows(evaluate(plan(sim_set, methods=("mirrored", "their_network:run", "rs"), table=table)))
    assert [row["method"] for row in rows] == ["mirrored", "their_network:run", "rs"]
    assert rows[1]["psnr"] < rows[0]["psnr"] < rows[2]["psnr"]


@pytest.mark.parametrize(
    ("method", "message"), [(too_few, "fewer frames than the 4"), (too_small, r"got \[3, 72, 95\]")]
)
def test_wrong_results_are_refused(sim_set: Path, method: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(plan(sim_set, methods=("wrong",), table={"wrong": lambda flow: method}))


def test_unknown_methods_are_refused(sim_set: Path) -> None:
    flow = shared_flow("dis")
    with pytest.raises(ValueError, match="unknown method 'qsr'; choose from rs, linear"):
        load_method("qsr", flow)
    with pytest.raises(ValueError, match="no_such_module:run could not be imported"):
        load_method("no_such_module:run", flow)
    with pytest.raises(ValueError, match="is no function"):
        load_method("math:pi", flow)
    with pytest.raises(ValueError, match="two methods called qrs"):
        evaluate(plan(sim_set, folders={"qrs": FrameFolder(sim_set)}))
    with pytest.raises(ValueError, match="NAME=DIR"):
        parse_folder("name")
    with pytest.raises(FileNotFoundError, match="no folder nowhere"):
        parse_folder("name=nowhere")


@pytest.mark.parametrize("length", [1, 2, 6])
@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_windows_repeat_the_ends(length: int, window: int) -> None:
    clip = torch.arange(length).float().reshape(-1, 1, 1, 1).expand(-1, 3, 2, 2)
    seen = []

    def correct(frames: Tensor, readout: Readout, tau: float) -> Tensor:
        seen.append([int(value) for value in frames[:, 0, 0, 0]])
        return frames[window // 2]

    result = list(windowed(correct, window)(clip, Readout(1.0), 0.5))
    assert torch.equal(torch.stack(result), clip)  # type: ignore[arg-type]  # tensors, not results
    first = -(window // 2)
    assert seen == [[min(max(k + first + j, 0), length - 1) for j in range(window)] for k in range(length)]


# --- tables and pictures ---

ROWS = [
    {"set": "Carla-RS", "method": "rs", "at": "middle", "frames": 2, "psnr": 20.0, "ssim": 0.5},
    {"set": "Carla-RS", "method": "qrs", "at": "middle", "frames": 2, "psnr": math.inf, "ssim": 1.0},
    {"set": "Carla-RS", "method": "qrs", "at": "first", "frames": 2, "psnr": 30.0},
]


def test_means_pass_over_what_does_not_apply() -> None:
    scores = [
        FrameScore("s", "a", 0, "middle", "m", {"psnr": 20.0, "epe": 1.0}),
        FrameScore("s", "a", 1, "middle", "m", {"psnr": 30.0}),
        FrameScore("s", "a", 0, "first", "m", {"psnr": 10.0}),
    ]
    assert mean_rows(scores) == [
        {"set": "s", "method": "m", "at": "middle", "frames": 2, "psnr": 25.0, "epe": 1.0},
        {"set": "s", "method": "m", "at": "first", "frames": 1, "psnr": 10.0},
    ]
    assert frame_rows(scores).splitlines()[:2] == ["set,sequence,frame,at,method,psnr,epe", "s,a,0,middle,m,20.0,1.0"]


def test_tables_hold_the_paper_where_set_and_instant_match() -> None:
    text = format_rows(ROWS, "text").splitlines()
    assert text[2].split() == [
        "Carla-RS",
        "middle",
        "rs",
        "2",
        "20.00",
        "0.5000",
        "32.01",
        "/",
        "0.9330",
        "/",
        "0.0253",
    ]
    assert text[4].split() == ["Carla-RS", "first", "qrs", "2", "30.00", "–", "–"]
    assert "11x11 Gaussian window" in text[-1]
    markdown = format_rows(ROWS, "markdown", others=True)
    assert "| Carla-RS | middle | (JAMNet) | all | 30.70 | 0.9050 | – |" in markdown
    assert "| Carla-RS | first | (CVR) | all | 31.74 | 0.9290 | – |" in markdown
    assert "paper" not in format_rows([{**ROWS[0], "set": "mine"}], "text")


def test_json_and_csv_hold_all_digits() -> None:
    rows = json.loads(format_rows(ROWS, "json"))
    assert [row["psnr"] for row in rows] == [20.0, None, 30.0]
    assert list(rows[0])[:6] == ["set", "method", "at", "frames", "psnr", "ssim"]
    assert rows[0]["paper_psnr"] == 32.01
    assert "paper_psnr" not in rows[2]
    lines = format_rows(ROWS, "csv").splitlines()
    assert lines[0].startswith("set,method,at,frames,psnr,ssim,paper_psnr")
    assert lines[1].startswith("Carla-RS,rs,middle,2,20.0,0.5,32.01")


def test_charts_and_contact_sheet(sim_set: Path, tmp_path: Path) -> None:
    chosen = plan(sim_set, methods=("rs", "linear"))
    scores = evaluate(chosen)
    written = write_charts(tmp_path, mean_rows(scores), scores, "caption")
    assert {path.name for path in written} == {"psnr.svg", "frames_mini_middle.svg"}
    assert "caption" in written[0].read_text()
    write_worst(tmp_path / "worst.png", chosen, scores, "linear")
    sheet = read_frame(tmp_path / "worst.png").frame
    assert sheet.shape == (3, 6 * 72 + 5 * 4, 4 * 96 + 3 * 4)
    worst = min((s for s in scores if s.method == "linear"), key=lambda s: s.figures["psnr"])
    truth = read_frame(sim_set / worst.sequence / "GS_middle" / f"{worst.frame:05d}.png").frame
    corner = sheet[:, 40:72, 2 * (96 + 4) : 2 * (96 + 4) + 96]
    assert (corner - truth[:, 40:]).abs().max() < 1e-6, "third in the first row, below its label"
