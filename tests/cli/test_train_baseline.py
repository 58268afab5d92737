"""`qrsc train baseline`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from qrsc.baselines.learned.networks import baseline_from_file
from qrsc.baselines.learned.window import Window
from qrsc.cli.app import app

SMALL = ["--steps", "1", "--batch", "1", "--size", "64x64", "--crop", "64", "--scenes", "1", "--pool", "4"]


@pytest.mark.usefixtures("few_textures")
def test_a_run_writes_networks_that_load(tmp_path: Path) -> None:
    given = ["train", "baseline", "rssr,cvr", str(tmp_path / "run"), *SMALL, "--no-features", "--flow", "dis-ultrafast"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert "step 1, " in done.output
    for row in ("rs input", "qrs", "rssr", "cvr"):
        assert f"| {row} | " in done.output
    network = baseline_from_file(tmp_path / "run" / "cvr.safetensors")
    assert network.width == type(network).trained_width
    window = Window(torch.rand(1, 2, 3, 40, 50), torch.zeros(1, 2, 2, 40, 50), torch.ones(1), 40)
    assert network.corrected(window, torch.tensor([0.5])).shape == (1, 3, 40, 50)
    again = CliRunner().invoke(app, given)
    assert again.exit_code == 2
    assert "holds weights of rssr, cvr; resume" in again.output


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ("rsa2", "", "name one or more of dsun, sunet"),
        ("dsun", "--crop 100", "multiples of 32"),
        ("dsun", "--resume --no-features", "there is no weights file"),
    ],
)
@pytest.mark.usefixtures("few_textures")
def test_bad_options(tmp_path: Path, names: str, options: str, message: str) -> None:
    result = CliRunner().invoke(app, ["train", "baseline", names, str(tmp_path / "run"), *options.split()])
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
