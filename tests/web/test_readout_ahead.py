"""A readout that is looked for while nobody has asked for it, and a preview by its first estimate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qrsc.backend.progress import Cancelled
from qrsc.calibrate.decision import ChosenReadout
from qrsc.media.probe import clip_info
from qrsc.timing import Readout
from qrsc.web import readout_ahead
from qrsc.web.readout_ahead import ReadoutAhead, same_picture
from qrsc.web.settings import Settings
from qrsc.web.work import Watch, preview

from ..calibrate.test_decision import FOUND
from .test_work import make


def chosen(gamma: float, **more: Any) -> ChosenReadout:
    return ChosenReadout(Readout(gamma), f"gamma {gamma}", found=FOUND, **more)


def finding(monkeypatch: pytest.MonkeyPatch, first: ChosenReadout, final: ChosenReadout) -> threading.Event:
    """Let every clip have these readouts; the event is set when the test of the first one begins."""
    tested = threading.Event()

    def choose(source: Path, *given: Any, early: Callable[[ChosenReadout], None], **more: Any) -> ChosenReadout:
        early(first)
        tested.set()
        more["say"](final.message)
        return final

    monkeypatch.setattr(readout_ahead, "choose_readout", choose)
    return tested


def test_the_test_of_a_first_estimate_waits_while_that_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clip = make(tmp_path / "in.mp4")
    release = threading.Event()
    tested = finding(monkeypatch, chosen(0.8), chosen(0.5))
    monkeypatch.setattr(readout_ahead, "clip_info", lambda path: release.wait() and clip_info(path))
    ahead = ReadoutAhead(clip)
    threading.Timer(0.1, release.set).start()  # when somebody waits for it already
    with ahead.first(None, None) as first:
        assert first.readout.gamma == 0.8
        assert not tested.wait(0.2)
        assert not ahead.tested
    assert ahead.final(None).readout.gamma == 0.5
    with ahead.first(None, None) as again:
        assert again.readout.gamma == 0.5


def test_a_readout_that_nobody_wants_is_not_tested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clip = make(tmp_path / "in.mp4")
    tested = finding(monkeypatch, chosen(0.8), chosen(0.8))
    ahead = ReadoutAhead(clip)
    with ahead.first(None, None):
        ahead.stop()
    with pytest.raises(Cancelled):
        ahead.final(None)
    assert not tested.is_set()


def test_a_preview_is_shown_before_its_readout_is_tested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clip = make(tmp_path / "in.mp4", 9)
    finding(monkeypatch, chosen(0.8), chosen(0.801))
    shown: list[dict[str, Any]] = []
    done = preview(clip, tmp_path, Settings(), Watch(untested=shown.append))
    assert [(report["gamma"], report["readout_from"]) for report in shown] == [(0.8, "gamma 0.8")]
    assert (done["gamma"], done["readout_from"], done["after"]) == (0.8, "gamma 0.801", shown[0]["after"])
    assert "gamma 0.801" in done["notes"]


def test_a_preview_by_another_readout_than_the_tested_one_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clip = make(tmp_path / "in.mp4", 9)
    finding(monkeypatch, chosen(0.8), chosen(0.5))
    shown: list[dict[str, Any]] = []
    done = preview(clip, tmp_path, Settings(), Watch(untested=shown.append))
    assert (done["gamma"], done["readout_from"]) == (0.5, "gamma 0.5")
    assert (tmp_path / shown[0]["after"]).read_bytes() != (tmp_path / done["after"]).read_bytes()


def test_pictures_differ_by_half_a_pixel_or_by_what_is_corrected() -> None:
    assert FOUND.fastest == 20.0
    assert same_picture(chosen(0.5), chosen(0.549))
    assert not same_picture(chosen(0.5), chosen(0.551))
    assert not same_picture(chosen(0.5), chosen(0.0, nothing_to_correct=True))
    assert same_picture(chosen(0.0, nothing_to_correct=True), chosen(0.0, nothing_to_correct=True))
    assert not same_picture(chosen(0.5), ChosenReadout(Readout(0.5, "bottom-up"), ""))
