"""Progress and cancelling of long work: a callback and a token."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Progress:
    """Where long work stands.

    Attributes:
        stage: what is being done, such as `calibrating` or `correcting`.
        done: frames that are finished in this stage.
        total: frames that there will be, or an estimate; None if unknown.
        seconds: since the stage began.
        seconds_left: until it ends at the present rate; None if unknown.
    """

    stage: str
    done: int
    total: int | None
    seconds: float
    seconds_left: float | None


ProgressCallback = Callable[[Progress], None]


class CancelToken(Protocol):
    """Anything that says whether to stop, such as a `threading.Event`."""

    def is_set(self) -> bool: ...


class Cancelled(RuntimeError):  # being asked to stop is no error
    """The work was stopped by its cancel token; nothing of it was left behind."""


def require_not_cancelled(cancel: CancelToken | None) -> None:
    """Raise `Cancelled` if the token says so."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the work was cancelled; nothing was written.")


class Stage:
    """One stage of long work: counts frames, reports them, and stops when the token says so.

    Args:
        name: of the stage.
        total: how many frames there will be, if known.
        progress: called for every frame, if given.
        cancel: checked for every frame, if given.
    """

    def __init__(
        self, name: str, total: int | None, progress: ProgressCallback | None, cancel: CancelToken | None
    ) -> None:
        self._name, self._total, self._progress, self._cancel = name, total, progress, cancel
        self._done = 0
        self._started = time.monotonic()
        require_not_cancelled(cancel)

    def advance(self) -> None:
        """One more frame is done."""
        require_not_cancelled(self._cancel)
        self._done += 1
        if self._progress is not None:
            self._progress(self.now())

    def now(self) -> Progress:
        """Where the stage stands, after one frame or more."""
        passed = time.monotonic() - self._started
        known = self._total is not None and self._total >= self._done
        left = passed / self._done * (self._total - self._done) if known and self._total is not None else None
        return Progress(self._name, self._done, self._total, passed, left)
