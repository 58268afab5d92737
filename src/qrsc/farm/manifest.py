"""The manifest of a batch: a line of JSON for everything that is done, so that a second run does only what is missing.

A line is written when the file that it speaks of has its name, and is on the disk before the next task begins. Whatever
is killed at any time, a line is either whole or the torn last one, which is cut off by the next run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

Line = dict[str, Any]
_KEPT_OF_DONE = ("size", "version", "sha256", "fingerprint", "written")
_KEPT_OF_FAILED = ("reason", "fingerprint", "version", "size")


@dataclass
class Known:
    """What a manifest says about one clip, by its last lines.

    Attributes:
        clip: what is known of the input, its settings and its readout; empty before the clip was begun.
        segments: lines of the segments that are done, by number, of the latest try.
        lessened: why and how much less is corrected; None if it is not.
        done, failed: the line that says so, without its figures.
    """

    clip: Line = field(default_factory=dict)
    segments: dict[int, Line] = field(default_factory=dict)
    lessened: Line | None = None
    done: Line | None = None
    failed: Line | None = None

    def take(self, line: Line) -> None:
        """Take the next line about the clip."""
        kind = line["kind"]
        if kind == "clip":
            self.clip, self.segments, self.lessened, self.done, self.failed = line, {}, None, None, None
        elif kind == "segment":
            self.segments[line["number"]] = line
        elif kind == "lessened":
            self.lessened, self.segments = line, {}
        elif kind == "done":
            self.done, self.failed = (
                {name: line[name] for name in ("size", "version", "sha256", "fingerprint", "written")},
                None,
            )
            self.segments, self.lessened, self.clip = {}, None, {}
        elif kind == "failed":
            self.failed, self.done = {name: line[name] for name in _KEPT_OF_FAILED}, None


class Manifest:
    """A manifest, open for one batch; see `open`.

    Args:
        path: the file; it may exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] = path.open("ab+")
        _lock(self._file, path)
        self._cut_torn_line()

    def __enter__(self) -> Manifest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def known(self) -> dict[str, Known]:
        """What the manifest says about each clip, by its key."""
        found: dict[str, Known] = {}
        for line in read_lines(self.path):
            if "clip" in line:
                found.setdefault(line["clip"], Known()).take(line)
        return found

    def write(self, kind: str, **content: Any) -> Line:
        """Write a line, to the disk."""
        line = {"kind": kind, **content}
        self._file.write((json.dumps(line) + "\n").encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        return line

    def _cut_torn_line(self) -> None:
        """Cut off what a killed process left of its last line."""
        length = self._file.seek(0, os.SEEK_END)
        end, block = length, 1 << 16
        while end:
            start = max(0, end - block)
            self._file.seek(start)
            newline = self._file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < length:
            self._file.truncate(end)
        self._file.seek(0, os.SEEK_END)


def read_lines(path: Path) -> Iterator[Line]:
    """The whole lines of a manifest, one by one.

    Raises:
        ValueError: a line is not JSON; the message says which.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                content = json.loads(line)
                content["kind"]
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"line {number} of {path} is not one of a manifest: {error!r}. Remove it, or move the file away to "
                    "start anew."
                ) from error
            yield content


def _lock(file: IO[bytes], path: Path) -> None:
    """Refuse a second batch into the same folder; the lock ends with the process."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise OSError(f"another batch is writing into {path.parent}; wait for it, or choose another folder.") from error
