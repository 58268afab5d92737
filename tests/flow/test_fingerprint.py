"""Fingerprints of flows: the same for the same weights, another for others."""

from __future__ import annotations

from pathlib import Path

import pytest

import qrsc.flow
from qrsc.flow import FLOWS, flow_fingerprint
from qrsc.flow.raft_rs import estimator
from qrsc.weights import card, load_weights


def test_a_fingerprint_holds_the_hash_of_the_package_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    assert flow_fingerprint("dis") == "dis"
    sha256 = card("raft-rs")["sha256"]
    assert flow_fingerprint("raft-rs") == f"raft-rs@{sha256}"
    assert flow_fingerprint("raft-rs+dis") == f"raft-rs+dis@{sha256}"
    monkeypatch.setattr(qrsc.flow, "card", lambda name: {"sha256": "trained again"})
    assert flow_fingerprint("raft-rs") == "raft-rs@trained again"


@pytest.mark.parametrize("name", FLOWS)
def test_every_flow_that_loads_weights_has_them_in_its_fingerprint(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def counted(weights: str) -> object:
        loaded.append(weights)
        return load_weights(weights)

    monkeypatch.setattr(estimator, "load_weights", counted)
    qrsc.flow.load_flow(name)
    expected = "".join(f"@{card(weights)['sha256']}" for weights in loaded)
    assert flow_fingerprint(name) == name + expected


def test_a_fingerprint_holds_the_hash_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    path.write_bytes(b"first")
    first = flow_fingerprint(str(path))
    assert flow_fingerprint(str(path)) == first
    path.write_bytes(b"trained again")
    assert flow_fingerprint(str(path)) != first


def test_another_packages_network_is_known_by_the_packages_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qrsc.flow, "version", lambda package: "1.2")
    assert flow_fingerprint("ptlflow:gma@things") == "ptlflow:gma@things@1.2"
