from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import qrsc
from qrsc.cli.app import app


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "qrsc.cli", *arguments], capture_output=True, text=True)


def seconds_of(*arguments: str) -> float:
    """What a command takes: its own processor time, which a busy machine does not stretch; wall time on Windows."""
    before = os.times()
    done = run_command(*arguments)
    after = os.times()
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if os.name == "nt":
        return after.elapsed - before.elapsed
    return after.children_user + after.children_system - before.children_user - before.children_system


@pytest.mark.parametrize("arguments", [["--help"], ["correct", "--help"], ["demo", "--help"], ["--version"]])
def test_answers_at_once(arguments: list[str]) -> None:
    # Measured 0.12 to 0.26 s; importing torch alone takes 1.7 to 2.0 s.
    assert min(seconds_of(*arguments) for _ in range(3)) < 0.7


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
    done = run_command("korrekt")
    assert done.returncode == 2
    assert "korrekt" in done.stderr
    assert "Traceback" not in done.stderr
