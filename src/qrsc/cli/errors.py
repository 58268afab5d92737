"""Bad input ends in one line that says what to do, not in a traceback."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import NoReturn, ParamSpec, TextIO

import typer

from qrsc.backend.memory import is_out_of_memory
from qrsc.media.errors import VerificationError

P = ParamSpec("P")

BAD_INPUT = 2
UNVERIFIED = 5  # exit code: the output was written, but is not what it should be
NO_MEMORY = "there is not enough memory. Close other programs, or use smaller frames."


def readable_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Turns the errors that the library raises for bad input, and its warnings, into one line each on stderr.

    The library raises `ValueError` and `OSError` for what a user can mend, and memory may run out; anything else is a
    fault of the program and keeps its traceback.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                command(*args, **kwargs)
            except VerificationError as error:
                _fail(error, _one_line(error), UNVERIFIED)
            except (ValueError, OSError) as error:
                _fail(error, _one_line(error))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                _fail(error, NO_MEMORY)

    return wrapped


def echo_note(line: str) -> None:
    """Something that a user should know, on stderr."""
    typer.echo(f"note: {line}", err=True)


def _fail(error: Exception, message: str, code: int = BAD_INPUT) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(code) from error


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
