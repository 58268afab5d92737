"""A worker process: does one task after the other, and ends with the process that started it.

Tasks come on the standard input and answers leave on the standard output, pickled, both between processes of one user
that were started by one command.
"""

from __future__ import annotations

import os
import pickle
import queue
import shutil
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

REPORTED = 0.25  # seconds between two reports on frames


def _limit_cores(cores: str) -> None:
    """Keep to some cores, before any library counts them."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})


def _volunteer() -> None:
    """If memory runs out, let Linux end this process and not the one that keeps the books."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("600")


class Worker:
    """Does tasks and answers.

    Args:
        out: where to answer.
        scratch: a folder of its own.
    """

    def __init__(self, out: int, scratch: Path) -> None:
        self._out = os.fdopen(out, "wb")
        self._scratch = scratch
        self._tasks: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._frames, self._reported = 0, 0.0

    def listen(self) -> None:
        """Take tasks until the input ends; then leave at once, without what is unfinished."""
        while True:
            try:
                self._tasks.put(pickle.load(sys.stdin.buffer))
            except EOFError:
                break
        from qrsc.media.atomic import remove_unfinished

        remove_unfinished()
        shutil.rmtree(self._scratch, ignore_errors=True)
        os._exit(0)

    def work(self) -> None:
        """Do tasks until the process ends."""
        from qrsc.farm.work import Desk, OutOfMemoryError, perform

        self._answer("ready", os.getpid())
        desk = Desk(self._scratch, self._advance)
        while True:
            number, task = self._tasks.get()
            self._frames = 0
            try:
                value = perform(task, desk)
            except OutOfMemoryError as error:
                self._answer("memory", (number, str(error)))
            except (ValueError, OSError) as error:
                self._answer("failed", (number, " ".join(str(error).split())))
            except Exception as error:
                sys.excepthook(type(error), error, error.__traceback__)  # for whoever reads the terminal
                self._answer("failed", (number, f"a fault of the program: {type(error).__name__}: {error}"))
            else:
                self._answer("frames", self._frames)
                self._answer("done", (number, value))

    def _advance(self) -> None:
        self._frames += 1
        if time.monotonic() - self._reported > REPORTED:
            self._reported = time.monotonic()
            self._answer("frames", self._frames)

    def _answer(self, kind: str, content: Any) -> None:
        try:
            pickle.dump((kind, content), self._out)
            self._out.flush()
        except OSError:  # whoever asked is gone, and so is the reason to go on
            os._exit(0)


def main() -> None:
    """Be a worker until the input ends."""
    import signal

    # Ctrl-C in a terminal reaches every process of it; this one ends with the one that started it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_cores(sys.argv[1])
    _volunteer()
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    scratch = Path(tempfile.mkdtemp(prefix="qrsc-worker-"))
    worker = Worker(out, scratch)
    threading.Thread(target=worker.listen, daemon=True).start()
    worker.work()


if __name__ == "__main__":
    main()
