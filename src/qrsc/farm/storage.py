"""Files by name, on this machine or in an object store (`s3://`, `gs://`, ...) through fsspec.

Convention
    A name with `://` in it is remote; any other is a path. Videos are read more than once and not in order, so that
    remote ones are staged: copied to the worker's disk, corrected there, and the result copied back.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from qrsc.media.atomic import atomic_file

Name = str


@dataclass(frozen=True)
class FileState:
    """What tells whether a file has changed.

    Attributes:
        size: in bytes.
        version: of its content, as the file system knows it: when it was written, or an entity tag.
    """

    size: int
    version: str


def is_remote(name: Name | Path) -> bool:
    """Whether a name is that of an object store and not a path."""
    return "://" in str(name)


def below(folder: Name, *parts: str) -> Name:
    """A name inside a folder."""
    if is_remote(folder):
        return "/".join([folder.rstrip("/"), *parts])
    return str(Path(folder, *parts))


def state_of(name: Name) -> FileState | None:
    """The state of a file; None if there is none."""
    if is_remote(name):
        files, path = _opened(name)
        try:
            info = files.info(path)
        except FileNotFoundError:
            return None
        version = next((str(info[key]) for key in ("ETag", "etag", "mtime", "LastModified") if info.get(key)), "")
        return FileState(int(info["size"]), version)
    try:
        found = Path(name).stat()
    except FileNotFoundError:
        return None
    return FileState(found.st_size, str(found.st_mtime_ns))


def files_below(folder: Name) -> Iterator[tuple[Name, str]]:
    """Every file below a folder, in order, with its name relative to it. Hidden files and folders are left out."""
    if is_remote(folder):
        files, path = _opened(folder)
        scheme = folder.split("://", 1)[0]
        for found in sorted(files.find(path)):
            relative = str(PurePosixPath(found).relative_to(PurePosixPath(files._strip_protocol(path))))
            if not _hidden(relative):
                yield f"{scheme}://{found.lstrip('/')}", relative
        return
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                file = Path(parent, name)
                yield str(file), file.relative_to(folder).as_posix()


def is_folder(name: Name) -> bool:
    """Whether a name is that of a folder."""
    if is_remote(name):
        files, path = _opened(name)
        return bool(files.isdir(path))
    return Path(name).is_dir()


def matching(pattern: Name) -> list[Name]:
    """Files that match a pattern with `*`, `?`, `[...]` or `**`, in order."""
    if is_remote(pattern):
        files, path = _opened(pattern)
        scheme = pattern.split("://", 1)[0]
        return [f"{scheme}://{found.lstrip('/')}" for found in sorted(files.glob(path))]
    import glob

    return sorted(found for found in glob.glob(pattern, recursive=True) if Path(found).is_file())


def fetch(name: Name, folder: Path) -> Path:
    """A file on this machine: itself, or a copy in a folder that stays there for the next time."""
    if not is_remote(name):
        return Path(name)
    state = state_of(name)
    if state is None:
        raise FileNotFoundError(f"there is no file {name}.")
    key = hashlib.sha256(f"{name}\n{state.size}\n{state.version}".encode()).hexdigest()[:24]
    copy = folder / key / PurePosixPath(name).name
    if not copy.exists():
        shutil.rmtree(folder, ignore_errors=True)  # the copy of an earlier clip: one is kept
        files, path = _opened(name)
        with atomic_file(copy) as work:
            files.get_file(path, str(work))
        if copy.stat().st_size != state.size:
            copy.unlink()
            raise OSError(f"{name} was copied, and {state.size} bytes were expected; it may be being written.")
    return copy


def put(file: Path, name: Name, *, overwrite: bool = True) -> None:
    """Give a finished file its name: by a rename, or by a copy to the object store; then it is gone from here.

    Raises:
        FileExistsError: there is such a file already, and `overwrite` was not given.
    """
    if not is_remote(name):
        with atomic_file(Path(name), overwrite=overwrite) as work:
            shutil.move(file, work)
        return
    if not overwrite and state_of(name) is not None:
        raise FileExistsError(f"{name} exists, and replacing it was not allowed.")
    files, path = _opened(name)
    files.put_file(str(file), path)
    file.unlink()


def remove_folder(name: Name) -> None:
    """Remove a folder with all that is in it, if there is one."""
    if is_remote(name):
        files, path = _opened(name)
        with suppress(FileNotFoundError):
            files.rm(path, recursive=True)
    else:
        shutil.rmtree(name, ignore_errors=True)


def _hidden(relative: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(relative).parts)


def _opened(name: Name) -> tuple[Any, str]:
    """The file system of a remote name, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ValueError(
            f"{name} is not a path on this machine; other storage needs fsspec: pip install 'qrsc[storage]'."
        ) from error
    try:
        files, path = url_to_fs(name)
    except (ImportError, ValueError) as error:
        raise ValueError(f"{name} cannot be opened: {error}. s3:// needs pip install 'qrsc[storage]'.") from error
    files.invalidate_cache()
    return files, str(path)
