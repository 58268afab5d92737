"""What is shown while a command works."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from qrsc.backend.progress import Progress, ProgressCallback
from qrsc.cli.options import ProgressOption

if TYPE_CHECKING:
    from qrsc.video.result import VideoResult

# A line of JSON at most this often, in seconds: enough for any bar, and no flood for a fast clip.
JSON_INTERVAL = 0.5
TRUNCATED = 4  # exit code: the input ends early, and what is there was corrected


def progress_bar(quiet: bool = False, *, always: bool = False, time_left: bool = True) -> RichProgress:
    """A bar on stderr, gone when the work is done, so that stdout holds the result alone; none in a log or a pipe.

    `always` shows it there, too. Without `time_left`, the description says it, if anything does.
    """
    shown = not quiet and (always or Console(stderr=True).is_terminal)
    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *([TimeRemainingColumn()] if time_left else []),
        # `disable` stops the bar's thread; older rich prints a line end even then, unless its console is quiet.
        console=Console(stderr=True, quiet=not shown),
        transient=True,
        disable=not shown,
    )


@contextmanager
def reporting(mode: ProgressOption) -> Iterator[ProgressCallback]:
    """A callback for long work: `auto` shows a bar on a terminal, `bar` everywhere, `json` prints lines on stdout."""
    if mode == "json":
        yield _JsonLines()
        return
    with progress_bar(mode == "none", always=mode == "bar") as bar:
        yield _Bar(bar)


def show_result(result: VideoResult, verb: str, *, as_json: bool, quiet: bool) -> None:
    """Print what became of a clip. Ends the command with a code of its own if the input was truncated."""
    if as_json and not quiet:
        print_json(event="done", **result.figures())
    elif not quiet:
        typer.echo(result.text(verb))
    if result.truncated:
        raise typer.Exit(TRUNCATED)


def print_json(**content: Any) -> None:
    """One line of JSON on stdout, at once."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


class _Bar:
    """A bar whose label is the stage."""

    def __init__(self, bar: RichProgress) -> None:
        self._bar = bar
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, progress: Progress) -> None:
        if progress.stage not in self._tasks:
            for earlier in self._tasks.values():
                self._bar.update(earlier, visible=False)
            self._tasks[progress.stage] = self._bar.add_task(progress.stage, total=progress.total)
        self._bar.update(self._tasks[progress.stage], completed=progress.done, total=progress.total)


class _JsonLines:
    def __init__(self) -> None:
        self._stage = ""
        self._printed = 0.0

    def __call__(self, progress: Progress) -> None:
        if progress.stage != self._stage:
            self._stage, self._printed = progress.stage, 0.0
        if progress.seconds - self._printed < JSON_INTERVAL and progress.done != progress.total:
            return
        self._printed = progress.seconds
        print_json(
            event="progress",
            work=progress.stage,
            frame=progress.done,
            frames=progress.total,
            seconds=round(progress.seconds, 2),
            seconds_left=None if progress.seconds_left is None else round(progress.seconds_left, 1),
        )
