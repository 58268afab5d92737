"""Records of finished sequences, and the arrays beside simulated clips, that are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from qrsc.evaluate.methods.shared_flow import _load
from qrsc.evaluate.run.record import RECORD_FILE, Record
from qrsc.evaluate.run.scores import FrameScore
from qrsc.simulate.output.writers import TRUTH_FILE, TruthWriter, read_truth

SCORE = FrameScore("set", "sequence", 1, "middle", "qrs", {"psnr": 30.0})


@pytest.mark.parametrize("line", ['{"key": "a", "sco', "[" * 5000, "\\x00\\xff", "", "{" * 3])
def test_a_line_that_was_not_finished_is_left_out(line: str, tmp_path: Path) -> None:
    Record(tmp_path).add("whole", [SCORE])
    with (tmp_path / RECORD_FILE).open("a") as file:
        file.write("\n" + line)
    found = Record(tmp_path)
    assert found.scores("whole") == [SCORE]
    found.add("another", [SCORE])
    assert Record(tmp_path).scores("another") == [SCORE]


@pytest.mark.parametrize(
    "entry", [3, [], {}, {"key": "a"}, {"key": "a", "scores": 3}, {"key": "a", "scores": [{"psnr": 3}]}]
)
def test_a_line_of_something_else_is_refused_by_name(entry: object, tmp_path: Path) -> None:
    (tmp_path / RECORD_FILE).write_text(json.dumps(entry))
    with pytest.raises(ValueError, match=rf"line 1 of .*{RECORD_FILE} holds no figures of a sequence"):
        Record(tmp_path)


def test_damaged_truths_are_refused_by_name(tmp_path: Path) -> None:
    with TruthWriter(tmp_path / TRUTH_FILE) as truth:
        truth.add(0, {"flow_next": torch.rand(2, 4, 6)})
    assert read_truth(tmp_path, "flow_next", 0, (4, 6)).shape == (2, 4, 6)
    with pytest.raises(ValueError, match=r"flow_next/00000 in .*truth\.npz has the shape \(2, 4, 6\); .* are 8x4"):
        read_truth(tmp_path, "flow_next", 0, (4, 8))
    with pytest.raises(ValueError, match=r"truth\.npz has no 'flow_prev' for frame 0; it has flow_next"):
        read_truth(tmp_path, "flow_prev", 0)
    (tmp_path / TRUTH_FILE).write_bytes((tmp_path / TRUTH_FILE).read_bytes()[:200])
    with pytest.raises(ValueError, match=r"truth\.npz cannot be read as an \.npz archive"):
        read_truth(tmp_path, "flow_next", 0)


def test_flows_kept_from_another_run_that_do_not_fit(tmp_path: Path) -> None:
    frame = torch.zeros(1, 3, 4, 6)
    for name, channels in (("a.npy", 2), ("a.npy", 3), ("a-filled.npy", 3)):
        np.save(tmp_path / name, np.ones((2, channels, 4, 6), np.float32))
        assert _load(tmp_path / name, frame).shape == (2, channels, 4, 6)
    np.save(tmp_path / "a-filled.npy", np.ones((2, 2, 4, 6), np.float32))
    with pytest.raises(ValueError, match=r"a-filled\.npy has the shape \(2, 2, 4, 6\), and is no flow of these frames"):
        _load(tmp_path / "a-filled.npy", frame)
    (tmp_path / "a.npy").write_bytes(b"")
    with pytest.raises(ValueError, match=r"a\.npy cannot be read as an \.npy file"):
        _load(tmp_path / "a.npy", frame)
