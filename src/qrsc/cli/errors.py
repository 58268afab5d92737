"""Bad input ends in one line that says what to do, not in a traceback."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TextIO

import typer

from qrsc.media.errors import VerificationError

P = ParamSpec("P")

BAD_INPUT = 2
UNVERIFIED = 5  # exit code: the output was written, but is not what it should be


def readable_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Turns the errors that the library raises for bad input, and its warnings, into one line each on stderr.

    The library raises `ValueError` and `OSError` for what a user can mend; anything else is a fault of the program
    and keeps its traceback.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                command(*args, **kwargs)
            except VerificationError as error:
                typer.echo(f"error: {_one_line(error)}", err=True)
                raise typer.Exit(UNVERIFIED) from error
            except (ValueError, OSError) as error:
                typer.echo(f"error: {_one_line(error)}", err=True)
                raise typer.Exit(BAD_INPUT) from error

    return wrapped


def echo_note(line: str) -> None:
    """Something that a user should know, on stderr."""
    typer.echo(f"note: {line}", err=True)


def _one_line(message: object) -> str:
    return " ".join(str(message).split())


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    typer.echo(f"warning: {_one_line(message)}", err=True)
