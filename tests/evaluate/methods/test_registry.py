"""Methods by name, and methods of others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from qrsc.evaluate.methods.registry import (
    METHODS,
    FrameFolder,
    load_method,
    method_fingerprint,
    parse_folder,
    unchanged,
    windowed,
)
from qrsc.evaluate.methods.shared_flow import shared_flow
from qrsc.evaluate.run.plan import evaluate
from qrsc.evaluate.run.scores import mean_rows
from qrsc.timing import Readout
from qrsc.weights import card

from ..plans import plan


def test_a_fusion_network_is_known_by_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = card("rsa2-lite")["sha256"]
    assert method_fingerprint("rsa2-lite").endswith(f"@{sha256}")
    assert "@" not in method_fingerprint("multi-path")
    assert len({method_fingerprint(name) for name in METHODS}) == len(METHODS)
    monkeypatch.setattr("qrsc.evaluate.methods.registry.card", lambda name: {"sha256": "trained again"})
    assert method_fingerprint("rsa2-lite").endswith("@trained again")


def test_the_table_of_methods_is_read_only() -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        METHODS["mine"] = lambda flow: unchanged  # type: ignore[index]  # which is the point


def mirrored(frames: Tensor, readout: Readout, tau: float) -> Tensor:
    """Takes the whole clip at once."""
    return torch.stack(list(frames)).flip(-1)


def too_few(frames: Tensor, readout: Readout, tau: float) -> list[Tensor]:
    return list(frames)[1:]


def too_small(frames: Tensor, readout: Readout, tau: float) -> list[Tensor]:
    return [frame[..., 1:] for frame in frames]


def test_functions_of_others_are_scored(sim_set: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "their_network.py").write_text("def run(frames, readout, tau):\n    return [f * 0 for f in frames]\n")
    monkeypatch.chdir(tmp_path)
    table = {**METHODS, "mirrored": lambda flow: mirrored}
    rows = mean_rows(evaluate(plan(sim_set, methods=("mirrored", "their_network:run", "rs"), table=table)))
    assert [row["method"] for row in rows] == ["mirrored", "their_network:run", "rs"]
    assert rows[1]["psnr"] < rows[0]["psnr"] < rows[2]["psnr"]


@pytest.mark.parametrize(
    ("method", "message"), [(too_few, "fewer frames than the 4"), (too_small, r"got \[3, 72, 95\]")]
)
def test_wrong_results_are_refused(sim_set: Path, method: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(plan(sim_set, methods=("wrong",), table={"wrong": lambda flow: method}))


def test_unknown_methods_are_refused(sim_set: Path) -> None:
    flow = shared_flow("dis")
    with pytest.raises(ValueError, match="unknown method 'qsr'; choose from rs, linear"):
        load_method("qsr", flow)
    with pytest.raises(ValueError, match="no_such_module:run could not be imported"):
        load_method("no_such_module:run", flow)
    with pytest.raises(ValueError, match="is no function"):
        load_method("math:pi", flow)
    with pytest.raises(ValueError, match="two methods called qrs"):
        evaluate(plan(sim_set, folders={"qrs": FrameFolder(sim_set)}))
    with pytest.raises(ValueError, match="NAME=DIR"):
        parse_folder("name")
    with pytest.raises(FileNotFoundError, match="no folder nowhere"):
        parse_folder("name=nowhere")


@pytest.mark.parametrize("length", [1, 2, 6])
@pytest.mark.parametrize("window", [1, 2, 3, 5])
def test_windows_repeat_the_ends(length: int, window: int) -> None:
    clip = torch.arange(length).float().reshape(-1, 1, 1, 1).expand(-1, 3, 2, 2)
    seen = []

    def correct(frames: Tensor, readout: Readout, tau: float) -> Tensor:
        seen.append([int(value) for value in frames[:, 0, 0, 0]])
        return frames[window // 2]

    result = list(windowed(correct, window)(clip, Readout(1.0), 0.5))
    assert torch.equal(torch.stack(result), clip)  # type: ignore[arg-type]  # tensors, not results
    first = -(window // 2)
    assert seen == [[min(max(k + first + j, 0), length - 1) for j in range(window)] for k in range(length)]
