"""Rows of an ablation trained alike, from the manifest, each once."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.evaluate.studies import training
from qrsc.evaluate.studies.entries import Manifest, Variant
from qrsc.evaluate.studies.manifest import read_ablation
from qrsc.evaluate.studies.reading import ManifestError
from qrsc.evaluate.studies.training import (
    FINISHED,
    FewerFrames,
    require_trainable,
    require_trained_alike,
    to_train,
    trained_for,
    training_plan,
)
from qrsc.learn.fusion_rendering import WorldSamples
from qrsc.simulate.library import TextureLibrary, texture_library
from qrsc.weights import read_notes

from .toys import save_tiny

pytest.importorskip("pytorch_lightning")

MANIFEST = """
flow = "dis"
metrics = ["psnr"]
[sets.mini]
root = "{root}"
layout = "sim"
scenes = 1
[rows.network]
motion = "none"
network = {{ stem = 4, widths = [8, 8, 8, 8], depths = [1, 1, 1, 1], heads = [1, 1, 1, 1], features = 8, taps = 3 }}
[rows."3 frames"]
kind = "rsa2-lite"
network = {{ widths = [8, 8, 8], depths = [1, 1, 1] }}
frames = 3
[rows.given]
weights = "given.safetensors"
[training]
batch = 1
size = "64x64"
crop = "32x32"
scenes = 1
pool = 3
flow = "true"
loss = ["charbonnier", "mse"]
"""


def painted(photographs: Path | None, device: object) -> TextureLibrary:
    return texture_library(torch.Generator().manual_seed(0), variety=1, resolution=64)


def test_one_command_trains_and_scores(sim_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "training_textures", painted)
    path = tmp_path / "study.toml"
    path.write_text(MANIFEST.format(root=sim_set.as_posix()))
    arguments = ["ablate", str(path), "--train", "--steps", "1", "--device", "cpu", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    rows = {row["method"]: row for row in json.loads(result.stdout)}
    assert rows["network"]["psnr"] > 10
    assert rows["3 frames"]["psnr"] > 10
    # A file that the manifest names is not this study's to make.
    assert "psnr" not in rows["given"]
    assert "training network (1 of 2)" in result.stderr
    folders = {name: tmp_path / "weights" / name for name in ("network", "3 frames")}
    assert read_notes(folders["network"] / "fusion.safetensors")["motion"] == "none"
    assert json.loads((folders["3 frames"] / FINISHED).read_text())["asked"] == {"steps": 1, "minutes": None}
    assert "- network: fusion.safetensors, SHA-256" in (tmp_path / "out" / "ablation.md").read_text()
    assert "; 1 steps in 0." in (tmp_path / "out" / "ablation.md").read_text()

    # Trained rows are left alone; one that was cut off is taken up where it stopped.
    before = (folders["network"] / "fusion.safetensors").read_bytes()
    (folders["3 frames"] / FINISHED).unlink()
    again = [option if option != "1" else "2" for option in arguments]
    result = CliRunner().invoke(app, [*again, "--force"])
    assert result.exit_code == 0, result.stderr
    assert "training 3 frames (1 of 1), resumed" in result.stderr
    assert '"step": 2' in (folders["3 frames"] / "state.json").read_text()
    assert (folders["network"] / "fusion.safetensors").read_bytes() == before
    manifest = read_ablation(path)
    assert to_train(manifest.variants) == []
    with pytest.warns(UserWarning, match=r"not trained equally long \(network: 1 steps; 3 frames: 2 steps\)"):
        require_trained_alike(manifest.variants)


def test_what_is_trained(tmp_path: Path) -> None:
    done, cut, new = (Variant(name, weights=tmp_path / name / "f.safetensors", trained_here=True) for name in "abc")
    own = Variant("own", weights=tmp_path / "own.safetensors")
    for variant in (done, cut):
        assert isinstance(variant.weights, Path)
        save_tiny(variant.weights)
    (tmp_path / "b" / "state.json").write_text("{}")  # its training goes on, or was cut off
    assert to_train([done, cut, new, own, Variant("solver", "qrs")]) == [cut, new]
    assert trained_for(done) == {}
    (tmp_path / "a" / FINISHED).write_text(
        json.dumps({"frames": 3, "asked": {"steps": 9, "minutes": None}, "steps": 9, "minutes": 0.1})
    )
    assert trained_for(done)["steps"] == 9
    with pytest.raises(ValueError, match="the weights of a were trained for 3 frames, not 5"):
        require_trained_alike([done])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_trained_alike([cut, new, own])


def plan_of(settings: dict[str, object], **more: float) -> training.TrainingPlan:
    return training_plan(Manifest(Path("study.toml"), (), (), training=settings), **more)  # type: ignore[arg-type]


def test_training_is_described_by_the_manifest() -> None:
    plan = plan_of(
        {"steps": 50, "batch": 2, "size": "96x64", "crop": "64x32", "peak": 1e-3, "compile": False}, minutes=2
    )
    assert (plan.options.steps, plan.options.total_minutes, plan.options.batch) == (50, 2, 2)
    assert (plan.size, plan.options.crop, plan.options.peak) == ((64, 96), (32, 64), 1e-3)
    assert plan_of({"steps": 50}, steps=7).options.steps == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "study.toml, training: say how long to train each row"),
        ({"steps": 0}, "steps must be over 0, got 0"),
        ({"steps": 3, "crop": "40x32"}, r"multiples of 16 and fit into size; got 40x32 of 384x320"),
        ({"steps": 3, "size": "128x128"}, "got 256x256 of 128x128"),
        ({"steps": 3, "loss": ["style"]}, "loss is one or more of charbonnier"),
        ({"steps": 3, "textures": "nowhere"}, "there is no folder nowhere of textures"),
        ({"steps": 3, "epochs": 3}, "unknown key epochs; known are batch"),
    ],
)
def test_mistakes_of_the_training(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        plan_of(settings)


def test_training_that_could_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="telepathy"):
        require_trainable(plan_of({"steps": 3, "flow": "telepathy"}))
    monkeypatch.setattr(training, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'qrsc\[train\]'"):
        require_trainable(plan_of({"steps": 3}))


@pytest.mark.parametrize(("frames", "centre"), [(3, 0), (4, 1)])
def test_samples_of_fewer_frames_keep_their_centre(frames: int, centre: int) -> None:
    render = WorldSamples(painted(None, "cpu"), (64, 64), scenes=1, frames=5)
    whole = render(torch.Generator().manual_seed(0))
    fewer = FewerFrames(render, training._SHOWN[frames])(torch.Generator().manual_seed(0))
    assert fewer.frames.shape[1] == frames - 2
    aligned = fewer.aligned()
    assert aligned.centre == centre
    assert torch.equal(aligned.frames[:, centre], whole.frames[:, 1])
    assert torch.equal(aligned.time_distance[:, centre], whole.time_distance[:, 1])
