"""The baselines as rows of `qrsc evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.simulate.output.writers import write_sequence
from qrsc.simulate.render.clip import ClipFrame
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.timing import Readout
from tests.baselines.planes import planes_scene

READOUT = Readout(0.9)
CLASSICAL = ("row-homography", "dsfm", "dsfm-velocity", "diffhomo", "diffhomo-velocity")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three frames of a wall, past which the camera moves at a constant velocity."""
    scene = planes_scene(depths=(8.0,), drift=(0.4, 0.0, 0.0))
    frames = [
        ClipFrame(
            k,
            {
                "rolling": render_rs(scene, READOUT, k)[0].float(),
                "first": render_gs(scene, float(k))[0].float(),
                "middle": render_gs(scene, k + READOUT.instant("middle"))[0].float(),
            },
        )
        for k in range(3)
    ]
    root = tmp_path_factory.mktemp("simulated")
    write_sequence(root / "0000", "sim", frames, READOUT)
    return root


def rows(root: Path, methods: str, *arguments: str) -> dict[tuple[str, str], dict[str, float]]:
    """The rows of a table by instant and method."""
    command = ["evaluate", str(root), "--layout", "sim", "--methods", methods, "--json", "--device", "cpu", *arguments]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return {(row["at"], row["method"]): row for row in json.loads(result.output)}


def test_every_classical_row_is_better_than_no_correction(simulated: Path) -> None:
    found = rows(simulated, ",".join(["rs", *CLASSICAL]), "--flow", "dis", "--at", "both")
    assert {method for _, method in found} == {"rs", *CLASSICAL}
    for at in ("first", "middle"):
        uncorrected = found[at, "rs"]["psnr"]
        for method in CLASSICAL:
            assert found[at, method]["psnr"] > uncorrected + 2.0, (at, method)
            assert found[at, method]["frames"] == 3
