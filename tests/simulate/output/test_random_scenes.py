"""Clips of random scenes, called from Python."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import pytest
import torch

from qrsc.backend.progress import Cancelled, Progress
from qrsc.data.layouts import index_sequences
from qrsc.media.image_folder import read_frame, write_frame
from qrsc.simulate.output.random_scenes import SceneOptions, simulate_scenes
from qrsc.simulate.output.render_device import render_device

SMALL = SceneOptions(size=(32, 48), frames=2)


def test_progress_counts_rows_of_the_sheet_and_frames(tmp_path: Path) -> None:
    heard: list[tuple[str, int, int | None]] = []

    def hear(now: Progress) -> None:
        heard.append((now.stage, now.done, now.total))

    sheet = tmp_path / "sheet.png"
    folders = simulate_scenes(tmp_path / "clips", SMALL, count=2, preview=sheet, device="cpu", progress=hear)
    assert heard[:2] == [("drawing the sheet", 1, 2), ("drawing the sheet", 2, 2)]
    assert heard[2:] == [("rendering", done, 4) for done in (1, 2, 3, 4)]
    assert folders == [sequence.folder for sequence in index_sequences(tmp_path / "clips", "sim")]
    # The sheet shows the second frame of the clips that were written.
    [_, shown] = index_sequences(folders[0], "sim")[0].frames
    frame, drawn = read_frame(shown.files["middle"]).frame, read_frame(sheet).frame
    assert torch.equal(drawn[:, 20:32, 52:100], frame[:, 20:])


def test_a_cancelled_run_leaves_only_complete_sequences(tmp_path: Path) -> None:
    cancel = Event()

    def stop_in_second_scene(now: Progress) -> None:
        if now.done == 3:
            cancel.set()

    with pytest.raises(Cancelled):
        simulate_scenes(tmp_path / "clips", SMALL, count=2, device="cpu", progress=stop_in_second_scene, cancel=cancel)
    assert [path.name for path in (tmp_path / "clips").iterdir()] == ["0000"]
    assert len(index_sequences(tmp_path / "clips", "sim")[0].frames) == 2


def test_outputs_never_touch_the_photographs(tmp_path: Path) -> None:
    photograph = tmp_path / "photographs" / "one.png"
    photograph.parent.mkdir()
    write_frame(photograph, torch.rand(3, 20, 30))
    before = photograph.read_bytes()
    options = SceneOptions(size=(32, 48), frames=1, textures=photograph.parent)
    with pytest.raises(ValueError, match="lies inside the other"):
        simulate_scenes(None, options, preview=photograph, overwrite=True, device="cpu")
    with pytest.raises(ValueError, match="the original is never touched"):
        simulate_scenes(photograph.parent, options, overwrite=True, device="cpu")
    assert photograph.read_bytes() == before


def test_devices_without_double_precision_are_refused() -> None:
    for device in ("mps", torch.device("mps")):
        with pytest.raises(ValueError, match="double precision"):
            render_device(device)
    with pytest.raises(ValueError, match="unknown device 'tpu'"):
        render_device("tpu")
    assert render_device("cpu") == torch.device("cpu")
