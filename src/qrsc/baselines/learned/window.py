"""What every network is given, and what it has to offer.

Convention
    Frames are read from the top: row y of the current frame is exposed at gamma y / H, and the row of the one before an
    interval earlier. None of the published networks is told gamma, and all were trained where it is 1. Here the factors
    by which they multiply a velocity are true times, which for gamma = 1 are the published factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qrsc.data.dataset import TruthInstant

# A loss of pictures and their truth, `[B, 3, H, W]` each in [0, 1], to `[B]`.
FeatureLoss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Window:
    """The frame that is corrected, and its neighbours.

    Attributes:
        frames: `[B, N, 3, H, W]`: previous, current, and next for networks that take three.
        flows: `[B, 2, 2, H, W]`, from the previous to the current frame, and back; zeros for networks that find their
            own.
        gamma: `[B]`.
        rows: of the frames before they were padded.
    """

    frames: Tensor
    flows: Tensor
    gamma: Tensor
    rows: int

    def __post_init__(self) -> None:
        frames, flows = self.frames, self.flows
        if frames.ndim != 5 or frames.shape[1] not in (2, 3) or frames.shape[2] != 3:
            raise ValueError(f"a window is two or three RGB frames [B, N, 3, H, W]; got {list(frames.shape)}.")
        expected = [len(frames), 2, 2, *frames.shape[-2:]]
        if list(flows.shape) != expected:
            raise ValueError(
                f"the flows of a window with frames {list(frames.shape)} are {expected}; got {list(flows.shape)}."
            )
        if self.gamma.shape != (len(frames),):
            raise ValueError(f"gamma is one number for each of {len(frames)} windows; got {list(self.gamma.shape)}.")

    def remaining(self, tau: Tensor, height: int, level: int = 0) -> Tensor:
        """Time from the exposure of each row to an instant.

        Args:
            tau: `[B]`, since the start of the frame.
            height: rows at this level of a pyramid.
            level: 0 for full resolution, 1 for half of it.

        Returns:
            `[B, 1, height, 1]`.
        """
        places = torch.arange(height, device=tau.device, dtype=tau.dtype)
        rows = (places + 0.5) * float(1 << level) - 0.5
        return tau.reshape(-1, 1, 1, 1) - self.gamma.reshape(-1, 1, 1, 1) * rows.reshape(1, 1, -1, 1) / self.rows

    def shown(self, count: int) -> Window:
        """The same with the first frames alone: 2 without the next one."""
        return replace(self, frames=self.frames[:, :count])

    def repeated(self, times: int) -> Window:
        """The same windows several times, one batch after the other."""
        frames, flows, gamma = (
            values.repeat(times, *[1] * (values.ndim - 1)) for values in (self.frames, self.flows, self.gamma)
        )
        return replace(self, frames=frames, flows=flows, gamma=gamma)

    def padded(self, multiple: int) -> Window:
        """The same with sides that are multiples, repeating the last row and column."""
        height, width = self.frames.shape[-2:]
        missing = (0, -width % multiple, 0, -height % multiple)
        if not any(missing):
            return self

        def larger(values: Tensor) -> Tensor:
            flat = F.pad(values.flatten(0, 1), missing, mode="replicate")
            return flat.reshape(*values.shape[:2], *flat.shape[1:])

        return replace(self, frames=larger(self.frames), flows=larger(self.flows))


@dataclass(frozen=True)
class Truths:
    """The global-shutter frames that a training knows, `[B, 3, H, W]` each.

    Attributes:
        before: at the middle row of the previous frame.
        first: at the first row of the current frame.
        middle: at its middle row.
    """

    before: Tensor
    first: Tensor
    middle: Tensor


class Baseline(nn.Module):
    """A network that corrects the current frame of a window.

    Attributes:
        inputs: frames that it is given: 2 (previous, current) or 3 (and next).
        multiple: what both sides of the frames have to be multiples of.
        uses_flow: it needs the flows of the window.
        instants: those that it gives: of the first row, the middle row, or both for a network that gives any.
        peak: the learning rate that its authors recommend.
        published: millions of parameters of the published network, without its flow network.
        trained_width: of the network that `qrsc train baseline` trains; narrower than published.
    """

    inputs: ClassVar[int] = 2
    multiple: ClassVar[int]
    uses_flow: ClassVar[bool]
    instants: ClassVar[tuple[TruthInstant, ...]]
    peak: ClassVar[float] = 1e-4
    published: ClassVar[float]
    trained_width: ClassVar[int]

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.width = width

    def predict(self, window: Window, tau: Tensor) -> Tensor:
        """The frame at instants tau `[B]`, `[B, 3, H, W]`; the window has sides of the right multiple."""
        raise NotImplementedError

    def loss(self, window: Window, truths: Truths, features: FeatureLoss) -> Tensor:
        """The method's own loss, a scalar."""
        raise NotImplementedError

    def corrected(self, window: Window, tau: Tensor) -> Tensor:
        """The frame at instants tau `[B]`, for windows of any size: `[B, 3, H, W]`."""
        count, height, width = window.frames.shape[1], *window.frames.shape[-2:]
        if count != self.inputs:
            raise ValueError(f"{type(self).__name__} takes windows of {self.inputs} frames; got {count}.")
        return self.predict(window.padded(self.multiple), tau)[..., :height, :width]
