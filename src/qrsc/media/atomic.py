"""Atomic output: complete, or not there at all.

Output is written to a hidden sibling of the target and renamed when it is complete. If the work ends in any other way
(an exception, Ctrl-C), the sibling is removed, with the parent folders that were created for it, and the target is as
it was. A process that is killed cannot clean up: the next one with the same target removes what it left behind.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

# Seconds without a write after which the file of a process that no longer runs counts as left behind.
ABANDONED = 60.0
# Bytes of a name that leave room for what is added to it: names of more than 255 are refused.
LONGEST_NAME = 200

_unfinished: set[Path] = set()  # outputs that are being written


def unfinished_outputs() -> int:
    """How many outputs this process is writing and has not finished."""
    return len(_unfinished)


def remove_unfinished() -> None:
    """Remove the outputs that this process has not finished, for a process that must end at once."""
    for path in list(_unfinished):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder to fill; it becomes `target` when the block ends without an exception.

    Args:
        target: the folder to create. It may exist if it is empty.
        overwrite: also accept a folder that holds files: files of the same names are replaced, all others stay.

    Raises:
        FileExistsError: the target holds files and `overwrite` was not given, or it is not a folder.
    """
    target = target.resolve()
    _require_free_folder(target, overwrite)
    with _parents_of(target):
        _remove_abandoned(target)
        work = _sibling(target, "")
        _unfinished.add(work)
        try:
            work.mkdir()
            yield work
            _move_into_place(work, target, overwrite)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            _unfinished.discard(work)


@contextmanager
def atomic_file(target: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A path to write to, with the suffix of `target`; renamed to it when the block ends without an exception.

    Args:
        target: the file to create.
        overwrite: replace a file of that name. Without it, a file that has appeared there during the work stays, and
            the result is kept under a name of its own.

    Raises:
        FileExistsError: `overwrite` was not given, and there is such a file, before or after the work.
    """
    target = target.resolve()
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; the name of a file was expected.")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists, and replacing it was not allowed.")
    with _parents_of(target):
        _remove_abandoned(target)
        work = _sibling(target, target.suffix)
        _unfinished.add(work)
        try:
            yield work
            _flush(work)
            if overwrite:
                os.replace(work, target)
            elif not _renamed(work, target):
                _keep_beside(work, target)
        finally:
            work.unlink(missing_ok=True)
            _unfinished.discard(work)


def _require_free_folder(target: Path, overwrite: bool) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise FileExistsError(f"{target} is a file; a folder for the output was expected.")
    if not overwrite and any(target.iterdir()):
        raise FileExistsError(
            f"the folder {target} is not empty. Choose another one, or allow overwriting: files of the same names "
            "are then replaced."
        )


def _sibling(target: Path, suffix: str) -> Path:
    return target.with_name(f".{_short(target.name)}.{os.getpid()}-{uuid4().hex[:8]}.partial{suffix}")


def _short(name: str) -> str:
    """A name, or its beginning and a hash if the additions would make it longer than file systems take."""
    if len(os.fsencode(name)) <= LONGEST_NAME:
        return name
    beginning = os.fsencode(name)[: LONGEST_NAME // 2].decode("utf-8", "ignore")
    return f"{beginning}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def _remove_abandoned(target: Path) -> None:
    """Remove what processes that no longer run left behind for this target.

    A folder may be shared with other machines, whose processes cannot be seen from here: what was written to recently
    is kept.
    """
    if os.name != "posix":  # elsewhere the check for a process would disturb it
        return
    pattern = re.compile(re.escape(f".{_short(target.name)}.") + r"(\d+)-[0-9a-f]{8}\.partial.*")
    for path in target.parent.iterdir():
        left = pattern.fullmatch(path.name)
        if left is None or _runs(int(left[1])):
            continue
        with suppress(OSError):  # another process may be removing the same
            if time.time() - path.stat().st_mtime > ABANDONED:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it runs, and belongs to another user
        return True
    return True


def _flush(path: Path) -> None:
    """Force the content of a file to disk before it is renamed, so that a power cut cannot leave half of it."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _move_into_place(work: Path, target: Path, overwrite: bool) -> None:
    if target.exists() and not overwrite and any(target.iterdir()):
        _keep_beside(work, target)
    if target.exists() and any(target.iterdir()):
        for path in work.iterdir():
            os.replace(path, target / path.name)
        return
    if target.exists():
        # A rename onto an empty folder works on POSIX only.
        target.rmdir()
    os.rename(work, target)


def _renamed(work: Path, target: Path) -> bool:
    """Rename a file unless the target exists; whether it was renamed."""
    if not work.exists():
        raise FileNotFoundError(f"nothing was written for {target}.")
    try:
        os.link(work, target)  # unlike a rename, it never replaces a file
    except FileExistsError:
        return False
    except OSError:  # the file system has no hard links
        if target.exists():
            return False
        os.rename(work, target)
    return True


def _keep_beside(work: Path, target: Path) -> NoReturn:
    """Keep a result whose name was taken in the meantime under the next free name, and raise."""
    free = _free_name(target, "")
    os.rename(work, free)
    raise FileExistsError(f"{target} appeared while this was running, and was left alone; the result is {free}.")


def keep_unverified(work: Path, target: Path) -> Path:
    """Keep a result that is not what it should be beside its target, under a name that says so; returns that name."""
    free = _free_name(target, ".unverified")
    os.rename(work, free)
    return free


def _free_name(target: Path, addition: str) -> Path:
    number = 1
    while (free := target.with_name(f"{target.stem}{addition}-{number}{target.suffix}")).exists():
        number += 1
    return free


@contextmanager
def _parents_of(target: Path) -> Iterator[None]:
    """Create the missing parent folders, and remove them again if the block fails."""
    missing = [parent for parent in target.parents if not parent.exists()]
    try:
        for parent in reversed(missing):
            parent.mkdir(exist_ok=True)  # another thread or process may be faster
        yield
    except BaseException:
        for parent in missing:
            if parent.exists() and not any(parent.iterdir()):
                parent.rmdir()
        raise
