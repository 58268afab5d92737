"""Weights files whose descriptions or tensors are hostile: refused in one line, before a network takes memory."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from qrsc import weights
from qrsc.flow import load_flow
from qrsc.flow.raft_rs.network import FlowNetwork, NetworkSize
from qrsc.fusion import load_fusion
from qrsc.fusion.lite.network import LiteNetwork, LiteOptions
from qrsc.fusion.networks import build_network
from qrsc.fusion.rsa2.network import Rsa2Network, Rsa2Options
from qrsc.weights import WeightsError
from qrsc.weights.architecture import without_memory

FLOW = NetworkSize(4, (4, 4, 4), (1, 1, 1), 4, 4, 4, 4, 1, 1, 1, 1, 1)
LITE = LiteOptions(widths=(4, 4, 4), depths=(1, 1, 1), polish=4, polishes=1)
RSA2 = Rsa2Options(stem=4, widths=(4,) * 4, depths=(1,) * 4, heads=(1,) * 4, features=4, taps=3, mask_width=4)
SHALLOW: dict[str, Any] = {"flow": FLOW, "rsa2-lite": LITE, "rsa2": RSA2}
LOAD: dict[str, Callable[[str], object]] = {"flow": load_flow, "rsa2-lite": load_fusion, "rsa2": load_fusion}


def save(path: Path, kind: str, described: object, change: Callable[[Tensor], Tensor] = lambda value: value) -> None:
    """The weights of a small network, with another description or other tensors."""
    makers = {"flow": FlowNetwork(FLOW), "rsa2-lite": LiteNetwork(LITE), "rsa2": Rsa2Network(RSA2)}
    text = described if isinstance(described, str) else json.dumps(described)
    notes = {"size": text} if kind == "flow" else {"kind": kind, "options": text}
    tensors = {name: change(value.detach()).contiguous() for name, value in makers[kind].state_dict().items()}
    save_file(tensors, path, metadata=notes)


def described(kind: str, **changes: object) -> dict[str, object]:
    return asdict(SHALLOW[kind]) | changes


NESTED = "[" * 5000
DESCRIPTIONS: list[tuple[str, object, str]] = [
    ("flow", "", "cannot be read as JSON"),
    ("flow", NESTED, "nested more than 64 levels deep"),
    ("flow", [1, 2], "must be a table"),
    ("flow", described("flow", steps=10**9), "steps must be a whole number from 1 to 32; got 1000000000"),
    ("flow", described("flow", steps=[4]), "steps must be a whole number"),
    ("flow", described("flow", steps=True), "steps must be a whole number"),
    ("flow", described("flow", steps=1.0), "steps must be a whole number"),
    ("flow", described("flow", stem=-48), "stem must be a whole number from 1 to 1024; got -48"),
    ("flow", described("flow", widths=8), "widths must be 3 whole numbers"),
    ("flow", described("flow", widths=[8, 8]), "widths must be 3 whole numbers"),
    ("flow", described("flow", widths=[8, 8, "8"]), "widths must be 3 whole numbers"),
    ("flow", described("flow", widths=[8, 8, {}]), "widths must be 3 whole numbers"),
    ("flow", described("flow", depths=[10**7, 1, 1]), "depths must be 3 whole numbers from 1 to 32"),
    ("flow", described("flow", widths=[1024] * 3, depths=[32] * 3), "does not fit FlowNetwork"),
    ("flow", described("flow", widths=[17, 33, 50]), "cannot be built|does not fit"),
    ("flow", described("flow", depth=3), "unexpected keyword argument 'depth'"),
    ("rsa2-lite", NESTED, "nested more than 64 levels deep"),
    ("rsa2-lite", "null", "must be a table; got None"),
    ("rsa2-lite", described("rsa2-lite", depths=[10**7] * 3), "depths must be 3 whole numbers from 0 to 32"),
    ("rsa2-lite", described("rsa2-lite", kernel=10**5), "kernel must be a whole number from 1 to 9"),
    ("rsa2-lite", described("rsa2-lite", polish=-1), "polish must be a whole number from 0 to 1024; got -1"),
    ("rsa2-lite", described("rsa2-lite", calm=[]), r"calm must be true or false; got \(\)"),
    ("rsa2-lite", described("rsa2-lite", widths=[1024] * 3, polish=1024), "does not fit LiteNetwork"),
    ("rsa2-lite", described("rsa2-lite", polish=1), "polish must be 0, or 2 or more"),
    ("rsa2", described("rsa2", taps=2), "taps must be odd; got 2"),
    ("rsa2", described("rsa2", widths=[4] * 100), "widths must be 4 whole numbers"),
    ("rsa2", described("rsa2", heads=[3] * 4), "heads must divide the channels"),
    ("rsa2", described("rsa2", heads=[0] * 4), "heads must be 4 whole numbers from 1 to 64"),
    ("rsa2", described("rsa2", window=0), "window must be a whole number from 1 to 64; got 0"),
    ("rsa2", described("rsa2", encoder=[[]]), "unknown encoder"),
    ("rsa2", described("rsa2", widths=[1024] * 4, depths=[32] * 4, mlp_ratio=16), "does not fit Rsa2Network"),
]


@pytest.mark.parametrize(("kind", "text", "message"), DESCRIPTIONS)
def test_a_hostile_description_is_refused_without_taking_memory(
    kind: str, text: object, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.safetensors"
    save(path, kind, text)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(WeightsError, match=message) as caught:
        LOAD[kind](str(path))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB; the largest would have 20 GB
    assert "own.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


TENSORS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "fp8": (lambda value: value.to(torch.float8_e4m3fn), "holds torch.float8_e4m3fn, not floats of 16 bits or more"),
    "int": (lambda value: value.to(torch.int32), "holds torch.int32, not floats"),
    "bool": (lambda value: value > 0, "holds torch.bool, not floats"),
    "complex": (lambda value: value.to(torch.complex64), "holds torch.complex64, not floats"),
    "nan": (lambda value: torch.full_like(value, torch.nan), "holds values that are not finite"),
    "infinity": (lambda value: torch.full_like(value, -torch.inf), "holds values that are not finite"),
    "empty": (lambda value: value[..., :0] if value.ndim else value, "has the shape"),
}


@pytest.mark.parametrize("kind", SHALLOW)
@pytest.mark.parametrize(("change", "message"), TENSORS.values(), ids=TENSORS)
def test_hostile_tensors_are_refused(
    kind: str, change: Callable[[Tensor], Tensor], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "own.safetensors"
    save(path, kind, asdict(SHALLOW[kind]), change)
    with pytest.raises(WeightsError, match=message) as caught:
        LOAD[kind](str(path))
    assert "own.safetensors" in str(caught.value)


@pytest.mark.parametrize("kind", SHALLOW)
def test_what_was_saved_is_loaded(kind: str, tmp_path: Path) -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        save(tmp_path / "own.safetensors", kind, asdict(SHALLOW[kind]), lambda value, dtype=dtype: value.to(dtype))  # type: ignore[misc]  # a default of a lambda
        LOAD[kind](str(tmp_path / "own.safetensors"))


def header(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode()


FILES: dict[str, bytes] = {
    "empty": b"",
    "short": b"\x01",
    "a long header": (2**63).to_bytes(8, "little") + b"{}",
    "nested": header('{"a":' * 5000),
    "another dtype": header('{"a": {"dtype": "F3", "shape": [1], "data_offsets": [0, 4]}}') + bytes(4),
    "a negative shape": header('{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}') + bytes(4),
    "a shape beyond 64 bits": header(
        '{"a": {"dtype": "F32", "shape": [4294967296, 4294967296, 4], "data_offsets": [0, 4]}}'
    )
    + bytes(4),
    "offsets beyond the end": header('{"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}') + bytes(4),
    "notes that are no text": header('{"__metadata__": {"size": [1]}}'),
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_files_that_are_no_weights(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "own.safetensors"
    path.write_bytes(content)
    readers: list[Callable[[], object]] = [
        lambda: load_flow(str(path)),
        lambda: load_fusion(str(path)),
        lambda: weights.read_weights(path),
        lambda: weights.read_notes(path),
    ]
    for read in readers:
        with pytest.raises(WeightsError, match=r"own\.safetensors is not a readable safetensors file"):
            read()


def test_a_file_too_large_for_weights(tmp_path: Path) -> None:
    with (tmp_path / "own.safetensors").open("wb") as file:
        file.truncate(2 << 30)  # sparse
    with pytest.raises(WeightsError, match=r"own\.safetensors is too large for a weights file: at most 1024 MB"):
        weights.read_weights(tmp_path / "own.safetensors")


@pytest.mark.parametrize("kind", ["rsa2", "rsa2-lite"])
def test_a_planned_network_has_the_names_and_shapes_of_the_real_one(kind: str) -> None:
    with without_memory():
        planned = build_network(kind, dict(described(kind)))
    real = build_network(kind, dict(described(kind)))
    assert all(value.is_meta for value in planned.state_dict().values())
    shapes = [{name: value.shape for name, value in each.state_dict().items()} for each in (planned, real)]
    assert shapes[0] == shapes[1]
