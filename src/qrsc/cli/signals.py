"""Ctrl-C and SIGTERM end a command at any time, print nothing, and leave no unfinished output.

This module is imported before everything else and imports almost nothing itself: torch alone takes a second, and a
signal may come while it does.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import time

TYPE_CHECKING = False  # not from `typing`, which is slow to import

if TYPE_CHECKING:
    from types import FrameType, ModuleType
    from typing import NoReturn

PATIENCE = 10.0  # seconds in which the main thread has to end


def end_on_signals() -> None:
    """End the process with 128 + the number of the signal, as shells do: 130 and 143."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    atomic = sys.modules.get("qrsc.media.atomic")
    if atomic is not None and getattr(atomic, "unfinished_outputs", lambda: 0)():
        _thread.start_new_thread(_end_anyway, (atomic, 128 + number))
        sys.exit(128 + number)  # unwinds the stack, and what is unfinished is removed
    # Nothing to remove. A module that is being imported might swallow an exception, or print a traceback.
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(128 + number)


def _end_anyway(atomic: ModuleType, code: int) -> None:
    """Remove what is unfinished and end, if the main thread cannot: a signal may find it between two locks."""
    time.sleep(PATIENCE)
    atomic.remove_unfinished()
    os._exit(code)
