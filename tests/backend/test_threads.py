from __future__ import annotations

import subprocess
import sys

import cv2
import pytest
import torch

from qrsc.backend.threads import at_most_threads


def test_both_get_their_threads_back() -> None:
    before = torch.get_num_threads(), cv2.getNumThreads()
    with at_most_threads(1):
        assert torch.get_num_threads() == 1
        assert cv2.getNumThreads() == 1
    assert (torch.get_num_threads(), cv2.getNumThreads()) == before


def test_blocks_of_several_threads_may_end_in_any_order() -> None:
    before = cv2.getNumThreads()
    one, other = at_most_threads(1), at_most_threads(1)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert cv2.getNumThreads() == 1
    other.__exit__(None, None, None)
    assert cv2.getNumThreads() == before


def test_nobody_gets_more_than_before() -> None:
    before = torch.get_num_threads(), cv2.getNumThreads()
    with at_most_threads(10_000):
        assert (torch.get_num_threads(), cv2.getNumThreads()) == before


# Leaves a thread no memory at all, not even for the smallest of its variables, and lets PyTorch ask for some.
NO_MEMORY = """
import ctypes, resource
from pathlib import Path
import torch
from qrsc.backend.prefetch import background

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def take_all(item):
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped, most))
    last = None
    for size in (1 << power for power in range(24, 3, -1)):
        while block := libc.malloc(size):
            ctypes.c_void_p.from_address(block).value, last = last, block
    met = None
    try:
        torch.empty(7, 5)
    except (MemoryError, RuntimeError) as error:
        met = error
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    while last:
        following = ctypes.c_void_p.from_address(last).value
        libc.free(last)
        last = following
    print("no error" if met is None else "an error")

with background(take_all, 1) as work:
    work(None)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_a_thread_without_memory_gets_an_error() -> None:
    """Without `begin_thread` the C library ends the process."""
    done = subprocess.run([sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "an error\n"), done.stderr
