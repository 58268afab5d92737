"""Training states that are damaged, or of something else."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from qrsc.learn.trainer.schedule import Schedule
from qrsc.learn.trainer.state import LIST, TrainingState, load_state, save_state
from qrsc.weights import WeightsError, file_sha256

PART = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}


def test_a_state_is_loaded_as_it_was_saved(tmp_path: Path) -> None:
    save_state(tmp_path, TrainingState(7, 1.5, PART, PART, PART, PART))
    state = load_state(tmp_path)
    assert (state.step, state.minutes) == (7, 1.5)
    for part in (state.network, state.average, state.first_moments, state.second_moments):
        torch.testing.assert_close(part, PART)


LISTINGS: dict[str, tuple[Any, str]] = {
    "no table": ([], "step, minutes and files were expected"),
    "no files": ({"files": 3}, "step, minutes and files were expected"),
    "negative": ({"step": -1}, "step, minutes and files were expected"),
    "a list": ({"step": [7]}, "step, minutes and files were expected"),
    "true": ({"step": True}, "step, minutes and files were expected"),
    "large": ({"step": 10**400}, "step, minutes and files were expected"),
    "nan": ({"minutes": float("nan")}, "step, minutes and files were expected"),
    "text": ({"minutes": "1"}, "step, minutes and files were expected"),
    "elsewhere": ({"files": {"../state-7-1.safetensors": "0"}}, "is no file of a training state"),
    "hash": ({"files": {"state-7-1.safetensors": 5}}, "is no file of a training state"),
    "absent": ({"files": {"state-8-1.safetensors": "0"}}, "state-8-1.safetensors is missing"),
}


@pytest.mark.parametrize(("change", "message"), LISTINGS.values(), ids=LISTINGS)
def test_a_hostile_list_of_files(change: Any, message: str, tmp_path: Path) -> None:
    save_state(tmp_path, TrainingState(7, 1.5, PART, PART, PART, PART))
    listing = json.loads((tmp_path / LIST).read_text())
    (tmp_path / LIST).write_text(json.dumps(listing | change if isinstance(change, dict) else change))
    with pytest.raises(WeightsError, match=message) as caught:
        load_state(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_list_that_is_no_json(tmp_path: Path) -> None:
    (tmp_path / LIST).write_text("[" * 5000)
    with pytest.raises(WeightsError, match=r"state\.json cannot be read: it is nested"):
        load_state(tmp_path)


TENSORS: dict[str, tuple[dict[str, torch.Tensor], str]] = {
    "unknown part": ({"others.bias": torch.zeros(2)}, "holds others.bias"),
    "dtype": ({"network.bias": torch.zeros(2, dtype=torch.float8_e4m3fn)}, "as torch.float8_e4m3fn"),
    "unknown name": ({"average.more": torch.zeros(2)}, "average.more does not fit"),
    "shape": ({"second_moments.bias": torch.zeros(3)}, "second_moments.bias does not fit"),
    "nan": ({"network.bias": torch.full((2,), torch.nan)}, "network.bias does not fit"),
    "one moment": ({"first_moments.bias": torch.zeros(2)}, "some moments are missing"),
}


@pytest.mark.parametrize(("change", "message"), TENSORS.values(), ids=TENSORS)
def test_hostile_tensors_of_a_state(change: dict[str, torch.Tensor], message: str, tmp_path: Path) -> None:
    held = {"network.weight": torch.ones(2, 3), "network.bias": torch.zeros(2)} | change
    path = tmp_path / "state-7-1.safetensors"
    save_file(held, path)
    listing = {"step": 7, "minutes": 1.5, "files": {path.name: file_sha256(path)}}
    (tmp_path / LIST).write_text(json.dumps(listing))
    with pytest.raises(WeightsError, match=message) as caught:
        load_state(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_state_without_some_averages_cannot_be_resumed() -> None:
    pytest.importorskip("pytorch_lightning", reason="training needs the extra 'train'")
    from qrsc.learn.trainer.lightning_module import NetworkTraining

    task = SimpleNamespace(network=torch.nn.Linear(3, 2))
    module = NetworkTraining(task, Schedule(minutes=math.inf, steps=9, peak=1e-3))
    with pytest.raises(WeightsError, match="no moving average of some weights"):
        module.restore(TrainingState(7, 1.5, PART, {"bias": PART["bias"]}, {}, {}))
