from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from qrsc import weights
from qrsc.cli.app import app
from qrsc.weights.describe import describe_weights


def test_every_shipped_weight_is_listed_and_intact() -> None:
    result = CliRunner().invoke(app, ["weights"])
    assert result.exit_code == 0
    for name in weights.shipped_weights():
        assert f"{name}: " in result.output
    assert result.output.count("intact") == len(weights.shipped_weights())


def test_a_card_is_shown_whole() -> None:
    result = CliRunner().invoke(app, ["weights", "raft-rs"])
    content = weights.card("raft-rs")
    assert f"sha256: {content['sha256']}" in result.output
    assert content["data"] in result.output
    assert result.output.endswith("file: intact\n")


def test_cards_as_json() -> None:
    [content] = json.loads(CliRunner().invoke(app, ["weights", "raft-rs", "--json"]).output)
    assert content == {**weights.card("raft-rs"), "intact": True}


def test_a_damaged_file_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "file_sha256", lambda path: "0" * 64)
    lines, well = describe_weights(None, as_json=False)
    assert not well
    assert "is damaged or was replaced" in lines
    assert CliRunner().invoke(app, ["weights"]).exit_code == 1


def test_unknown_weights() -> None:
    result = CliRunner().invoke(app, ["weights", "raft"])
    assert result.exit_code == 2
    assert "no weights 'raft' come with the package; there are: raft-rs" in result.output
