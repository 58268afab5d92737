from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli import options as commands
from qrsc.cli.app import app
from qrsc.data.layouts import LAYOUTS, LayoutName, get_layout, index_sequences
from qrsc.media.image_folder import read_frame, write_frame
from qrsc.simulate.camera.styles import MIXED, STYLES
from qrsc.simulate.output import sets
from qrsc.simulate.output.from_video import MIXINGS
from qrsc.simulate.output.sets import FIXED_SETS
from qrsc.simulate.output.writers import OUTPUT_LAYOUTS
from qrsc.simulate.paint.library import texture_library
from qrsc.simulate.scene.worlds import World
from qrsc.timing import Readout

SET_WORLD = sets.set_world
SMALL = ["--frames", "2", "--size", "48x32", "--device", "cpu"]


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    return result.exit_code, result.output


def test_options_are_those_of_the_library() -> None:
    """The command line names its choices without importing the rooms that know them."""
    assert get_args(commands.LayoutOption) == OUTPUT_LAYOUTS
    assert set(get_args(commands.StyleOption)) == {MIXED, *STYLES}
    assert get_args(commands.SetOption) == tuple(FIXED_SETS)
    assert get_args(commands.MixingOption) == MIXINGS


@pytest.mark.parametrize("layout", LAYOUTS)
def test_miniature_data_sets(tmp_path: Path, layout: LayoutName) -> None:
    code, output = run("scenes", str(tmp_path / "set"), "--layout", layout, "--scenes", "2", *SMALL)
    assert (code, output) == (0, f"2 scenes of 2 frames in {tmp_path / 'set'}\n")
    sequences = index_sequences(tmp_path / "set", layout)
    assert [len(sequence.frames) for sequence in sequences] == [2, 2]
    assert read_frame(sequences[0].frames[0].files["rolling"]).frame.shape == (3, 32, 48)
    public = get_layout(layout).readout is not None
    for sequence in sequences:
        assert (sequence.folder / "truth.npz").is_file() != public
        assert (sequence.folder / "truth.json").is_file() != public


def test_seed_and_style_decide(tmp_path: Path) -> None:
    def rendered(name: str, *options: str) -> torch.Tensor:
        arguments = [
            "scenes",
            str(tmp_path / name),
            "--scenes",
            "1",
            "--no-truth",
            "--layout",
            "plain",
            *options,
            *SMALL,
        ]
        assert run(*arguments)[0] == 0
        [sequence] = index_sequences(tmp_path / name, "plain")
        assert not (sequence.folder / "truth.npz").exists()
        return torch.stack([read_frame(frame.files["rolling"]).frame for frame in sequence.frames])

    first = rendered("a", "--seed", "4")
    assert torch.equal(first, rendered("b", "--seed", "4"))
    assert not torch.equal(first, rendered("c", "--seed", "5"))
    assert 0.001 < float((first - rendered("d", "--seed", "4", "--sensor")).abs().mean()) < 0.3


def test_force_is_needed_to_overwrite(tmp_path: Path) -> None:
    arguments = ["scenes", str(tmp_path), "--scenes", "1", "--no-truth", "--quiet", *SMALL]
    assert run(*arguments) == (0, "")
    code, output = run(*arguments)
    assert code == 2
    assert output.startswith("error: the folder")
    assert output.count("\n") == 1
    assert "--force" in output
    assert run(*arguments, "--force")[0] == 0


def test_photographs_and_preview(tmp_path: Path) -> None:
    photographs = tmp_path / "photographs"
    photographs.mkdir()
    write_frame(photographs / "one.png", torch.rand(3, 20, 30))
    sheet = tmp_path / "sheet.png"
    code, output = run("scenes", "--preview", str(sheet), "--scenes", "2", "--textures", str(photographs), *SMALL)
    assert (code, output) == (0, f"wrote {sheet}\n")
    assert read_frame(sheet).frame.shape == (3, 2 * 32 + 4, 5 * 48 + 16)
    assert run("scenes", "--preview", str(sheet), *SMALL)[0] == 2


def test_from_footage(tmp_path: Path) -> None:
    footage = tmp_path / "footage"
    footage.mkdir()
    picture = torch.nn.functional.interpolate(torch.rand(1, 3, 9, 24), size=(72, 192), mode="bicubic")[0].clamp(0, 1)
    for number in range(17):
        write_frame(footage / f"{number}.png", picture[:, :, 3 * number : 3 * number + 96])
    arguments = ["footage", str(footage), str(tmp_path / "clip"), "--rate", "240", "--fps", "30", "--gamma", "0.5"]
    code, output = run(*arguments)
    assert code == 2
    assert "moves by 3" in output
    assert not (tmp_path / "clip").exists()
    code, output = run(*arguments, "--step", "4", "--layout", "plain")
    assert (code, output) == (0, f"2 rolling-shutter frames from {footage} in {tmp_path / 'clip'}\n")
    [sequence] = index_sequences(tmp_path / "clip", "plain")
    assert sequence.readout.gamma == 0.5
    assert set(sequence.frames[0].files) == {"rolling", "middle"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scenes"], "name a folder for the clips"),
        (["footage", "clip.mp4", "out", "--rate", "240"], "no file or folder clip.mp4"),
        (["scenes", "out", "--seed", "2147483648"], "fixed test sets"),
        (["scenes", "out", "--layout", "bsrsc", "--gamma", "0.9"], "BS-RSC is read with gamma"),
        (["scenes", "out", "--textures", "nowhere", *SMALL], "no folder nowhere"),
        (["scenes", "out", "--size", "big"], "a size is WIDTHxHEIGHT"),
        (["scenes", "--preview", "sheet.txt"], "cannot be a picture"),
        (["set", "sim-easy", "--preview", "sheet.txt"], "cannot be a picture"),
        (["set", "sim-easy", "--scenes", "21"], "sim-easy has 20 scenes"),
    ],
)
def test_one_line_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = run(*arguments)
    assert code == 2
    assert output.startswith("error: ")
    assert output.count("\n") == 1
    assert message in output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["set", "sim-easy", "--seed", "3"], "--seed"),
        (["scenes", "out", "--step", "3"], "--step"),
        (["footage", "clip.mp4", "out", "--rate", "240", "--size", "9x9"], "--size"),
        (["footage", "clip.mp4", "out"], "--rate"),
    ],
)
def test_each_subcommand_has_its_own_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = run(*arguments)
    assert code == 2
    assert option in output.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_fixed_set_is_kept_in_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small_world(name: str, scene: int, **options: object) -> tuple[World, Readout]:
        return SET_WORLD(name, scene, textures=sets.set_textures(), size=(30, 40))

    monkeypatch.setenv("QRSC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sets, "set_textures", lambda: texture_library(torch.Generator(), variety=1, resolution=16))
    monkeypatch.setattr(sets, "set_world", small_world)
    sheet = tmp_path / "sheet.png"
    arguments = ["set", "sim-easy", "--scenes", "2", "--device", "cpu", "--preview", str(sheet)]
    folder = tmp_path / "cache" / f"sim-easy-v{sets.VERSION}"
    assert run(*arguments) == (0, f"sim-easy: 2 scenes in {folder}\nwrote {sheet}\n")
    assert [sequence.name for sequence in index_sequences(folder, "sim")] == ["0000", "0001"]
    assert read_frame(sheet).frame.shape == (3, 2 * 30 + 4, 5 * 40 + 16)
    assert run(*arguments)[0] == 2
    assert run(*arguments, "--force")[0] == 0
