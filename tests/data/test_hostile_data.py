"""Data sets with hostile names and files."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
import torch

from qrsc.data.acc import read_list
from qrsc.data.check import check_sequence, report_lines
from qrsc.data.dataset import Dataset, index_data, split_at_gaps
from qrsc.data.layouts import read_clip_file
from qrsc.media.image_folder import write_frame


def write_frames(folder: Path, *names: str) -> None:
    for name in names:
        for part in ("RS", "GS"):
            (folder / part).mkdir(exist_ok=True)
            write_frame(folder / part / f"{name}.png", torch.zeros(3, 8, 8))


@pytest.mark.parametrize("name", ["9999999999", "9" * 30, "9" * 200])
def test_a_large_number_in_a_name_takes_no_memory(name: str, tmp_path: Path) -> None:
    write_frames(tmp_path, "00000", "00001", "00003", name)
    tracemalloc.start()
    [sequence] = index_data(tmp_path, "bsrsc")
    lines = report_lines([check_sequence(sequence)])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20
    assert sequence.gaps == (range(2, 3), range(4, int(name)))
    missing = int(name) - 3
    assert f"missing 2, 4, 5, 6, 7, 8, 9, 10 and {missing - 8} more" in lines[0]
    assert lines[-1] == f"1 sequence, 4 frames, {missing} missing, 8x8; no problems"
    assert [len(clip.frames) for clip in split_at_gaps(sequence)] == [2, 1, 1]
    assert len(Dataset([sequence], frames=1)) == 4


CLIP_FILES = {
    "empty": ("", "cannot be read as JSON"),
    "nested": ("[" * 5000, "nested more than 64 levels deep"),
    "a list": ("[0.6]", "must hold gamma and scan"),
    "a number": ("0.6", "must hold gamma and scan"),
    "no gamma": ("{}", "must hold gamma and scan"),
    "text": ('{"gamma": "0.6"}', "gamma must be a number from 0 to 1"),
    "nan": ('{"gamma": NaN}', "gamma must be a number from 0 to 1"),
    "large": ('{"gamma": 1e999}', "gamma must be a number from 0 to 1"),
    "digits": ('{"gamma": ' + "9" * 400 + "}", "gamma must be a number from 0 to 1"),
    "scan": ('{"gamma": 0.6, "scan": []}', "unknown scan"),
    "offset": ('{"gamma": 0.6, "offset": []}', "must hold gamma and scan"),
    "infinite": ('{"gamma": 0.6, "offset": Infinity}', "offset must be a finite time"),
    "large offset": ('{"gamma": 0.6, "offset": ' + "9" * 400 + "}", "must hold gamma and scan"),
}


@pytest.mark.parametrize(("text", "message"), CLIP_FILES.values(), ids=CLIP_FILES)
def test_a_hostile_clip_file_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "clip.json").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_clip_file(tmp_path)
    assert "clip.json" in str(caught.value)


LISTS = {
    "binary": (b"\xff\xfe\x00", "is not a text file in UTF-8"),
    "another file": (b"nothing of the kind", "line 1 of .* was expected"),
    "digits": (b"a/" + b"9" * 5000, "line 1 of .* was expected"),
    "long line": (b"x" * 100_000, "line 1 of .* was expected"),
}


@pytest.mark.parametrize(("content", "message"), LISTS.values(), ids=LISTS)
def test_a_hostile_list_is_refused_by_name(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_list(tmp_path / "list.txt")
    assert "list.txt" in str(caught.value)
    assert len(str(caught.value)) < 400
