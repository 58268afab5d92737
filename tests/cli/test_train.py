from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from qrsc.cli.app import app

pytest.importorskip("pytorch_lightning")

SMALL = ["--steps", "1", "--batch", "1", "--size", "64x64", "--scenes", "1", "--pool", "2", "--quiet"]


@pytest.mark.usefixtures("few_textures")
def test_a_run_and_its_continuation_write_weights_that_load(tmp_path: Path) -> None:
    from qrsc.flow import load_flow
    from qrsc.flow.raft_rs.estimator import NeuralFlow
    from qrsc.learn.flow import FlowTrainingOptions, train_flow

    folder = tmp_path / "run"
    first = CliRunner().invoke(app, ["train", "flow", str(folder), *SMALL, "--start", "raft-rs"])
    assert first.exit_code == 0, first.output
    assert isinstance(load_flow(str(folder / "flow.safetensors")), NeuralFlow)
    # The same from Python.
    options = FlowTrainingOptions(steps=1, batch=1, size=(64, 64), scenes=1, pool=2, start="raft-rs")
    result = train_flow(tmp_path / "python", options)
    assert result is not None
    assert result.weights.read_bytes() == (folder / "flow.safetensors").read_bytes()
    assert "| trained |" in result.summary()
    again = CliRunner().invoke(app, ["train", "flow", str(folder), *SMALL])
    assert again.exit_code == 2
    assert "holds a training state; resume it" in again.output
    longer = [option if option != "1" else "2" for option in SMALL[:2]] + SMALL[2:]
    resumed = CliRunner().invoke(app, ["train", "flow", str(folder), *longer, "--resume"])
    assert resumed.exit_code == 0, resumed.output
    assert '"step": 2' in (folder / "state.json").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--size 100x64", "multiples of 16; got 100x64"),
        ("--resume --start raft-rs", "give one"),
        ("--size big", "a size is WIDTHxHEIGHT"),
    ],
)
def test_bad_options(tmp_path: Path, options: str, message: str) -> None:
    result = CliRunner().invoke(app, ["train", "flow", str(tmp_path / "run"), *options.split()])
    assert result.exit_code == 2
    assert message in result.output
