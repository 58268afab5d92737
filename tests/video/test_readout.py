from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import qrsc
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.estimate import Calibration, estimate_readout
from qrsc.calibrate.recorded import RecordedFigures
from qrsc.media.probe import probe
from qrsc.video.readout import ReadoutOptions, choose_readout
from tests.videos import Recipe, make_video, texture_frames


@pytest.mark.parametrize(
    ("options", "warned"),
    [(ReadoutOptions(gamma=0.5), True), (ReadoutOptions(readout_ms=10.0), True), (ReadoutOptions(gamma=0.0), False)],
)
def test_correcting_a_clip_that_its_camera_stabilised_is_said_to_be_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: ReadoutOptions, warned: bool
) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(2)))
    figures = RecordedFigures(20.6, "GoPro Max", "HS HLevel", "GoPro metadata")
    monkeypatch.setattr("qrsc.video.readout.recorded_figures", lambda clip: figures)
    said: list[str] = []
    choose_readout(source, probe(source), options, say=said.append)
    assert any("a plain rolling-shutter correction is wrong" in line for line in said) == warned


def test_the_result_has_the_scan_of_the_picture_as_seen(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(4), rotation=90))
    notes: list[str] = []
    result = qrsc.correct_video(
        source, tmp_path / "out.mp4", gamma=0.5, scan="left-right", preset="fast", on_note=notes.append
    )
    assert result.figures()["scan"] == "left-right"
    assert result.readout.scan in ("top-down", "bottom-up")
    assert any(f"left-right as seen is {result.readout.scan} in its stored frames" in note for note in notes)


def test_the_readout_of_a_part_is_that_of_the_whole_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(9)))
    looked_at: list[int] = []

    def estimated(motions: ClipMotions, **options: Any) -> Calibration:
        looked_at.append(motions.pairs)
        options.pop("early")
        return estimate_readout(motions, **options)

    monkeypatch.setattr("qrsc.calibrate.calibrate_clip.checked_readout", estimated)
    result = qrsc.correct_video(source, tmp_path / "out.mp4", start=0.1, duration=0.1, preset="fast")
    assert looked_at == [8]
    assert result.frames == 3
