"""Tables and pictures of the studies, from figures made up by hand."""

from __future__ import annotations

import csv
import io
import json
import math
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from qrsc.evaluate.report.heat_map import Cell, heat_map
from qrsc.evaluate.studies.ablation import ablation_rows, chart_names, format_ablation, write_ablation_charts
from qrsc.evaluate.studies.entries import DataEntry, Manifest, Variant
from qrsc.evaluate.studies.generalisation import (
    format_generalisation,
    generalisation_rows,
    relative_decline,
    write_heat_maps,
)

from .toys import scored

SVG = "{http://www.w3.org/2000/svg}"
GONE = Path("gone.safetensors")


def test_an_ablation_has_the_papers_row_beside_ours(tmp_path: Path) -> None:
    manifest = Manifest(
        Path("study.toml"),
        (DataEntry("street", Path("data"), "bsrsc"), DataEntry("made up", Path("sim"), "sim")),
        (
            Variant("solver", "qrs", paper="solver"),
            Variant("full", weights="rsa2-lite", paper="full"),
            Variant("no field", weights=GONE, paper="no-field"),
        ),
        {"Two of them": ("full", "solver")},
    )
    scores = scored("street", "solver", psnr=30.0, ssim=0.5) + scored("street", "full", psnr=32.0, ssim=0.5)
    scores += scored("made up", "full", psnr=40.0, ssim=0.5) + scored("made up", "solver", psnr=38.0, ssim=0.5)
    rows = ablation_rows(manifest, scores)
    assert [(row["set"], row["method"], row["frames"]) for row in rows] == [
        ("street", "solver", 2),
        ("street", "full", 2),
        ("street", "no field", 0),
        ("made up", "solver", 2),
        ("made up", "full", 2),
        ("made up", "no field", 0),
    ]
    table = format_ablation(manifest, rows, "markdown").splitlines()
    assert table[2] == "| street | middle | solver | 2 | 30.00 | 0.5000 | – / 0.9130 / 0.0517 |"
    assert table[3] == "| street | middle | full | 2 | 32.00 | 0.5000 | 33.50 / 0.9460 / 0.0299 |"
    assert table[4] == "| street | middle | no field (no weights) | 0 | – | – | 32.36 / 0.9380 / 0.0331 |"
    assert table[6] == "| made up | middle | full | 2 | 40.00 | 0.5000 | – |"
    as_json = json.loads(format_ablation(manifest, rows, "json"))
    assert (as_json[1]["method"], as_json[1]["psnr"], as_json[1]["paper_lpips"]) == ("full", 32.0, 0.0299)
    assert (as_json[2]["method"], as_json[2]["missing"]) == ("no field", "gone.safetensors")
    assert "psnr" not in as_json[2]
    as_csv = list(csv.DictReader(io.StringIO(format_ablation(manifest, rows, "csv"))))
    assert (as_csv[2]["psnr"], as_csv[2]["missing"], as_csv[1]["paper_psnr"]) == ("", "gone.safetensors", "33.5")

    files = write_ablation_charts(tmp_path, manifest, rows, "made by hand")
    assert [path.name for path in files] == ["Two_of_them_psnr.svg", "Two_of_them_ssim.svg"]
    assert {path.name for path in files} <= set(chart_names(manifest))
    bars = list(ElementTree.fromstring(files[0].read_text()).iter(f"{SVG}rect"))[1:5]
    heights = [float(bar.attrib["height"]) for bar in bars]  # of street: full, solver; of made up: the same
    assert heights[0] / heights[1] == pytest.approx(32 / 30, abs=0.01)
    assert heights[2] / heights[3] == pytest.approx(40 / 38, abs=0.01)


