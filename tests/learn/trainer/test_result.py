from __future__ import annotations

from pathlib import Path

from torch import nn

from qrsc.learn.trainer.result import TrainingResult


def test_the_summary_holds_heading_table_and_file() -> None:
    weights = Path("run") / "flow.safetensors"
    result = TrainingResult(nn.Identity(), weights, 4, {"trained": 1.5}, "errors on 4 pairs:", "| trained | 1.5 |")
    assert result.summary() == f"errors on 4 pairs:\n\n| trained | 1.5 |\n\nwrote {weights}"
