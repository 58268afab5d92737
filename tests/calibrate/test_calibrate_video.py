from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import torch

from qrsc.backend.progress import Cancelled, Progress
from qrsc.calibrate.calibrate_video import calibrate_video
from qrsc.media.image_folder import write_frame

FRAMES = 12


@pytest.fixture
def still(tmp_path: Path) -> Path:
    """A folder of equal pictures."""
    folder = tmp_path / "still"
    folder.mkdir()
    picture = torch.rand(3, 96, 128, generator=torch.Generator().manual_seed(0))
    for number in range(FRAMES):
        write_frame(folder / f"{number:02d}.png", picture)
    return folder


def test_progress_is_reported_for_every_frame_and_a_still_clip_stays_undetermined(still: Path) -> None:
    seen: list[Progress] = []
    report = calibrate_video(str(still), fps=25.0, progress=seen.append)
    assert [progress.done for progress in seen] == list(range(1, FRAMES + 1))
    assert {progress.stage for progress in seen} == {"calibrating"}
    assert not report.calibration.determined
    assert report.readout_ms is None
    assert (report.figures()["gamma"], report.figures()["frames"]) == (None, FRAMES)
    assert json.loads(json.dumps(report.figures()))["fps"] == 25.0
    assert report.headline() == "not determined (-1.00 to 1.00)"
    assert report.text().startswith("gamma     not determined")


def test_a_cancelled_calibration_stops_within_a_frame_and_writes_nothing(still: Path, tmp_path: Path) -> None:
    cancel = threading.Event()
    seen: list[int] = []

    def stop_after_two(progress: Progress) -> None:
        seen.append(progress.done)
        if progress.done == 2:
            cancel.set()

    sheet = tmp_path / "sheet.png"
    with pytest.raises(Cancelled):
        calibrate_video(still, sweep=sheet, progress=stop_after_two, cancel=cancel)
    assert seen == [1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["still"]


def test_a_named_camera_is_reported(tmp_path: Path) -> None:
    for number in range(3):
        write_frame(tmp_path / f"{number}.png", torch.zeros(3, 1520, 2704))
    report = calibrate_video(tmp_path, camera="hero5 black", fps=29.97)
    assert report.camera is not None
    assert f"camera    {report.camera}, gamma 0.900: a starting point" in report.text()


def test_outputs_are_checked_before_the_clip_is_read(still: Path) -> None:
    seen: list[Progress] = []
    with pytest.raises(ValueError, match="lies inside the other"):
        calibrate_video(still, plot=still / "00.png", overwrite=True, progress=seen.append)
    assert not seen
