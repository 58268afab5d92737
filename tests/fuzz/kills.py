"""Ends of the command from outside: Ctrl-C, SIGTERM and SIGKILL at any time of its life, from its first import on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ..videos import Recipe, make_video, texture_frames
from .trial import decoded_frames

FRAMES = 40
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
UNFINISHED = re.compile(r"\.out\.mp4\.\d+-[0-9a-f]{8}\.partial\.mp4")
_OLD = 3600.0  # seconds; the next run removes what is older than a minute


@dataclass(frozen=True)
class Kill:
    """A run of the command that is ended from outside.

    Attributes:
        number: of the signal.
        after: seconds from the start of the process, or from the start of writing.
        writing: count from the moment at which the unfinished output appears.
    """

    number: signal.Signals
    after: float
    writing: bool = False


@dataclass
class Killed:
    """How it ended.

    Attributes:
        kill: what was done.
        code: the exit code; None if the command was faster.
        left: names of unfinished outputs.
        complaints: what should not be so.
    """

    kill: Kill
    code: int | None
    left: list[str]
    complaints: list[str]


def make_clip(folder: Path) -> Path:
    """A clip with sound whose correction takes about as long as the imports."""
    return make_video(folder / "in.mp4", Recipe(texture_frames(FRAMES, 96, 128), sound=1))


def undisturbed_seconds(clip: Path) -> tuple[float, float]:
    """How long the command takes, and how long it writes."""
    started = time.monotonic()
    process = _start(clip)
    _wait_for_output(clip, process)
    writing = time.monotonic()
    process.communicate()
    ended = time.monotonic()
    output = clip.with_name("out.mp4")
    if process.returncode != 0 or decoded_frames(output) != FRAMES:
        raise RuntimeError("the command fails without being disturbed")
    output.unlink()
    return ended - started, ended - writing


def _wait_for_output(clip: Path, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None and not any(clip.parent.glob(".out.mp4.*")):
        time.sleep(0.005)


def random_kills(count: int, seed: int, seconds: float, writing: float) -> Iterator[Kill]:
    """Signals in turn, at random times: half of them in the whole run, and half while the output is written.

    Args:
        count: how many.
        seed: of the times.
        seconds: that a run takes.
        writing: seconds of these in which it writes, which are few: imports take most of the time of a short clip.
    """
    chance = Random(seed)
    for number in range(count):
        while_writing = number // len(SIGNALS) % 2 == 1
        after = chance.uniform(0.0, writing if while_writing else seconds)
        yield Kill(SIGNALS[number % len(SIGNALS)], after, while_writing)


def kill(clip: Path, how: Kill) -> Killed:
    """Run the command on a clip that lies in a folder of its own, and end it."""
    content = clip.read_bytes()
    process = _start(clip)
    if how.writing:
        _wait_for_output(clip, process)
    time.sleep(how.after)
    process.send_signal(how.number)  # does nothing to a process that has ended
    try:
        said = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Killed(how, None, [], ["hang: still there 60 s after the signal"])
    output = clip.with_name("out.mp4")
    left = sorted(path.name for path in clip.parent.iterdir() if path not in (clip, output))
    wrong = list(_wrong(how, process.returncode, said, left))
    if clip.read_bytes() != content:
        wrong.append("input changed")
    if output.exists() and decoded_frames(output) != FRAMES:
        wrong.append("the output is not whole")
    if process.returncode == 0 and not output.exists():
        wrong.append("exit code 0, and no output")
    ended = process.returncode != 0 or how.number == signal.SIGKILL
    return Killed(how, process.returncode if ended else None, left, wrong)


def _wrong(how: Kill, code: int, said: tuple[bytes, bytes], left: list[str]) -> Iterator[str]:
    # A shell shows a process that a signal has ended, before it could install a handler, with the same codes.
    expected = {0, -how.number} if how.number == signal.SIGKILL else {0, 128 + how.number, -how.number}
    if code not in expected and not (code == 1 and _while_python_starts(said[1])):
        yield f"exit code {code}"
    if said != (b"", b"") and not (how.number == signal.SIGINT and _while_python_starts(said[1])):
        yield f"printed {said!r}"
    allowed = [name for name in left if how.number == signal.SIGKILL and UNFINISHED.fullmatch(name)]
    if left != allowed:
        yield f"leftover: {', '.join(left)}"


def _while_python_starts(errors: bytes) -> bool:
    """Whether Ctrl-C came before the first line of `qrsc`: Python's own start prints a traceback, and exits with 1."""
    return errors.rstrip().endswith(b"KeyboardInterrupt") and re.search(rb"qrsc.(__init__|cli)", errors) is None


def next_run(clip: Path, left: list[str]) -> list[str]:
    """Complaints about a run after a kill: it must succeed, and remove what was left behind a while ago."""
    for name in left:
        then = time.time() - _OLD
        os.utime(clip.with_name(name), (then, then))
    process = _start(clip, "--overwrite")
    said = process.communicate()
    output = clip.with_name("out.mp4")
    if (process.returncode, *said) != (0, b"", b"") or decoded_frames(output) != FRAMES:
        return [f"the next run fails: {process.returncode} {said!r}"]
    if {path.name for path in clip.parent.iterdir()} != {"in.mp4", "out.mp4"}:
        return ["the next run leaves what was left behind"]
    return []


def kill_many(root: Path, count: int, seed: int, jobs: int) -> Iterator[Killed]:
    """So many kills; after every SIGKILL that leaves an unfinished file, another run."""
    clip = make_clip(root)
    seconds, writing = undisturbed_seconds(clip)

    def killed(numbered: tuple[int, Kill]) -> Killed:
        number, how = numbered
        folder = root / f"kill-{number}"
        folder.mkdir()
        copy = Path(shutil.copy(clip, folder))
        found = kill(copy, how)
        if found.left and not found.complaints:
            found.complaints += next_run(copy, found.left)
        shutil.rmtree(folder)
        return found

    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(killed, enumerate(random_kills(count, seed, seconds, writing)))


def _start(clip: Path, *more: str) -> subprocess.Popen[bytes]:
    arguments = ["correct", str(clip), "-o", str(clip.with_name("out.mp4")), "--gamma", "0.5", "--fast", "--quiet"]
    # What the installed script does. `python -m qrsc` would import more before the first line of ours.
    command = [sys.executable, "-c", "from qrsc.cli import main; main()", *arguments, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
