from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from qrsc.backend.prefetch import background, prefetch


def test_prefetch_keeps_order_depth_and_exceptions() -> None:
    made = 0

    def items() -> Iterator[int]:
        nonlocal made
        for number in range(20):
            made = number
            yield number
        raise RuntimeError("at the end")

    numbers = prefetch(items(), 3)
    for expected in range(20):
        time.sleep(0.002)
        assert next(numbers) == expected
        assert made <= expected + 5
    with pytest.raises(RuntimeError, match="at the end"):
        next(numbers)
    with pytest.raises(ValueError, match="0 or more; got -1"):
        prefetch([1], -1)


def test_prefetch_stops_its_thread_when_closed() -> None:
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    before = threading.active_count()
    numbers = prefetch(endless(), 2)
    next(numbers)
    numbers.close()  # type: ignore[attr-defined]  # a generator
    assert closed.is_set()
    assert threading.active_count() == before


def test_background_works_in_order_and_passes_errors_on() -> None:
    done: list[int] = []
    with background(done.append, 2) as submit:
        for number in range(10):
            submit(number)
    assert done == list(range(10))

    def refuse(number: int) -> None:
        if number == 3:
            raise OSError("no space")

    def submit_all() -> None:
        with background(refuse, 1) as submit:
            for number in range(100):
                submit(number)

    with pytest.raises(OSError, match="no space"):
        submit_all()
    dropped: list[int] = []
    with pytest.raises(KeyError), background(dropped.append, 1):
        raise KeyError
    assert dropped == []
