from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import qrsc
from qrsc.cli.app import app


def processor_seconds(*command: str, runs: int = 3) -> float:
    """What a command takes at best: its own processor time; wall time on Windows."""
    taken = []
    for _ in range(runs):
        before = os.times()
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
        after = os.times()
        assert (done.returncode, done.stderr) == (0, "")
        of_children = after.children_user + after.children_system - before.children_user - before.children_system
        taken.append(after.elapsed - before.elapsed if os.name == "nt" else of_children)
    return min(taken)


@pytest.fixture(scope="module")
def seconds_for_torch() -> float:
    return processor_seconds("-c", "import torch", runs=1)


@pytest.mark.parametrize("arguments", [["--help"], ["correct", "--help"], ["demo", "--help"], ["--version"]])
def test_answers_at_once(arguments: list[str], seconds_for_torch: float) -> None:
    # A ratio, because a busy machine stretches processor time, too. Measured 0.08 to 0.18 of importing torch.
    assert processor_seconds("-m", "qrsc.cli", *arguments) < 0.6 * seconds_for_torch


def test_options_are_known_without_torch() -> None:
    code = "import sys, qrsc.cli.app; sys.exit(str({'torch', 'cv2', 'av'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.strip() == "set()"


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"qrsc {qrsc.__version__}\n")


def test_the_package_can_be_run_as_a_module() -> None:
    result = subprocess.run([sys.executable, "-m", "qrsc", "--version"], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, f"qrsc {qrsc.__version__}\n")


def test_help_names_the_commands() -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    assert "correct" in output
    assert "demo" in output
    assert "--version" in output


def test_unknown_command_fails() -> None:
    done = subprocess.run([sys.executable, "-m", "qrsc.cli", "korrekt"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "korrekt" in done.stderr
    assert "Traceback" not in done.stderr


def test_readouts_are_asked_for_in_milliseconds_first() -> None:
    found: Any = typer.main.get_command(app)
    asking = 0
    for name, command in found.commands.items():
        options = [parameter.name for parameter in command.params]
        if {"readout", "gamma"} <= set(options):
            asking += 1
            assert options.index("readout") < options.index("gamma"), name
    assert asking >= 3
