"""The process that does the work, one task after the other: the server lives on if it dies.

Tasks come as lines of JSON on the standard input, reports leave as lines of JSON on the standard output. The end of the
input, when the server is gone, ends the process.

    {"task": 3, "kind": "run", "source": "...", "folder": "...", "name": "clip.mp4", "settings": {...}}
    {"cancel": 3}
    {"rest": true}

The readout of a clip that has been looked at is looked for at once, until there is something else to do or the server
asks for rest: people mostly want a preview next.
"""

from __future__ import annotations

import json
import os
import queue
import re
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qrsc.web.readout_ahead import ReadoutAhead

PROGRESS_INTERVAL = 0.1  # seconds between two reports of one stage
# Options of the commands that messages of the library name, and what the page calls them.
_OPTIONS = {
    "--readout": "milliseconds",
    "--gamma": "γ",
    "--camera": "a camera",
    "--scan": "the direction of the scan",
    "--strength": "strength",
    "--fast": "the preset Fast",
    "--best": "the preset Best",
    "--duration 5": "the preview",
}
_IN_A_TERMINAL = "(an option of `qrsc correct` in a terminal)"


def in_words_of_the_page(text: str, paths: dict[str, str] | None = None) -> str:
    """A message of the library, in one line: the user's names for files, and the page's for options."""
    for path, name in (paths or {}).items():
        text = text.replace(path, name)
    for option, name in _OPTIONS.items():
        text = re.sub(rf"{option}(?![\w-])", name, text)
    text = re.sub(r"(?<![\w-])(--[a-z][a-z-]+)", rf"\1 {_IN_A_TERMINAL}", text, count=1)
    return " ".join(text.split())


def _in_words_of_the_page(report: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]:
    return report | {
        "notes": [in_words_of_the_page(note, paths) for note in report["notes"]],
        "readout_from": in_words_of_the_page(report["readout_from"], paths),
    }


class Worker:
    """Does tasks and reports on them.

    Args:
        out: the file descriptor to report to.
    """

    def __init__(self, out: int) -> None:
        self._out = os.fdopen(out, "w", encoding="utf-8")
        self._tasks: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._cancel = threading.Event()
        self._current: int | None = None
        self._cancelled: set[int] = set()
        self._lock = threading.Lock()
        self._reported = 0.0
        self._ahead: ReadoutAhead | None = None

    def listen(self) -> None:
        """Read tasks until the server is gone; then leave at once, without what is unfinished."""
        for line in sys.stdin:
            message = json.loads(line)
            if "cancel" in message:
                with self._lock:
                    self._cancelled.add(message["cancel"])
                    if message["cancel"] == self._current:
                        self._cancel.set()
            elif "rest" in message:
                with self._lock:
                    if self._current is None:
                        self._stop_ahead()
            else:
                self._tasks.put(message)
        from qrsc.media.atomic import remove_unfinished

        remove_unfinished()
        os._exit(0)

    def work(self) -> None:
        """Do tasks until the process ends."""
        self.report(None, "ready")
        while True:
            task = self._tasks.get()
            assert task is not None
            number = int(task["task"])
            with self._lock:
                self._current = number
                self._cancel.clear()
                if number in self._cancelled:
                    self._cancel.set()
                if not self._needs_ahead(task):
                    self._stop_ahead()
            self.report(number, "begun")
            self._do(number, task)
            with self._lock:
                self._current = None

    def _needs_ahead(self, task: dict[str, Any]) -> bool:
        """Whether a task needs the readout that is looked for."""
        from qrsc.web.settings import Settings

        if self._ahead is None or self._ahead.source != Path(task["source"]) or task["kind"] != "preview":
            return False
        return Settings.of(task["settings"]).finds

    def _stop_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.stop()
            self._ahead = None

    def _do(self, number: int, task: dict[str, Any]) -> None:
        from qrsc.backend.memory import is_out_of_memory
        from qrsc.backend.progress import Cancelled, require_not_cancelled

        paths = {str(task["source"]): str(task["name"])}
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *rest: None  # the notes of a result have them
                require_not_cancelled(self._cancel)
                done = self._result(number, task, paths)
        except Cancelled:
            self.report(number, "cancelled")
        except (ValueError, OSError) as error:
            self.report(number, "failed", error=in_words_of_the_page(str(error), paths))
        except Exception as error:
            if is_out_of_memory(error):
                text = "there is not enough memory. Close other programs, or choose the preset Fast."
            else:
                sys.excepthook(type(error), error, error.__traceback__)  # for whoever reads the terminal
                text = f"a fault of the program ({type(error).__name__}); the terminal shows where. Please report it."
            self.report(number, "failed", error=text)
        else:
            self.report(number, "done", result=done)
            if task["kind"] == "look" and self._tasks.empty():
                from qrsc.web.readout_ahead import ReadoutAhead

                self._ahead = ReadoutAhead(Path(task["source"]))

    def _result(self, number: int, task: dict[str, Any], paths: dict[str, str]) -> dict[str, Any]:
        from qrsc.backend.progress import Progress
        from qrsc.web import work
        from qrsc.web.settings import Settings

        source, folder = Path(task["source"]), Path(task["folder"])
        if task["kind"] == "look":
            return work.look(source, folder)
        if task["kind"] == "stills":
            return work.stills(source, folder, task["scan"])

        def progress(now: Progress) -> None:
            if time.monotonic() - self._reported >= PROGRESS_INTERVAL or now.done in (1, now.total):
                self._reported = time.monotonic()
                self.report(number, "progress", stage=now.stage, done=now.done, total=now.total,
                            seconds=now.seconds, left=now.seconds_left)  # fmt: skip

        watch = work.Watch(
            progress,
            lambda text: self.report(number, "note", text=in_words_of_the_page(text, paths)),
            lambda frame: self.report(number, "thumbnail", frame=frame),
            lambda report: self.report(number, "untested", result=_in_words_of_the_page(report, paths)),
            self._cancel,
        )
        settings = Settings.of(task["settings"])
        if task["kind"] == "preview":
            done = work.preview(source, folder, settings, watch, self._ahead)
        else:
            done = work.run(source, folder, settings, watch, task["name"])
        return _in_words_of_the_page(done, paths)

    def report(self, task: int | None, event: str, **content: Any) -> None:
        """One line to the server; if it is gone, so is the reason to go on."""
        try:
            self._out.write(json.dumps({"task": task, "event": event, **content}) + "\n")
            self._out.flush()
        except OSError:
            os._exit(0)


def main() -> None:
    """Be a worker until the server is gone."""
    import signal

    # Ctrl-C in a terminal reaches every process of it; this one ends with the server, which cleans up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no report
    worker = Worker(out)
    threading.Thread(target=worker.listen, daemon=True).start()
    import qrsc.web.work  # noqa: F401  # a second or two, before the first task comes

    worker.work()


if __name__ == "__main__":
    main()
