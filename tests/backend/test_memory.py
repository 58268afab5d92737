from __future__ import annotations

import platform
import subprocess
import sys

import cv2
import numpy as np
import pytest
import torch

from qrsc.backend.memory import is_out_of_memory, keep_freed_memory

# In a separate process, since the setting is per process: page faults of writing to three blocks that are freed and
# allocated again 20 times. Each block is smaller than those for which numpy requests huge pages.
FAULTS = """
import resource, sys
import numpy as np
from qrsc.backend.memory import keep_freed_memory

def written():
    return [np.ones(400_000) for _ in range(3)]

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    assert keep_freed_memory((480, 640))
for _ in range(3):
    written()
before = faults()
for _ in range(20):
    written()
print(faults() - before)
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


def test_large_frames_are_left_alone() -> None:
    assert not keep_freed_memory((1080, 1920))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_pages_are_not_cleared_again_and_again() -> None:
    def faults(how: str) -> int:
        run = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
        return int(run.stdout)

    # 2,344 pages of 4 kB in three blocks; with huge pages there are fewer in any case.
    kept, given_back = faults("kept"), faults("given back")
    assert kept < 100
    if given_back < 20 * 100:
        pytest.skip("this system gives no small pages, or does not take them back")
    assert kept < 0.1 * given_back
