"""A pool of worker processes on this machine. One that ends is replaced, and its task is given to the new one."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from qrsc.farm.executor import ENDED, MOST_TRIES
from qrsc.farm.resources import Share
from qrsc.farm.tasks import Outcome, Task

WORKER = (sys.executable, "-m", "qrsc.farm.worker")
PATIENCE = 10.0  # seconds in which a worker has to end when it is told to
MOST_FALSE_STARTS = 3  # workers that may end before they were ready


class ProcessPool:
    """Worker processes.

    Args:
        shares: of the machine, one for each worker.

    Attributes:
        restarts: workers that ended while they had something to do.
    """

    def __init__(self, shares: list[Share]) -> None:
        self._answers: queue.SimpleQueue[tuple[_Process, str, Any]] = queue.SimpleQueue()
        self._false_starts = 0
        self._frames = 0  # of tasks that are done
        self.restarts = 0
        self._processes = [_Process(share, self._answers) for share in shares]

    @property
    def slots(self) -> int:
        return len(self._processes)

    @property
    def frames(self) -> int:
        return self._frames + sum(process.frames for process in self._processes)

    @property
    def process_ids(self) -> list[int]:
        """Of the workers."""
        return [process.popen.pid for process in self._processes]

    def submit(self, number: int, task: Task) -> None:
        free = next(process for process in self._processes if process.task is None)
        free.begin(number, task)

    def outcomes(self, seconds: float) -> list[Outcome]:
        found: list[Outcome] = []
        wait: float | None = seconds
        while True:
            try:
                process, kind, content = self._answers.get(timeout=wait) if wait else self._answers.get_nowait()
            except queue.Empty:
                return found
            outcome = self._taken(process, kind, content)
            if outcome is not None:
                found.append(outcome)
                wait = None  # take what else is there, and do not wait for more

    def _taken(self, process: _Process, kind: str, content: Any) -> Outcome | None:
        if process not in self._processes:
            return None  # it has been replaced
        if kind == "ready":
            self._false_starts, process.ready = 0, True
        elif kind == "frames":
            process.frames = content
        elif kind == "ended":
            return self._replaced(process)
        else:
            number, answer = content
            outcome = Outcome(number, restarts=process.tries - 1, where=f"process {process.popen.pid}")
            if kind == "done":
                outcome.value = answer
                self._frames += process.frames
            else:
                outcome.error, outcome.died = answer, kind == "memory"
            process.finish()
            return outcome
        return None

    def _replaced(self, process: _Process) -> Outcome | None:
        """Start a new process in the place of one that ended; its task, if it may be tried again, goes to that."""
        if not process.ready:
            self._false_starts += 1
            if self._false_starts > MOST_FALSE_STARTS:
                raise OSError("worker processes end before they have begun; the lines above may say why.")
        following = _Process(process.share, self._answers)
        self._processes[self._processes.index(process)] = following
        if process.task is None:
            return None
        number, task = process.task
        self.restarts += 1
        if process.tries < MOST_TRIES:
            following.begin(number, task, process.tries + 1)
            return None
        return Outcome(number, error=ENDED, died=True, restarts=process.tries, where="this machine")

    def close(self) -> None:
        for process in self._processes:
            process.tell_to_end()
        for process in self._processes:
            process.end()


class _Process:
    """One worker, and what it is doing."""

    def __init__(self, share: Share, answers: queue.SimpleQueue[tuple[_Process, str, Any]]) -> None:
        self.share, self.ready, self.frames, self.tries = share, False, 0, 0
        self.task: tuple[int, Task] | None = None
        self.popen = subprocess.Popen(
            [*WORKER, share.core_names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **share.environment},
        )
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def _listen(self, answers: queue.SimpleQueue[tuple[_Process, str, Any]]) -> None:
        assert self.popen.stdout is not None
        # EOFError: it has ended; UnpicklingError: while it was answering.
        with suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                kind, content = pickle.load(self.popen.stdout)
                answers.put((self, kind, content))
        self.popen.wait()
        answers.put((self, "ended", None))

    def begin(self, number: int, task: Task, tries: int = 1) -> None:
        self.task, self.tries, self.frames = (number, task), tries, 0
        assert self.popen.stdin is not None
        with suppress(OSError):  # it has ended, which `_listen` tells
            pickle.dump(self.task, self.popen.stdin)
            self.popen.stdin.flush()

    def finish(self) -> None:
        self.task, self.frames = None, 0

    def tell_to_end(self) -> None:
        assert self.popen.stdin is not None
        with suppress(OSError):
            self.popen.stdin.close()

    def end(self) -> None:
        try:
            self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
