"""Rows of an ablation trained alike, from the manifest, each once."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.evaluate.studies import study_training as training
from qrsc.evaluate.studies.checked_tables import ManifestError
from qrsc.evaluate.studies.entries import Manifest, Variant
from qrsc.evaluate.studies.manifest import read_ablation
from qrsc.evaluate.studies.study_training import (
    FINISHED,
    FewerFrames,
    require_trainable,
    require_trained_alike,
    to_train,
    trained_for,
    training_plan,
    worlds_of,
)
from qrsc.learn.fusion import world_samples as fusion_rendering
from qrsc.learn.fusion.samples import FusionSamples
from qrsc.learn.fusion.world_samples import INNER_SHARES, WorldSamples
from qrsc.simulate.output import sets
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.scene import worlds
from qrsc.weights import read_notes

from .toys import TINY_LITE, save_tiny

pytest.importorskip("pytorch_lightning")

RECIPE = """\
batch = 1
size = "64x64"
crop = "32x32"
scenes = 1
pool = 3
flow = "true"
"""
MANIFEST = (
    """
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
loss = ["charbonnier", "mse"]
"""
    + RECIPE
)


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
        json.dumps({"frames": 3, "worlds": None, "asked": {"steps": 9, "minutes": None}, "steps": 9, "minutes": 0.1})
    )
    assert trained_for(done)["steps"] == 9
    with pytest.raises(ValueError, match="the weights of a were trained for 3 frames, not 5"):
        require_trained_alike([done])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_trained_alike([cut, new, own])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"frames": 3, "asked": {"steps": []}}', "[" * 5000])
def test_a_damaged_note_of_a_training_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / FINISHED).write_text(text)
    with pytest.raises(ValueError, match=FINISHED):
        trained_for(Variant("a", weights=tmp_path / "f.safetensors", trained_here=True))


CROSSED = (
    """
