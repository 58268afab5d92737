"""Fusion networks from files, as `qrsc train fusion` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from qrsc import Corrector, Readout, weights
from qrsc.cli.app import app
from qrsc.flow import load_flow
from qrsc.fusion import load_fusion
from qrsc.fusion.lite.network import LiteNetwork, LiteOptions
from qrsc.fusion.networks import NetworkFusion
from qrsc.media.image_folder import list_frames, read_frame, read_frames, write_frame
from qrsc.weights import WeightsError

from .samples import aligned_frames, randomise

OPTIONS = LiteOptions(widths=(8, 8, 8), depths=(1, 1, 1), polish=8, polishes=1)


def save(path: Path, **notes: str) -> LiteNetwork:
    """A small network with random weights, and the file that training would have written."""
    network = LiteNetwork(OPTIONS)
    randomise(network, 0.2)
    described = {"kind": "rsa2-lite", "options": json.dumps(asdict(OPTIONS)), "interpolation": "bicubic"} | notes
    save_file(network.state_dict(), path, metadata=described)
    return network


def test_a_fusion_network_is_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "own.safetensors"
    network = save(path)
    fusion = load_fusion(str(path))
    assert isinstance(fusion, NetworkFusion)
    assert fusion.interpolation == "bicubic"
    aligned = aligned_frames(3, (48, 64))
    assert torch.equal(fusion(aligned).image, NetworkFusion(network)(aligned).image)


def whole_of(path: Path) -> bytes:
    save(path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "there is no weights file .*own.safetensors"),
        (lambda path: path.write_bytes(whole_of(path)[:-100]), "not a readable safetensors file"),
        (lambda path: path.write_bytes(b"nothing of the kind"), "not a readable safetensors file"),
        (
            lambda path: path.write_bytes((weights.FOLDER / "raft-rs.safetensors").read_bytes()),
            "not the weights of a fusion network: it is of a flow network",
        ),
        (
            lambda path: save_file({"weight": torch.ones(1)}, path),
            "not the weights of a fusion network: its metadata names no network",
        ),
        (lambda path: save(path, kind="rsa3"), "cannot be built: unknown fusion network 'rsa3'"),
        (lambda path: save(path, options='{"width": 3}'), "cannot be built: .*unexpected keyword argument 'width'"),
        (lambda path: save(path, options='{"widths'), "own.safetensors cannot be read as JSON: Unterminated string"),
        (lambda path: save(path, options="{}"), "does not fit LiteNetwork"),
        (lambda path: save(path, interpolation="nearest"), "unknown interpolation 'nearest'"),
    ],
    ids=["absent", "cut off", "other content", "flow", "no notes", "kind", "options", "broken", "size", "sampling"],
)
def test_a_file_that_is_no_fusion_network_is_refused_in_one_line(
    prepare: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.safetensors"
    prepare(path)
    with pytest.raises(WeightsError, match=message) as caught:
        load_fusion(str(path))
    assert "\n" not in str(caught.value)


def test_a_fusion_network_is_no_flow(tmp_path: Path) -> None:
    save(tmp_path / "own.safetensors")
    with pytest.raises(WeightsError, match=r"own\.safetensors holds the weights of the fusion network rsa2-lite"):
        load_flow(str(tmp_path / "own.safetensors"))


def test_the_command_and_the_corrector_use_a_file(tmp_path: Path) -> None:
    wide = torch.nn.functional.interpolate(
        torch.rand(1, 3, 12, 20, generator=torch.Generator().manual_seed(0)), (72, 120), mode="bicubic"
    )[0]
    (tmp_path / "in").mkdir()
    for index in range(4):
        write_frame(tmp_path / "in" / f"{index}.png", wide[:, :, 20 - 5 * index : 100 - 5 * index])
    path = tmp_path / "own.safetensors"
    network = save(path)
    frames = [stored.frame for stored in read_frames(list_frames(tmp_path / "in"))]

    def corrected(fusion: str | NetworkFusion) -> torch.Tensor:
        corrector = Corrector(Readout(0.8), fusion=fusion, flow="dis", field_scale=0.5)
        return torch.stack([each.frame for each in corrector.stream(frames)])

    expected = corrected(str(path))
    assert torch.equal(expected, corrected(NetworkFusion(network, interpolation="bicubic")))
    assert float((expected - corrected("mean")).abs().max()) > 0.01, "the network changes nothing"
    arguments = ["correct", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--gamma", "0.8", "--flow", "dis"]
    result = CliRunner().invoke(app, [*arguments, "--fusion", str(path)])
    assert result.exit_code == 0, result.output
    written = torch.stack([read_frame(each).frame for each in list_frames(tmp_path / "out")])
    assert float((written - expected.clamp(0, 1)).abs().max()) <= 0.5 / 255 + 1e-6


def test_the_command_says_in_one_line_that_a_file_is_a_flow_network(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_frame(tmp_path / "in" / "0.png", torch.zeros(3, 64, 64))
    flow = weights.FOLDER / "raft-rs.safetensors"
    arguments = ["correct", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--gamma", "0.8", "--fusion", str(flow)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert result.output.startswith("error: ")
    assert result.output.count("\n") == 1
    assert "it is of a flow network" in result.output
    assert not (tmp_path / "out").exists()
