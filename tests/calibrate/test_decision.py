from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qrsc.calibrate import decision as choose
from qrsc.calibrate.estimate import Calibration
from qrsc.calibrate.grey_frames import ClipSource, open_clip
from qrsc.media.image_folder import write_frame

NOTHING = np.zeros(0)
FOUND = Calibration(0.52, 0.5, 0.54, "bottom-up", True, "it shakes", 8.0, 3.0, 60, NOTHING, NOTHING)
OPEN = replace(
    FOUND, gamma=0.5, low=0.0, high=1.0, scan="top-down", determined=False, reason="the picture stands still"
)


@pytest.fixture
def clip(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands in for a clip on disk and its estimate; what `calibrate_clip` was asked comes to lie under `asked`."""
    state: dict[str, Any] = {"found": FOUND, "camera": "", "asked": {}}

    def opened(path: Path, fps: float | None = None, info: object = None) -> ClipSource:
        return ClipSource(path, (1520, 2704), 29.97 if fps is None else fps, state["camera"])

    def calibrated(source: ClipSource, **asked: Any) -> Calibration:
        state["asked"] = asked
        found: Calibration = state["found"]
        return found

    monkeypatch.setattr(choose, "open_clip", opened)
    monkeypatch.setattr(choose, "calibrate_clip", calibrated)
    return state


def chosen(**options: Any) -> choose.ChosenReadout:
    return choose.readout_for_clip(Path("clip.mp4"), **({"camera": None, "scan": None, "fps": None} | options))


def test_a_determined_clip_decides(clip: dict[str, Any]) -> None:
    result = chosen()
    assert (result.readout.gamma, result.readout.scan) == (0.52, "bottom-up")
    assert "0.520 (0.500 to 0.540), 17.35 ms" in result.message
    assert not result.nothing_to_correct


def test_a_global_shutter_is_passed_through(clip: dict[str, Any]) -> None:
    clip["found"] = replace(FOUND, gamma=0.01, low=0.0, high=0.03)
    result = chosen()
    assert result.nothing_to_correct
    assert result.readout.gamma == 0.0
    assert "nothing to correct" in result.message


def test_the_camera_that_the_file_names_helps_an_open_clip(clip: dict[str, Any]) -> None:
    clip |= {"found": OPEN, "camera": "GoPro HERO5 Black"}
    result = chosen()
    assert result.readout.gamma == pytest.approx(30.03 * 29.97 / 1000)
    assert "GoPro HERO5 Black" in result.message


@pytest.mark.parametrize("camera", ["", "Unheard Of 3000"])
def test_otherwise_a_guess_with_a_warning(clip: dict[str, Any], camera: str) -> None:
    clip |= {"found": OPEN, "camera": camera}
    result = chosen(scan="left-right")
    assert (result.readout.gamma, result.readout.scan) == (0.6, "left-right")
    assert "stands still" in result.message
    assert "assumed" in result.message


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


def test_a_folder_has_no_rate_and_no_camera(tmp_path: Path) -> None:
    write_frame(tmp_path / "0.png", torch.zeros(3, 48, 64))
    source = open_clip(tmp_path)
    assert (source.size, source.fps, source.camera) == ((48, 64), None, "")
    assert open_clip(tmp_path, 25.0).fps == 25.0
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        open_clip(tmp_path / "missing")
