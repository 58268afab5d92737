from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qrsc.media.atomic import atomic_file, atomic_folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "" for path in sorted(folder.rglob("*"))
    }


def write_and_fail(path: Path, error: type[BaseException]) -> None:
    path.write_text("new")
    raise error


@pytest.mark.parametrize("exists", [False, True])
def test_folder_appears_when_complete(tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "out"
    if exists:
        target.mkdir()
    with atomic_folder(target) as work:
        (work / "a").write_text("1")
        assert not (target / "a").exists()
        assert work.parent == tmp_path, "a rename must stay on one file system"
    assert contents(tmp_path) == {"out": "", "out/a": "1"}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_failure_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), atomic_folder(tmp_path / "some" / "where" / "out") as work:
        write_and_fail(work / "a", error)
    with pytest.raises(error), atomic_file(tmp_path / "else" / "out.mp4") as file:
        write_and_fail(file, error)
    assert contents(tmp_path) == {}


def test_failure_leaves_the_old_output(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "a").write_text("old")
    with pytest.raises(RuntimeError), atomic_folder(target, overwrite=True) as work:
        write_and_fail(work / "a", RuntimeError)
    with pytest.raises(RuntimeError), atomic_file(target / "a") as file:
        write_and_fail(file, RuntimeError)
    assert contents(tmp_path) == {"out": "", "out/a": "old"}


def test_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(FileExistsError, match="not empty"), atomic_folder(tmp_path):
        pytest.fail("the work must not start")
    assert contents(tmp_path) == {"a": "old"}


def test_overwriting_replaces_same_names_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    (target / "a").write_text("old")
    (target / "diary").write_text("mine")
    with atomic_folder(target, overwrite=True) as work:
        (work / "a").write_text("new")
        (work / "b").write_text("new")
    assert contents(tmp_path) == {"out": "", "out/a": "new", "out/b": "new", "out/diary": "mine"}


def test_file_in_the_place_of_a_folder_and_the_reverse(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="is a file"), atomic_folder(tmp_path / "file"):
        pytest.fail("the work must not start")
    with pytest.raises(IsADirectoryError, match="is a folder"), atomic_file(tmp_path):
        pytest.fail("the work must not start")


def test_file_is_replaced_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "clip.mp4"
    for text in ("1", "2"):
        with atomic_file(target) as work:
            assert work.suffix == ".mp4"
            work.write_text(text)
        assert contents(tmp_path) == {"deep": "", "deep/clip.mp4": text}


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_folder_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").mkdir()
    with atomic_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_link_to_a_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk", target_is_directory=True)
    with atomic_folder(tmp_path / "out") as work:
        (work / "a").write_text("1")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk" / "a").read_text() == "1"


@pytest.mark.skipif(os.name != "posix", reason="processes cannot be asked for")
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    target = tmp_path / "out.mp4"
    old = tmp_path / f".out.mp4.{ended.pid}-0123abcd.partial.mp4"
    folder = tmp_path / f".out.mp4.{ended.pid}-0123abce.partial"
    fresh = tmp_path / f".out.mp4.{ended.pid}-0123abcf.partial.mp4"
    running = tmp_path / f".out.mp4.{os.getpid()}-0123abcd.partial.mp4"
    other = tmp_path / f".other.mp4.{ended.pid}-0123abcd.partial.mp4"
    for path in (old, fresh, running, other):
        path.touch()
    folder.mkdir()
    (folder / "frame.png").touch()
    for path in (old, folder, running, other):
        os.utime(path, (0, 0))
    with atomic_file(target) as work:
        work.write_text("new")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        path.name for path in (target, fresh, running, other)
    )
