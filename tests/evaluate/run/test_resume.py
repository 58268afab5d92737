"""Runs that are interrupted and resumed, and what the record of finished sequences is keyed by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from qrsc.backend.progress import Cancelled, Progress
from qrsc.data.dataset import ClipFiles, index_data
from qrsc.evaluate.methods.registry import Method, unchanged
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.evaluate.run import plan as plan_module
from qrsc.evaluate.run.plan import evaluate
from qrsc.evaluate.run.scores import FrameScore
from qrsc.timing import Readout

from ..plans import plan


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
