"""Tasks, one after the other, in a worker process of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

State = Literal["waiting", "working", "done", "failed", "cancelled"]
PATIENCE = 10.0  # seconds in which a cancelled task has to end before its process is killed
LONGEST_LINE = 16 << 20  # bytes of a report
ENDED = (
    "the process that did the work was ended, perhaps because memory ran out. Nothing was written; try again, or "
    "choose the preset Fast."
)
_numbers = count(1)


@dataclass
class Task:
    """Something to do with a clip.

    Attributes:
        kind: `look`, `stills`, `preview` or `run`.
        source, name: the clip, and what the user calls it.
        folder: for what is written.
        given: what else the worker is told.
        number: of the task, unique in the server.
        state: where it stands.
        progress: stage, frames, seconds, seconds left.
        frame: number of the frame that the newest thumbnail shows; 0 while there is none.
        notes: what a user should know.
        result: of a task that is done, or of a preview whose readout is still being tested.
        results: how many there were: a page that has seen the first one asks again.
        error: of one that failed, a sentence.
    """

    kind: Literal["look", "stills", "preview", "run"]
    source: Path
    name: str
    folder: Path
    given: dict[str, Any] = field(default_factory=dict)
    number: int = field(default_factory=lambda: next(_numbers))
    state: State = "waiting"
    progress: dict[str, Any] = field(default_factory=dict)
    frame: int = 0
    notes: list[str] = field(default_factory=list)
    result: dict[str, Any] | None = None
    results: int = 0
    error: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")

    def take(self, message: dict[str, Any]) -> None:
        """Note what the worker reports."""
        event = message["event"]
        if event == "progress":
            self.progress = {name: message[name] for name in ("stage", "done", "total", "seconds", "left")}
        elif event == "thumbnail":
            self.frame = message["frame"]
        elif event == "note":
            self.notes.append(message["text"])
        elif event == "untested":
            self.result, self.results = message["result"], self.results + 1
        elif event in ("done", "failed", "cancelled"):
            self.state = event
            self.result, self.error = message.get("result"), message.get("error", "")
            self.results += 1


class Lane:
    """A queue of tasks and the process that does them.

    Args:
        changed: called whenever something about a task has changed.
    """

    def __init__(self, changed: Callable[[Task], None]) -> None:
        self._changed = changed
        self._waiting: deque[Task] = deque()
        self._current: Task | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._wake = asyncio.Event()

    @property
    def process_id(self) -> int | None:
        """Of the worker, if one is there."""
        return None if self._process is None or self._process.returncode is not None else self._process.pid

    def place(self, task: Task) -> int:
        """How many tasks are before this one."""
        return self._waiting.index(task) + (self._current is not None) if task in self._waiting else 0

    def put(self, task: Task) -> None:
        """Queue a task."""
        self._waiting.append(task)
        self._wake.set()
        self._changed(task)

    def cancel(self, task: Task) -> None:
        """Take a task out of the queue, or have the worker stop it; one that does not stop loses its process."""
        if task in self._waiting:
            self._waiting.remove(task)
            task.state = "cancelled"
            self._changed(task)
        elif task is self._current:
            self._send({"cancel": task.number})
            asyncio.get_running_loop().call_later(PATIENCE, self._end_if_working, task)

    def _end_if_working(self, task: Task) -> None:
        if task is self._current and not task.ended:
            task.state = "cancelled"
            self.kill()

    def rest(self) -> None:
        """Have the worker stop what it does of its own accord."""
        if self.process_id is not None:
            self._send({"rest": True})

    def kill(self) -> None:
        """End the process at once."""
        if self.process_id is not None and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def start(self) -> None:
        """Start the worker, before it is needed."""
        if self.process_id is None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "qrsc.web.worker", limit=LONGEST_LINE,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip

    async def serve(self) -> None:
        """Do tasks as they come, for ever."""
        while True:
            while not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            task = self._current = self._waiting.popleft()
            task.state = "working"
            self._changed(task)
            await self._do(task)
            self._current = None

    async def _do(self, task: Task) -> None:
        # A worker that died while it had nothing to do is noticed only now: the task goes to a new one.
        if not await self._done_by_worker(task):
            await self._done_by_worker(task)
        if not task.ended:
            task.state, task.error = "failed", ENDED
        self._changed(task)

    async def _done_by_worker(self, task: Task) -> bool:
        """Have a task done; whether the worker had begun with it, or even ended it, before its process ended."""
        await self.start()
        assert self._process is not None
        assert self._process.stdout is not None
        self._send(
            {"task": task.number, "kind": task.kind, "source": str(task.source), "name": task.name,
             "folder": str(task.folder), **task.given}
        )  # fmt: skip
        begun = False
        while not task.ended:
            line = await self._process.stdout.readline()
            if not line:
                await self._process.wait()
                return begun or task.ended
            message = json.loads(line)
            if message["task"] == task.number:
                begun = True
                task.take(message)
                self._changed(task)
        return True

    def _send(self, message: dict[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write((json.dumps(message) + "\n").encode())

    async def close(self) -> None:
        """End the worker; what it has not finished is gone."""
        self.kill()
        if self._process is not None:
            await self._process.wait()
