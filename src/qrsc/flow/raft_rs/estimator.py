"""The flow network as an estimator, for frames of any size on any device."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend.convolutions import in_half_precision
from qrsc.backend.cuda_graphs import Graphs
from qrsc.backend.device import computes_in_half_precision
from qrsc.backend.fallback import fallback_of, in_float32, joined
from qrsc.backend.kernels import given_up
from qrsc.flow.protocol import ConfidentFlows, FlowPair, check_pair
from qrsc.flow.raft_rs.certainty import confidence
from qrsc.flow.raft_rs.network import MULTIPLE, FlowNetwork, NetworkSize
from qrsc.image.pooling import antialiased
from qrsc.motion.fill import fill_unsure
from qrsc.weights import (
    WeightsError,
    build_strictly,
    card,
    load_strictly,
    load_weights,
    noted_options,
    read_notes,
    read_weights,
)

MIN_SIDE = 64  # pixels; smaller frames are padded by replicating their edges
# Without a given scale, frames with more pixels than this are downsampled. On a CPU the limit is time (640 x 480 within
# a second and a half on two cores), on a GPU memory: the correlation of all pairs of cells grows with the square of
# their number, and takes 2 GB at this limit.
CPU_PIXELS = 100_000
# The same for flows that a search refines, without the steps at stride 4. Mean PSNR of the plain mean on sim-occlusion
# (320 x 240) 33.44 dB, with all steps and the limit above 33.34; 15,000 fewer pixels cost 0.27 dB there. Real
# samples are within 0.03 dB.
BRIEF_PIXELS = 65_000
GPU_PIXELS = 1_000_000


class NeuralFlow:
    """Forward and backward flow by a `FlowNetwork`, in one call over shared features.

    The network moves to the device of the frames. Its convolutions run in bfloat16 where the device has instructions
    for it (see `computes_in_half_precision`); correlation, flows and pixel differences stay in float32. On other
    devices everything is float32.

    Args:
        network: with its weights.
        scale: resolution at which flow is computed, relative to the frames; None chooses by device (`suitable_scale`).
            Flows are returned at the resolution of the frames, in their pixels.
        halved: initialise with the flow at half that resolution. There the network sees twice as far, and distinguishes
            the rows of a facade that look alike close up. Costs about a quarter of the time.
        filled: replace flows of low confidence, and those that leave the frame, from their neighbours; see
            `qrsc.motion.fill`.
        compiled: use `torch.compile`, which is faster but takes a minute for the first pair of each size.
        graphs: on a CUDA device, record a CUDA graph for each size at its second pair and replay it; see `Graphs`. At
            640 x 480 an H200 then takes 11.5 ms for both flows, where launching 2,100 kernels takes 38 to 59.
        thorough: use the resolution of a GPU on a CPU as well; takes about four times as long.
        brief: leave out the steps at stride 4 and, on a CPU, a third of the pixels: for flows that a search refines.
            Takes six tenths of the time.

    Attributes:
        fallback: that the latest call used another precision than that of the frames, or no CUDA graph, and why; None
            if not.
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
        brief: bool = False,
    ) -> None:
        if thorough and brief:
            raise ValueError("a flow is thorough or brief, not both.")
        if scale is not None and not 0.0 < scale <= 1.0:
            raise ValueError(f"scale must be over 0 and at most 1, got {scale!r}.")
        self.network = network.eval().requires_grad_(False)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
        self.scale = scale
        self.halved = halved
        self.filled = filled
        self.thorough, self.brief = thorough, brief
        self._rough = torch.compile(self.network.rough) if compiled else self.network.rough
        self._forward = torch.compile(self.network) if compiled else self.network
        self._quick = self.network
        self.compiled = compiled
        self._graphs = Graphs() if graphs else None
        self._device: torch.device | None = None
        self.fallback: str | None = None

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        """Flows of pairs of frames `[B, 3, H, W]`."""
        return self.confident(first, second).flows

    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows:
        """Flows of pairs of frames `[B, 3, H, W]`, and their confidences."""
        check_pair(first, second)
        if self._by_frames(first):
            return self.between(self.encoded(first), self.encoded(second))
        self._move(first)
        if first.is_cuda and self._graphs is not None:
            return self._told(self._graphs(self._found, "flows", first, second), first)
        return self._told(self._found(first, second), first)

    def encoded(self, frame: Tensor) -> EncodedFrames:
        """All that needs to be computed of frames `[B, 3, H, W]` once, for the pairs that they are in."""
        if not self._by_frames(frame):
            return EncodedFrames(frame, None)
        self._move(frame)
        if self._graphs is None:
            return EncodedFrames(frame, self._encoded(frame))
        return EncodedFrames(frame, self._graphs(self._encoded, "frame", frame))

    def between(self, first: EncodedFrames, second: EncodedFrames) -> ConfidentFlows:
        """Flows of pairs of encoded frames, as of the frames themselves."""
        if first.parts is None or second.parts is None:
            return self.confident(first.frame, second.frame)
        count = len(first.parts)
        size, scale = tuple(first.frame.shape[-2:]), self._scale(first.frame)

        def run(*parts: Tensor) -> Tensor:
            with self._autocast(parts[0]), torch.inference_mode():
                found = self._quick.between(parts[:count], parts[count:]).float()
            return self._finished(found, size, scale)

        given = (*first.parts, *second.parts)
        found = run(*given) if self._graphs is None else self._graphs(run, ("pair", size, scale), *given)
        return self._told(found.to(first.frame.dtype), first.frame)

    def _by_frames(self, frames: Tensor) -> bool:
        """Whether each frame is encoded once; on a CPU both frames of a pair are, together."""
        return frames.is_cuda and not self.compiled and not self.brief

    def _move(self, frames: Tensor) -> None:
        if frames.device == self._device:
            return
        self._device = frames.device
        self.network.to(frames.device)
        self._quick = in_half_precision(self.network) if self._by_frames(frames) else self.network
        if self._graphs is not None:
            self._graphs.clear()

    def _told(self, found: Tensor, frames: Tensor) -> ConfidentFlows:
        recorded = fallback_of(self._graphs) if frames.is_cuda else None
        self.fallback = joined(in_float32(frames.dtype), recorded, given_up() if frames.is_cuda else None)
        forward, backward = found[:, :2].chunk(2)
        return ConfidentFlows(FlowPair(forward.clone(), backward.clone()), *found[:, 2:].chunk(2))

    def _autocast(self, frames: Tensor) -> torch.autocast:
        return torch.autocast(frames.device.type, torch.bfloat16, enabled=computes_in_half_precision(frames.device))

    def _scale(self, frames: Tensor) -> float:
        if self.scale is not None:
            return self.scale
        return suitable_scale(frames, thorough=self.thorough, brief=self.brief)

    @torch.inference_mode()
    def _encoded(self, frames: Tensor) -> tuple[Tensor, ...]:
        prepared = _prepared(frames, _reduced(tuple(frames.shape[-2:]), self._scale(frames)))
        with self._autocast(frames):
            return self._quick.encoded(prepared, _halved(prepared) if self.halved else None)

    @torch.inference_mode()
    def _found(self, first: Tensor, second: Tensor) -> Tensor:
        """Forward flows, then backward flows, each with its confidence: `[2 B, 3, H, W]`."""
        size, scale = tuple(first.shape[-2:]), self._scale(first)
        frames = [_prepared(frame, _reduced(size, scale)) for frame in (first, second)]
        with self._autocast(first):
            # The flow at half the resolution, in full-size pixels, on the grid of stride 8: [2 B, 2, H / 8, W / 8].
            start = 2.0 * self._rough(*(_halved(each) for each in frames)) if self.halved else None
            if self.brief:
                found = self.network.brief(frames[0], frames[1], start).float()
                found = F.interpolate(found, scale_factor=4.0, mode="bilinear", align_corners=False)
            else:
                found = self._forward(frames[0], frames[1], start=start).fine[-1].float()
        return self._finished(found, size, scale).to(first.dtype)

    @torch.inference_mode()
    def _finished(self, found: Tensor, size: tuple[int, ...], scale: float) -> Tensor:
        """Flows with their confidence at the size of the frames, `[2 B, 3, H, W]`, from the result of the network."""
        reduced = _reduced(size, scale)
        found = found[..., : reduced[0], : reduced[1]]
        flow, sure = found[:, :2], confidence(found[:, 2:])
        if self.filled:
            flow = fill_unsure(flow, sure)
        if reduced != size:
            flow = F.interpolate(flow, size=size, mode="bilinear", align_corners=False)
            flow = torch.cat([flow[:, :1] * (size[1] / reduced[1]), flow[:, 1:] * (size[0] / reduced[0])], 1)
            sure = F.interpolate(sure, size=size, mode="bilinear", align_corners=False)
        return torch.cat([flow, sure], 1)


