"""Scripts that check Triton kernels without a GPU, in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Interpreter mode must be chosen before Triton is imported, and would stay for the whole process.
_INTERPRETER = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


def interpreted(script: Path) -> str:
    """What a script prints, run in a process of its own; it has to end well."""
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env={**os.environ, **_INTERPRETER}, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
