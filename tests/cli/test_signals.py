"""Ctrl-C and SIGTERM at any time, imports included: one exit code each, and not a word."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ..videos import Recipe, make_video, texture_frames

# Sends the signal when a module is imported for the first time, as a user might at any moment.
WHEN_IMPORTED = """
import builtins, os, sys
real, wanted, number = builtins.__import__, {module!r}, {number}
def watching(name, *rest, **more):
    if name == wanted and name not in sys.modules:
        os.kill(os.getpid(), number)
    return real(name, *rest, **more)
builtins.__import__ = watching
from qrsc.cli import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "qrsc.cli.app", "torch", "numpy", "qrsc.video.correct", "cv2"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_importing_ends_quietly(tmp_path: Path, module: str, number: signal.Signals) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(4)))
    code = WHEN_IMPORTED.format(module=module, number=int(number))
    arguments = ["correct", str(source), "-o", str(tmp_path / "out.mp4"), "--gamma", "0.5", "--fast"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["in.mp4"]


def test_ctrl_c_before_there_is_a_handler_ends_quietly(tmp_path: Path) -> None:
    code = WHEN_IMPORTED.format(module="signal", number=int(signal.SIGINT))

    def heard() -> None:  # shells start commands in the background deaf to it
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    command = [sys.executable, "-c", code, "cameras"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=heard)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_main_thread_that_hangs_ends_all_the_same(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(12)))
    code = """
import os, time
from qrsc.cli import main, signals
from qrsc.backend.prefetch import BackgroundWorker
from qrsc.media.writer import VideoWriter
signals.PATIENCE = 0.5
BackgroundWorker.cancel = lambda self: time.sleep(1000)
VideoWriter.write = lambda self, *arguments: os.kill(os.getpid(), 2)
main()
"""
    arguments = ["correct", str(source), "-o", str(tmp_path / "out.mp4"), "--gamma", "0.5", "--fast", "--quiet"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["in.mp4"]


@pytest.mark.parametrize("delay", [0.3, 0.8, 1.6, 2.4])
def test_a_signal_at_any_time_ends_quietly(tmp_path: Path, delay: float) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(200)))
    arguments = ["correct", str(source), "-o", str(tmp_path / "out.mp4"), "--gamma", "0.5", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "qrsc", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    assert (process.returncode, *said) == (130, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["in.mp4"]
