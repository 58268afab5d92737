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
LARGE = "mkv-ffv1"
FAILED = frozenset({2})
ANY = frozenset({0, 2, 4})


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        name: what, and when.
        make: gives, for a trial without the fault, the one with it.
        to: suffix of the output.
        base: the clip; the large one is not read at one go.
    """

    name: str
    make: Callable[[Trial], Trial]
    to: str = ".mp4"
    base: str = "mp4"


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
        ("qrsc.media.probe:_beginning", (1,), (memory, mux)),
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
    for call in (1, 4):
        for name, action, codes in (
            # What is open can be read to its end.
            ("input removed", lambda trial: trial.source.unlink(missing_ok=True), frozenset({0})),
            ("input truncated", _halve, frozenset({4})),
            ("input overwritten with zeros", _overwrite, ANY),
        ):
            yield Fault(f"{name} at frame {call}", _changing_input(action, call, codes), base=LARGE)
        for name, action in (
            ("output folder removed", lambda trial: shutil.rmtree(trial.folder / "new", True)),
            ("unfinished output removed", _remove_unfinished),
        ):
            yield Fault(f"{name} at item {call}", _changing_output(action, call))


def _changing_input(action: Callable[[Trial], None], call: int, codes: frozenset[int]) -> Callable[[Trial], Trial]:
    """Do something to the input when its n-th frame has been read."""

    def changed(trial: Trial) -> Trial:
        fault = _before("qrsc.video.source:rgb_of", call, lambda: action(trial))
        return replace(trial, fault=fault, content=None, codes=codes)

    return changed


def _changing_output(action: Callable[[Trial], None], call: int) -> Callable[[Trial], Trial]:
    """Do something to the output, in a new folder, when the n-th item is written."""

    def changed(trial: Trial) -> Trial:
        fault = _before("qrsc.video.target:VideoTarget.take", call, lambda: action(trial))
        return replace(_output_in(trial, "new/out.mp4"), fault=fault, codes=FAILED)

    return changed


def _halve(trial: Trial) -> None:
    os.truncate(trial.source, len(trial.content or b"") // 2)


def _overwrite(trial: Trial) -> None:
    with trial.source.open("r+b") as file:
        file.write(bytes(len(trial.content or b"")))


def _remove_unfinished(trial: Trial) -> None:
    for path in (trial.folder / "new").glob(".*.partial*"):
        path.unlink()


# --- places that cannot be written or read ---


def _wrong_places() -> Iterator[Fault]:
    yield Fault("folder cannot be written", lambda trial: replace(trial, fault=_without_rights(trial), codes=FAILED))
    for name, place in (("a file", "in.mp4/out.mp4"), ("/proc", "/proc/out.mp4"), ("a long name", f"{'x' * 300}.mp4")):
        yield Fault(f"output below {name}", _placed(place))
    yield Fault("standard output full", _with(_full_stdout, codes=FAILED))


def _without_rights(trial: Trial) -> Callable[[], None]:
    def drop() -> None:
        trial.folder.chmod(0o555)
        if os.geteuid() == 0:  # who may write everywhere
            os.seteuid(NOBODY)

    return drop


def _placed(place: str) -> Callable[[Trial], Trial]:
    return lambda trial: replace(_output_in(trial, place), codes=FAILED)


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
        yield Fault(f"progress raises at call {call}", _library("progress", _Raising, call, CallerError))
    yield Fault("on_note raises", _library("on_note", _Raising, 1, CallerError))
    for call in (1, 2, 3, 6, 11, 16):
        yield Fault(f"cancelled at question {call}", _library("cancel", _Token, call, Cancelled))
    for call in (1, 4):
        calibrating = _library("cancel", _Token, call, Cancelled, gamma=None)
        yield Fault(f"cancelled while calibrating, question {call}", calibrating)


def _library(
    option: str, make: Callable[[int], object], call: int, expected: type[Exception], gamma: float | None = 0.5
) -> Callable[[Trial], Trial]:
    """Call the library instead of the command, with an option that interferes; its exception must arrive as it is."""

    def changed(trial: Trial) -> Trial:
        def work() -> int:
            from qrsc import correct_video

            options: dict[str, Any] = {option: make(call)}
            try:
                correct_video(trial.source, trial.folder / "out.mp4", gamma=gamma, preset="fast", **options)
            except expected:
                os.write(2, b"error: as expected\n")
                return 2
            return 0

        return replace(trial, call=work, codes=FAILED)

    return changed


# --- little memory ---


def _little_memory() -> Iterator[Fault]:
    for megabytes in (8, 16, 32, 64, 96, 128, 192, 256):
        yield Fault(f"{megabytes} MB of memory left", _starving(_limit_memory(megabytes << 20)))


def _limit_memory(more: int) -> Callable[[], None]:
    def limit() -> None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + more, mapped + more))

    return limit


def _starving(fault: Callable[[], None]) -> Callable[[Trial], Trial]:
    return lambda trial: replace(trial, fault=fault, codes=ANY, starved=True)


def _with(fault: Callable[[], None], *, codes: frozenset[int]) -> Callable[[Trial], Trial]:
    return lambda trial: replace(trial, fault=fault, codes=codes)
