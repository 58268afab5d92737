"""The bar that is shown while a command works."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def progress_bar(quiet: bool = False) -> Progress:
    """A bar on stderr, gone when the work is done, so that stdout holds the result alone; none in a log or a pipe."""
    shown = not quiet and Console(stderr=True).is_terminal
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
