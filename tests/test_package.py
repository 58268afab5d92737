"""The package as a whole: its public names, and what importing it costs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import qrsc

PUBLIC = """
    Cancelled Corrected Corrector Readout Trajectory __version__
    backward_warp batch correct correct_video invert_field load_flow slowmo_video solve_trajectory splat
"""
PUBLIC_NAMES = set(PUBLIC.split())


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_public_names() -> None:
    assert set(qrsc.__all__) == PUBLIC_NAMES
    assert len(qrsc.__all__) <= 15
    assert set(dir(qrsc)) >= PUBLIC_NAMES


@pytest.mark.parametrize("name", sorted(PUBLIC_NAMES))
def test_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(qrsc, name)
    if name != "__version__":
        assert value.__name__ == name
        assert value.__doc__


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Korrektor'.*Corrector"):
        qrsc.Korrektor  # type: ignore[attr-defined]  # noqa: B018


def test_version_is_that_of_the_change_log() -> None:
    log = (Path(__file__).parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", log, re.MULTILINE)
    assert newest is not None
    assert newest[1] == qrsc.__version__


def test_import_is_silent_and_waits_for_nothing() -> None:
    done = run_python("import sys, qrsc; sys.exit(int('torch' in sys.modules))")
    assert done.stdout == ""
    assert done.stderr == ""


def test_core_loads_no_codec_command_or_metric() -> None:
    packages = "{'av', 'cv2', 'rich', 'torchmetrics', 'typer'}"
    done = run_python(
        f"import sys; from qrsc import *; import qrsc.reference.warp; print({packages} & set(sys.modules))"
    )
    assert done.stdout.strip() == "set()"
    assert done.stderr == ""


def test_import_adds_little_to_torch() -> None:
    # A ratio, because a busy machine stretches processor time, too. Measured 0.05.
    code = (
        "from time import process_time as now; start = now(); import torch; middle = now(); from qrsc import *; "
        "print((now() - middle) / (middle - start))"
    )
    assert min(float(run_python(code).stdout) for _ in range(2)) < 0.25
