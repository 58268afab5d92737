"""Weights: loaded by name, verified by hash, matched strictly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from qrsc import weights


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    save_file({"weight": torch.ones(2, 3, dtype=torch.float16), "bias": torch.zeros(2)}, tmp_path / "small.safetensors")
    digest = weights.file_sha256(tmp_path / "small.safetensors")
    (tmp_path / "small.json").write_text(f'{{"sha256": "{digest}", "licence": "Apache-2.0"}}')
    return tmp_path


def test_weights_are_found_and_loaded_by_name(folder: Path) -> None:
    assert weights.shipped_weights() == ("small",)
    assert weights.card("small")["licence"] == "Apache-2.0"
    layer = nn.Linear(3, 2)
    weights.load_strictly(layer, weights.load_weights("small"), "small")
    torch.testing.assert_close(layer(torch.ones(1, 3)), torch.full((1, 2), 3.0))


def test_an_unknown_name_lists_the_known_ones(folder: Path) -> None:
    with pytest.raises(weights.WeightsError, match=r"no weights 'large' .* there are: small"):
        weights.load_weights("large")


def test_a_changed_file_is_refused(folder: Path) -> None:
    path = folder / "small.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(weights.WeightsError, match="damaged or was replaced"):
        weights.load_weights("small")


def test_a_missing_card_is_named(folder: Path) -> None:
    (folder / "small.json").unlink()
    with pytest.raises(weights.WeightsError, match=r"small\.json is missing"):
        weights.load_weights("small")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bias": None}, "bias is missing"),
        ({"more": torch.zeros(1)}, "more is not of this network"),
        ({"weight": torch.zeros(3, 3)}, r"weight has the shape \(3, 3\) instead of \(2, 3\)"),
        ({"weight": torch.full((2, 3), torch.nan)}, "not finite"),
    ],
)
def test_weights_of_another_network_are_refused(change: dict[str, torch.Tensor | None], message: str) -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    offered = {name: value.clone() for name, value in layer.state_dict().items()} | change
    with pytest.raises(weights.WeightsError, match=message):
        weights.load_strictly(layer, {name: value for name, value in offered.items() if value is not None}, "a file")
    torch.testing.assert_close(layer.weight, before)


def test_a_file_that_is_no_weights_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broken.safetensors"
    path.write_bytes(b"no such thing")
    with pytest.raises(weights.WeightsError, match="not a readable safetensors file"):
        weights.read_weights(path)
    with pytest.raises(weights.WeightsError, match="no weights file"):
        weights.read_weights(tmp_path / "absent.safetensors")


def test_every_shipped_file_is_what_its_card_says() -> None:
    for name in weights.shipped_weights():
        assert weights.load_weights(name)
        assert weights.card(name)["licence"] == "Apache-2.0"
