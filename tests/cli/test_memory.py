from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from qrsc.cli.memory import keep_freed_memory

# In a process of its own, for it is the whole process whose memory is kept: page faults of writing to a block that is
# asked for anew 20 times, without and with it. The block above it keeps it away from the end of the heap.
FAULTS = """
import resource, sys
import numpy as np
from qrsc.cli.memory import keep_freed_memory

if sys.argv[1] == "kept":
    assert keep_freed_memory((480, 640))
np.ones(1_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    np.ones(1_000_000)
    above = np.ones(2_000_000)
    del above
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_large_frames_are_left_alone() -> None:
    assert not keep_freed_memory((1080, 1920))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_pages_are_not_cleared_again_and_again() -> None:
    def faults(how: str) -> int:
        run = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
        return int(run.stdout)

    assert faults("kept") < 0.3 * faults("given back")
