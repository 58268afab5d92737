"""Flows from elsewhere: networks of other packages (replaced by stand-ins), and files."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from urllib.error import URLError

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from qrsc.flow import ClipFlow, load_flow
from qrsc.flow.raft_rs.network import FlowNetwork, NetworkSize
from qrsc.weights import WeightsError

SMALL = NetworkSize(
    stem=16, widths=(16, 16, 16), depths=(1, 1, 1), matching=16, fine_matching=16, hidden=16, fine_hidden=16, steps=1
)


def frames(height: int = 50, width: int = 70, batch: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    first, second = torch.rand(2, batch, 3, height, width, generator=generator)
    return first, second


class Means(nn.Module):
    """Stands in for a network: the flow is the mean red and blue of the first frame less that of the second."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, ...]] = []

    def flow(self, first: Tensor, second: Tensor) -> Tensor:
        difference = (first - second).mean((2, 3), keepdim=True)[:, [0, 2]]
        return difference.expand(-1, -1, *first.shape[-2:])


class TorchvisionStandIn(Means):
    def forward(self, first: Tensor, second: Tensor) -> list[Tensor]:
        self.asked.append(tuple(first.shape))
        return [torch.full_like(first[:, :2], 9.0), self.flow(first, second)]


class PtlflowStandIn(Means):
    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        images = inputs["images"]
        self.asked.append(tuple(images.shape))
        return {"flows": self.flow(images[:, 0], images[:, 1])[:, None]}


