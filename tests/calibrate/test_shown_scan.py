from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qrsc.calibrate.report import CalibrationReport
from qrsc.calibrate.shown_scan import as_shown, scan_in_words, shown_scan, stored_scan, turning
from qrsc.media.orientation import IDENTITY, Matrix
from qrsc.media.probe import probe
from qrsc.timing import SCANS, Scan
from qrsc.video.readout import choose_scan
from tests.calibrate.test_decision import FOUND
from tests.videos import Recipe, make_video, texture_frames

ONE = 65536
CLOCKWISE: Matrix = (0, ONE, 0, -ONE, 0, 0, 0, 0, 1 << 30)  # what is on top is shown on the right
HALF: Matrix = (-ONE, 0, 0, 0, -ONE, 0, 0, 0, 1 << 30)
MIRRORED: Matrix = (-ONE, 0, 0, 0, ONE, 0, 0, 0, 1 << 30)


@pytest.mark.parametrize(
    ("matrix", "stored", "shown", "words"),
    [
        (IDENTITY, "top-down", "top-down", ""),
        (CLOCKWISE, "top-down", "right-left", "turned by 90° clockwise"),
        (HALF, "top-down", "bottom-up", "turned by 180° clockwise"),
    ],
)
def test_the_scan_is_turned_with_the_picture(matrix: Matrix, stored: Scan, shown: Scan, words: str) -> None:
    assert shown_scan(stored, matrix) == shown
    assert turning(matrix) == words
    said = scan_in_words(stored, matrix)
    assert said.startswith(shown)
    assert words in said
    assert (f"read {stored}" in said) == bool(words)


@pytest.mark.parametrize("matrix", [IDENTITY, CLOCKWISE, HALF, MIRRORED])
def test_both_ways_are_inverse(matrix: Matrix) -> None:
    assert [stored_scan(shown_scan(scan, matrix), matrix) for scan in SCANS] == list(SCANS)


@pytest.mark.parametrize("matrix", [IDENTITY, CLOCKWISE, HALF, MIRRORED])
def test_what_calibrate_reports_can_be_given_to_correct(tmp_path: Path, matrix: Matrix) -> None:
    report = CalibrationReport(Path("clip.mp4"), FOUND, 30.0, matrix=matrix)
    scan: Scan = report.figures()["scan"]
    info = replace(probe(make_video(tmp_path / "in.mp4", Recipe(texture_frames(2)))), matrix=matrix)
    assert choose_scan(scan, info) == FOUND.scan
    assert f"scan      {scan}" in report.text()
    assert turning(matrix) in report.text()


def test_the_curve_is_turned_too() -> None:
    found = replace(FOUND, curve_gammas=np.array([-1.0, 0.0, 0.5]), curve_costs=np.array([3.0, 2.0, 1.0]))
    assert as_shown(found, IDENTITY).curve_gammas.tolist() == [-1.0, 0.0, 0.5]
    turned = as_shown(found, HALF)
    assert turned.scan == "top-down"
    assert turned.curve_gammas.tolist() == [-0.5, 0.0, 1.0]
    assert turned.curve_costs.tolist() == [1.0, 2.0, 3.0]


def test_a_clip_that_no_readout_explains_is_reported_so() -> None:
    report = CalibrationReport(Path("clip.mp4"), replace(FOUND, determined=False, altered=True, reason="why"), 30.0)
    assert report.text().startswith("gamma     not determined: no single readout explains this clip\nwhy       why")
    assert report.figures()["altered"] is True