flow = "dis"
metrics = ["ssim"]
network = {{ widths = [8, 8, 8], depths = [1, 1, 1] }}
[sets.sim-shake]
scenes = 1
size = "64x48"
[sets.other]
root = "{root}"
layout = "sim"
scenes = 1
[checkpoints."on shake"]
kind = "rsa2-lite"
trained_on = "sim-shake"
[checkpoints.random]
kind = "rsa2-lite"
[training]
steps = 1
"""
    + RECIPE
)


def test_checkpoints_are_trained_on_worlds_of_their_sets(
    sim_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "training_textures", painted)
    monkeypatch.setattr(sets, "set_textures", lambda: painted(None, "cpu"))
    monkeypatch.setenv("QRSC_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "crossed.toml"
    path.write_text(CROSSED.format(root=sim_set.as_posix()))
    arguments = ["generalise", str(path), "--device", "cpu", "--out", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(app, [*arguments, "--train"])
    assert result.exit_code == 0, result.stderr
    assert "training on shake (1 of 2)" in result.stderr
    rows = {(row["checkpoint"], row["set"]): row for row in json.loads(result.stdout)}
    assert rows["on shake", "sim-shake"]["rde_ssim"] == 0.0
    assert abs(rows["random", "sim-shake"]["rde_ssim"]) < 0.5
    assert "; 1 steps in 0." in (tmp_path / "out" / "generalisation.md").read_text()
    folder = tmp_path / "weights" / "on shake"
    assert json.loads((folder / FINISHED).read_text())["worlds"] == "sim-shake"

    # What was trained on other worlds is not taken for it.
    path.write_text(path.read_text().replace("[checkpoints.random]", '[checkpoints.random]\ntrained_on = "other"'))
    result = CliRunner().invoke(app, [*arguments, "--force"])
    assert result.exit_code == 2
    assert "only worlds like those of the simulator's fixed sets" in result.stderr
    (tmp_path / "weights" / "random").rename(tmp_path / "weights" / "moved")
    (tmp_path / "weights" / "on shake").rename(tmp_path / "weights" / "random")
    path.write_text(CROSSED.format(root=sim_set.as_posix()))
    result = CliRunner().invoke(app, [*arguments, "--force"])
    assert result.exit_code == 2
    assert "the weights of random were trained on sim-shake, not on random worlds" in result.stderr


def test_networks_share_samples_that_are_rendered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "training_textures", painted)
    plan = plan_of(
        {"steps": 1, "batch": 2, "size": "64x48", "crop": "32x32", "scenes": 1, "pool": 4, "samples": 4, "flow": "true"}
    )
    common: dict[str, Any] = {"kind": "rsa2-lite", "network": TINY_LITE, "trained_here": True}
    variants = [
        Variant(name, weights=tmp_path / name / "f.safetensors", **{**common, "motion": motion, "frames": frames})
        for name, motion, frames in (("a", "linear", 5), ("b", "none", 5), ("c", "linear", 4))
    ]
    seen: dict[str, list[FusionSamples]] = {}

    def watched(folder: Path, render: Callable[[torch.Generator], FusionSamples], *_: Any, **__: Any) -> None:
        seen[folder.name] = [render(torch.Generator()) for _ in range(3)]
        folder.mkdir()
        (folder / "state.json").write_text('{"step": 1, "minutes": 0.1}')

    monkeypatch.setattr(training, "fit_fusion", watched)
    told: list[str] = []
    training.train_variants(variants, plan, say=told.append)
    # Those that are prepared alike come one after the other, whatever stands between them in the manifest.
    assert told == [
        "rendering 4 samples for a",
        "training a (1 of 3)",
        "training c (2 of 3)",
        "rendering 4 samples for b",
        "training b (3 of 3)",
    ]
    first, second, again = (part.frames for part in seen["a"])
    assert len(first) + len(second) >= 4
    assert not torch.equal(first, second)
    assert torch.equal(again, first)
    assert torch.equal(seen["c"][0].frames, first[:, :2])
    assert torch.equal(seen["b"][0].correction_fields, torch.zeros_like(seen["b"][0].correction_fields))
    with pytest.raises(ManifestError, match="samples must be over 0, got 0"):
        plan_of({"steps": 1, "samples": 0})
    with pytest.raises(ManifestError, match=r"camera is a share, 0 to 1, got 1.5"):
        plan_of({"steps": 1, "camera": 1.5})


def test_worlds_of_a_set_move_as_its_scenes_do(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of({"steps": 1, "size": "64x48", "crop": "48x48", "scenes": 2, "camera": 0})
    drawn: list[tuple[str, list[float]]] = []
    sample = worlds.sample_scenes

    def watched(batch: int, size: tuple[int, int], style: str, *more: Any, **named: Any) -> Any:
        drawn.append((style, (named["speed"] / size[1] * 100).tolist()))
        return sample(batch, size, style, *more, **named)

    monkeypatch.setattr(fusion_rendering, "sample_scenes", watched)
    variant = Variant("a", weights=Path("a.safetensors"), motion="none", trained_on="sim-easy", trained_here=True)
    render = worlds_of(variant, plan, painted(None, "cpu"), None)
    gammas = [float(render(torch.Generator().manual_seed(seed)).gamma[0]) for seed in range(3)]
    fixed = sets.FIXED_SETS["sim-easy"]
    assert render.camera == 0.0
    assert {style for style, _ in drawn} <= set(fixed.styles)
    assert len({style for style, _ in drawn}) > 1
    speeds = [speed for _, each in drawn for speed in each]
    assert fixed.speeds[0] <= min(speeds) < max(speeds) <= fixed.speeds[1]
    assert 0.29 < min(gammas) < max(gammas) <= 1.0
    # Random worlds are faster than all of these now and then.
    anything = worlds_of(replace(variant, trained_on=None), plan, painted(None, "cpu"), None)
    assert (anything.styles, anything.speeds) == (fusion_rendering.STYLE_SHARES, fusion_rendering.SPEEDS)


def plan_of(settings: dict[str, object], **more: float) -> training.TrainingPlan:
    return training_plan(Manifest(Path("study.toml"), (), (), training=settings), **more)  # type: ignore[arg-type]  # settings by name


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
        ({"steps": 10**30}, "steps must be a whole number, got 1000"),
        ({"minutes": math.nan}, "minutes must be a number, got nan"),
        ({"minutes": math.inf}, "minutes must be a number, got inf"),
        ({"steps": 3, "peak": [1]}, "peak must be a number"),
        ({"steps": 3, "size": "0x0"}, "a size is WIDTHxHEIGHT"),
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
    render = WorldSamples(painted(None, "cpu"), (64, 64), scenes=1, frames=5, clips=INNER_SHARES)
    whole = render(torch.Generator().manual_seed(0))
    fewer = FewerFrames(render, training._SHOWN[frames])(torch.Generator().manual_seed(0))
    assert fewer.frames.shape[1] == frames - 2
    aligned = fewer.aligned()
    assert aligned.centre == centre
    assert torch.equal(aligned.frames[:, centre], whole.frames[:, 1])
    assert torch.equal(aligned.time_distance[:, centre], whole.time_distance[:, 1])
