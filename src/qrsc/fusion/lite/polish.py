"""Refinement of a fused frame by a learned residual.

At a quarter of the resolution `rsa2-lite` predicts kernels and weights for the frames' own pixels. The error that is
left is fine: on simulated clips, more than half of it varies over a pixel or two. A few convolutions at half the
resolution see the result and how the frames before and after the centre frame differ from it, and predict the residual.
With them the network gained 0.37 dB; after RSA^2-Net, which works at full resolution itself, they learned to add
nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.convolutions import convolved, rectified
from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.blocks import shuffled, start_at_zero, unshuffled
from qrsc.fusion.denoise import visible_detail

STRIDE = 2  # of the convolutions, in pixels of the frame
AROUND = 2  # stride of the context features, in cells of the convolutions
# Differences between frames are small where they matter; this brings them to the range of the other inputs.
UNLIKE_SCALE = 4.0
# The residual is at most this part of the range of values within 3 x 3 pixels of the result or of the centre frame: 0
# where both are flat.
LARGEST = 0.5
CHANNELS = 14  # of the input; one more with calmed frames


class Polish(nn.Module):
    """A residual network on a fused frame.

    Args:
        calm: the frames are calmed, and the detail removed from them is an input.
        around: channels of the context features, at a quarter of the frame's resolution.
        width: channels of the convolutions.
        pairs: number of residual blocks, of two convolutions each.
    """

    def __init__(self, *, calm: bool, around: int, width: int, pairs: int) -> None:
        super().__init__()
        self.calm = calm
        self.around = nn.Conv2d(around, width // 2 * AROUND**2, 1)
        self.enter = nn.Conv2d((CHANNELS + calm) * STRIDE**2 + width // 2, width, 3, padding=1)
        self.first = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(pairs))
        self.second = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(pairs))
        self.leave = nn.Conv2d(width, 3 * STRIDE**2, 3, padding=1)
        start_at_zero(self.leave)

    def forward(
        self, fused: Tensor, aligned: AlignedFrames, frames: Tensor, weight: Tensor, mean: Tensor, around: Tensor
    ) -> Tensor:
        """Add the predicted residual, `[B, 3, H, W]`.

        Args:
            fused: `[B, 3, H, W]`, the fused frame.
            aligned: the network's input.
            frames: `[B, T, 3, H, W]`, the frames after filtering by the network.
            weight: `[B, T, 1, H, W]`, their weights.
            mean: `[B, 3, 1, 1]`, subtracted from the input.
            around: `[B, around, H / 4, W / 4]`, context features.
        """
        near = shuffled(self.around(around), AROUND)
        seen = unshuffled(self._seen(fused, aligned, frames, weight, mean).to(near.dtype), STRIDE)
        features = rectified(torch.cat([seen, near], 1), self.enter)
        for first, second in zip(self.first, self.second, strict=True):
            features = convolved(rectified(features, first), second, features)
        missing = shuffled(self.leave(features), STRIDE).to(fused.dtype)
        most = LARGEST * torch.maximum(_range(fused), _range(frames[:, aligned.centre]))
        return fused + torch.minimum(torch.maximum(missing, -most), most)

    def _seen(self, fused: Tensor, aligned: AlignedFrames, frames: Tensor, weight: Tensor, mean: Tensor) -> Tensor:
        """The fused frame and the differences of the frames from it, `[B, C, H, W]`."""
        unlike = weight * (frames - fused[:, None])  # [B, T, 3, H, W]
        spread = unlike.abs().sum(1).mean(1, keepdim=True)
        # For any number of frames: the differences of those before the centre frame, its own, and of those after it.
        before, own, after = unlike.tensor_split((aligned.centre, aligned.centre + 1), 1)
        differing = [UNLIKE_SCALE * part for part in (before.sum(1), own.sum(1), after.sum(1), spread)]
        parts = [fused - mean, *differing, weight[:, aligned.centre]]
        if self.calm:
            parts.append((weight * visible_detail(aligned)).sum(1))
        return torch.cat(parts, 1)


def _range(picture: Tensor) -> Tensor:
    """The range (maximum - minimum) of each colour of `[B, 3, H, W]` within 3 x 3 pixels."""
    padded = F.pad(picture, (1, 1, 1, 1), mode="replicate")
    return _extreme(padded, torch.maximum) - _extreme(padded, torch.minimum)


def _extreme(padded: Tensor, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The maximum or minimum within 3 x 3 pixels, from an image padded by one pixel."""
    # One dimension after the other: less than a tenth of the time of `max_pool2d` on a CPU.
    for dim in (-2, -1):
        size = padded.shape[dim] - 2
        first, middle, last = (padded.narrow(dim, start, size) for start in range(3))
        padded = of(of(first, middle), last)
    return padded
