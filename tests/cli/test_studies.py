"""`qrsc ablate` and `qrsc generalise`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.data.dataset import index_data
from qrsc.evaluate.studies.scoring import Settings
from qrsc.evaluate.studies.study import StudyOptions, ablate, made_with

from ..evaluate.studies.toys import save_tiny


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def ablation(sim_set: Path, tmp_path: Path) -> Path:
    save_tiny(tmp_path / "weights" / "full" / "fusion.safetensors")
    path = tmp_path / "ablation.toml"
    path.write_text(
        f"""
        flow = "dis"
        metrics = ["psnr", "ssim"]
        [sets.mini]
        root = "{sim_set.as_posix()}"
        layout = "sim"
        scenes = 1
        [rows.input]
        method = "rs"
        [rows.full]
        kind = "rsa2-lite"
        paper = "full"
        ["rows"."3 frames"]
        weights_of = "full"
        frames = 3
        [rows."no field"]
        network = {{ fields = false }}
        """
    )
    return path


def test_ablate(ablation: Path, tmp_path: Path) -> None:
    out, plots = tmp_path / "out", tmp_path / "plots"
    arguments = ["ablate", ablation, "--out", out, "--plots", plots, "--device", "cpu", "--json"]
    code, output, errors = run(*arguments)
    assert code == 0, errors
    assert "warning: not scored, there are no weights: no field (" in errors
    rows = {row["method"]: row for row in json.loads(output)}
    assert list(rows) == ["input", "full", "3 frames", "no field"]
    assert [rows[name]["frames"] for name in rows] == [4, 4, 4, 0]  # one scene of four frames
    assert rows["full"]["psnr"] > rows["input"]["psnr"] + 3
    assert rows["full"]["psnr"] != rows["3 frames"]["psnr"]
    assert {path.name for path in out.iterdir()} == {
        "ablation.md",
        "ablation.csv",
        "ablation.json",
        "frames.csv",
        "sequences.jsonl",
    }
    assert {path.name for path in plots.iterdir()} == {"rows_psnr.svg", "rows_ssim.svg"}
    page = (out / "ablation.md").read_text()
    assert "dis flow; sequences: mini 1." in page
    assert "| mini | middle | no field (no weights) | 0 |" in page
    assert "- full: fusion.safetensors, SHA-256 " in page
    assert "- no field: fusion.safetensors, none there" in page

    # Once more: refused, unless what is there may be replaced; then nothing is computed twice.
    kept = (out / "sequences.jsonl").read_bytes()
    code, _, errors = run(*arguments)
    assert code == 2
    assert "ablation.md" in errors
    assert "exists. Choose another name, or add --force to replace it" in errors
    code, again, errors = run(*arguments, "--force")
    assert code == 0, errors
    assert json.loads(again) == json.loads(output)
    assert (out / "sequences.jsonl").read_bytes() == kept


def test_generalise(sim_set: Path, tmp_path: Path) -> None:
    save_tiny(tmp_path / "a.safetensors")
    path = tmp_path / "crossed.json"
    sets = {name: {"root": str(sim_set / number), "layout": "sim"} for name, number in (("A", "0000"), ("B", "0001"))}
    checkpoints = {
        "on A": {"weights": "a.safetensors", "trained_on": "A"},
        "on B": {"weights": "b.safetensors", "trained_on": "B"},
        "solver": {"method": "multi-qrs"},
    }
    path.write_text(json.dumps({"flow": "dis", "metrics": ["ssim"], "sets": sets, "checkpoints": checkpoints}))
    out = tmp_path / "out"
    code, output, errors = run("generalise", path, "--out", out, "--plots", out, "--device", "cpu", "--markdown")
    assert code == 0, errors
    lines = output.splitlines()
    assert lines[2] == "| checkpoint | trained on | A | B | most |"
    assert "(+0.000)" in lines[4]
    assert lines[5] == "| on B (no weights) | B | – | – | – |"
    # Untrained, the light network is the mean of Multi-QRS: as good as the solver to three digits.
    rows = {(row["checkpoint"], row["set"]): row for row in json.loads((out / "generalisation.json").read_text())}
    assert rows["solver", "A"]["rde_ssim"] == pytest.approx(0.0, abs=1e-3)
    assert "rde_ssim" not in rows["solver", "B"]
    assert {path.name for path in out.iterdir()} == {
        "generalisation.md",
        "generalisation.csv",
        "generalisation.json",
        "decline_ssim.svg",
        "frames.csv",
        "sequences.jsonl",
    }
    code, _, errors = run("generalise", path, "--plots", out, "--device", "cpu")
    assert code == 2
    assert "decline_ssim.svg exists" in errors


def test_a_line_says_what_a_table_was_made_with(sim_set: Path) -> None:
    settings = Settings("dis", "middle", ("psnr",))
    one, two = index_data(sim_set, "sim")[:1], index_data(sim_set, "sim")
    assert made_with(settings, {"A": one, "B": two, "C": one}).endswith("; dis flow; sequences: A 1, B 2, C 1.")
    assert made_with(settings, {"A": two, "B": two, "C": two}).endswith("; dis flow; 2 sequences of each set.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--metrics psrn", "--metrics: unknown metrics psrn"),
        ("--flow telepathy", "telepathy"),
        ("--steps 3", "say how long to train, and need --train"),
        ("--train", "say how long to train each row"),
        ("--train --minutes 0", "minutes must be over 0, got 0"),
        ("--json --csv", "there is one table"),
    ],
)
def test_bad_options(ablation: Path, options: str, message: str) -> None:
    pytest.importorskip("pytorch_lightning")
    code, output, errors = run("ablate", ablation, *options.split())
    assert (code, output) == (2, "")
    assert message in errors


def test_the_manifest_is_never_replaced(sim_set: Path, tmp_path: Path) -> None:
    path = tmp_path / "ablation.json"
    path.write_text(
        json.dumps({"sets": {"A": {"root": str(sim_set), "layout": "sim"}}, "rows": {"a": {"method": "rs"}}})
    )
    before = path.read_bytes()
    code, output, errors = run("ablate", path, "--out", tmp_path, "--force")
    assert (code, output) == (2, "")
    assert "ablation.json is the input" in errors
    assert path.read_bytes() == before


def test_a_study_is_a_function_with_progress(ablation: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    with pytest.warns(UserWarning, match="not scored, there are no weights: no field"):
        result = ablate(
            ablation, StudyOptions(), progress=lambda each: told.append((each.stage, each.done, each.total))
        )
    assert told == [("mini", frame, 4) for frame in (1, 2, 3, 4)]
    code, output, errors = run("ablate", ablation, "--device", "cpu")
    assert code == 0, errors
    assert output == result.table("text") + "\n"


def test_weights_of_another_network_are_refused(ablation: Path, tmp_path: Path) -> None:
    save_tiny(tmp_path / "weights" / "no field" / "fusion.safetensors", "rsa2")
    code, output, errors = run("ablate", ablation, "--out", tmp_path / "out")
    assert (code, output) == (2, "")
    assert "is not the network that no field is said to be: it has fields = True, not False" in errors
    assert not (tmp_path / "out").exists()


def test_a_function_that_is_not_there_is_told_at_once(ablation: Path, tmp_path: Path) -> None:
    ablation.write_text(ablation.read_text().replace('method = "rs"', 'method = "nobody:knows"'))
    code, output, errors = run("ablate", ablation, "--out", tmp_path / "out")
    assert (code, output) == (2, "")
    assert "the method nobody:knows could not be imported" in errors


def test_a_bad_manifest_ends_in_one_line(tmp_path: Path) -> None:
    code, _, errors = run("generalise", tmp_path / "none.toml")
    assert code == 2
    assert errors.startswith("error: there is no manifest")
