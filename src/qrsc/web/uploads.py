"""Clips on their way in: streamed to disk piece by piece, with limits."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote

PIECE = 4 << 20  # bytes that are written at once
PATIENCE = 30.0  # seconds to wait for the next byte
SLOWEST = 1000.0  # bytes per second, on average, after that time
SPARE = 256 << 20  # bytes of the disk that uploads leave free
LONGEST_NAME = 120  # characters
# Suffixes that the copy of a clip keeps, because some formats are known by them alone.
_SUFFIXES = (
    *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".ts", ".mts", ".m2ts"),
    *(".mpg", ".mpeg", ".3gp", ".wmv", ".flv", ".ogv", ".mxf", ".insv"),
)


class UploadError(ValueError):
    """An upload that is refused; the message says why and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def clip_name(encoded: str) -> str:
    """The name of a clip as a header gives it, percent-encoded: the last part of a path, printable, not too long."""
    name = re.split(r"[/\\]", unquote(encoded))[-1]
    name = "".join(character for character in name if character.isprintable()).strip(" .")
    if len(name) > LONGEST_NAME:
        stem, dot, suffix = name.rpartition(".")
        name = f"{stem[: LONGEST_NAME - len(suffix) - 1]}.{suffix}" if dot and len(suffix) < 8 else name[:LONGEST_NAME]
    return name or "clip"


def stored_name(name: str) -> str:
    """The name under which a clip lies in its folder: nothing of the user's but a known suffix."""
    suffix = Path(name).suffix.lower()
    return f"source{suffix if suffix in _SUFFIXES else '.video'}"


async def receive(
    pieces: AsyncIterator[bytes], target: Path, *, announced: int | None, most: int, patience: float = PATIENCE
) -> int:
    """Write an upload to disk; the file is there when all of it has come, and not before.

    Args:
        pieces: of the body, as they come.
        target: the file.
        announced: its length by the header; None if it does not say.
        most: bytes that are allowed.
        patience: seconds to wait for the next byte.

    Returns:
        How many bytes it has.

    Raises:
        UploadError: it is too large, empty, too slow, or does not fit on the disk.
        starlette.requests.ClientDisconnect: the browser went away.
    """
    _require_room(announced or 0, target, most)
    work = target.with_name(f".{target.name}.partial")
    received, started, waiting = 0, time.monotonic(), bytearray()
    try:
        with work.open("wb") as file:
            while piece := await _next(pieces, patience):
                received += len(piece)
                waiting += piece
                passed = time.monotonic() - started
                if passed > patience and received < SLOWEST * passed:
                    raise UploadError(408, "the upload was too slow and was given up. Add the clip again.")
                if len(waiting) >= PIECE:
                    _require_room(received, target, most, written=received - len(waiting))
                    await asyncio.to_thread(file.write, waiting)
                    waiting = bytearray()
            _require_room(received, target, most, written=received - len(waiting))
            await asyncio.to_thread(file.write, waiting)
        if received == 0:
            raise UploadError(400, "the file is empty. Choose a video.")
        if announced is not None and received != announced:
            raise UploadError(400, f"only {received} of {announced} bytes arrived. Add the clip again.")
        work.rename(target)
    finally:
        work.unlink(missing_ok=True)
    return received


async def _next(pieces: AsyncIterator[bytes], patience: float) -> bytes:
    """The next bytes of a body; none at its end."""
    try:
        return await asyncio.wait_for(anext(pieces, b""), patience)
    except asyncio.TimeoutError:
        raise UploadError(408, "the upload stopped and was given up. Add the clip again.") from None


def _require_room(size: int, target: Path, most: int, written: int = 0) -> None:
    if size > most:
        raise UploadError(
            413,
            f"the clip is larger than {most / 1e9:g} GB, the most that is taken. Start `qrsc web --limit GB` with "
            "more, or cut the clip.",
        )
    free = shutil.disk_usage(target.parent).free
    if size - written > free - SPARE:
        raise UploadError(
            507,
            f"the disk has room for {max(0, free - SPARE) / 1e9:.1f} GB more, and the clip needs "
            f"{(size - written) / 1e9:.1f} GB. Remove clips, or start `qrsc web --folder` on a larger disk.",
        )