def test_rows_are_held_against_the_full_model() -> None:
    variants = (
        Variant("solver", "qrs", paper="solver"),
        Variant("ours", weights="rsa2-lite", paper="full"),
        Variant("no field", weights=GONE, paper="no-field"),
        Variant("linear", "linear"),
    )
    sets = (DataEntry("A", Path("a"), "sim"), DataEntry("B", Path("b"), "sim"))
    scores = [
        *scored("A", "ours", psnr=40.0),
        *scored("B", "ours", psnr=30.0),
        *scored("A", "solver", psnr=38.0),
        *scored("B", "solver", psnr=31.0),
        *scored("A", "linear", psnr=37.0),
    ]
    manifest = Manifest(Path("study.toml"), sets, variants)
    rows = ablation_rows(manifest, scores)
    table = format_ablation(manifest, rows, "markdown").split("| row |")[1].splitlines()
    assert table[0] == " A | B | against full | paper, Carla-RS | paper, Fastec-RS | paper, BS-RSC |"
    assert table[2] == "| solver | 38.00 | 31.00 | -0.50 | – | – | – |"
    assert table[3] == "| ours | 40.00 | 30.00 | +0.00 | 32.01 (+0.00) | 29.49 (+0.00) | 33.50 (+0.00) |"
    assert table[4] == "| no field (no weights) | – | – | – | 30.92 (-1.09) | 28.72 (-0.77) | 32.36 (-1.14) |"
    assert table[5] == "| linear | 37.00 | – | – | – | – | – |"
    assert "more than ours; the paper's rows on its own data sets" in table[7]
    # Not where there is no full model to hold against, nor in what programs read.
    part = [row for row in rows if (row["method"], row["set"]) != ("ours", "B")]
    alone = replace(manifest, variants=variants[2:])
    assert "against full" not in format_ablation(alone, ablation_rows(alone, scores), "text")
    lacking = format_ablation(manifest, [*part, {"set": "B", "method": "ours", "at": "middle", "frames": 0}], "text")
    assert "against full" not in lacking
    assert "against" not in format_ablation(manifest, rows, "csv")


def test_relative_decline_is_the_papers() -> None:
    assert relative_decline(0.81, 0.9) == pytest.approx(0.1)
    assert relative_decline(0.9, 0.9) == 0.0
    assert relative_decline(0.99, 0.9) == pytest.approx(-0.1)
    for score, own in ((math.inf, 30.0), (30.0, math.nan), (0.1, 0.0)):
        assert math.isnan(relative_decline(score, own))


@pytest.fixture
def crossed() -> tuple[Manifest, list[dict[str, object]]]:
    sets = (
        DataEntry("A", Path("a"), "carla"),
        DataEntry("B", Path("b"), "sim"),
        DataEntry("C", Path("c"), "sim"),
    )
    variants = (
        Variant("on A", weights="rsa2-lite", trained_on="A"),
        Variant("on B", weights="rsa2-lite", trained_on="B"),
        Variant("on C", weights=GONE, trained_on="C"),
        Variant("solver", "qrs"),
    )
    scores = [
        *scored("A", "on A", psnr=40.0, lpips=0.5),
        *scored("B", "on A", psnr=27.0, lpips=0.75),
        *scored("C", "on A", psnr=20.0, lpips=0.5),
        *scored("A", "on B", psnr=38.0, lpips=0.5),
        *scored("B", "on B", psnr=30.0, lpips=0.5),
        *scored("C", "on B", psnr=20.0, lpips=0.5),
        *scored("A", "solver", psnr=44.0, lpips=0.25),
        *scored("B", "solver", psnr=30.001, lpips=0.5),
        *scored("C", "solver", psnr=20.0, lpips=0.5),
    ]
    manifest = Manifest(Path("study.toml"), sets, variants)
    return manifest, generalisation_rows(manifest, scores)


