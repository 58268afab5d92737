"""The recurrent update of the flow network: from correlations around the current flow to a better flow."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.convolutions import convolved_both, gated, rectified
from qrsc.backend.kernels import by_kernel

OUTPUTS = 4  # dx, dy, and the two numbers of their uncertainty; see qrsc.flow.raft_rs.certainty


def aligned(channels: int) -> int:
    """The next multiple of 8: tensor cores take channels in multiples of 8, other counts get far slower kernels."""
    return -(-channels // 8) * 8


def gather_evidence(parts: list[Tensor], dtype: torch.dtype) -> Tensor:
    """Concatenate the inputs of an update, padded with zero channels to a multiple of 8: `[B, C, h, w]` of a dtype."""
    channels = sum(part.shape[1] for part in parts)
    batch, _, height, width = parts[0].shape
    filler = parts[0].new_zeros((batch, aligned(channels) - channels, height, width), dtype=dtype)
    joined = torch.cat([*(part.to(dtype) for part in parts), filler], dim=1)
    return joined.contiguous(memory_format=torch.channels_last)


class Update(nn.Module):
    """A gated recurrent update on a grid of cells.

    Args:
        evidence: channels of the inputs at the current flow, a multiple of 8; see `aligned`.
        hidden: channels of the state, and of the context, which is the same in all steps.
        motion: channels of the motion features computed from the inputs.
    """

    def __init__(self, evidence: int, hidden: int, motion: int) -> None:
        super().__init__()
        self.from_evidence = nn.Conv2d(evidence, motion + motion // 2, 1)
        self.motion = nn.Conv2d(motion + motion // 2, motion, 3, padding=1)
        self.mix = nn.Conv2d(2 * hidden + motion, hidden, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.ReLU(), nn.Conv2d(hidden, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, hidden, 3, padding=1)
            )
            for _ in range(2)
        )
        self.gate = nn.Conv2d(hidden, 2 * hidden, 1)
        self.head = nn.Sequential(nn.Conv2d(hidden, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, OUTPUTS, 1))

    def forward(self, state: Tensor, context: Tensor, evidence: Tensor) -> tuple[Tensor, Tensor]:
        """The next state, and the update of the flow.

        Args:
            state, context: `[B, hidden, h, w]`.
            evidence: `[B, evidence, h, w]`.

        Returns:
            state: `[B, hidden, h, w]`, between -1 and 1.
            outputs: `[B, 4, h, w]`: the change of the flow, then its uncertainty.
        """
        motion = rectified(rectified(evidence, self.from_evidence), self.motion)
        x, positive = convolved_both(torch.cat([state, context, motion], dim=1), self.mix)
        for block in self.blocks:
            _, first, _, second = block.children()
            x, positive = convolved_both(rectified(positive, first), second, x)
        state = gated(positive, self.gate, state)
        first, _, last = self.head
        outputs: Tensor = last(rectified(state, first))
        return state, outputs


class Upsampler(nn.Module):
    """Convex upsampling: each new pixel is a weighted mean of the 3 x 3 cells around it, weights from the state."""

    def __init__(self, hidden: int, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.weights = nn.Sequential(
            nn.Conv2d(hidden, hidden, 3, padding=1), nn.ReLU(), nn.Conv2d(hidden, 9 * factor * factor, 1)
        )

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """Upsample `[B, C, h, w]` to `[B, C, factor h, factor w]`, float32; values are not scaled."""
        first, _, last = self.weights
        weights = last(rectified(state, first))

        def kernel() -> Tensor:
            from qrsc.flow.raft_rs import step_kernels

            return step_kernels.enlarged(values, weights, self.factor)

        twin = lambda: plainly_enlarged(values, weights, self.factor)  # noqa: E731  # in the place of a function
        return by_kernel("convex upsampling", kernel, twin, values, weights)


def plainly_enlarged(values: Tensor, weights: Tensor, factor: int) -> Tensor:
    """Convex upsampling of `[B, C, h, w]` with the logits of the weights, `[B, 9 factor**2, h, w]`, times 4."""
    batch, channels, height, width = values.shape
    weights = 0.25 * weights.float()  # a quarter: the weights start out nearly equal
    weights = weights.reshape(batch, 1, 9, factor * factor, height, width).softmax(dim=2)
    around = F.pad(values.float(), (1, 1, 1, 1), mode="replicate")
    shifted = [around[:, :, y : y + height, x : x + width] for y in range(3) for x in range(3)]
    mixed = sum(weights[:, :, k] * shifted[k].unsqueeze(2) for k in range(9))
    assert isinstance(mixed, Tensor)  # a sum of nine of them
    return F.pixel_shuffle(mixed.reshape(batch, channels * factor * factor, height, width), factor)
