from __future__ import annotations

import platform
import subprocess
import sys

import cv2
import numpy as np
import pytest
import torch

from qrsc.backend.memory import is_out_of_memory

# In a separate process, since the setting is per process: page faults of writing to three blocks that are freed and
# allocated again 20 times.
FAULTS = """
import ctypes, resource, sys
from contextlib import nullcontext
from qrsc.backend.memory import freed_memory_kept

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
size = int(sys.argv[2])

def write():
    blocks = [libc.malloc(size) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks:
        libc.free(block)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

start = resident()
with freed_memory_kept() if sys.argv[1] == "kept" else nullcontext():
    with freed_memory_kept() if sys.argv[1] == "kept" else nullcontext():
        write()
    before = faults()
    for _ in range(20):
        write()
    after = faults()
print(after - before, resident() - start)
"""


def test_out_of_memory_is_recognised() -> None:
    torch_says = (
        "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried to allocate"
    )
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError(torch_says))
    assert is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."))
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60, dtype=torch.uint8)
    assert is_out_of_memory(raised.value)
    with pytest.raises(cv2.error) as refused:
        cv2.copyMakeBorder(np.zeros((2, 2), np.uint8), 0, 1 << 30, 0, 1 << 29, cv2.BORDER_CONSTANT)
    assert is_out_of_memory(refused.value)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
@pytest.mark.parametrize("size", [3_200_000, 50_000_000])
def test_pages_are_not_cleared_again_and_again_and_are_given_back_at_the_end(size: int) -> None:
    def measured(how: str) -> list[int]:
        run = subprocess.run([sys.executable, "-c", FAULTS, how, str(size)], capture_output=True, text=True, check=True)
        return [int(number) for number in run.stdout.split()]

    (kept, left), (given_back, _) = measured("kept"), measured("given back")
    assert kept < 100
    assert left < size
    if given_back < 20 * 100:
        pytest.skip("this system gives no small pages, or does not take them back")
    assert kept < 0.1 * given_back
