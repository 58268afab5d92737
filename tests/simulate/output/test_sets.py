"""Fixed test sets: the same for everybody, and never for training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from qrsc.data.layouts import index_sequences
from qrsc.simulate.output import sets
from qrsc.simulate.output.sets import (
    FIXED_SETS,
    SCENES,
    cache_folder,
    occluded_fraction,
    prepare_set,
    require_free_seed,
    reserved_seed,
    scene_seed,
    set_readout,
    set_world,
    sustained_acceleration,
    thumbnail_scene,
)
from qrsc.simulate.output.writers import read_truth
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.render.rows import render_rs

SMALL = (30, 40)


@pytest.fixture(scope="module")
def textures() -> TextureLibrary:
    return texture_library(torch.Generator().manual_seed(0), variety=1, resolution=16)


def test_seeds_are_set_apart() -> None:
    mine = {
        reserved_seed(name, scene, attempt) for name in FIXED_SETS for scene in range(SCENES) for attempt in (0, 1023)
    }
    assert len(mine) == len(FIXED_SETS) * SCENES * 2
    assert all(2**31 <= seed < 2**32 for seed in mine)
    others = [scene_seed(seed, scene) for seed in (0, 1, 12345, 2**31 - 1) for scene in range(1000)]
    assert all(0 <= seed < 2**31 for seed in others)
    assert len({scene_seed(seed, scene) for seed in range(30) for scene in range(100)}) == 3000
    for seed in (min(mine), -1, 2**31):
        with pytest.raises(ValueError, match="belong to the fixed test sets"):
            require_free_seed(seed)


def test_gammas_are_spread_from_the_start() -> None:
    gammas = [set_readout(scene).gamma for scene in range(SCENES)]
    assert sorted(gammas) == pytest.approx(torch.linspace(0.3, 1.0, SCENES).tolist())
    assert max(gammas[:4]) - min(gammas[:4]) > 0.35


@pytest.mark.parametrize("name", FIXED_SETS)
def test_a_scene_is_always_the_same_and_has_what_its_set_is_about(name: str, textures: TextureLibrary) -> None:
    world, readout = set_world(name, 2, textures=textures, size=SMALL)
    again, _ = set_world(name, 2, textures=textures, size=SMALL)
    assert torch.equal(world.scene.curve.coefficients, again.scene.curve.coefficients)
    fixed = FIXED_SETS[name]
    assert world.styles[0] in fixed.styles
    look = thumbnail_scene(world.scene)
    assert occluded_fraction(look, readout, 3) >= fixed.occlusion
    assert sustained_acceleration(look) >= fixed.acceleration


def test_sets_stay_what_they_are(textures: TextureLibrary) -> None:
    """If this fails, the clips have changed: increase `VERSION`, so that no old clip is taken from a cache.

    Mean of a frame and a phase of the camera's motion, in a small picture with few textures.
    """
    found = {}
    for name in FIXED_SETS:
        world, readout = set_world(name, 2, textures=textures, size=SMALL)
        found[name] = (float(render_rs(world.scene, readout, 3).mean()), float(world.camera.path.phase[0, 0, 0]))
    expected = {
        "sim-easy": (0.4936, 0.4087),
        "sim-shake": (0.4406, 3.7303),
        "sim-drive": (0.4885, 0.5273),
        "sim-occlusion": (0.5161, 5.5304),
        "sim-nonlinear": (0.4764, 4.1607),
    }
    assert sets.VERSION == 1
    assert found == {name: pytest.approx(figures, abs=1e-3) for name, figures in expected.items()}


def test_another_size_shows_the_same_world(textures: TextureLibrary) -> None:
    small, _ = set_world("sim-drive", 0, textures=textures, size=SMALL)
    large, _ = set_world("sim-drive", 0, textures=textures, size=(60, 80))
    first, second = thumbnail_scene(small.scene), thumbnail_scene(large.scene)
    # Principal points differ by a quarter of a pixel of the smaller picture, nothing else does.
    assert torch.allclose(
        small.camera.pose(torch.tensor([3.0]))[1], large.camera.pose(torch.tensor([3.0]))[1], atol=0.05
    )
    assert occluded_fraction(first, set_readout(0), 3) == pytest.approx(
        occluded_fraction(second, set_readout(0), 3), abs=0.02
    )


def test_sets_are_made_once_and_in_parts(
    tmp_path: Path, textures: TextureLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "set_textures", lambda: textures)
    monkeypatch.setattr(sets, "FRAMES", 3)
    monkeypatch.setenv("QRSC_CACHE", str(tmp_path))
    steps: list[str] = []
    folder = prepare_set("sim-easy", 1, size=SMALL, advance=steps.append)
    assert folder == tmp_path / f"sim-easy-v{sets.VERSION}-40x30", "the set in its own size has a folder without one"
    [sequence] = index_sequences(folder, "sim")
    assert (sequence.name, len(sequence.frames), steps) == ("0000", 3, ["sim-easy"])
    assert sequence.readout.gamma == pytest.approx(set_readout(0).gamma)
    flow = read_truth(sequence.folder, "flow_next", 1)
    assert flow.shape == (2, *SMALL)
    assert float(flow.norm(dim=0).mean()) > 0.05

    stamp = (sequence.folder / "clip.json").stat().st_mtime_ns
    prepare_set("sim-easy", 2, size=SMALL)
    assert [found.name for found in index_sequences(folder, "sim")] == ["0000", "0001"]
    assert (sequence.folder / "clip.json").stat().st_mtime_ns == stamp


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QRSC_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("QRSC_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "qrsc"


def test_refusals() -> None:
    with pytest.raises(ValueError, match="unknown test set 'sim-hard'; choose one of sim-easy"):
        prepare_set("sim-hard")
    with pytest.raises(ValueError, match="20 scenes; got 21"):
        prepare_set("sim-easy", 21)
    with pytest.raises(ValueError, match="scenes 0 to 19, got 20"):
        set_world("sim-easy", 20)
