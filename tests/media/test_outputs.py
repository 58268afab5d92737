"""What may be written where."""

from __future__ import annotations

from pathlib import Path

import pytest

from qrsc.media.atomic import atomic_file, atomic_folder
from qrsc.media.outputs import require_writable


def write_both(ours: Path, theirs: Path) -> None:
    ours.write_text("new")
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("theirs")


def test_new_names_are_free(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"clip")
    require_writable({"--output": tmp_path / "a.mp4", "--compare": tmp_path / "b.mp4", "--plot": None}, inputs=[clip])


def test_an_input_is_never_an_output(tmp_path: Path) -> None:
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(b"clip")
    (tmp_path / "link.mp4").symlink_to(clip)
    (tmp_path / "hard.mp4").hardlink_to(clip)
    for name in ("clip.mp4", "link.mp4", "hard.mp4"):
        for overwrite in (False, True):
            with pytest.raises(ValueError, match="--compare is the input"):
                require_writable({"--compare": tmp_path / name}, inputs=[clip], overwrite=overwrite)


def test_folders_lie_apart(tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    frames.mkdir()
    for output in (frames / "out", tmp_path):
        with pytest.raises(ValueError, match="lies inside the other"):
            require_writable({"--output": output}, inputs=[frames], overwrite=True)


def test_what_exists_is_replaced_only_when_that_is_allowed(tmp_path: Path) -> None:
    there = tmp_path / "there.mp4"
    there.write_bytes(b"old")
    with pytest.raises(FileExistsError, match="add --force to replace it"):
        require_writable({"--output": there}, how="--force")
    require_writable({"--output": there}, overwrite=True)


def test_two_outputs_have_two_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--output and --compare are both"):
        require_writable({"--output": tmp_path / "a.mp4", "--compare": tmp_path / "x" / ".." / "a.mp4"}, overwrite=True)


def test_a_file_that_appears_during_the_work_stays(tmp_path: Path) -> None:
    target = tmp_path / "out.mp4"
    with (
        pytest.raises(FileExistsError, match=r"appeared while this was running.*out-1\.mp4"),
        atomic_file(target, overwrite=False) as work,
    ):
        write_both(work, target)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"out.mp4": "theirs", "out-1.mp4": "new"}
    with pytest.raises(FileExistsError, match="was not allowed"), atomic_file(target, overwrite=False):
        pytest.fail("the work must not start")


def test_a_folder_that_is_filled_during_the_work_stays(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(FileExistsError, match=r"appeared while this was running"), atomic_folder(target) as work:
        write_both(work / "0.png", target / "0.png")
    assert (target / "0.png").read_text() == "theirs"
    assert (tmp_path / "out-1" / "0.png").read_text() == "new"
