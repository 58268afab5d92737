"""`qrsc train fusion`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.fusion.lite.network import LiteNetwork
from qrsc.fusion.networks import network_from_file
from qrsc.learn.fusion import FusionTrainingOptions, fusion_training
from qrsc.weights import WeightsError

pytest.importorskip("pytorch_lightning")

SMALL = ["--network", "rsa2-lite", "--batch", "1", "--size", "64x64", "--crop", "32x32", "--scenes", "1"]
SMALL += ["--flow", "true", "--pool", "3"]


@pytest.mark.usefixtures("few_textures")
def test_a_run_and_its_continuation_write_weights_that_load(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = CliRunner().invoke(app, ["train", "fusion", str(folder), *SMALL, "--steps", "1"])
    assert first.exit_code == 0, first.output
    assert "| rsa2-lite |" in first.output
    assert "| SSIM | detail |" in first.output
    assert isinstance(network_from_file(folder / "fusion.safetensors"), LiteNetwork)
    resumed = CliRunner().invoke(app, ["train", "fusion", str(folder), *SMALL, "--steps", "2", "--resume", "--quiet"])
    assert resumed.exit_code == 0, resumed.output
    assert '"step": 2' in (folder / "state.json").read_text()


@pytest.mark.parametrize("paper", [False, True])
def test_options_that_are_not_given_are_those_of_the_recipe(monkeypatch: pytest.MonkeyPatch, paper: bool) -> None:
    got: list[FusionTrainingOptions] = []

    def watched(output: Path, options: FusionTrainingOptions, *, measures: object, progress: object) -> None:
        got.append(options)

    monkeypatch.setattr(fusion_training, "train_fusion", watched)
    recipe = FusionTrainingOptions.published() if paper else FusionTrainingOptions()
    # The command states the interpolation for both recipes.
    recipe = replace(recipe, interpolation="bicubic")
    arguments = ["train", "fusion", "out", *["--paper"] * paper]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert (
        CliRunner().invoke(app, [*arguments, "--crop", "64x32", "--loss", "mse, census", "--batch", "3"]).exit_code == 0
    )
    assert got == [recipe, replace(recipe, crop=(32, 64), loss=("mse", "census"), batch=3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--crop 100x64", "multiples of 16 and fit into --size; got 100x64"),
        ("--crop 512x512", "fit into --size"),
        ("--resume --start rsa2", "give one"),
        ("--paper --network rsa2-lite", "--paper is the recipe"),
        ("--loss charbonnier,style", "one or more of charbonnier, mse"),
    ],
)
@pytest.mark.usefixtures("few_textures")
def test_bad_options(tmp_path: Path, options: str, message: str) -> None:
    result = CliRunner().invoke(app, ["train", "fusion", str(tmp_path / "run"), *options.split()])
    assert result.exit_code == 2
    assert message in result.output


def test_weights_of_something_else_are_no_fusion_network() -> None:
    import qrsc.weights

    with pytest.raises(WeightsError, match="not the weights of a fusion network"):
        network_from_file(qrsc.weights.FOLDER / "raft-rs.safetensors")
