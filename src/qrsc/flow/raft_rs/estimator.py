"""The flow network as an estimator: frames of any size, on the device they come on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend.cuda_graphs import Graphs
from qrsc.flow.protocol import ConfidentFlows, FlowPair, check_pair
from qrsc.flow.raft_rs.certainty import confidence
from qrsc.flow.raft_rs.network import MULTIPLE, FlowNetwork, NetworkSize
from qrsc.motion.fill import fill_unsure
from qrsc.weights import WeightsError, card, load_strictly, load_weights, read_notes, read_weights

MIN_SIDE = 64  # pixels; smaller frames are extended by their edges
# Where no scale is asked for, frames with more pixels than this are reduced. On a processor it is a matter of time
# (640 x 480 within a second and a half on two cores), on a GPU of memory: the correlation of all cells with all cells
# grows with the square of their number, and takes 2 GB here.
PROCESSOR_PIXELS = 100_000
GPU_PIXELS = 1_000_000


class NeuralFlow:
    """Both flows of frame pairs by a `FlowNetwork`, in one call over shared features.

    The network goes to the device of the frames. On a CUDA device its convolutions run in bfloat16; correlation,
    flows and the comparison of pixels stay in float32.

    Args:
        network: with its weights.
        scale: the size at which flow is found, relative to the frames; what suits the device if None. Flows come back
            at the frames' size, in their pixels.
        halved: start from what the network finds in frames of half that size. It sees twice as far there, and tells
            the rows of a facade apart that are all alike close up. Costs about a quarter of the time.
        filled: take flows where the network is unsure, or that leave the frame, from their surroundings; see
            `qrsc.motion.fill`.
        compiled: let `torch.compile` make the network faster; the first pair of each size then takes a minute.
        graphs: on a CUDA device, record the work of each size at its second pair and replay it; see `Graphs`. At
            640 x 480 an H200 then takes 11.5 ms for both flows, where launching 2,100 kernels takes 38 to 59.
        thorough: work on a processor, too, at the size that suits a GPU; takes about four times as long.
    """

    def __init__(
        self,
        network: FlowNetwork,
        *,
        scale: float | None = None,
        halved: bool = True,
        filled: bool = False,
        compiled: bool = False,
        graphs: bool = True,
        thorough: bool = False,
    ) -> None:
        if scale is not None and not 0.0 < scale <= 1.0:
            raise ValueError(f"scale must be over 0 and at most 1, got {scale!r}.")
        self.network = network.eval().requires_grad_(False)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
        self.scale = scale
        self.halved = halved
        self.filled = filled
        self.thorough = thorough
        self._rough = torch.compile(self.network.rough) if compiled else self.network.rough
        self._forward = torch.compile(self.network) if compiled else self.network
        self._graphs = Graphs() if graphs else None
        self._device: torch.device | None = None

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        """Flows of pairs of frames `[B, 3, H, W]`."""
        return self.confident(first, second).flows

    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows:
        """Flows of pairs of frames `[B, 3, H, W]`, and how sure they are."""
        check_pair(first, second)
        if first.device != self._device:
            self._device = first.device
            self.network.to(first.device)
            if self._graphs is not None:
                self._graphs.clear()
        if first.is_cuda and self._graphs is not None:
            found = self._graphs(self._found, "flows", first, second)
        else:
            found = self._found(first, second)
        forward, backward = found[:, :2].chunk(2)
        return ConfidentFlows(FlowPair(forward.clone(), backward.clone()), *found[:, 2:].chunk(2))

    @torch.inference_mode()
    def _found(self, first: Tensor, second: Tensor) -> Tensor:
        """Forward flows, then backward ones, each with its confidence: `[2 B, 3, H, W]`."""
        size = first.shape[-2:]
        scale = suitable_scale(first, self.thorough) if self.scale is None else self.scale
        reduced = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
        frames = [_prepared(frame, reduced) for frame in (first, second)]
        with torch.autocast(first.device.type, torch.bfloat16, enabled=first.device.type == "cuda"):
            start = self._start(frames[0], frames[1]) if self.halved else None
            found = self._forward(frames[0], frames[1], start=start).fine[-1].float()
        found = found[..., : reduced[0], : reduced[1]]
        flow, sure = found[:, :2], confidence(found[:, 2:])
        if self.filled:
            flow = fill_unsure(flow, sure)
        if reduced != tuple(size):
            flow = F.interpolate(flow, size=size, mode="bilinear", align_corners=False)
            flow = torch.cat([flow[:, :1] * (size[1] / reduced[1]), flow[:, 1:] * (size[0] / reduced[0])], 1)
            sure = F.interpolate(sure, size=size, mode="bilinear", align_corners=False)
        return torch.cat([flow, sure], 1).to(first.dtype)

    def _start(self, first: Tensor, second: Tensor) -> Tensor:
        """The flow found at half the size, in pixels of the whole, on a grid of stride 8: `[2 B, 2, H / 8, W / 8]`."""
        small = [F.interpolate(f, scale_factor=0.5, mode="bilinear", antialias=True) for f in (first, second)]
        small = [f.contiguous(memory_format=torch.channels_last) for f in small]
        return 2.0 * self._rough(small[0], small[1])


def suitable_scale(frames: Tensor, thorough: bool = False) -> float:
    """The size at which to find the flow of frames `[B, 3, H, W]`, relative to theirs, for their device."""
    most = PROCESSOR_PIXELS if frames.device.type == "cpu" and not thorough else GPU_PIXELS
    return min(1.0, math.sqrt(most / (frames.shape[-2] * frames.shape[-1])))


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


def shipped_flow(name: str, *, thorough: bool = False) -> NeuralFlow:
    """The flow of a network with weights of the package, filled."""
    return NeuralFlow(load_network(name), filled=True, thorough=thorough)


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
    """A side that the network takes, also after it is halved."""
    return max(MIN_SIDE, -(-side // (2 * MULTIPLE)) * 2 * MULTIPLE)
