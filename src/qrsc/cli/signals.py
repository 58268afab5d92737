"""Ctrl-C and SIGTERM end a command at any time, print nothing, and leave no unfinished output.

This module is imported before everything else and imports almost nothing itself: torch alone takes a second, and a
signal may come while it does.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # not from `typing`, which is slow to import

if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


def end_on_signals() -> None:
    """End the process with 128 + the number of the signal, as shells do: 130 and 143."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    atomic = sys.modules.get("qrsc.media.atomic")
    if atomic is not None and getattr(atomic, "unfinished_outputs", lambda: 0)():
        sys.exit(128 + number)  # unwinds the stack, and what is unfinished is removed
    # Nothing to remove. A module that is being imported might swallow an exception, or print a traceback.
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(128 + number)
