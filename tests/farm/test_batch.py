"""A batch: what is done, done again, kept, set aside and reported. No process is started here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qrsc
from qrsc.backend.progress import Cancelled
from qrsc.farm import batch as batches
from qrsc.farm.manifest import Manifest, read_lines
from qrsc.farm.run import BatchProgress, BatchResult
from qrsc.farm.tasks import ClipTask, JoinTask, Outcome, SegmentTask, Task
from qrsc.farm.work import unsure_parts
from qrsc.video.correct import correct_video

from ..videos import facts, planes
from .clips import GAMMA, Hook, Inline, kinds, short_clip

OPTIONS: dict[str, Any] = {"gamma": GAMMA, "preset": "fast", "motion": "quadratic", "codec": "ffv1"}


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short clips and one of three segments, in a tree."""
    folder = tmp_path_factory.mktemp("footage")
    short_clip(folder / "one.mkv", 12)
    short_clip(folder / "day 2" / "two.mp4", 12, 2)
    short_clip(folder / "day 2" / "long.mkv", 60, 3, options={"crf": "8", "g": "20"})
    return folder


Run = Callable[..., list[BatchResult]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`qrsc.batch` without processes; the tasks that were done are in `run.done`."""

    def call(inputs: Any, hook: Hook | None = None, **more: Any) -> list[BatchResult]:
        executor = Inline(tmp_path / "scratch", hook)
        monkeypatch.setattr(batches, "_executor", lambda *given: executor)
        call.done = executor.done  # type: ignore[attr-defined]
        given = {**OPTIONS, "segment": 20, **more}
        output = given.pop("output", tmp_path / "out")
        return list(qrsc.batch(inputs, output, **given))

    return call


def done(run: Run) -> list[str]:
    return kinds(run.done)  # type: ignore[attr-defined]


def test_results_are_those_of_correct(footage: Path, tmp_path: Path, run: Run) -> None:
    seen: list[BatchProgress] = []
    results = run(footage, progress=seen.append)
    out = tmp_path / "out"
    assert {Path(r.output).relative_to(out).as_posix() for r in results} == {
        "one.mkv", "day 2/two.mp4", "day 2/long.mkv",
    }  # fmt: skip
    assert [r.state for r in results] == ["done"] * 3
    assert sorted(done(run)) == ["clip"] * 3 + ["join"] + ["segment"] * 3
    for result in results:
        expected = tmp_path / f"expected{Path(result.output).suffix}"
        told = correct_video(result.source, expected, overwrite=True, **OPTIONS)
        assert facts(expected) == facts(Path(result.output))
        assert all((a == b).all() for x, y in zip(planes(expected), planes(Path(result.output)), strict=True)
                   for a, b in zip(x, y, strict=True))  # fmt: skip
        figures = told.figures()
        assert {name: result.figures[name] for name in ("gamma", "frames", "check", "cuts")} == {
            name: figures[name] for name in ("gamma", "frames", "check", "cuts")
        }
    assert seen[-1].finished <= seen[-1].clips == 3
    assert {path.name for path in out.iterdir()} == {
        "one.mkv", "day 2", "manifest.jsonl", "report.json", "report.html",
    }  # fmt: skip
    report = json.loads((out / "report.json").read_text())
    assert (report["clips"], report["done"], report["failed"]) == (3, 3, 0)
    assert {line["segments"] for line in report["results"]} == {0, 3}
    assert report["options"] == OPTIONS | {"preset": "fast"}
    page = (out / "report.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 3
    # Nothing is missing: a second run does nothing, and reports the same.
    assert [r.state for r in run(footage)] == ["kept"] * 3
    assert done(run) == []
    assert json.loads((out / "report.json").read_text())["results"] == report["results"]
    # Other settings, a lost output or a changed one begin a clip anew, and say so.
    notes: list[str] = []
    Path(out / "one.mkv").unlink()
    (out / "day 2" / "two.mp4").write_bytes(b"")
    assert {Path(r.output).name: r.state for r in run(footage, on_note=notes.append)} == {
        "one.mkv": "done", "two.mp4": "done", "long.mkv": "kept",
    }  # fmt: skip
    assert len([note for note in notes if note.endswith("corrected anew")]) == 2
    notes.clear()
    assert run(footage / "one.mkv", always=True, on_note=notes.append)[0].state == "done"
    assert notes[0].endswith("it is corrected anew")


def test_a_touched_input_is_kept_by_its_content(tmp_path: Path, run: Run) -> None:
    source = short_clip(tmp_path / "in" / "clip.mkv", 8)
    assert run(source)[0].state == "done"
    source.touch()
    assert run(source)[0].state == "kept"
    short_clip(source, 8, 5)
    assert run(source)[0].state == "done"


class Crash(BaseException):
    """The driver is killed."""


def test_after_a_kill_only_what_was_in_flight_is_done_again(footage: Path, tmp_path: Path, run: Run) -> None:
    count = 0

    def die(number: int, task: Task) -> Outcome | None:
        nonlocal count
        count += isinstance(task, SegmentTask)
        if count == 3:
            raise Crash
        return None

    source = footage / "day 2" / "long.mkv"
    with pytest.raises(Crash):
        run(source, die)
    manifest = tmp_path / "out" / "manifest.jsonl"
    written = [line["number"] for line in read_lines(manifest) if line["kind"] == "segment"]
    manifest.write_bytes(manifest.read_bytes() + b'{"kind": "segment", "clip": "to')  # a torn line
    assert len(written) == 2
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["results"][0]["state"] == "unfinished"
    [result] = run(source)
    assert result.state == "done"
    assert sorted(done(run)) == ["clip", "join", "segment"]
    assert all(json.loads(line) for line in manifest.read_bytes().splitlines())


def test_a_damaged_segment_is_done_again(footage: Path, tmp_path: Path, run: Run) -> None:
    def die(number: int, task: Task) -> Outcome | None:
        if isinstance(task, JoinTask):
            raise Crash
        return None

    source = footage / "day 2" / "long.mkv"
    with pytest.raises(Crash):
        run(source, die)
    [folder] = (tmp_path / "out" / ".qrsc-batch").iterdir()
    damaged = folder / "0-000001.segment"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    assert run(source)[0].state == "done"
    assert sorted(done(run)) == ["clip", "join", "segment"]
    assert not folder.exists()


def test_a_broken_clip_fails_alone(footage: Path, tmp_path: Path, run: Run) -> None:
    broken = tmp_path / "in" / "broken.mp4"
    broken.parent.mkdir()
    broken.write_bytes(b"nothing")
    results = run([broken, footage / "one.mkv"])
    assert {Path(r.source).name: r.state for r in results} == {"broken.mp4": "failed", "one.mkv": "done"}
    assert "cannot be read as a video" in next(r.reason for r in results if r.state == "failed")
    assert "cannot be read as a video" in (tmp_path / "out" / "report.html").read_text()
    [again] = run(broken)
    assert again.reason.startswith("failed in an earlier run")
    assert done(run) == []
    assert run(broken, retry_failed=True)[0].state == "failed"
    assert done(run) == ["clip"]


@pytest.mark.parametrize("saved", [True, False])
def test_a_clip_that_ends_its_worker_twice_is_tried_alone(footage: Path, run: Run, saved: bool) -> None:
    def die(number: int, task: Task) -> Outcome | None:
        if isinstance(task, ClipTask) and task.clip.relative == "one.mkv" and not (task.frugal and saved):
            return Outcome(number, error="ended", died=True, restarts=2)
        return None

    results = run([footage / "one.mkv", footage / "day 2" / "two.mp4"], die)
    assert [Path(r.source).name for r in results] == ["two.mp4", "one.mkv"]
    assert results[1].state == ("done" if saved else "failed")
    assert results[1].restarts == (2 if saved else 4)
    assert saved or "three times" in results[1].reason


def test_a_file_of_the_user_is_not_replaced(footage: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "one.mkv").write_text("mine")
    assert "--overwrite" in run(footage / "one.mkv")[0].reason
    assert (tmp_path / "out" / "one.mkv").read_text() == "mine"
    assert run(footage / "one.mkv", overwrite=True, retry_failed=True)[0].state == "done"


def test_what_cannot_be_divided_is_corrected_in_one_piece(footage: Path, run: Run) -> None:
    from qrsc.farm.tasks import Undividable

    def refuse(number: int, task: Task) -> Outcome | None:
        return Outcome(number, Undividable("damaged")) if isinstance(task, SegmentTask) else None

    notes: list[str] = []
    [result] = run(footage / "day 2" / "long.mkv", refuse, on_note=notes.append)
    assert (result.state, result.figures["undivided"]) == ("done", "damaged")
    assert any("in one piece: damaged" in note for note in notes)


def test_a_correction_that_makes_it_worse_is_lessened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    from qrsc.calibrate.decision import ChosenReadout
    from qrsc.timing import Readout

    wrong = ChosenReadout(Readout(GAMMA, "bottom-up"), "found, and wrong")
    monkeypatch.setattr("qrsc.video.readout.readout_for_clip", lambda *given, **options: wrong)
    source = short_clip(tmp_path / "in" / "clip.mkv", 60)
    [result] = run(source, gamma=None, codec=None)
    assert (result.state, result.figures["strength"]) == ("copied", 0.0)
    assert Path(result.output).read_bytes() == source.read_bytes()
    assert [line["kind"] for line in read_lines(tmp_path / "out" / "manifest.jsonl")].count("lessened") == 1


def test_bad_requests_are_refused_at_once(footage: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unknown option 'speed'"):
        qrsc.batch(footage, tmp_path, speed=2)
    with pytest.raises(ValueError, match="a segment has 20 frames"):
        qrsc.batch(footage, tmp_path, segment=3)
    with pytest.raises(TypeError, match="a name or a file"):
        qrsc.batch(footage, tmp_path, flow=qrsc.load_flow("dis"))
    with Manifest(tmp_path / "manifest.jsonl"), pytest.raises(OSError, match="another batch is writing"):
        list(qrsc.batch(footage, tmp_path, **OPTIONS))
    (tmp_path / "manifest.jsonl").write_text("no manifest\n")
    with pytest.raises(ValueError, match="line 1 of"):
        list(read_lines(tmp_path / "manifest.jsonl"))


def test_a_cancelled_batch_keeps_what_is_done(footage: Path, run: Run) -> None:
    cancel = threading.Event()

    def stop(number: int, task: Task) -> Outcome | None:
        cancel.set()
        return None

    with pytest.raises(Cancelled):
        run([footage / "one.mkv", footage / "day 2" / "two.mp4"], stop, cancel=cancel)
    assert [r.state for r in run([footage / "one.mkv", footage / "day 2" / "two.mp4"])] == ["kept", "kept"]


def test_unsure_parts_are_stretches_of_time() -> None:
    assert unsure_parts([0.0, 0.3, 0.5, 0.0, 0.0, 0.26], 2.0) == [
        {"from": 0.5, "to": 1.5, "unsure": 0.4},
        {"from": 2.5, "to": 3.0, "unsure": 0.26},
    ]
