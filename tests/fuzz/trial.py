"""One run of the command on one file, and everything that must hold afterwards whatever the file is like."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .forked import Ended

DOCUMENTED = frozenset({0, 2, 4})  # exit codes, see docs/correct.md
WROTE = frozenset({0, 4})  # those after which there is an output
UNVERIFIED = 5  # the output is not what it should be, and has got another name
FAILURES = frozenset({2, UNVERIFIED})  # those that come with a line of error
UNFINISHED = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.partial(\.\w+)?")  # an output under its temporary name
# How the C library ends a process whose thread gets no memory for its variables; it exits with 127.
NO_THREAD = "cannot allocate memory for thread-local data: ABORT"
KILLED = frozenset({-signal.SIGKILL, -signal.SIGABRT})
MOST_MEMORY = 1 << 30
_LINE = re.compile(r"(note|warning|error): .+")
# Where x264 gets no memory it says so itself, and cannot be asked not to.
_LINE_OF_X264 = re.compile(r"x264 \[error\]: malloc of size \d+ failed")


@dataclass(frozen=True)
class Trial:
    """A run of the command in a folder of its own.

    Attributes:
        name: for messages.
        folder: holds the input, and whatever is written.
        source: the input.
        content: of the input, which must not change; None if the trial itself changes it.
        arguments: of the command; `--progress json` among them.
        outputs: names under which something is written in the folder.
        fault: called before the command, in its process.
        call: what is run instead of the command; returns an exit code.
        codes: exit codes that are right.
        starved: it has so little memory that the C library or Python may end or block the process at any allocation,
            where no code of ours runs. That may look like a kill, and must then leave no more behind than one.
    """

    name: str
    folder: Path
    source: Path
    content: bytes | None
    arguments: tuple[str, ...]
    outputs: tuple[str, ...]
    fault: Callable[[], None] | None = None
    call: Callable[[], int] | None = None
    codes: frozenset[int] = DOCUMENTED
    starved: bool = False

    def run(self) -> int:
        """Run the command in this process, then decode all that it has written; the exit code."""
        if self.fault is not None:
            self.fault()
        code = run_command(self.arguments) if self.call is None else self.call()
        for name in self.outputs if code in WROTE else ():
            _say(event="decoded", frames=decoded_frames(self.folder / name))
        return code

    def complaints(self, ended: Ended) -> list[str]:
        """What is wrong with how it ended, and with what it left in the folder."""
        if self.starved and (ended.hung or ended.code in KILLED or NO_THREAD in ended.errors):
            return list(self._wrong_files(ended, unfinished=True))
        return [*self._wrong_end(ended), *self._wrong_words(ended), *self._wrong_files(ended)]

    def _wrong_end(self, ended: Ended) -> Iterator[str]:
        if ended.hung:
            yield f"hang: killed after {ended.seconds:.0f} s"
        elif ended.code < 0:
            yield f"crash: ended by signal {-ended.code}"
        elif ended.code not in self.codes:
            yield f"exit code {ended.code}"
        if ended.peak_bytes > MOST_MEMORY:
            yield f"memory: {ended.peak_bytes >> 20} MB"

    def _wrong_words(self, ended: Ended) -> Iterator[str]:
        if "Traceback" in ended.errors:
            yield f"traceback: {ended.errors.rstrip().splitlines()[-1]}"
            return
        failed = ended.code in self.codes & FAILURES
        lines = [each for each in ended.errors.splitlines() if not (failed and _LINE_OF_X264.fullmatch(each))]
        strange = [line for line in lines if not _LINE.fullmatch(line)]
        if strange and not self.starved:  # Python and libraries say themselves what they had no memory for
            yield f"stderr: {strange[0]!r}"
        errors = sum(line.startswith("error: ") for line in lines)
        if ended.code in self.codes and errors != (ended.code in FAILURES):
            yield f"{errors} lines of error with exit code {ended.code}"

    def _wrong_files(self, ended: Ended, *, unfinished: bool = False) -> Iterator[str]:
        there = {path.name for path in self.folder.iterdir()} if self.folder.exists() else set()
        wrote = ended.code in WROTE
        expected = {self.source.name, *(self.outputs if wrote else ())}
        if ended.code == UNVERIFIED and UNVERIFIED in self.codes:
            expected |= {name for name in there if ".unverified-" in name}
        if unfinished:
            expected |= {name for name in there if UNFINISHED.fullmatch(name)}
        leftover = sorted(there - expected)
        if leftover:
            yield f"leftover: {', '.join(leftover)}"
        if self.content is not None and (self.source.name not in there or self.source.read_bytes() != self.content):
            yield "input changed"
        if wrote:
            events = [json.loads(line) for line in ended.output.splitlines()]
            promised = [event["frames"] for event in events if event["event"] == "done"]
            found = [event["frames"] for event in events if event["event"] == "decoded"]
            if len(promised) != 1 or found != promised * len(self.outputs):
                yield f"not whole: {promised} frames written, {found} found"


def run_command(arguments: tuple[str, ...]) -> int:
    """Run `qrsc` in this process; the exit code. Exceptions that would end in a traceback are passed on."""
    try:
        _command()(list(arguments), prog_name="qrsc")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


@functools.cache
def _command() -> Any:
    """The parsed options of all commands; making them takes 0.07 s."""
    import typer

    from qrsc.cli.app import app

    return typer.main.get_command(app)


def import_everything() -> None:
    """Import what the command needs, once for all cases: a run that fails at once does most of it."""
    import av
    import cv2
    import torch

    import qrsc.cli.progress
    import qrsc.video.compare
    import qrsc.video.correct  # noqa: F401

    torch.set_num_threads(1)
    cv2.setNumThreads(0)
    av.logging.set_level(None)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        code = run_command(("correct", os.devnull, "-o", "nowhere.mp4", "--gamma", "0.5", "--fast"))
    assert code == 2


def decoded_frames(path: Path) -> int:
    """How many frames of an output can be decoded; -1 if one cannot, or if there is no output.

    A process that only checks what is known to be a video need not share code with the one that wrote it.
    """
    import av
    import cv2

    if path.is_dir():
        return sum(cv2.imread(str(each), cv2.IMREAD_UNCHANGED) is not None for each in path.iterdir())
    try:
        with av.open(str(path)) as container:
            pictures = [stream for stream in container.streams.video if not int(stream.disposition) & 1 << 10]
            return sum(1 for _ in container.decode(pictures[0]))
    except (av.FFmpegError, OSError, IndexError):
        return -1


def _say(**content: Any) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()
