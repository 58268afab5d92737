"""Damaged videos, faults and kills: a few of each. `make fuzz` runs thousands.

Each campaign is a process of its own: it forks its cases, and a process that has started threads must not.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("arguments", "least"),
    [
        (["seeds"], 2),
        (["damaged", "--cases", "200"], 200),
        (["faults"], 100),
        (["kills", "--kills", "3"], 3),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_nothing_falls(arguments: list[str], least: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *arguments], capture_output=True, text=True, cwd=ROOT, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = re.fullmatch(rf"{arguments[0]}: (\d+) (?:runs )?in \d+ s, 0 failed; .+", done.stdout.strip())
    assert summary is not None, done.stdout
    assert int(summary[1]) >= least
