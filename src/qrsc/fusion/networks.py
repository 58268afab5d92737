"""The fusion networks as fusions, for frames of any size on any device, in tiles if they are large."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.convolutions import in_half_precision, state_of
from qrsc.backend.cuda_graphs import Graphs
from qrsc.backend.device import computes_in_half_precision
from qrsc.backend.fallback import in_float32, joined
from qrsc.backend.kernels import given_up
from qrsc.files.documents import shortened
from qrsc.fusion.adacof.operator import has_triton
from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.blocks import MULTIPLE
from qrsc.fusion.denoise import anchored, calmed
from qrsc.fusion.finish import finished
from qrsc.fusion.lite.network import LiteNetwork, LiteOptions
from qrsc.fusion.rsa2.network import Rsa2Network, Rsa2Options
from qrsc.warp import INTERPOLATIONS, Interpolation, Warped
from qrsc.weights import (
    WeightsError,
    build_strictly,
    card,
    load_strictly,
    load_weights,
    noted_options,
    read_notes,
    read_weights,
    shipped_weights,
)

FusionNetwork = Rsa2Network | LiteNetwork

# Tiles start at multiples of this, so that a pixel has the same position in its attention window in all of them: 8 x 8
# windows at a sixteenth of the resolution.
TILE_STEP = 128
OVERLAP = 128  # pixels over which one tile blends into the next
LARGEST_TILE = 1152  # side in pixels; 1920 x 1088 takes two


class NetworkFusion:
    """Fuse frames by a network.

    The network moves to the device of the frames.

    Args:
        network: with its weights.
        tile: frames with a longer side than this are processed in blended tiles; None is never.
        compiled: use `torch.compile`, which is faster but takes a minute for the first frame of each size.
        interpolation: how to sample the frames it is given: as in its training.
        graphs: on a CUDA device, record a CUDA graph for each size at its second frame and replay it; see `Graphs`.
        half: compute in bfloat16; None does so where the device has instructions for it, see
            `computes_in_half_precision`.

    Attributes:
        fallback: that the latest call used another precision than that of the frames, no CUDA graph, or no Triton
            kernels on a CUDA device, and why; None if not.
    """

    def __init__(
        self,
        network: FusionNetwork,
        *,
        tile: int | None = LARGEST_TILE,
        compiled: bool = False,
        interpolation: Interpolation = "bilinear",
        graphs: bool = True,
        half: bool | None = None,
    ) -> None:
        if tile is not None and (tile % TILE_STEP or tile <= OVERLAP):
            raise ValueError(f"tile must be a multiple of {TILE_STEP} and over {OVERLAP}; got {tile}.")
        self.network = network.eval().requires_grad_(False)
        self.tile = tile
        self.interpolation: Interpolation = interpolation
        self._forward: Any = torch.compile(self.network, dynamic=False) if compiled else self.network
        self._quick = self._forward
        self.compiled = compiled
        self._state: Hashable = None  # of the weights that `_quick` was made from
        self._graphs = Graphs() if graphs else None
        self._half_wanted, self._half = half, False
        self._device: torch.device | None = None
        self._unrecorded: str | None = None  # why a part of the latest call had no CUDA graph
        self.fallback: str | None = None

    def __call__(self, aligned: AlignedFrames) -> Warped:
        """Fuse to `[B, 3, H, W]` in [0, 1]; valid where any of the frames shows the pixel, `[B, 1, H, W]` bool.

        Gradients flow to the frames and fields if they require them, never to the weights.
        """
        frames = aligned.frames
        self._unrecorded = None
        self._prepare(frames.device)
        height, width = frames.shape[-2:]
        aligned = _with_full_fields(_float32(aligned))
        options = self.network.options
        aligned = self._calmed(aligned) if options.calm else aligned
        padded = _padded(aligned)
        mean = self.network.input_mean(padded)
        if self.tile is None or max(height, width) <= self.tile:
            fused = self._fused(padded, mean)
        else:
            fused = self._in_tiles(padded, mean, self.tile)
        fused = fused[..., :height, :width]
        if options.calm or options.anchor:
            fused = self._finished(fused, aligned)
        self.fallback = self._fallback(frames)
        return Warped(fused.clamp(0.0, 1.0).to(frames.dtype), aligned.valid.any(1))

    def _prepare(self, device: torch.device) -> None:
        """Move the network to a device; keep a copy in half precision until the weights change."""
        if device != self._device:
            self._device, self._state = device, None
            self._half = computes_in_half_precision(device) if self._half_wanted is None else self._half_wanted
            arrange(self.network.to(device))
        state = state_of(self.network) if self._half else None
        if state is None or state != self._state:
            self._quick = self._forward
            if state is not None and not self.compiled:
                self._quick = in_half_precision(self.network)
                with torch.inference_mode(False):
                    arrange(self._quick, always=True)
            if self._graphs is not None and state != self._state:
                self._graphs.clear()
            self._state = state

    def _fallback(self, frames: Tensor) -> str | None:
        plain = "the network runs without Triton kernels: Triton cannot be imported"
        missing = plain if frames.is_cuda and not has_triton() else None
        return joined(in_float32(frames.dtype), self._unrecorded, missing, given_up() if frames.is_cuda else None)

    def _calmed(self, aligned: AlignedFrames) -> AlignedFrames:
        """`calmed`, recorded separately from the network, since it works on whole frames instead of tiles."""

        def run(frames: Tensor, valid: Tensor, time_distance: Tensor) -> Tensor:
            made = calmed(replace(aligned, frames=frames, valid=valid, time_distance=time_distance))
            assert made.detail is not None  # set by `calmed`
            return torch.stack([made.frames, made.detail])

        inputs = (aligned.frames, aligned.valid, aligned.time_distance)
        graphs = self._recorder(*inputs)
        if graphs is None:
            return calmed(aligned)  # without the copy that stacking makes
        frames, detail = self._record(graphs, run, ("calmed", aligned.centre), *inputs)
        return replace(aligned, frames=frames, detail=detail)

    def _finished(self, fused: Tensor, aligned: AlignedFrames) -> Tensor:
        """`anchored` for denoised frames, else `finished`; recorded separately from the network like `_calmed`."""
        last_step = anchored if self.network.options.calm else finished

        def run(fused: Tensor, frames: Tensor, valid: Tensor, time_distance: Tensor) -> Tensor:
            return last_step(fused, replace(aligned, frames=frames, valid=valid, time_distance=time_distance))

        inputs = (fused, aligned.frames, aligned.valid, aligned.time_distance)
        return self._run(run, ("finished", aligned.centre), *inputs)

    def _fused(self, aligned: AlignedFrames, mean: Tensor) -> Tensor:
        """The output of the network for frames of a size it takes, `[B, 3, H, W]`."""
        inputs, gamma = _pictures(aligned), aligned.gamma
        if gamma is not None:
            single = mean[:1, 0, 0, 0, 0]
            inputs["gamma"] = gamma.to(mean) if isinstance(gamma, Tensor) else torch.full_like(single, gamma)
        names = tuple(inputs)

        def run(mean: Tensor, *values: Tensor) -> Tensor:
            given: dict[str, Any] = dict(zip(names, values, strict=True))
            with torch.autocast(mean.device.type, torch.bfloat16, enabled=self._half, cache_enabled=False):
                fused: Tensor = self._quick(AlignedFrames(**given, centre=aligned.centre), mean)
            return fused.float()

        return self._run(run, (aligned.centre, names), mean, *inputs.values())

    def _run(self, work: Callable[..., Tensor], key: Hashable, *inputs: Tensor) -> Tensor:
        """Call the function, as a CUDA graph if possible."""
        graphs = self._recorder(*inputs)
        return work(*inputs) if graphs is None else self._record(graphs, work, key, *inputs)

    def _record(self, graphs: Graphs, work: Callable[..., Tensor], key: Hashable, *inputs: Tensor) -> Tensor:
        result = graphs(work, key, *inputs)
        self._unrecorded = self._unrecorded or graphs.fallback
        return result

    def _recorder(self, *inputs: Tensor) -> Graphs | None:
        """The recorder for calls with these inputs: on a CUDA device, unless a gradient is needed."""
        gradient = torch.is_grad_enabled() and any(value.requires_grad for value in inputs)
        return None if gradient or not inputs[0].is_cuda else self._graphs

    def _in_tiles(self, aligned: AlignedFrames, mean: Tensor, tile: int) -> Tensor:
        height, width = aligned.frames.shape[-2:]
        total = torch.zeros_like(aligned.frames[:, 0], dtype=torch.float32)
        share = torch.zeros_like(total[:1, :1])
        for top in tile_starts(height, tile):
            for left in tile_starts(width, tile):
                bottom, right = min(top + tile, height), min(left + tile, width)
                part = _cut(aligned, slice(top, bottom), slice(left, right))
                rows = _fade(top, bottom, height, share.device).reshape(-1, 1)
                weight = rows * _fade(left, right, width, share.device)
                total[..., top:bottom, left:right] += weight * self._fused(part, mean)
                share[..., top:bottom, left:right] += weight
        return total / share


def shipped_fusion(name: str) -> NetworkFusion:
    """Load the fusion by a network with weights of the package."""
    return NetworkFusion(load_network(name), interpolation=_known_interpolation(card(name).get("interpolation"), name))


def load_network(name: str) -> FusionNetwork:
    """Load a fusion network with weights of the package."""
    if name not in shipped_weights():
        raise WeightsError(
            f"the weights of the fusion {name!r} do not come with this version of the package; use `mean`, or train "
            "the network with `qrsc train fusion`."
        )
    network = build_network(name, dict(card(name)["options"]))
    load_strictly(network, load_weights(name), f"the weights {name!r}")
    return network


def network_from_file(path: Path) -> FusionNetwork:
    """Load a fusion network from a file that `qrsc train fusion` wrote."""
    notes = read_notes(path)
    if "kind" not in notes or "options" not in notes:
        found = "it is of a flow network" if "size" in notes else "its metadata names no network"
        raise WeightsError(f"{path} is not the weights of a fusion network: {found}.")
    options = noted_options(path, notes, "options")
    return build_strictly(lambda: build_network(notes["kind"], options), read_weights(path), str(path))


def fusion_from_file(path: Path) -> NetworkFusion:
    """Load the fusion by a network from a file that `qrsc train fusion` wrote."""
    return NetworkFusion(network_from_file(path), interpolation=trained_interpolation(path))


def trained_interpolation(path: Path) -> Interpolation:
    """How the training frames of the network in a weights file were sampled."""
    return _known_interpolation(read_notes(path).get("interpolation"), str(path))


def build_network(kind: str, options: dict[str, Any] | None = None) -> FusionNetwork:
    """Build a freshly initialised network, `rsa2` or `rsa2-lite`.

    Args:
        options: of the network, by name; tuples may be lists, as in JSON.
    """
    described: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in (options or {}).items()
    }
    if kind == "rsa2":
        return Rsa2Network(Rsa2Options(**described))
    if kind == "rsa2-lite":
        return LiteNetwork(LiteOptions(**described))
    raise ValueError(f"unknown fusion network {shortened(kind)}; choose one of rsa2, rsa2-lite.")


def _known_interpolation(noted: str | None, origin: str) -> Interpolation:
    """The interpolation noted in a card or a file; early weights have no note and are bilinear."""
    for known in INTERPOLATIONS:
        if noted == known:
            return known
    if noted is not None:
        raise WeightsError(
            f"{origin} is for the unknown interpolation {shortened(noted)}; known are {', '.join(INTERPOLATIONS)}."
        )
    return "bilinear"


def arrange(network: nn.Module, *, always: bool = False) -> None:
    """Store the weights of a network channels last, the layout that convolutions in half precision prefer.

    Args:
        always: on a processor as well; there convolutions in float32 are slower for it.
    """
    # Not `network.to(memory_format=...)`, which fails with both 2-D and 3-D convolutions in one network.
    orders = {4: torch.channels_last, 5: torch.channels_last_3d}
    if always or next(network.parameters()).is_cuda:
        for weights in network.parameters():
            if weights.ndim in orders:
                weights.data = weights.data.contiguous(memory_format=orders[weights.ndim])


def tile_starts(size: int, tile: int) -> Iterator[int]:
    """Start positions of tiles that cover a dimension and overlap by at least `OVERLAP`."""
    start = 0
    while True:
        yield start
        if start + tile >= size:
            return
        start += tile - OVERLAP


def _fade(start: int, end: int, size: int, device: torch.device) -> Tensor:
    """Blending weights of a tile along one dimension: rising where another ends, falling where another begins."""
    place = torch.arange(end - start, dtype=torch.float32, device=device)
    weight = torch.ones_like(place)
    # The outermost quarter of an overlap is not used: there the edge of the tile affects the result.
    if start > 0:
        weight = torch.minimum(weight, (place - OVERLAP / 4) / (OVERLAP / 2))
    if end < size:
        weight = torch.minimum(weight, (end - start - 1 - place - OVERLAP / 4) / (OVERLAP / 2))
    return weight.clamp(1e-6, 1.0)


def _with_full_fields(aligned: AlignedFrames) -> AlignedFrames:
    """Upsample the correction fields to the resolution of the frames."""
    fields, size = aligned.correction_fields, aligned.frames.shape[-2:]
    if fields.shape[-2:] == size:
        return aligned
    enlarged = F.interpolate(fields.flatten(0, 1), size=size, mode="bilinear", align_corners=False)
    return replace(aligned, correction_fields=enlarged.reshape(*fields.shape[:3], *size))


def _cut(aligned: AlignedFrames, rows: slice, columns: slice) -> AlignedFrames:
    return _changed(aligned, lambda values: values[..., rows, columns])


def _float32(aligned: AlignedFrames) -> AlignedFrames:
    return _changed(aligned, lambda values: values if values.dtype == torch.bool else values.float())


def _changed(aligned: AlignedFrames, change: Callable[[Tensor], Tensor]) -> AlignedFrames:
    """Apply a function to all tensors with pixels."""
    changed: dict[str, Any] = {name: change(values) for name, values in _pictures(aligned).items()}
    return replace(aligned, **changed)


def _pictures(aligned: AlignedFrames) -> dict[str, Tensor]:
    """All tensors with pixels, by name."""
    named = {field.name: getattr(aligned, field.name) for field in fields(aligned) if field.name != "gamma"}
    return {name: values for name, values in named.items() if isinstance(values, Tensor)}


def _padded(aligned: AlignedFrames) -> AlignedFrames:
    """Pad to the right and below to a size that the networks take."""
    height, width = aligned.frames.shape[-2:]
    below, right = -height % MULTIPLE, -width % MULTIPLE
    if not below and not right:
        return aligned

    def extended(values: Tensor) -> Tensor:
        flat = F.pad(values.flatten(0, 1).float(), (0, right, 0, below), mode="replicate")
        return flat.reshape(*values.shape[:2], *flat.shape[1:]).to(values.dtype)

    return _changed(aligned, extended)
