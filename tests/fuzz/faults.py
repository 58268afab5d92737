"""Faults of the machine and of the caller: full disks, missing folders, no memory, errors in callbacks, cancelling."""

from __future__ import annotations

import errno
import importlib
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .damaged import PLAIN_OPTIONS, file_trial
from .trial import Trial

NOBODY = 65534
FAILED = frozenset({2})
ANY = frozenset({0, 2, 4})


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        name: what, and when.
        make: gives, for a trial without the fault, the one with it.
        to: suffix of the output.
    """

    name: str
    make: Callable[[Trial], Trial]
    to: str = ".mp4"


def faults() -> Iterator[Fault]:
    """All of them, about a hundred."""
    yield from _full_disks()
    yield from _failing_calls()
    yield from _files_that_vanish()
    yield from _wrong_places()
    yield from _callers()
    yield from _little_memory()


def fault_trial(fault: Fault, content: bytes, suffix: str, folder: Path) -> Trial:
    return fault.make(file_trial(fault.name, content, suffix, folder, fault.to))


# --- full disks ---


def _full_disks() -> Iterator[Fault]:
    """A limit on the size of files stands in for a full disk: writing fails in the middle in the same way."""
    for to in (".mp4", ".mov", ".mkv", ".webm", ".avi", ".ts", ""):
        for size in (1000, 1500, 2000, 3000):
            # A small picture may fit: then everything must be there.
            codes = ANY if to in ("", ".webm") else FAILED
            yield Fault(f"disk full after {size} bytes, {to or 'folder'}", _with(_limit_files(size), codes=codes), to)


def _limit_files(size: int) -> Callable[[], None]:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


# --- calls that fail ---


def _failing_calls() -> Iterator[Fault]:
    full = _error(lambda: OSError(errno.ENOSPC, "No space left on device"))
    memory = _error(MemoryError)
    tensor = _error(lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"))
    encoder = _error(lambda: _ffmpeg_error("ExternalError", "Generic error in an external library"))
    mux = _error(lambda: _ffmpeg_error("OSError", "Input/output error", errno.EIO))
    writer = "qrsc.media.writer:VideoWriter"
    for target, calls, errors in (
        (f"{writer}._mux", (1, 2, 9, 20), (mux, full, memory)),
        (f"{writer}.write", (1, 4, 8), (encoder, memory)),
        (f"{writer}.copy", (1, 6), (mux, memory)),
        (f"{writer}.finish", (1,), (encoder, full, memory)),
        ("qrsc.video.source:rgb_of", (1, 3, 8), (memory, tensor)),
        ("qrsc.media.reader:_require_size", (1, 5), (mux, memory)),
        ("qrsc.flow.dis:DisFlow.__call__", (1, 4), (memory, tensor)),
        ("qrsc.media.atomic:_flush", (1,), (full, memory)),
        ("qrsc.media.atomic:_renamed", (1,), (full,)),
        ("qrsc.media.probe:_first_frame", (1,), (memory, mux)),
        ("qrsc.media.tracks:_holds", (1,), (memory,)),
        ("qrsc.pipeline.stream:Stream._rendered", (1, 5), (memory, tensor)),
    ):
        for call in calls:
            for number, error in enumerate(errors):
                name = f"call {call} of {target.split(':')[1]} fails, error {number}"
                yield Fault(name, _with(_before(target, call, error), codes=FAILED))


def _error(make: Callable[[], BaseException]) -> Callable[[], None]:
    def fail() -> None:
        raise make()

    return fail


def _ffmpeg_error(kind: str, message: str, number: int = 542398533) -> BaseException:
    import av

    error: BaseException = getattr(av.error, kind)(number, message)
    return error


def _before(target: str, call: int, action: Callable[[], None]) -> Callable[[], None]:
    """Do something before each call of a function, from a call on that counts from 1."""

    def patch() -> None:
        module, name = target.split(":")
        owner: Any = importlib.import_module(module)
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        real = getattr(owner, last)
        calls = 0

        def patched(*args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls >= call:
                action()
            return real(*args, **more)

        setattr(owner, last, patched)

    return patch


# --- files that vanish or change ---


def _files_that_vanish() -> Iterator[Fault]:
    frame = "qrsc.video.target:VideoTarget.take"
    for call in (1, 12):

        def removed(trial: Trial, call: int = call) -> Trial:
            gone = _before(frame, call, lambda: trial.source.unlink(missing_ok=True))
            return replace(trial, fault=gone, content=None, codes=frozenset({0}))

        def torn(trial: Trial, call: int = call) -> Trial:
            cut = _before(frame, call, lambda: os.truncate(trial.source, 3000))
            return replace(trial, fault=cut, content=None, codes=ANY)

        def zeroed(trial: Trial, call: int = call) -> Trial:
            size = len(trial.content or b"")
            return replace(
                trial, fault=_before(frame, call, lambda: _overwrite(trial.source, size)), content=None, codes=ANY
            )

        def without_folder(trial: Trial, call: int = call) -> Trial:
            there = trial.folder / "there"
            gone = _before(frame, call, lambda: shutil.rmtree(there, ignore_errors=True))
            return replace(_output_in(trial, "there/out.mp4"), fault=gone, codes=FAILED)

        def without_unfinished(trial: Trial, call: int = call) -> Trial:
            gone = _before(frame, call, lambda: [path.unlink() for path in trial.folder.glob(".*.partial*")] and None)
            return replace(trial, fault=gone, codes=FAILED)

        yield Fault(f"input removed at item {call}", removed)
        yield Fault(f"input truncated at item {call}", torn)
        yield Fault(f"input overwritten with zeros at item {call}", zeroed)
        yield Fault(f"output folder removed at item {call}", without_folder)
        yield Fault(f"unfinished output removed at item {call}", without_unfinished)


def _overwrite(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.write(bytes(size))


# --- places that cannot be written or read ---


def _wrong_places() -> Iterator[Fault]:
    def as_nobody(folder: Path, mode: int) -> Callable[[], None]:
        def drop() -> None:
            if os.geteuid() == 0:
                os.seteuid(NOBODY)
            else:
                folder.chmod(mode)

        return drop

    yield Fault(
        "folder cannot be written", lambda trial: replace(trial, fault=as_nobody(trial.folder, 0o555), codes=FAILED)
    )
    yield Fault("output below a file", lambda trial: replace(_output_in(trial, "in.mp4/out.mp4"), codes=FAILED))
    yield Fault("output below /proc", lambda trial: replace(_output_in(trial, "/proc/out.mp4"), codes=FAILED))
    yield Fault("output name too long", lambda trial: replace(_output_in(trial, "x" * 300 + ".mp4"), codes=FAILED))
    yield Fault("standard output full", lambda trial: replace(trial, fault=_full_stdout, codes=FAILED))


def _full_stdout() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    os.dup2(descriptor, 1)


def _output_in(trial: Trial, place: str) -> Trial:
    arguments = ("correct", str(trial.source), "-o", str(trial.folder / place), *PLAIN_OPTIONS)
    return replace(trial, arguments=arguments)


# --- what a caller of the library does ---


class CallerError(Exception):
    """Raised by callbacks."""


class _Raising:
    """A callback that raises when it is called for the n-th time."""

    def __init__(self, call: int) -> None:
        self._left = call

    def __call__(self, told: object) -> None:
        self._left -= 1
        if self._left == 0:
            raise CallerError


class _Token:
    """A cancel token that is set when it is asked for the n-th time."""

    def __init__(self, call: int) -> None:
        self._left = call

    def is_set(self) -> bool:
        self._left -= 1
        return self._left <= 0


def _callers() -> Iterator[Fault]:
    from qrsc import Cancelled

    for call in (1, 2, 5, 8):
        yield Fault(f"progress raises at call {call}", _library(lambda call=call: {"progress": _Raising(call)}, CallerError))
    yield Fault("on_note raises", _library(lambda: {"on_note": _Raising(1)}, CallerError))
    for call in (1, 2, 3, 6, 11, 16):
        yield Fault(f"cancelled at question {call}", _library(lambda call=call: {"cancel": _Token(call)}, Cancelled))
    for call in (1, 4):
        yield Fault(
            f"cancelled while calibrating, question {call}",
            _library(lambda call=call: {"cancel": _Token(call), "gamma": None}, Cancelled),
        )


def _library(options: Callable[[], dict[str, Any]], expected: type[BaseException]) -> Callable[[Trial], Trial]:
    """Call the library instead of the command; the exception must arrive as it is."""

    def changed(trial: Trial) -> Trial:
        def call() -> int:
            from qrsc import correct_video

            try:
                correct_video(trial.source, trial.folder / "out.mp4", **{"gamma": 0.5, "preset": "fast", **options()})
            except expected:
                os.write(2, b"error: as expected\n")
                return 2
            return 0

        return replace(trial, call=call, codes=FAILED)

    return changed


# --- little memory ---


def _little_memory() -> Iterator[Fault]:
    for megabytes in (8, 16, 32, 64, 96, 128, 192, 256):
        yield Fault(f"{megabytes} MB of memory left", _with(_limit_memory(megabytes << 20), codes=ANY))


def _limit_memory(more: int) -> Callable[[], None]:
    def limit() -> None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + more, mapped + more))

    return limit


def _with(fault: Callable[[], None], *, codes: frozenset[int]) -> Callable[[Trial], Trial]:
    return lambda trial: replace(trial, fault=fault, codes=codes)