class EncodedFrames(NamedTuple):
    """Frames `[B, 3, H, W]`, and all that the network computes of each of them; None where it does not do so."""

    frame: Tensor
    parts: tuple[Tensor, ...] | None


def suitable_scale(frames: Tensor, *, thorough: bool = False, brief: bool = False) -> float:
    """The resolution at which to compute the flow of frames `[B, 3, H, W]` on their device, relative to theirs."""
    most = GPU_PIXELS if frames.device.type != "cpu" or thorough else BRIEF_PIXELS if brief else CPU_PIXELS
    return min(1.0, math.sqrt(most / (frames.shape[-2] * frames.shape[-1])))


def load_network(name: str) -> FlowNetwork:
    """Load a flow network with weights of the package."""
    network = FlowNetwork(network_size(card(name)["size"]))
    load_strictly(network, load_weights(name), f"the weights {name!r}")
    return network


def flow_from_file(path: Path) -> NeuralFlow:
    """Load the flow by a network from a file that `qrsc train flow` wrote; of the shipped size if it does not say."""
    notes = read_notes(path)
    if "kind" in notes:
        raise WeightsError(f"{path} holds the weights of the fusion network {notes['kind']}, not of a flow network.")
    try:
        size = network_size(noted_options(path, notes, "size") if "size" in notes else {})
    except (TypeError, ValueError) as error:
        raise WeightsError(f"{path} does not describe a flow network that can be built: {error}") from error
    return NeuralFlow(build_strictly(lambda: FlowNetwork(size), read_weights(path), str(path)), filled=True)


