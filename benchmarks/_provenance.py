"""What a table was made with: commit, hardware, date."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path

import torch

import qrsc

ROOT = Path(__file__).resolve().parents[1]


def made_with(device: str, commit: str | None = None) -> str:
    """A line for the head of a table; `commit` where the repository is not at hand."""
    return (
        f"qrsc {qrsc.__version__}, commit {commit or _commit() or 'unknown'}; {_hardware(device)}, "
        f"torch {torch.__version__.partition('+')[0]}; {datetime.date.today().isoformat()}."
    )


def _commit() -> str:
    head = _git("rev-parse", "--short", "HEAD")
    return head + " with changes" * bool(head and _git("status", "--porcelain", "--", "src"))


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    except FileNotFoundError:  # no git here
        return ""
    return done.stdout.strip()


def _hardware(device: str) -> str:
    cores = f"{os.cpu_count()} CPU cores, {platform.machine()}"
    return f"{torch.cuda.get_device_name(device)}, {cores}" if device.startswith("cuda") else cores
