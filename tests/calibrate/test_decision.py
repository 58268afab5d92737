from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qrsc.calibrate import decision as choose
from qrsc.calibrate.estimate import Calibration
from qrsc.calibrate.grey_frames import ClipSource, open_clip
from qrsc.calibrate.recorded import RecordedFigures
from qrsc.calibrate.report import CalibrationReport
from qrsc.media.image_folder import write_frame

NOTHING, CURVE = np.zeros(0), np.arange(3.0)
FOUND = Calibration(
    gamma=0.52,
    low=0.5,
    high=0.54,
    least=0.5,
    scan="bottom-up",
    determined=True,
    reason="it shakes",
    speed=8.0,
    change=3.0,
    fastest=20.0,
    error=0.01,
    pairs=60,
    curve_gammas=CURVE,
    curve_costs=CURVE,
)
VAGUE = replace(FOUND, gamma=0.66, low=0.6, high=0.73, least=0.6, determined=False, reason="it hardly shakes")
OPEN = replace(
    FOUND,
    gamma=0.5,
    low=0.0,
    high=1.0,
    least=-1.0,
    scan="top-down",
    determined=False,
    reason="the picture stands still",
    fastest=0.4,
    curve_gammas=NOTHING,
    curve_costs=NOTHING,
)


@pytest.fixture
def clip(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands in for a clip on disk and its estimate; what `calibrate_clip` was asked comes to lie under `asked`."""
    state: dict[str, Any] = {"found": FOUND, "camera": "", "asked": {}, "recorded": RecordedFigures()}

    def opened(path: Path, fps: float | None = None, info: object = None) -> ClipSource:
        return ClipSource(path, (1520, 2704), 29.97 if fps is None else fps, state["camera"])

    def calibrated(source: ClipSource, **asked: Any) -> Calibration:
        state["asked"] = asked
        found: Calibration = state["found"]
        return found if asked["scan"] is None else replace(found, scan=asked["scan"], least=max(0.0, found.least))

    monkeypatch.setattr(choose, "open_clip", opened)
    monkeypatch.setattr(choose, "calibrate_clip", calibrated)
    monkeypatch.setattr(choose, "recorded_figures", lambda clip: state["recorded"])
    return state


def chosen(**options: Any) -> choose.ChosenReadout:
    return choose.readout_for_clip(Path("clip.mp4"), **({"camera": None, "scan": None, "fps": None} | options))


def test_a_determined_clip_decides(clip: dict[str, Any]) -> None:
    result = chosen()
    assert (result.readout.gamma, result.readout.scan) == (0.52, "bottom-up")
    assert "17.35 ms at 29.97 fps, gamma 0.520 (0.500 to 0.540)" in result.message
    assert not result.nothing_to_correct


def test_a_global_shutter_is_passed_through(clip: dict[str, Any]) -> None:
    clip["found"] = replace(FOUND, gamma=0.01, low=0.0, high=0.03)
    result = chosen()
    assert result.nothing_to_correct
    assert result.readout.gamma == 0.0
    assert "nothing to correct" in result.message


# --- a clip that does not determine its readout ---


def test_the_most_probable_gamma_and_scan_of_a_vague_clip_are_used(clip: dict[str, Any]) -> None:
    clip["found"] = VAGUE
    result = chosen()
    assert (result.readout.gamma, result.readout.scan) == (0.66, "bottom-up")
    assert "it hardly shakes" in result.message
    assert "(0.60 to 0.73)" in result.message
    # 20 px per frame, gamma off by up to 0.07, half of it at the first and last row
    assert "up to 0.7 px off" in result.message
    assert "matters little" not in result.message


def test_it_matters_little_only_below_half_a_pixel(clip: dict[str, Any]) -> None:
    clip["found"] = replace(VAGUE, fastest=10.0)
    assert "it matters little: whatever the readout is, rows are at most 0.35 px off" in chosen().message


def test_a_scan_that_the_clip_contradicts_is_said(clip: dict[str, Any]) -> None:
    clip["found"] = replace(VAGUE, gamma=0.0, low=0.0, high=0.0, least=-0.35, reason="the rows are read the other way")
    result = chosen()
    assert result.nothing_to_correct
    assert "the rows are read the other way" in result.message
    assert "leave --scan out" in result.message


def test_an_interval_with_both_directions_gets_less_or_nothing(clip: dict[str, Any]) -> None:
    clip["found"] = replace(VAGUE, gamma=0.4, low=0.0, high=0.9, least=-0.1)
    less = chosen()
    # The standard error is 0.25: 1 - (0.25 / 0.4)^2 of 0.4.
    assert less.readout.gamma == pytest.approx(0.4 * (1.0 - (0.25 / 0.4) ** 2))
    assert less.readout.scan == "bottom-up"
    clip["found"] = replace(VAGUE, gamma=0.1, low=0.0, high=0.4, least=-0.2)
    none = chosen()
    assert none.nothing_to_correct
    assert "leaving the clip as it is" in none.message
    assert "px off" in none.message


def test_a_still_clip_gets_little(clip: dict[str, Any]) -> None:
    clip |= {"found": replace(OPEN, fastest=1.2), "camera": "Unheard Of 3000"}
    result = chosen(scan="left-right")
    assert (result.readout.gamma, result.readout.scan) == (choose.LITTLE, "left-right")
    assert "stands still" in result.message
    assert "Unheard Of 3000" in result.message
    assert "at most 0.42 px off" in result.message  # 1.2 px, gamma off by up to 0.7, half of it


def test_a_clip_whose_rows_are_hardly_off_is_left_alone(clip: dict[str, Any]) -> None:
    clip |= {"found": OPEN, "camera": "GoPro HERO5 Black"}
    result = chosen()
    assert result.nothing_to_correct
    assert "whatever the readout is, rows are at most 0.20 px off" in result.message  # 0.4 px, half of it
    clip["found"] = replace(OPEN, fastest=1.01)
    assert not chosen().nothing_to_correct


def test_a_clip_in_which_nothing_can_be_followed_is_not_said_to_stand_still(clip: dict[str, Any]) -> None:
    clip["found"] = replace(OPEN, fastest=math.inf)
    result = chosen()
    assert not result.nothing_to_correct
    assert "how far rows are off is not known" in result.message


def test_a_still_portrait_clip_is_left_alone(clip: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    clip["found"] = replace(OPEN, fastest=8.0)
    monkeypatch.setattr(ClipSource, "turned_in_pixels", True)
    assert chosen().nothing_to_correct


def test_the_camera_that_the_file_names_helps_an_open_clip(clip: dict[str, Any]) -> None:
    clip |= {"found": replace(OPEN, fastest=8.0), "camera": "GoPro HERO5 Black"}
    result = chosen()
    assert result.readout.gamma == pytest.approx(30.03 * 29.97 / 1000)
    assert "GoPro HERO5 Black" in result.message


def test_the_table_does_not_overrule_what_the_clip_rules_out(clip: dict[str, Any]) -> None:
    clip |= {"found": VAGUE, "camera": "GoPro HERO5 Black"}
    result = chosen()
    assert (result.readout.gamma, result.readout.scan) == (0.66, "bottom-up")
    assert "not within what the clip allows" in result.message


# --- the file's own figure ---


def test_the_files_own_figure_comes_before_the_clip_which_confirms_it(clip: dict[str, Any]) -> None:
    clip["recorded"] = RecordedFigures(17.5, "GoPro HERO9 Black", origin="GoPro metadata")
    result = chosen()
    assert result.readout.gamma == pytest.approx(17.5 * 29.97 / 1000)
    assert result.readout.scan == "bottom-up"
    assert "17.50 ms" in result.message
    assert "the clip agrees: 17.35 ms at 29.97 fps, gamma 0.520" in result.message


def test_of_two_figures_that_disagree_the_smaller_is_used_and_both_are_named(clip: dict[str, Any]) -> None:
    clip["recorded"] = RecordedFigures(25.0, origin="GoPro metadata")
    result = chosen()
    assert result.readout.gamma == 0.52
    assert "25.00 ms" in result.message
    assert "the clip disagrees: 17.35 ms at 29.97 fps, gamma 0.520" in result.message
    clip["recorded"] = RecordedFigures(10.0, origin="GoPro metadata")
    assert chosen().readout.gamma == pytest.approx(10.0 * 29.97 / 1000)


def test_the_files_own_figure_stands_where_the_clip_is_open(clip: dict[str, Any]) -> None:
    clip |= {"found": OPEN, "recorded": RecordedFigures(20.6, origin="GoPro metadata")}
    result = chosen()
    assert result.readout.gamma == pytest.approx(20.6 * 29.97 / 1000)
    assert "cannot confirm it, since the picture stands still" in result.message


def test_a_figure_that_does_not_fit_between_two_frames_is_not_used(clip: dict[str, Any]) -> None:
    clip["recorded"] = RecordedFigures(20.6, origin="GoPro metadata")
    assert chosen(fps=120.0).readout.gamma == 0.52


def test_a_clip_that_the_camera_stabilised_is_left_alone(clip: dict[str, Any]) -> None:
    clip["recorded"] = RecordedFigures(20.6, "GoPro Max", "HS HLevel", "GoPro metadata")
    result = chosen()
    assert result.nothing_to_correct
    assert "HS HLevel" in result.message
    assert "a plain rolling-shutter correction is wrong" in result.message
    assert clip["asked"] == {}, "there was no need to look at its motion"


# --- a named camera ---


def test_a_named_camera_is_refined_by_the_clip(clip: dict[str, Any]) -> None:
    result = chosen(camera="hero5 black")
    assert clip["asked"]["around"] == pytest.approx(0.9, abs=0.001)
    assert result.readout.gamma == 0.52
    assert "refined" in result.message


def test_a_named_camera_stands_where_the_clip_is_open(clip: dict[str, Any]) -> None:
    clip["found"] = OPEN
    result = chosen(camera="hero5 black")
    assert result.readout.gamma == pytest.approx(0.9, abs=0.001)
    assert "as it stands in the table" in result.message


@pytest.mark.parametrize("camera", [None, "GoPro HERO5 Black"])
def test_the_agreement_with_a_gyroscope_is_said(clip: dict[str, Any], camera: str | None) -> None:
    clip["found"] = replace(FOUND, gyro=0.97)
    said = "The picture moves as the file's gyroscope says (correlation 0.97)"
    assert said in chosen(camera=camera).message
    report = CalibrationReport(Path("clip.mp4"), clip["found"], 29.97)
    assert said in report.text()
    assert report.figures()["gyro_correlation"] == 0.97


def test_a_folder_has_no_rate_and_no_camera(tmp_path: Path) -> None:
    write_frame(tmp_path / "0.png", torch.zeros(3, 48, 64))
    source = open_clip(tmp_path)
    assert (source.size, source.fps, source.camera) == ((48, 64), None, "")
    assert open_clip(tmp_path, 25.0).fps == 25.0
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        open_clip(tmp_path / "missing")


def test_a_clip_that_no_readout_explains_is_left_as_it_is(clip: dict[str, Any]) -> None:
    clip["found"] = replace(
        FOUND, low=0.0, high=1.0, least=-1.0, determined=False, altered=True, reason="no single readout explains it"
    )
    clip["camera"] = "GoPro HERO5 Black"  # the table has it, but frames that were moved do not follow its readout
    result = chosen()
    assert result.nothing_to_correct
    assert "no single readout explains it. A plain correction is wrong for such a clip" in result.message
