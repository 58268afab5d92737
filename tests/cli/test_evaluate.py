from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import get_args

import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli import options as commands
from qrsc.cli.app import app
from qrsc.data.dataset import MASKS
from qrsc.data.layouts import LAYOUTS, SPLITS, LayoutName, get_layout
from qrsc.evaluate.evaluate_data import evaluate_data
from qrsc.media.image_folder import read_frame
from qrsc.simulate.output.writers import sequence_folder, write_sequence
from qrsc.simulate.render.clip import ClipFrame
from qrsc.timing import Readout

SIZE = (40, 64)


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def evaluated(*arguments: object) -> list[dict[str, object]]:
    code, output = run("evaluate", *arguments, "--json", "--device", "cpu")
    assert code == 0, output
    rows: list[dict[str, object]] = json.loads(output)
    return rows


def write_set(root: Path, layout: LayoutName, frames: int = 3) -> None:
    """A picture that moves to the right, with a truth at every instant that is its left half."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(1, 3, 12, 40, generator=generator)
    wide = torch.nn.functional.interpolate(coarse, (SIZE[0], 2 * SIZE[1]), mode="bicubic")[0].clamp(0, 1)
    names = [kind for kind in get_layout(layout).names if not kind.endswith("_mask")]
    clip = [
        ClipFrame(k, {kind: wide[..., 3 * k + place : 3 * k + place + SIZE[1]] for place, kind in enumerate(names)})
        for k in range(frames)
    ]
    readout = get_layout(layout).readout or Readout(0.5)
    write_sequence(root / sequence_folder(layout, 0, 1), layout, clip, readout)


@pytest.fixture(scope="module")
def three_sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sets")
    for layout in ("carla", "fastec", "bsrsc"):
        write_set(root / get_layout(layout).title, layout)
    return root


def test_options_are_those_of_the_library() -> None:
    assert set(get_args(commands.DataLayoutOption)) == {*LAYOUTS, "acc"}
    assert set(get_args(commands.EvaluateLayoutOption)) == {*LAYOUTS, "acc", "all"}
    assert get_args(commands.SplitOption) == SPLITS
    assert set(get_args(commands.TruthOption)) == {*MASKS, "both"}


def test_one_table_for_three_sets_at_both_instants(three_sets: Path) -> None:
    rows = evaluated(three_sets, "--layout", "all", "--at", "both", "--methods", "rs,linear")
    found = [(row["set"], row["at"], row["method"], row["frames"]) for row in rows]
    assert found == [
        (title, at, method, 3)
        for title, instants in (
            ("Carla-RS", ("first", "middle")),
            ("Fastec-RS", ("first", "middle")),
            ("BS-RSC", ("middle",)),
        )
        for at in instants
        for method in ("rs", "linear")
    ]
    assert {"set", "method", "at", "frames", "psnr", "ssim"} <= set(rows[0])
    rows = evaluated(three_sets, "--layout", "all", "--methods", "rs", "--window", 3)
    assert [row["frames"] for row in rows] == [1, 1, 1]
    code, text = run("evaluate", three_sets, "--layout", "all", "--at", "both", "--methods", "rs", "--published")
    assert code == 0
    assert len([line for line in text.splitlines() if line.split()[:3] == ["BS-RSC", "middle", "rs"]]) == 1
    assert "33.50 / 0.9460 / 0.0299" in text
    assert "(DFRSC)" in text


def test_everything_it_can_write(three_sets: Path, tmp_path: Path) -> None:
    root = three_sets / "Fastec-RS"
    arguments = [
        "--layout",
        "fastec",
        "--methods",
        "rs,qrs",
        "--resume",
        tmp_path / "r",
        "--cache-flow",
        tmp_path / "f",
    ]
    written = ["--save-frames", tmp_path / "s", "--plots", tmp_path / "p", "--per-frame", tmp_path / "frames.csv"]
    rows = evaluated(root, *arguments, *written)
    with (tmp_path / "frames.csv").open() as file:
        frames = list(csv.DictReader(file))
    assert len(frames) == 6
    assert sum(float(frame["psnr"]) for frame in frames if frame["method"] == "rs") / 3 == rows[0]["psnr"]
    assert {path.name for path in (tmp_path / "p").iterdir()} == {
        "psnr.svg",
        "detail.svg",
        "ssim.svg",
        "frames_Fastec-RS_middle.svg",
        "frames.csv",
        "worst_Fastec-RS.jpg",
    }
    saved = tmp_path / "s" / "rs" / "middle" / "train" / "0000" / "001_rolling.png"
    assert torch.equal(read_frame(saved).frame, read_frame(root / "train" / "0000" / "001_rolling.png").frame)
    assert evaluated(root, *arguments) == rows
    [again] = evaluated(root, "--layout", "fastec", "--methods", "", "--method", f"again={tmp_path / 's' / 'qrs'}")
    assert (again["method"], again["psnr"]) == ("again", rows[1]["psnr"])
    code, table = run("evaluate", root, *arguments, "--markdown")
    assert code == 0
    assert table.startswith("| set | at | method |")
    assert run("evaluate", root, *arguments, "--csv")[1].startswith("set,method,at,frames,psnr")


def test_inputs_are_never_replaced(three_sets: Path, tmp_path: Path) -> None:
    root = three_sets / "Fastec-RS"
    frame = root / "train" / "0000" / "001_rolling.png"
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    before = frame.read_bytes()
    for options, message in (
        (["--per-frame", frame], "lies inside the other"),
        (["--plots", root / "train"], "lies inside the other"),
        (["--save-frames", root], "--save-frames is the input"),
        (["--save-frames", theirs, "--method", f"theirs={theirs}"], "--save-frames is the input"),
        (["--plots", tmp_path, "--per-frame", tmp_path / "frames.csv"], "are both"),
    ):
        code, output = run("evaluate", root, "--layout", "fastec", "--methods", "rs", *options)
        assert (code, len(output.splitlines())) == (2, 1)
        assert message in output
    assert frame.read_bytes() == before
    assert not list(theirs.iterdir())


def test_the_command_is_a_function_with_progress(three_sets: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    evaluation = evaluate_data(
        three_sets, "all", methods=["rs"], progress=lambda each: told.append((each.stage, each.done, each.total))
    )
    assert told == [(title, frame, 3) for title in ("Carla-RS", "Fastec-RS", "BS-RSC") for frame in (1, 2, 3)]
    code, table = run("evaluate", three_sets, "--layout", "all", "--methods", "rs", "--device", "cpu")
    assert code == 0
    assert table == evaluation.table() + "\n"


def test_gamma_takes_the_place_of_the_data_sets_own(three_sets: Path) -> None:
    root = three_sets / "BS-RSC"
    own = evaluated(root, "--layout", "bsrsc", "--methods", "linear")
    assert evaluated(root, "--layout", "bsrsc", "--methods", "linear", "--gamma", "0.425") == own
    assert evaluated(root, "--layout", "bsrsc", "--methods", "linear", "--gamma", "0.9") != own


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layout", "carla"], "no Carla-RS sequence found"),
        (["--layout", "all"], "no data set in"),
        (["--layout", "fastec", "--methods", "qsr"], "unknown method 'qsr'"),
        (["--layout", "fastec", "--metrics", "psnr,mse"], "unknown metrics mse"),
        (["--layout", "fastec", "--flow", "truth"], "there are no exact flows"),
        (["--layout", "fastec", "--json", "--csv"], "give one of --json and --csv"),
        (["--layout", "fastec", "--scan", "bottom-up"], "together with --gamma"),
        (["--layout", "acc"], "qrsc data acc ROOT"),
    ],
)
def test_mistakes_end_in_one_line(three_sets: Path, arguments: list[str], message: str) -> None:
    code, output = run("evaluate", three_sets / "Fastec-RS", *arguments)
    assert code == 2
    assert message in output
    assert len(output.splitlines()) == 1


def test_check_and_acc(three_sets: Path, tmp_path: Path) -> None:
    code, output = run("data", "check", three_sets / "BS-RSC", "--layout", "bsrsc")
    assert code == 0
    assert output.splitlines()[-1] == "1 sequence, 3 frames, 0 missing, 64x40; no problems"
    code, output = run("data", "acc", three_sets / "BS-RSC", "--write", tmp_path / "list.txt")
    assert code == 0
    assert output.startswith(f"0 of 1 frames in {tmp_path / 'list.txt'}; the largest mean acceleration is 0.")
    first = (tmp_path / "list.txt").read_bytes()
    assert run("data", "acc", three_sets / "BS-RSC", "--write", tmp_path / "list.txt")[0] == 2
    assert run("data", "acc", three_sets / "BS-RSC", "--write", tmp_path / "list.txt", "--overwrite")[0] == 0
    assert (tmp_path / "list.txt").read_bytes() == first
    (tmp_path / "list.txt").write_text("train/0000/00001\n")
    [row] = evaluated(three_sets / "BS-RSC", "--layout", "acc", "--list", tmp_path / "list.txt", "--methods", "qrs")
    assert (row["set"], row["frames"], row["paper_psnr"]) == ("ACC", 1, 33.36)
    code, output = run("data", "acc", three_sets / "Carla-RS", "--write", tmp_path / "other.txt")
    assert code == 2
    assert "no BS-RSC sequence found" in output


def test_real_samples_in_one_table(real_data: Path) -> None:
    rows = evaluated(real_data, "--layout", "all", "--at", "both", "--methods", "rs", "--metrics", "psnr")
    figures = {(row["set"], row["at"]): row["psnr"] for row in rows}
    # The means that come with the samples.
    expected = {
        ("Carla-RS", "middle"): 22.56,
        ("Carla-RS", "first"): 19.23,
        ("Fastec-RS", "middle"): 21.67,
        ("Fastec-RS", "first"): 20.48,
        ("BS-RSC", "middle"): 18.56,
    }
    for key, value in figures.items():
        assert value == pytest.approx(expected[key], abs=0.006)  # type: ignore[index]  # a row of JSON