def test_every_checkpoint_on_every_set(crossed: tuple[Manifest, list[dict[str, object]]]) -> None:
    manifest, rows = crossed
    found = {(row["checkpoint"], row["set"]): row for row in rows}
    assert len(found) == 12
    assert found["on A", "A"]["rde_psnr"] == 0.0
    assert found["on A", "B"]["rde_psnr"] == pytest.approx(1 - 27 / 30)  # trained on A, tested on B: against on B
    assert found["on B", "A"]["rde_psnr"] == pytest.approx(1 - 38 / 40)
    assert found["solver", "A"]["rde_psnr"] == pytest.approx(1 - 44 / 40)
    assert found["on A", "B"]["rde_lpips"] == pytest.approx(-0.5)
    # Of C's own checkpoint there are no weights: nothing to compare with, and nothing is made up.
    assert "rde_psnr" not in found["on A", "C"]
    assert found["on C", "A"] == {
        "checkpoint": "on C",
        "trained_on": "C",
        "set": "A",
        "at": "middle",
        "frames": 0,
        "missing": "gone.safetensors",
    }
    table = format_generalisation(manifest, rows, "markdown").splitlines()
    # At the end the worst on other sets than its own; of the solver all are.
    assert table[4] == "| on A | A | 40.00 (+0.000) | 27.00 (+0.100) | 20.00 | +0.100 |"
    assert table[5] == "| on B | B | 38.00 (+0.050) | 30.00 (+0.000) | 20.00 | +0.050 |"
    assert table[6] == "| on C (no weights) | C | – | – | – | – |"
    assert table[7] == "| solver | – | 44.00 (-0.100) | 30.00 (+0.000) | 20.00 | +0.000 |"
    assert table[8] == "| (the paper) | each set | 32.01 | – | – | – |"
    assert "| on A | A | 0.5000 (+0.000) | 0.7500 (-0.500) | 0.5000 | -0.500 |" in table
    text = format_generalisation(manifest, rows, "text")
    assert "LPIPS at the middle row" in text
    assert "under 0.1 on SSIM" in text
    assert json.loads(format_generalisation(manifest, rows, "json"))[1]["rde_psnr"] == pytest.approx(0.1)
    as_csv = list(csv.DictReader(io.StringIO(format_generalisation(manifest, rows, "csv"))))
    assert float(as_csv[1]["rde_psnr"]) == pytest.approx(0.1)


def test_heat_maps_of_the_decline(tmp_path: Path, crossed: tuple[Manifest, list[dict[str, object]]]) -> None:
    manifest, rows = crossed
    files = write_heat_maps(tmp_path, manifest, rows, "made by hand")
    assert [path.name for path in files] == ["decline_psnr.svg", "decline_lpips.svg"]
    psnr, lpips = (colours(path.read_text()) for path in files)
    assert len(psnr) == 12
    white, grey = "#ffffff", "#eaeef2"
    assert (psnr[0], psnr[4], psnr[10]) == (white, white, white)  # on their own sets, and the solver as good as on B
    assert (psnr[2], psnr[6]) == (grey, grey)
    assert is_orange(psnr[1])
    assert is_orange(psnr[3])
    assert is_blue(psnr[9])
    # Of LPIPS less is better: more of it is a decline whatever the sign of the paper's formula.
    assert is_orange(lpips[1])
    assert is_blue(lpips[9])


def test_heat_map_scale_and_shape() -> None:
    small = heat_map("t", ["a"], ["x", "a very long name of a set"], [[Cell(0.01, "+0.01"), Cell(math.nan, "–")]])
    strong = heat_map("t", ["a"], ["x", "y"], [[Cell(0.4, "+0.40"), Cell(0.2, "+0.20")]])
    # The strongest colour is 0.1 at least: one per cent looks like little.
    assert colours(small)[0] == "#fbefe6"
    assert colours(strong)[0] == "#d55e00"
    assert "worse by 0.1<" in small
    assert "worse by 0.4<" in strong
    assert "a very long na…" in small
    with pytest.raises(ValueError, match="1 rows of 2 cells were expected"):
        heat_map("t", ["a"], ["x", "y"], [[Cell(0.0, "")]])


def colours(picture: str) -> list[str]:
    """Of the cells, which have an outline."""
    return [
        rect.attrib["fill"] for rect in ElementTree.fromstring(picture).iter(f"{SVG}rect") if "stroke" in rect.attrib
    ]


def is_orange(colour: str) -> bool:
    return int(colour[1:3], 16) > int(colour[5:7], 16)


def is_blue(colour: str) -> bool:
    return int(colour[1:3], 16) < int(colour[5:7], 16)
