"""The fusion networks as fusions: frames of any size, in tiles where they are large, on the device they come on."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.cuda_graphs import Graphs
from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.coherent import anchored, calmed
from qrsc.fusion.lite.network import LiteNetwork, LiteOptions
from qrsc.fusion.rsa2.network import MULTIPLE, Rsa2Network, Rsa2Options
from qrsc.warp import INTERPOLATIONS, Interpolation, Warped
from qrsc.weights import (
    WeightsError,
    card,
    load_strictly,
    load_weights,
    read_notes,
    read_weights,
    shipped_weights,
)

FusionNetwork = Rsa2Network | LiteNetwork

# Tiles start at multiples of this, so that a pixel lies at the same place of its window in all of them: 8 x 8 windows
# at a sixteenth of the size.
TILE_STEP = 128
OVERLAP = 128  # pixels over which one tile fades into the next
LARGEST_TILE = 1152  # pixels a side; 1920 x 1088 is two of them


class NetworkFusion:
    """One frame from several by a network.

    The network goes to the device of the frames, and works in bfloat16 on a CUDA device, in float32 elsewhere.

    Args:
        network: with its weights.
        tile: frames with a side above this go through in tiles that fade into each other; None is never.
        compiled: let `torch.compile` make the network faster; the first frame of each size then takes a minute.
        interpolation: how the frames should be sampled that it is given: as in its training.
        graphs: on a CUDA device, record the work of each size at its second frame and replay it; see `Graphs`.
    """

    def __init__(
        self,
        network: FusionNetwork,
        *,
        tile: int | None = LARGEST_TILE,
        compiled: bool = False,
        interpolation: Interpolation = "bilinear",
        graphs: bool = True,
    ) -> None:
        if tile is not None and (tile % TILE_STEP or tile <= OVERLAP):
            raise ValueError(f"tile must be a multiple of {TILE_STEP} and over {OVERLAP}; got {tile}.")
        self.network = network.eval().requires_grad_(False)
        self.tile = tile
        self.interpolation: Interpolation = interpolation
        self._forward: Any = torch.compile(self.network, dynamic=False) if compiled else self.network
        self._graphs = Graphs() if graphs else None
        self._device: torch.device | None = None

    def __call__(self, aligned: AlignedFrames) -> Warped:
        """`[B, 3, H, W]` in [0, 1], and where any of the frames shows the pixel, `[B, 1, H, W]` bool.

        Gradients reach the frames and fields, if they are asked for, and never the weights.
        """
        frames = aligned.frames
        if frames.device != self._device:
            self._device = frames.device
            arrange(self.network.to(frames.device))
            if self._graphs is not None:
                self._graphs.clear()
        height, width = frames.shape[-2:]
        aligned = _with_full_fields(_float32(aligned))
        calm = self._calmed(aligned) if self.network.options.calm else None
        padded = _padded(aligned if calm is None else calm)
        mean = self.network.input_mean(padded)
        if self.tile is None or max(height, width) <= self.tile:
            fused = self._fused(padded, mean)
        else:
            fused = self._in_tiles(padded, mean, self.tile)
        fused = fused[..., :height, :width]
        if calm is not None:
            fused = self._anchored(fused, calm)
        return Warped(fused.clamp(0.0, 1.0).to(frames.dtype), aligned.valid.any(1))

    def _calmed(self, aligned: AlignedFrames) -> AlignedFrames:
        """What `calmed` makes of the frames, recorded apart from the network: it sees the whole picture, no tiles."""

        def run(frames: Tensor, valid: Tensor, time_distance: Tensor) -> Tensor:
            made = calmed(replace(aligned, frames=frames, valid=valid, time_distance=time_distance))
            assert made.detail is not None  # what `calmed` is there for
            return torch.stack([made.frames, made.detail])

        inputs = (aligned.frames, aligned.valid, aligned.time_distance)
        graphs = self._recorder(*inputs)
        if graphs is None:
            return calmed(aligned)  # as it is: a stack would be a copy for nothing
        frames, detail = graphs(run, ("calmed", aligned.centre), *inputs)
        return replace(aligned, frames=frames, detail=detail)

    def _anchored(self, fused: Tensor, aligned: AlignedFrames) -> Tensor:
        """What `anchored` makes of the result, recorded as `_calmed` is."""

        def run(fused: Tensor, frames: Tensor, valid: Tensor, time_distance: Tensor) -> Tensor:
            return anchored(fused, replace(aligned, frames=frames, valid=valid, time_distance=time_distance))

        inputs = (fused, aligned.frames, aligned.valid, aligned.time_distance)
        return self._run(run, ("anchored", aligned.centre), *inputs)

    def _fused(self, aligned: AlignedFrames, mean: Tensor) -> Tensor:
        """What the network makes of frames it can take, `[B, 3, H, W]`."""
        inputs, gamma = _pictures(aligned), aligned.gamma
        if gamma is not None:
            single = mean[:1, 0, 0, 0, 0]
            inputs["gamma"] = gamma.to(mean) if isinstance(gamma, Tensor) else torch.full_like(single, gamma)
        names = tuple(inputs)

        def run(mean: Tensor, *values: Tensor) -> Tensor:
            given: dict[str, Any] = dict(zip(names, values, strict=True))
            with torch.autocast(mean.device.type, torch.bfloat16, enabled=mean.is_cuda, cache_enabled=False):
                fused: Tensor = self._forward(AlignedFrames(**given, centre=aligned.centre), mean)
            return fused.float()

        places = tuple(weights.data_ptr() for weights in self.network.parameters())
        return self._run(run, (aligned.centre, places, names), mean, *inputs.values())

    def _run(self, work: Callable[..., Tensor], key: Hashable, *inputs: Tensor) -> Tensor:
        """What the work makes of the inputs, recorded and replayed where it can be."""
        graphs = self._recorder(*inputs)
        return work(*inputs) if graphs is None else graphs(work, key, *inputs)

    def _recorder(self, *inputs: Tensor) -> Graphs | None:
        """Where work on these inputs is recorded: on a CUDA device, unless a gradient is asked for."""
        wanted = torch.is_grad_enabled() and any(value.requires_grad for value in inputs)
        return None if wanted or not inputs[0].is_cuda else self._graphs

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
    """The fusion by a network with weights of the package."""
    return NetworkFusion(load_network(name), interpolation=_known_interpolation(card(name).get("interpolation")))


def load_network(name: str) -> FusionNetwork:
    """A fusion network with weights of the package."""
    if name not in shipped_weights():
        raise WeightsError(
            f"the weights of the fusion {name!r} do not come with this version of the package; use `mean`, or train "
            "it with `qrsc train fusion`."
        )
    network = build_network(name, dict(card(name)["options"]))
    load_strictly(network, load_weights(name), f"the weights {name!r}")
    return network


def network_from_file(path: Path) -> FusionNetwork:
    """A fusion network from a file that its training wrote."""
    notes = read_notes(path)
    if "kind" not in notes or "options" not in notes:
        raise WeightsError(f"{path} does not say what network it is of; it is not the weights of a fusion network.")
    network = build_network(notes["kind"], json.loads(notes["options"]))
    load_strictly(network, read_weights(path), str(path))
    return network


def fusion_from_file(path: Path) -> NetworkFusion:
    """The fusion by a network from a file that its training wrote."""
    return NetworkFusion(network_from_file(path), interpolation=trained_interpolation(path))


def trained_motion(path: Path) -> str:
    """What the frames were brought to the instant by that the network of a weights file was trained on."""
    return read_notes(path).get("motion", "quadratic")


def trained_interpolation(path: Path) -> Interpolation:
    """How the frames were sampled that the network of a weights file was trained on."""
    return _known_interpolation(read_notes(path).get("interpolation"))


def build_network(kind: str, options: dict[str, Any] | None = None) -> FusionNetwork:
    """A network of a kind, `rsa2` or `rsa2-lite`, with first weights.

    Args:
        options: of the network, by their names; lists for tuples, as JSON has them, are as good.
    """
    described: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in (options or {}).items()
    }
    if kind == "rsa2":
        return Rsa2Network(Rsa2Options(**described))
    if kind == "rsa2-lite":
        return LiteNetwork(LiteOptions(**described))
    raise ValueError(f"unknown fusion network {kind!r}; choose one of rsa2, rsa2-lite.")


def _known_interpolation(noted: str | None) -> Interpolation:
    """What a card or a file says; the first weights were trained before there was a choice."""
    for known in INTERPOLATIONS:
        if noted == known:
            return known
    if noted is not None:
        raise WeightsError(f"weights for the unknown interpolation {noted!r}; known are {', '.join(INTERPOLATIONS)}.")
    return "bilinear"


def arrange(network: nn.Module) -> None:
    """Put the weights of a network on a GPU into the order that its convolutions like, channels last."""
    # Not `network.to(memory_format=...)`: that asks the same of weights of two and of three dimensions, and fails.
    orders = {4: torch.channels_last, 5: torch.channels_last_3d}
    if next(network.parameters()).is_cuda:
        for weights in network.parameters():
            if weights.ndim in orders:
                weights.data = weights.data.contiguous(memory_format=orders[weights.ndim])


def tile_starts(size: int, tile: int) -> Iterator[int]:
    """Where tiles begin so that they cover a side and overlap by `OVERLAP` at least."""
    start = 0
    while True:
        yield start
        if start + tile >= size:
            return
        start += tile - OVERLAP


def _fade(start: int, end: int, size: int, device: torch.device) -> Tensor:
    """Weights of a tile along one side: rising where another one ends, falling where another one begins."""
    place = torch.arange(end - start, dtype=torch.float32, device=device)
    weight = torch.ones_like(place)
    # The outermost quarter of an overlap is left out: there a tile sees its own edge.
    if start > 0:
        weight = torch.minimum(weight, (place - OVERLAP / 4) / (OVERLAP / 2))
    if end < size:
        weight = torch.minimum(weight, (end - start - 1 - place - OVERLAP / 4) / (OVERLAP / 2))
    return weight.clamp(1e-6, 1.0)


def _with_full_fields(aligned: AlignedFrames) -> AlignedFrames:
    """With a field vector for every pixel of the frames."""
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
    """All that has pixels changed alike."""
    changed: dict[str, Any] = {name: change(values) for name, values in _pictures(aligned).items()}
    return replace(aligned, **changed)


def _pictures(aligned: AlignedFrames) -> dict[str, Tensor]:
    """All that has pixels, by name."""
    named = {field.name: getattr(aligned, field.name) for field in fields(aligned) if field.name != "gamma"}
    return {name: values for name, values in named.items() if isinstance(values, Tensor)}


def _padded(aligned: AlignedFrames) -> AlignedFrames:
    """Extended to the right and below to what the networks take."""
    height, width = aligned.frames.shape[-2:]
    below, right = -height % MULTIPLE, -width % MULTIPLE
    if not below and not right:
        return aligned

    def extended(values: Tensor) -> Tensor:
        flat = F.pad(values.flatten(0, 1).float(), (0, right, 0, below), mode="replicate")
        return flat.reshape(*values.shape[:2], *flat.shape[1:]).to(values.dtype)

    return _changed(aligned, extended)
