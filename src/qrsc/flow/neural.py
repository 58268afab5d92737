"""The flow network as an estimator: frames of any size, on the device they come on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.flow.certainty import confidence
from qrsc.flow.filling import fill_unsure
from qrsc.flow.network import MULTIPLE, FlowNetwork, NetworkSize
from qrsc.flow.protocol import FlowPair, check_pair
from qrsc.weights import WeightsError, card, load_strictly, load_weights, read_notes, read_weights

MIN_SIDE = 64  # pixels; smaller frames are extended by their edges


class ConfidentFlows(NamedTuple):
    """Both flows of frame pairs with how sure they are.

    Attributes:
        flows: forward and backward, `[B, 2, H, W]` each.
        forward_confidence, backward_confidence: `[B, 1, H, W]`, 0 to 1; see `qrsc.flow.certainty.confidence`.
    """

    flows: FlowPair
    forward_confidence: Tensor
    backward_confidence: Tensor


class NeuralFlow:
    """Both flows of frame pairs by a `FlowNetwork`, in one call over shared features.

    The network goes to the device of the frames. On a CUDA device its convolutions run in bfloat16; correlation,
    flows and the comparison of pixels stay in float32.

    Args:
        network: with its weights.
        scale: the size at which flow is found, relative to the frames: 0.5 for 4K saves 15/16 of the memory. Flows
            come back at the frames' size, in their pixels.
        filled: take flows where the network is unsure, or that leave the frame, from their surroundings; see
            `qrsc.flow.filling`.
        compiled: let `torch.compile` make the network faster; the first pair of each size then takes a minute.
    """

    def __init__(
        self, network: FlowNetwork, *, scale: float = 1.0, filled: bool = False, compiled: bool = False
    ) -> None:
        if not 0.0 < scale <= 1.0:
            raise ValueError(f"scale must be over 0 and at most 1, got {scale!r}.")
        self.network = network.eval().requires_grad_(False)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
        self.scale = scale
        self.filled = filled
        self._forward = torch.compile(self.network) if compiled else self.network

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        """Flows of pairs of frames `[B, 3, H, W]`."""
        return self.confident(first, second).flows

    @torch.inference_mode()
    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows:
        """Flows of pairs of frames `[B, 3, H, W]`, and how sure they are."""
        check_pair(first, second)
        size = first.shape[-2:]
        reduced = (max(1, round(size[0] * self.scale)), max(1, round(size[1] * self.scale)))
        frames = [_prepared(frame, reduced) for frame in (first, second)]
        self.network.to(first.device)
        with torch.autocast(first.device.type, torch.bfloat16, enabled=first.device.type == "cuda"):
            found = self._forward(frames[0], frames[1]).fine[-1].float()
        found = found[..., : reduced[0], : reduced[1]]
        flow, sure = found[:, :2], confidence(found[:, 2:])
        if self.filled:
            flow = fill_unsure(flow, sure)
        if reduced != tuple(size):
            flow = F.interpolate(flow, size=size, mode="bilinear", align_corners=False)
            factor = torch.tensor([size[1] / reduced[1], size[0] / reduced[0]], device=flow.device)
            flow = flow * factor.reshape(1, 2, 1, 1)
            sure = F.interpolate(sure, size=size, mode="bilinear", align_corners=False)
        forward, backward = flow.to(first.dtype).chunk(2)
        return ConfidentFlows(FlowPair(forward.clone(), backward.clone()), *sure.to(first.dtype).chunk(2))


def load_network(name: str) -> FlowNetwork:
    """A flow network with weights of the package."""
    network = FlowNetwork(network_size(card(name)["size"]))
    load_strictly(network, load_weights(name), f"the weights {name!r}")
    return network


def flow_from_file(path: Path) -> NeuralFlow:
    """The flow of a network with weights from a file that training wrote; of the shipped size if it does not say."""
    notes = read_notes(path)
    size = network_size(json.loads(notes["size"])) if "size" in notes else NetworkSize()
    network = FlowNetwork(size)
    load_strictly(network, read_weights(path), str(path))
    return NeuralFlow(network, filled=True)


def network_size(described: dict[str, Any]) -> NetworkSize:
    """A size from what a card or a file's notes say about it."""
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in described.items()
    }
    try:
        return NetworkSize(**values)
    except TypeError as error:
        raise WeightsError(f"these weights are of another kind of flow network: {error}.") from error


def shipped_flow(name: str) -> NeuralFlow:
    """The flow of a network with weights of the package, at the scale that its card recommends, filled."""
    return NeuralFlow(load_network(name), scale=float(card(name)["recommended_scale"]), filled=True)


def _prepared(frames: Tensor, size: tuple[int, int]) -> Tensor:
    """Float32 frames of a size, extended to the right and below to what the network takes."""
    frames = frames.float()
    if tuple(frames.shape[-2:]) != size:
        frames = F.interpolate(frames, size=size, mode="bilinear", align_corners=False, antialias=True)
    bottom, right = (_padded(side) - side for side in size)
    if bottom or right:
        frames = F.pad(frames, (0, right, 0, bottom), mode="replicate")
    return frames.contiguous(memory_format=torch.channels_last)


def _padded(side: int) -> int:
    return max(MIN_SIDE, -(-side // MULTIPLE) * MULTIPLE)
