"""Sequences on disk: written completely or not at all, and read back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from qrsc.data.layouts import LAYOUTS, Kind, LayoutName, get_layout, index_sequences
from qrsc.media.image_folder import read_frame
from qrsc.media.reader import read_video
from qrsc.simulate.output.writers import (
    TRUTH_FILE,
    OutputLayout,
    read_truth,
    sequence_folder,
    write_sequence,
    write_videos,
)
from qrsc.simulate.render.clip import ClipFrame, render_clip
from qrsc.timing import Readout

from ..scenes import layered_scene


@pytest.fixture(scope="module")
def clips() -> dict[LayoutName, tuple[Readout, list[ClipFrame]]]:
    readouts = {layout: get_layout(layout).readout or Readout(0.6, "bottom-up") for layout in LAYOUTS}
    made = {
        readout: list(render_clip(layered_scene(), readout, 2, truth=["flows", "motion"]))
        for readout in set(readouts.values())
    }
    return {layout: (readout, made[readout]) for layout, readout in readouts.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_round_trip(
    tmp_path: Path, clips: dict[LayoutName, tuple[Readout, list[ClipFrame]]], layout: LayoutName
) -> None:
    readout, frames = clips[layout]
    folder = tmp_path / sequence_folder(layout, 0, 1)
    assert write_sequence(folder, layout, frames, readout) == 2
    [sequence] = index_sequences(tmp_path, layout)
    assert (sequence.folder, sequence.readout) == (folder, readout)
    for frame, stored in zip(frames, sequence.frames, strict=True):
        assert frame.number == stored.number
        assert set(stored.files) == set(get_layout(layout).names)
        for kind, path in stored.files.items():
            exact = frame.pictures[kind].float().expand(3, -1, -1)
            assert torch.equal(read_frame(path).frame * 255, (exact * 255).round()), kind
    marker = get_layout(layout).marker
    assert marker is None or (folder / marker).is_file()


def test_truth_comes_back(tmp_path: Path, clips: dict[LayoutName, tuple[Readout, list[ClipFrame]]]) -> None:
    readout, frames = clips["sim"]
    for precision, tolerance in ((torch.float32, 0.0), (torch.float16, 5e-4)):
        folder = tmp_path / str(precision)
        write_sequence(folder, "sim", frames, readout, notes={"seed": 5}, precision=precision)
        for frame in frames:
            for name, value in frame.truth.items():
                stored = read_truth(folder, name, frame.number)
                assert stored.dtype == value.dtype
                assert torch.allclose(stored.float(), value.float(), rtol=tolerance, atol=1e-6), name
        notes = json.loads((folder / "truth.json").read_text())
        assert notes["seed"] == 5
        assert set(notes["arrays"]) == {name for frame in frames for name in frame.truth}
    with np.load(folder / TRUTH_FILE) as arrays:
        assert "flow_next/00000" in arrays
        assert "flow_next/00001" not in arrays
    with pytest.raises(ValueError, match=r"no 'flow_next' for frame 1; it has .*velocity"):
        read_truth(folder, "flow_next", 1)


def test_a_sequence_is_there_whole_or_not_at_all(
    tmp_path: Path, clips: dict[LayoutName, tuple[Readout, list[ClipFrame]]]
) -> None:
    readout, frames = clips["sim"]

    def broken() -> Iterator[ClipFrame]:
        yield frames[0]
        raise RuntimeError("the light went out")

    folder = tmp_path / "set" / "0000"
    with pytest.raises(RuntimeError, match="light"):
        write_sequence(folder, "sim", broken(), readout)
    assert list(tmp_path.iterdir()) == []

    write_sequence(folder, "sim", frames, readout)
    with pytest.raises(RuntimeError, match="light"):
        write_sequence(folder, "sim", broken(), readout, force=True)
    assert len(index_sequences(folder, "sim")[0].frames) == 2
    assert [path.name for path in folder.parent.iterdir()] == ["0000"]


def test_nothing_is_replaced_unasked(tmp_path: Path, clips: dict[LayoutName, tuple[Readout, list[ClipFrame]]]) -> None:
    readout, frames = clips["sim"]
    folder = tmp_path / "0000"
    write_sequence(folder, "sim", frames, readout)
    with pytest.raises(FileExistsError, match="not empty"):
        write_sequence(folder, "sim", frames[:1], readout)
    # A shorter clip leaves no frame of the longer one behind.
    write_sequence(folder, "sim", frames[:1], readout, force=True)
    assert len(index_sequences(folder, "sim")[0].frames) == 1

    letters = tmp_path / "letters"
    letters.mkdir()
    (letters / "dear.txt").write_text("hello")
    with pytest.raises(FileExistsError, match="is not a simulated sequence of the layout sim, and is not replaced"):
        write_sequence(letters, "sim", frames, readout, force=True)
    assert (letters / "dear.txt").read_text() == "hello"


def test_a_public_layout_has_its_own_readout(
    tmp_path: Path, clips: dict[LayoutName, tuple[Readout, list[ClipFrame]]]
) -> None:
    with pytest.raises(ValueError, match=r"Carla-RS is read with gamma = 1, top-down.*gamma = 0.5"):
        write_sequence(tmp_path / "a", "carla", clips["carla"][1], Readout(0.5))
    with pytest.raises(ValueError, match="at least one"):
        write_sequence(tmp_path / "a", "carla", [], Readout(1.0))
    assert list(tmp_path.iterdir()) == []


def test_videos(tmp_path: Path, clips: dict[LayoutName, tuple[Readout, list[ClipFrame]]]) -> None:
    readout, frames = clips["sim"]
    folder = tmp_path / "clip"
    assert write_videos(folder, frames, readout, 30, notes={"seed": 1}) == 2
    assert sorted(path.name for path in folder.iterdir()) == [
        "clip.json",
        "first.mp4",
        "middle.mp4",
        "rolling.mp4",
        "truth.json",
        "truth.npz",
    ]
    kinds: tuple[Kind, ...] = ("rolling", "first", "middle")
    for kind in kinds:
        decoded = list(read_video(folder / f"{kind}.mp4"))
        for frame, picture in zip(frames, decoded, strict=True):
            # 8-bit video with half the colour resolution: measured 0.006 on average.
            assert float((frame.pictures[kind] - picture).abs().mean()) < 0.02
    with pytest.raises(FileExistsError):
        write_videos(folder, frames, readout, 30)
    assert write_videos(folder, frames[:1], readout, 30, force=True) == 1


@pytest.mark.parametrize(
    ("layout", "count", "expected"),
    [
        ("carla", 1, ["train/simtown/0000"]),
        ("carla", 2, ["train/simtown/0000", "test/simtown/0001"]),
        ("fastec", 6, [*(f"train/{n:04d}" for n in range(4)), "test/0004", "test/0005"]),
        ("bsrsc", 2, ["train/0000", "test/0001"]),
        ("sim", 2, ["0000", "0001"]),
    ],
)
def test_where_sequences_lie(layout: OutputLayout, count: int, expected: list[str]) -> None:
    assert [sequence_folder(layout, index, count).as_posix() for index in range(count)] == expected