@pytest.fixture
def torchvision(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Calls received by a stand-in for torchvision."""
    seen: dict[str, object] = {}
    module = ModuleType("torchvision.models.optical_flow")

    def raft_small(*, weights: str | None) -> nn.Module:
        seen["weights"] = weights
        seen["network"] = TorchvisionStandIn()
        return seen["network"]  # type: ignore[return-value]  # the stand-in that was made

    module.raft_small = raft_small  # type: ignore[attr-defined]  # modules take any attribute
    for name in ("torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "torchvision.models.optical_flow", module)
    return seen


def test_torchvision_is_asked_once_for_both_directions(torchvision: dict[str, object]) -> None:
    first, second = frames(batch=2)
    estimator = load_flow("torchvision:raft_small@C_T_V1")
    assert torchvision == {}  # nothing is built before the first pair
    flows = estimator(first, second)
    network = torchvision["network"]
    assert isinstance(network, TorchvisionStandIn)
    assert torchvision["weights"] == "C_T_V1"
    assert network.asked == [(4, 3, 128, 128)]
    assert flows.forward.shape == (2, 2, 50, 70)
    torch.testing.assert_close(flows.forward, -flows.backward)
    estimator(first, second)
    assert torchvision["network"] is network


@pytest.mark.parametrize(("name", "weights"), [("raft_small", "DEFAULT"), ("raft_small@random", None)])
def test_torchvision_weights_by_name(torchvision: dict[str, object], name: str, weights: str | None) -> None:
    load_flow(f"torchvision:{name}")(*frames())
    assert torchvision["weights"] == weights


def test_ptlflow_gets_frames_in_its_own_order(monkeypatch: pytest.MonkeyPatch) -> None:
    network = PtlflowStandIn()
    asked = []

    def get_model(name: str, checkpoint: str | None) -> nn.Module:
        asked.append((name, checkpoint))
        return network

    module = ModuleType("ptlflow")
    module.get_model = get_model  # type: ignore[attr-defined]  # modules take any attribute
    monkeypatch.setitem(sys.modules, "ptlflow", module)
    first, second = frames()
    flows = load_flow("ptlflow:gma@things")(first, second)
    assert asked == [("gma", "things")]
    assert network.asked == [(2, 2, 3, 50, 70)]
    blue_then_red = (first - second).mean((2, 3))[0, [2, 0]]
    torch.testing.assert_close(flows.forward[0, :, 0, 0], blue_then_red)
    torch.testing.assert_close(flows.backward[0, :, 0, 0], -blue_then_red)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("torchvision:raft_tiny", "choose one of torchvision:raft_large, torchvision:raft_small"),
        ("ptlflow:gma", "ptlflow:gma@things"),
        ("nowhere.npz", "nowhere.npz"),
        ("nowhere.safetensors", "nowhere.safetensors"),
        ("spyflow:gma", "unknown flow 'spyflow:gma'"),
    ],
)
def test_names_that_lead_nowhere(name: str, message: str) -> None:
    with pytest.raises((ValueError, OSError), match=message):
        load_flow(name)


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ptlflow", None)
    with pytest.raises(ValueError, match=r"pip install 'qrsc\[ptlflow\]'"):
        load_flow("ptlflow:gma@random")(*frames())


def test_weights_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("ptlflow")

    def get_model(name: str, checkpoint: str | None) -> nn.Module:
        raise URLError("no route to host")

    module.get_model = get_model  # type: ignore[attr-defined]  # modules take any attribute
    monkeypatch.setitem(sys.modules, "ptlflow", module)
    with pytest.raises(ValueError, match=r"weights of ptlflow:gma could not be downloaded \(no route to host\)"):
        load_flow("ptlflow:gma@things")(*frames())


# --- files ---


def clip_flows(pairs: int = 3, height: int = 50, width: int = 70) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    forward, backward = generator.normal(size=(2, pairs, 2, height, width)).astype(np.float32)
    return forward, backward


def written(folder: Path, kind: str) -> Path:
    """The flows of a clip on disk, in one of the supported layouts."""
    forward, backward = clip_flows()
    if kind == "clip":
        np.savez(folder / "flows.npz", forward=forward, backward=backward)
        return folder / "flows.npz"
    for k in range(len(forward)):
        number = 8 + k  # 8, 9, 10: sorted by number, not alphabetically
        if kind == "npz":
            np.savez(folder / f"{number}.npz", forward=forward[k], backward=backward[k])
        for word, flow in (("forward", forward[k]), ("backward", backward[k])):
            if kind == "npy":
                np.save(folder / f"{number}_{word}.npy", flow)
            elif kind == "flo":
                head = np.float32(202021.25).tobytes() + np.array([70, 50], "<i4").tobytes()
                (folder / f"{number}_{word}.flo").write_bytes(head + flow.transpose(1, 2, 0).tobytes())
    return folder


@pytest.mark.parametrize("kind", ["clip", "npz", "npy", "flo"])
def test_flows_from_files(tmp_path: Path, kind: str) -> None:
    forward, backward = clip_flows()
    estimator = load_flow(str(written(tmp_path, kind)))
    assert isinstance(estimator, ClipFlow)
    for k in range(3):
        flows = estimator(*frames())
        np.testing.assert_array_equal(flows.forward[0], forward[k])
        np.testing.assert_array_equal(flows.backward[0], backward[k])
    np.testing.assert_array_equal(estimator.pair(1, *frames()).forward[0], forward[1])
    with pytest.raises(ValueError, match="holds flows for 3 pairs of frames, and pair 4 was asked for"):
        estimator.pair(3, *frames())
    with pytest.raises(ValueError, match=r"has the shape \(2, 50, 70\); the frames need \(2, 40, 70\)"):
        estimator.pair(0, *frames(40))


def test_a_folder_without_flows(tmp_path: Path) -> None:
    (tmp_path / "0_forward.npy").touch()
    with pytest.raises(ValueError, match="it holds 1 forward and 0 backward flows"):
        load_flow(str(tmp_path))


def test_a_damaged_flo_file(tmp_path: Path) -> None:
    folder = written(tmp_path, "flo")
    (folder / "9_backward.flo").write_bytes((folder / "9_backward.flo").read_bytes()[:-1])
    estimator = load_flow(str(folder))
    estimator(*frames())
    with pytest.raises(ValueError, match=r"not a complete \.flo file"):
        estimator(*frames())


def test_the_network_with_weights_from_a_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = FlowNetwork(SMALL)
    path = tmp_path / "mine.safetensors"
    save_file(network.state_dict(), path, metadata={"size": json.dumps(asdict(SMALL))})
    flows = load_flow(str(path))(*frames(64, 64))
    assert flows.forward.shape == (1, 2, 64, 64)
    save_file(network.state_dict(), path)
    with pytest.raises(WeightsError, match="does not fit FlowNetwork"):
        load_flow(str(path))
