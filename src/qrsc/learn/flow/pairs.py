"""Pairs of frames with the true flows between them, for training and scoring, and the pool of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from qrsc.learn.pool.augment import photometric
from qrsc.learn.pool.pool import Pool
from qrsc.learn.pool.tensor_batch import TensorBatch
from qrsc.simulate.render.rows import render_rs
from qrsc.simulate.render.surfaces import Scene
from qrsc.simulate.render.truth import rs_flow
from qrsc.timing import Readout

PairSource = Callable[[torch.Generator], "FlowPairs"]


@dataclass(frozen=True)
class FlowPairs(TensorBatch):
    """A batch of frame pairs with true flows.

    Attributes:
        first, second: `[B, 3, H, W]`, frames in [0, 1].
        forward, backward: `[B, 2, H, W]`, flows in pixels, on the pixels of the first and of the second frame.
        forward_visible, backward_visible: `[B, 1, H, W]`, bool: the point is visible in the other frame.
        forward_known, backward_known: `[B, 1, H, W]`, bool: the pixel has a true flow.
    """

    first: Tensor
    second: Tensor
    forward: Tensor
    backward: Tensor
    forward_visible: Tensor
    backward_visible: Tensor
    forward_known: Tensor
    backward_known: Tensor

    @property
    def both_flows(self) -> Tensor:
        """`[2 B, 2, H, W]`: all forward flows, then all backward flows, in the order of the network's batch."""
        return torch.cat([self.forward, self.backward])

    @property
    def both_visible(self) -> Tensor:
        """`[2 B, 1, H, W]`, bool."""
        return torch.cat([self.forward_visible, self.backward_visible])

    @property
    def both_known(self) -> Tensor:
        """`[2 B, 1, H, W]`, bool."""
        return torch.cat([self.forward_known, self.backward_known])


def join_pairs(parts: Sequence[FlowPairs]) -> FlowPairs:
    """Concatenate batches."""
    return FlowPairs(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(FlowPairs)))


@torch.no_grad()
def render_pairs(
    scene: Scene, readout: Readout, frames: Sequence[int], *, exposure: float = 0.0, samples: int = 1
) -> FlowPairs:
    """Render consecutive rolling-shutter frames of scenes and return all pairs of neighbours.

    Args:
        scene: B scenes.
        readout: of the frames.
        frames: N consecutive frame numbers.
        exposure, samples: as for `qrsc.simulate.render.rows.render_rs`.

    Returns:
        `(N - 1) B` pairs.
    """
    pictures = [render_rs(scene, readout, frame, exposure=exposure, exposures=5, samples=samples) for frame in frames]
    parts = []
    for (here, first), (there, second) in zip(
        zip(frames[:-1], pictures[:-1], strict=True), zip(frames[1:], pictures[1:], strict=True), strict=True
    ):
        forward, forward_visible = rs_flow(scene, readout, here, there)
        backward, backward_visible = rs_flow(scene, readout, there, here)
        parts.append(
            FlowPairs(
                first,
                second,
                forward,
                backward,
                forward_visible,
                backward_visible,
                _known(forward, forward_visible),
                _known(backward, backward_visible),
            )
        )
    return join_pairs(parts)


def _known(flow: Tensor, visible: Tensor) -> Tensor:
    """Where there is a true flow: the simulator gives exactly 0 for pixels without a surface."""
    return visible | (flow != 0).any(dim=1, keepdim=True)


def mirrored(pairs: FlowPairs, generator: torch.Generator) -> FlowPairs:
    """Flip each pair horizontally, vertically, both or not at all, at random.

    The flow network does not know the scan direction, so that a flipped rolling-shutter pair is a valid pair.

    Args:
        generator: on the pairs' device.
    """
    values = {field.name: getattr(pairs, field.name) for field in fields(pairs)}
    for dim, component in ((-1, 0), (-2, 1)):
        chosen = torch.rand(len(pairs), 1, 1, 1, generator=generator, device=pairs.first.device) < 0.5
        values = {name: torch.where(chosen, value.flip(dim), value) for name, value in values.items()}
        sign = torch.ones(1, 2, 1, 1, device=pairs.first.device)
        sign[:, component] = -1.0
        for name in ("forward", "backward"):
            values[name] = torch.where(chosen, values[name] * sign, values[name])
    return FlowPairs(**values)


class PairPool(Pool[FlowPairs]):
    """A pool of pairs; each batch is flipped, changed in colour and made noisy at random."""

    def packed(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Frames in 8 bits, as cameras deliver them."""
        return {**values, **{name: (values[name] * 255.0).round().to(torch.uint8) for name in ("first", "second")}}

    def augmented(self, drawn: dict[str, Tensor], generator: torch.Generator) -> FlowPairs:
        """Augmented pairs."""
        for name in ("first", "second"):
            drawn[name] = drawn[name].float() / 255.0
        pairs = mirrored(FlowPairs(**drawn), generator)
        first, second = photometric(pairs.first, pairs.second, generator)
        return FlowPairs(first, second, *(getattr(pairs, field.name) for field in fields(pairs)[2:]))