def network_size(described: dict[str, Any]) -> NetworkSize:
    """The size described in a model card or in the metadata of a file."""
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in described.items()
    }
    return NetworkSize(**values)


def shipped_flow(name: str, *, thorough: bool = False, brief: bool = False) -> NeuralFlow:
    """Load the flow by a network with weights of the package."""
    return NeuralFlow(load_network(name), filled=True, thorough=thorough, brief=brief)


def _prepared(frames: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize frames, in float32, and pad them to the right and below to a size that the network takes."""
    frames = frames.float()
    if tuple(frames.shape[-2:]) != size:
        frames = antialiased(frames, size)
    bottom, right = (_padded(side) - side for side in size)
    if bottom or right:
        frames = F.pad(frames, (0, right, 0, bottom), mode="replicate")
    return frames.contiguous(memory_format=torch.channels_last)


def _reduced(size: tuple[int, ...], scale: float) -> tuple[int, int]:
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _halved(frames: Tensor) -> Tensor:
    small = antialiased(frames, (frames.shape[-2] // 2, frames.shape[-1] // 2))
    return small.contiguous(memory_format=torch.channels_last)


def _padded(side: int) -> int:
    """The next height or width that the network takes, also at half the resolution."""
    return max(MIN_SIDE, -(-side // (2 * MULTIPLE)) * 2 * MULTIPLE)
