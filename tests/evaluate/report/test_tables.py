"""Means, tables, charts and the contact sheet of the worst frames."""

from __future__ import annotations

import json
import math
from pathlib import Path

from qrsc.evaluate.report.tables import format_rows, frame_rows
from qrsc.evaluate.report.worst_frames import write_charts, write_worst
from qrsc.evaluate.run.plan import evaluate
from qrsc.evaluate.run.scores import FrameScore, mean_rows
from qrsc.media.image_folder import read_frame

from ..plans import plan

ROWS = [
    {"set": "Carla-RS", "method": "rs", "at": "middle", "frames": 2, "psnr": 20.0, "ssim": 0.5},
    {"set": "Carla-RS", "method": "qrs", "at": "middle", "frames": 2, "psnr": math.inf, "ssim": 1.0},
    {"set": "Carla-RS", "method": "qrs", "at": "first", "frames": 2, "psnr": 30.0},
]


def test_means_pass_over_what_does_not_apply() -> None:
    scores = [
        FrameScore("s", "a", 0, "middle", "m", {"psnr": 20.0, "epe": 1.0}),
        FrameScore("s", "a", 1, "middle", "m", {"psnr": 30.0}),
        FrameScore("s", "a", 0, "first", "m", {"psnr": 10.0}),
    ]
    assert mean_rows(scores) == [
        {"set": "s", "method": "m", "at": "middle", "frames": 2, "psnr": 25.0, "epe": 1.0},
        {"set": "s", "method": "m", "at": "first", "frames": 1, "psnr": 10.0},
    ]
    assert frame_rows(scores).splitlines()[:2] == ["set,sequence,frame,at,method,psnr,epe", "s,a,0,middle,m,20.0,1.0"]


def test_tables_hold_the_paper_where_set_and_instant_match() -> None:
    text = format_rows(ROWS, "text").splitlines()
    assert text[2].split() == [
        "Carla-RS",
        "middle",
        "rs",
        "2",
        "20.00",
        "0.5000",
        "32.01",
        "/",
        "0.9330",
        "/",
        "0.0253",
    ]
    assert text[4].split() == ["Carla-RS", "first", "qrs", "2", "30.00", "–", "–"]
    assert "11x11 Gaussian window" in text[-1]
    markdown = format_rows(ROWS, "markdown", others=True)
    assert "| Carla-RS | middle | (JAMNet) | all | 30.70 | 0.9050 | – |" in markdown
    assert "| Carla-RS | first | (CVR) | all | 31.74 | 0.9290 | – |" in markdown
    assert "paper" not in format_rows([{**ROWS[0], "set": "mine"}], "text")


def test_json_and_csv_hold_all_digits() -> None:
    rows = json.loads(format_rows(ROWS, "json"))
    assert [row["psnr"] for row in rows] == [20.0, None, 30.0]
    assert list(rows[0])[:6] == ["set", "method", "at", "frames", "psnr", "ssim"]
    assert rows[0]["paper_psnr"] == 32.01
    assert "paper_psnr" not in rows[2]
    lines = format_rows(ROWS, "csv").splitlines()
    assert lines[0].startswith("set,method,at,frames,psnr,ssim,paper_psnr")
    assert lines[1].startswith("Carla-RS,rs,middle,2,20.0,0.5,32.01")


def test_charts_and_contact_sheet(sim_set: Path, tmp_path: Path) -> None:
    chosen = plan(sim_set, methods=("rs", "linear"))
    scores = evaluate(chosen)
    written = write_charts(tmp_path, mean_rows(scores), scores, "caption")
    assert {path.name for path in written} == {"psnr.svg", "frames_mini_middle.svg"}
    assert "caption" in written[0].read_text()
    write_worst(tmp_path / "worst.png", chosen, scores, "linear")
    sheet = read_frame(tmp_path / "worst.png").frame
    assert sheet.shape == (3, 6 * 72 + 5 * 4, 4 * 96 + 3 * 4)
    worst = min((s for s in scores if s.method == "linear"), key=lambda s: s.figures["psnr"])
    truth = read_frame(sim_set / worst.sequence / "GS_middle" / f"{worst.frame:05d}.png").frame
    corner = sheet[:, 40:72, 2 * (96 + 4) : 2 * (96 + 4) + 96]
    assert (corner - truth[:, 40:]).abs().max() < 1e-6, "third in the first row, below its label"
