"""Manifests: what they mean, and what is refused before anything is computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qrsc.evaluate.report.published import ABLATIONS, ablation_figures, paper_figures
from qrsc.evaluate.studies import manifest as manifest_module
from qrsc.evaluate.studies.checked_tables import ManifestError
from qrsc.evaluate.studies.manifest import read_ablation, read_generalisation
from qrsc.simulate.output.sets import FIXED_SETS

ROOT = Path(__file__).parents[3]

ABLATION = """
weights = "mine"
flow = "dis"
[sets.sim-easy]
scenes = 2
size = "64x48"
[rows.solver]
method = "qrs"
paper = "solver"
[rows.full]
network = { taps = 3, widths = [8, 8, 8, 8] }
[rows.none]
motion = "none"
kind = "rsa2-lite"
[rows.fewer]
weights_of = "full"
frames = 3
[rows.shipped]
weights = "rsa2-lite"
[rows.file]
weights = "elsewhere/a.safetensors"
[charts.both]
rows = ["solver", "full"]
[training]
steps = 3
"""


def written(folder: Path, text: str, name: str = "study.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_of_an_ablation(tmp_path: Path) -> None:
    manifest = read_ablation(written(tmp_path, ABLATION))
    rows = {variant.name: variant for variant in manifest.variants}
    assert list(rows) == ["solver", "full", "none", "fewer", "shipped", "file"]
    assert (rows["solver"].method, rows["solver"].paper, rows["solver"].missing) == ("qrs", "solver", None)
    own = tmp_path / "mine" / "full" / "fusion.safetensors"
    assert (rows["full"].weights, rows["full"].missing, rows["full"].trained_here) == (own, own, True)
    assert (rows["full"].kind, rows["full"].motion, rows["full"].frames) == ("rsa2", "quadratic", 5)
    assert (rows["none"].kind, rows["none"].motion) == ("rsa2-lite", "none")
    fewer = rows["fewer"]
    assert (fewer.weights, fewer.frames, fewer.network, fewer.trained_here) == (own, 3, rows["full"].network, False)
    assert (rows["shipped"].weights, rows["shipped"].missing) == ("rsa2-lite", None)
    assert rows["file"].missing == tmp_path / "elsewhere" / "a.safetensors"
    assert not rows["file"].trained_here
    [entry] = manifest.sets
    assert (entry.name, entry.scenes, entry.size, entry.published_as) == ("sim-easy", 2, (48, 64), "")
    assert (manifest.charts, manifest.training) == ({"both": ("solver", "full")}, {"steps": 3})
    assert (manifest.flow, manifest.at, manifest.metrics) == ("dis", "middle", ("psnr", "ssim", "masks"))


def test_options_that_all_networks_have(tmp_path: Path) -> None:
    text = "network = { taps = 3, prior = false }\n[sets.sim-easy]\n[rows.a]\n[rows.b]\nnetwork = { taps = 5 }\n"
    text += '[rows.c]\nweights = "c.safetensors"\n'
    networks = [dict(variant.network) for variant in read_ablation(written(tmp_path, text)).variants]
    plain = {"calm": False, "prior": False}
    assert networks == [{"taps": 3, **plain}, {"taps": 5, **plain}, {}]
    with pytest.raises(ManifestError, match=r"rows.d: the network rsa2-lite has no option prior, taps"):
        read_ablation(written(tmp_path, text + '[rows.d]\nkind = "rsa2-lite"'))


def test_json_says_the_same(tmp_path: Path) -> None:
    values = {"sets": {"sim-easy": {}}, "rows": {"solver": {"method": "qrs"}}}
    manifest = read_ablation(written(tmp_path, json.dumps(values), "study.json"))
    toml = read_ablation(written(tmp_path, '[sets.sim-easy]\n[rows.solver]\nmethod = "qrs"'))
    assert (manifest.sets, manifest.variants) == (toml.sets, toml.variants)


def test_the_examples_are_manifests() -> None:
    ablation = read_ablation(ROOT / "examples" / "ablation.toml")
    beside = {variant.paper for variant in ablation.variants} - {None}
    assert beside == {line.method for line in ABLATIONS}  # all that the paper has figures for
    assert {variant.motion for variant in ablation.variants if variant.method is None} == {
        "none",
        "linear",
        "quadratic",
    }
    checkpoints = read_generalisation(ROOT / "examples" / "generalisation.toml")
    assert {variant.trained_on for variant in checkpoints.variants} >= {entry.name for entry in checkpoints.sets}


def test_the_studies_that_were_run_are_manifests() -> None:
    folder = ROOT / "examples" / "simulated"
    ablation = read_ablation(folder / "ablation.toml")
    assert {variant.paper for variant in ablation.variants} - {None} == {line.method for line in ABLATIONS}
    crossed = read_generalisation(folder / "generalisation.toml")
    assert [entry.name for entry in crossed.sets] == [entry.name for entry in ablation.sets] == list(FIXED_SETS)
    made = [variant for variant in crossed.variants if variant.trained_here]
    assert [variant.trained_on for variant in made] == [*FIXED_SETS, None]


SETS = "[sets.sim-easy]\n"
ROW = '[rows.a]\nmethod = "qrs"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[sets.sim-easy", "cannot be read"),
        (ROW, r"there are no sets: name at least one as \[sets.NAME\]"),
        (SETS, "there are no rows"),
        ("colour = 3\n" + SETS + ROW, "unknown key colour; known are at, charts"),
        (SETS + ROW + "frame = 3", r"rows.a: unknown key frame; known are .*frames"),
        ("[sets.sim-hard]\n" + ROW, "unknown set 'sim-hard': give its root and layout, or name one of sim-easy"),
        ("[sets.sim-easy]\nscenes = 21\n" + ROW, r"a fixed set takes scenes \(up to 20\) and size alone"),
        ("[sets.sim-easy]\nscenes = 0\n" + ROW, "scenes must be 1 or more, got 0"),
        ("[sets.sim-easy]\nscenes = true\n" + ROW, "scenes must be a whole number, got True"),
        ('[sets.sim-easy]\nsize = "big"\n' + ROW, "a size is WIDTHxHEIGHT"),
        ('[sets.sim-easy]\nsize = "0x0"\n' + ROW, "a size is WIDTHxHEIGHT.* got '0x0'"),
        ('[sets.sim-easy]\nsize = "100000x100000"\n' + ROW, "at most 134 million pixels; got '100000x100000'"),
        ('[sets.sim-easy]\nsize = "' + "9" * 5000 + 'x1"\n' + ROW, "a size is WIDTHxHEIGHT"),
        ("[sets.sim-easy]\nscenes = " + "1" * 400 + "\n" + ROW, "scenes must be a whole number, got 111"),
        ('[sets.x]\nroot = "."\nlayout = "sim"\ngamma = nan\n' + ROW, "gamma must be a number, got nan"),
        ('[sets.x]\nroot = "."\nlayout = "sim"\ngamma = ' + "1" * 400 + "\n" + ROW, "gamma must be a number, got 111"),
        ('[sets.x]\nroot = "."\nlayout = "sim"\ngamma = 2\n' + ROW, "sets.x: gamma must be a number from 0 to 1"),
        ("a = " + "[" * 5000, "nested more than 64 levels deep"),
        ("a" + ".a" * 500 + " = 1", "nested more than 64 levels deep"),
        (SETS + "[rows.a]\nnetwork = { depths = [10000000, 1, 1, 1] }", "depths must be 4 whole numbers from 0 to 32"),
        (SETS + "[rows.a]\nnetwork = { widths = { a = 1 } }", "widths must be 4 whole numbers"),
        ('[sets.x]\nroot = "nowhere"\nlayout = "sim"\n' + ROW, "there is no folder .*nowhere"),
        ('[sets.x]\nroot = "."\n' + ROW, "needs its layout"),
        ('[sets.x]\nroot = "."\nlayout = "kitti"\n' + ROW, "layout must be one of carla"),
        ('[sets.x]\nroot = "."\nlayout = "acc"\n' + ROW, "acc and a list .* need each other"),
        ('[sets.x]\nroot = "."\nlayout = "acc"\nlist = "l.txt"\n' + ROW, "there is no list .*l.txt"),
        ('[sets.x]\nroot = "."\nlayout = "sim"\nscan = "top-down"\n' + ROW, "together with gamma"),
        ('at = "first"\n[sets.x]\nroot = "."\nlayout = "bsrsc"\n' + ROW, "bsrsc has no truth at the first row"),
        ('metrics = ["psrn"]\n' + SETS + ROW, "unknown metrics psrn; known: psnr"),
        ("metrics = [1]\n" + SETS + ROW, "metrics must be a list of words"),
        (SETS + '[rows."a/b"]\nmethod = "qrs"', "a name is made of letters"),
        (SETS + '[rows.a]\nmethod = "qsr"', "unknown method 'qsr'; choose from rs, linear"),
        (SETS + '[rows.a]\nmethod = "qrs"\nmotion = "linear"', "are for networks, not for a method"),
        (SETS + '[rows.a]\nmethod = "qrs"\nweights = "b.safetensors"', "one of method, weights and weights_of"),
        (SETS + '[rows.a]\nweights = "rsa3"', "a .safetensors file, or of the package: .*rsa2-lite.* got 'rsa3'"),
        (SETS + '[rows.a]\nmotion = "cubic"', "motion must be one of path, quadratic, linear, none"),
        (SETS + "[rows.a]\nframes = 6", "frames must be one of 3, 4, 5; got 6"),
        (SETS + "[rows.a]\nnetwork = { tabs = 3 }", "the network rsa2 has no option tabs; it has .*taps"),
        (SETS + '[rows.a]\nnetwork = { encoder = "vit" }', "unknown encoder 'vit'"),
        (SETS + ROW + '[rows.b]\nweights_of = "a"', r"rows.b: weights_of must be a row with weights of its own"),
        (
            SETS + '[rows.a]\n[rows.b]\nweights_of = "a"\nmotion = "none"',
            "with weights_of, the motion, kind and network are those of the other row",
        ),
        (SETS + '[rows.a]\nmethod = "qrs"\npaper = "ours"', "paper must be one of no-field"),
        (SETS + ROW + '[charts.c]\nrows = ["b"]', "charts.c: rows must name some of a; got b"),
        (SETS + ROW + "[charts]\nc = 3", "charts.c must be a table, got 3"),
    ],
)
def test_mistakes_of_an_ablation(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        read_ablation(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SETS, "there are no checkpoints"),
        (SETS + '[checkpoints.a]\nmethod = "qrs"\nweights = "a.safetensors"', "give one of method and weights"),
        (
            '[sets.mine]\nroot = "."\nlayout = "sim"\n[checkpoints.a]\ntrained_on = "mine"',
            r"checkpoints.a: give its weights: .* \(`qrsc train fusion --data` trains on mine\)",
        ),
        (
            SETS + '[checkpoints.a]\nmethod = "qrs"\ntrained_on = "sim-shake"',
            "one of the sets sim-easy; got 'sim-shake'",
        ),
        (
            SETS + "".join(f'[checkpoints.{n}]\nweights = "{n}.safetensors"\ntrained_on = "sim-easy"\n' for n in "ab"),
            "two checkpoints were trained on sim-easy",
        ),
        (SETS + '[checkpoints.a]\nmethod = "qrs"\npaper = "full"', "unknown key paper"),
    ],
)
def test_mistakes_of_a_generalisation(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        read_generalisation(written(tmp_path, text))


def test_networks_without_weights_are_no_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, SETS + '[rows.a]\nmethod = "rsa2-lite"')
    assert read_ablation(path).variants[0].method == "rsa2-lite"
    monkeypatch.setattr(manifest_module, "FUSIONS", ("none", "mean"))
    with pytest.raises(ManifestError, match="the weights of rsa2-lite do not come with this version"):
        read_ablation(path)


def test_files_that_are_no_manifests(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"there is no manifest .*none\.toml"):
        read_ablation(tmp_path / "none.toml")
    with pytest.raises(ManifestError, match=r"a \.toml or a \.json file"):
        read_ablation(written(tmp_path, "", "study.yaml"))
    with pytest.raises(ManifestError, match="must hold a table at its top, not list"):
        read_ablation(written(tmp_path, "[]", "study.json"))


@pytest.mark.parametrize("title", ["Carla-RS", "Fastec-RS", "BS-RSC"])
def test_the_papers_full_model_has_the_same_figures_in_both_of_its_tables(title: str) -> None:
    assert ablation_figures("full", title, "middle") == paper_figures(title, "middle")
    assert ablation_figures("full", title, "first") == {}
    assert ablation_figures("3-frames", title, "middle")["psnr"] < ablation_figures("4-frames", title, "middle")["psnr"]
