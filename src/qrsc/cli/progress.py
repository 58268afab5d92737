"""What is shown while a command works."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from qrsc.cli.options import ProgressOption

# A line of JSON at most this often, in seconds: enough for any bar, and no flood for a fast clip.
JSON_INTERVAL = 0.5


class Reporter(Protocol):
    """Hears of every frame that is done."""

    def advance(self) -> None: ...


def progress_bar(quiet: bool = False, *, always: bool = False) -> Progress:
    """A bar on stderr, gone when the work is done, so that stdout holds the result alone; none in a log or a pipe.

    `always` shows it there, too.
    """
    shown = not quiet and (always or Console(stderr=True).is_terminal)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        # `disable` stops the bar's thread; older rich prints a line end even then, unless its console is quiet.
        console=Console(stderr=True, quiet=not shown),
        transient=True,
        disable=not shown,
    )


@contextmanager
def reporting(mode: ProgressOption, total: int | None, work: str) -> Iterator[Reporter]:
    """Reports on frames: `auto` shows a bar on a terminal, `bar` everywhere, `json` prints lines on stdout.

    Args:
        mode: how.
        total: how many frames there will be, as far as is known.
        work: one word for what is done with them.
    """
    if mode == "json":
        yield _JsonLines(total, work)
        return
    with progress_bar(mode == "none", always=mode == "bar") as progress:
        yield _Bar(progress, total, work)


def print_json(**content: Any) -> None:
    """One line of JSON on stdout, at once."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


class _Bar:
    def __init__(self, progress: Progress, total: int | None, work: str) -> None:
        self._progress = progress
        self._task = progress.add_task(work, total=total)

    def advance(self) -> None:
        self._progress.advance(self._task)


class _JsonLines:
    def __init__(self, total: int | None, work: str) -> None:
        self._total, self._work = total, work
        self._done = 0
        self._started = time.monotonic()
        self._printed = 0.0

    def advance(self) -> None:
        self._done += 1
        passed = time.monotonic() - self._started
        if passed - self._printed < JSON_INTERVAL and self._done != self._total:
            return
        self._printed = passed
        print_json(event="progress", work=self._work, frame=self._done, frames=self._total, seconds=round(passed, 2))
