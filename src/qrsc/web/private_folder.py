"""The folder of one server: for its user alone, removed when the server ends, or by the next one if it was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

PREFIX = "qrsc-web-"
_LOCK = "lock"  # held as long as the server lives; the system lets go of it however the process ends


class PrivateFolder:
    """A folder with a random name, which only its owner may read.

    Args:
        parent: where to create it; the system's folder for temporary files if None.

    Attributes:
        path: of the folder.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        if not parent.is_dir():
            raise NotADirectoryError(f"{parent} is no folder; name one that exists, with room for the clips.")
        remove_abandoned(parent)
        # Locked before it gets its name: another server that starts now would take it for abandoned.
        made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=parent)).resolve()
        self._lock: IO[bytes] | None = (made / _LOCK).open("wb")
        _locked(self._lock)
        self.path = made.rename(made.with_name(made.name[1:]))

    def remove(self) -> None:
        """Remove it, with everything inside."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def remove_abandoned(parent: Path) -> None:
    """Remove the folders of servers that no longer run; those of others, and of servers that run, stay."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("rb+") as lock:
                if _locked(lock):
                    shutil.rmtree(folder, ignore_errors=True)
        except (OSError, AttributeError):  # being made or removed by another process, or no POSIX system
            continue


def _locked(file: IO[bytes]) -> bool:
    """Lock a file, unless another process has; whether it was locked. Systems without such locks say no."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
