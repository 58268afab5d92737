"""Work in forked processes, with limits on time and memory: one import of torch for thousands of cases.

Threads do not survive a fork, so the process that forks must have started none. `python -m tests.fuzz` is such a
process: it forks before anything else, even to write the files that it damages.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

Key = TypeVar("Key")

LONGEST = 60.0  # seconds that a case may take
# Address space that a case may take beside what torch has mapped. Above it, allocations fail instead of the machine.
MOST_MAPPED = 4 << 30
_POLL = 0.005


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: the exit code; minus the number of the signal that ended it.
        hung: it ran for longer than allowed and was killed.
        seconds: that it took.
        peak_bytes: of memory, with everything that was imported before the fork.
        output, errors: what it wrote to stdout and stderr.
    """

    code: int
    hung: bool
    seconds: float
    peak_bytes: int
    output: str
    errors: str


@dataclass(frozen=True)
class _Running(Generic[Key]):
    key: Key
    since: float
    streams: tuple[Path, Path]


def run_forked(
    works: Iterable[tuple[Key, Callable[[], int]]], scratch: Path, *, jobs: int = 2, longest: float = LONGEST
) -> Iterator[tuple[Key, Ended]]:
    """Run functions in processes of their own, some at a time, and yield how each ended, in the order of their ends.

    Args:
        works: functions that return an exit code, each with a key. Taken when there is room for another process.
        scratch: a folder for what they print.
        jobs: how many run at a time.
        longest: seconds after which a process is killed.
    """
    waiting = iter(works)
    running: dict[int, _Running[Key]] = {}
    exhausted = False
    while running or not exhausted:
        while len(running) < jobs and not exhausted:
            following = next(waiting, None)
            if following is None:
                exhausted = True
                break
            key, work = following
            process, streams = _fork(work, scratch)
            running[process] = _Running(key, time.monotonic(), streams)
        for process, each in list(running.items()):
            seconds = time.monotonic() - each.since
            hung = seconds > longest
            if hung:
                os.kill(process, signal.SIGKILL)
            ended, status, usage = os.wait4(process, 0 if hung else os.WNOHANG)
            if ended:
                del running[process]
                said = [path.read_text(encoding="utf-8", errors="replace") for path in each.streams]
                for path in each.streams:
                    path.unlink()
                code = os.waitstatus_to_exitcode(status)
                yield each.key, Ended(code, hung, seconds, usage.ru_maxrss * 1024, said[0], said[1])
        time.sleep(_POLL)


def _fork(work: Callable[[], int], scratch: Path) -> tuple[int, tuple[Path, Path]]:
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    name = os.getpid() if process == 0 else process
    streams = scratch / f"{name}.out", scratch / f"{name}.err"
    if process == 0:
        code = 1
        try:
            _redirect(streams)
            _limit()
            code = work()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    for path in streams:
        path.touch()
    return process, streams


def _redirect(streams: tuple[Path, Path]) -> None:
    """To files, also what C libraries print."""
    for number, path in enumerate(streams, start=1):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)


def _limit() -> None:
    if "torch" in sys.modules:
        import cv2
        import torch

        torch.set_num_threads(1)
        cv2.setNumThreads(0)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MOST_MAPPED, mapped + MOST_MAPPED))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
