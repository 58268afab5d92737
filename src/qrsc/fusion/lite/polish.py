"""A last look at every pixel of a fused frame.

What `rsa2-lite` finds at a quarter of the size are kernels and weights for the frames' own pixels; the error that is
left is fine: on simulated clips, more than half of it changes over a pixel or two. A few convolutions at half the size
see the result beside what each side of the clip would have made different, and add what is missing. With them the
network gained 0.37 dB; behind RSA^2-Net, which works on pixels itself, they learned to add nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.coherent import visible_detail
from qrsc.fusion.rsa2.encoder import start_at_zero

STRIDE = 2  # pixels of the frame a cell of the convolutions
AROUND = 2  # their cells a cell of the features that say what is around
# Differences between frames are small wherever they matter.
UNLIKE_SCALE = 4.0
# Of the range that the result or the centre frame has within 3 x 3 pixels, how much can be added: nothing where both
# are plain.
LARGEST = 0.5
CHANNELS = 14  # of what is seen of a result; one more of calmed frames


class Polish(nn.Module):
    """What is missing in a picture, by pairs of convolutions.

    Args:
        calm: the frames are calmed, and what was taken away from them is looked at.
        around: channels of the features that say what is around, at a quarter of the picture's size.
        width: channels of the convolutions.
        pairs: of convolutions, between a first and a last one.
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
        """The picture with what was missing, `[B, 3, H, W]`.

        Args:
            fused: `[B, 3, H, W]`.
            aligned: what it was made from.
            frames: `[B, T, 3, H, W]`, the same frames as the network left them.
            weight: `[B, T, 1, H, W]`, how much each of them counts.
            mean: `[B, 3, 1, 1]`, colours that are not to be seen.
            around: `[B, around, H / 4, W / 4]`.
        """
        seen = F.pixel_unshuffle(self._seen(fused, aligned, frames, weight, mean), STRIDE)
        near = F.pixel_shuffle(self.around(around), AROUND)
        features = F.relu(self.enter(torch.cat([seen.to(near.dtype), near], 1)))
        for first, second in zip(self.first, self.second, strict=True):
            features = features + second(F.relu(first(features)))
        missing = F.pixel_shuffle(self.leave(features), STRIDE).to(fused.dtype)
        most = LARGEST * torch.maximum(_range(fused), _range(frames[:, aligned.centre]))
        return fused + torch.minimum(torch.maximum(missing, -most), most)

    def _seen(self, fused: Tensor, aligned: AlignedFrames, frames: Tensor, weight: Tensor, mean: Tensor) -> Tensor:
        """The result, and what frames differ from it by, `[B, C, H, W]`."""
        unlike = weight * (frames - fused[:, None])  # [B, T, 3, H, W]
        spread = unlike.abs().sum(1).mean(1, keepdim=True)
        # However many there are: what the frames before the centre one make different, itself, and those after it.
        before, own, after = unlike.tensor_split((aligned.centre, aligned.centre + 1), 1)
        differing = [UNLIKE_SCALE * part for part in (before.sum(1), own.sum(1), after.sum(1), spread)]
        parts = [fused - mean, *differing, weight[:, aligned.centre]]
        if self.calm:
            parts.append((weight * visible_detail(aligned)).sum(1))
        return torch.cat(parts, 1)


def _range(picture: Tensor) -> Tensor:
    """The range of every colour of `[B, 3, H, W]` within 3 x 3 pixels."""
    padded = F.pad(picture, (1, 1, 1, 1), mode="replicate")
    return _extreme(padded, torch.maximum) - _extreme(padded, torch.minimum)


def _extreme(padded: Tensor, of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The largest or the smallest value within 3 x 3 pixels, from a picture with a rim of one pixel."""
    # Along columns, then along rows: less than a tenth of the time of `max_pool2d` on a CPU.
    for dim in (-2, -1):
        size = padded.shape[dim] - 2
        first, middle, last = (padded.narrow(dim, start, size) for start in range(3))
        padded = of(of(first, middle), last)
    return padded
