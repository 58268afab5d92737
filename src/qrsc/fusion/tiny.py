"""A network for processors: it corrects the weights of the mean and adds the fine detail that is missing.

The frames are averaged once, with weights that start as those of `mean_fusion`. Convolutions on cells of 4 x 4 pixels
see the mean, how the luma of each frame differs from it, and where each frame shows the pixel. They predict how much of
each frame to add to the weights, which keeps grain that averaging would remove, and fine detail for every pixel. All
that is left to do at full size is a few passes over single planes.

The detail that is added is limited to half of the range that the mean has around the pixel, so that plain areas stay
plain, and its mean over 3 x 3 cells is removed, so that colours cannot drift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.convolutions import convolved, rectified
from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.blocks import start_at_zero
from qrsc.fusion.mean import gridded_weights, weighted_mean
from qrsc.image.colour import luma
from qrsc.image.sampling import enlarged
from qrsc.weights.architecture import require_sizes

STRIDE = 4  # side of a cell, in pixels
STEPS = (-1, 0, 1)  # the frames that the convolutions see, counted from the centre; others only have their weights
# Differences between frames, and what is missing, are a few hundredths; this brings them to the range of the features.
UNLIKE_SCALE, MISSING_SCALE = 8.0, 0.1

_LIMITS = {"width": (1, 1024), "pairs": (0, 32)}


@dataclass(frozen=True)
class TinyOptions:
    """The network's architecture.

    Attributes:
        width: channels of the convolutions.
        pairs: number of residual blocks, of two convolutions each.
        calm, anchor: as of the other networks; this one gets frames as they were sampled, and its result is final.
    """

    width: int = 64
    pairs: int = 4
    calm: ClassVar[bool] = False
    anchor: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_sizes(self, _LIMITS)


class TinyNetwork(nn.Module):
    """Fuse a frame with its neighbours; see the module's description."""

    def __init__(self, options: TinyOptions | None = None) -> None:
        super().__init__()
        self.options = options = TinyOptions() if options is None else options
        width, pixels, seen = options.width, STRIDE**2, len(STEPS)
        self.enter = nn.Conv2d((3 + seen) * pixels + 2 * seen, width, 3, padding=1)
        self.first = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(options.pairs))
        self.second = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(options.pairs))
        self.leave = nn.Conv2d(width, 3 * pixels + seen, 3, padding=1)
        # Linear filters of the pixels themselves: the features are too few to hold all pixels of a cell.
        self.filters = nn.Conv2d(self.enter.in_channels, self.leave.out_channels, 3, padding=1)
        start_at_zero(self.leave)
        start_at_zero(self.filters)

    def forward(self, aligned: AlignedFrames, mean: Tensor | None = None) -> Tensor:
        """Fuse frames to `[B, 3, H, W]`; H and W are multiples of `qrsc.fusion.blocks.MULTIPLE`.

        Args:
            aligned: the frames, float.
            mean: `[B, 1, 3, 1, 1]` from `input_mean`; for tiles, that of the whole frames.
        """
        frames, (height, width) = aligned.frames, aligned.frames.shape[-2:]
        mean = self.input_mean(aligned) if mean is None else mean
        weights = gridded_weights(aligned, (height // STRIDE, width // STRIDE))  # [B, T, 1, H, W]
        average = weighted_mean(aligned, weights).image
        shown = aligned.valid.to(frames)  # [B, T, 1, H, W]
        inputs = self._inputs(aligned, weights, shown, average, mean[:, 0])
        found = self._found(inputs).to(frames.dtype)
        gates, missing = found[:, : len(STEPS)], found[:, len(STEPS) :]
        fused = average + F.pixel_shuffle(_limited(MISSING_SCALE * missing, inputs[:, : missing.shape[1]]), STRIDE)
        for place, number in enumerate(self._numbers(aligned)):
            if number is not None:
                gate = enlarged(gates[:, place : place + 1], (height, width)) * shown[:, number]
                fused = torch.addcmul(fused, gate, frames[:, number] - average)
        return fused

    def input_mean(self, aligned: AlignedFrames) -> Tensor:
        """The mean of each colour over frames and pixels, which is subtracted from the input."""
        return aligned.frames.mean((1, 3, 4), keepdim=True)

    def _found(self, inputs: Tensor) -> Tensor:
        """Gates of the frames, and what is missing in every pixel of a cell, `[B, C, H / 4, W / 4]`."""
        features = rectified(inputs, self.enter)
        for first, second in zip(self.first, self.second, strict=True):
            features = convolved(rectified(features, first), second, features)
        return convolved(features, self.leave, convolved(inputs, self.filters))

    def _inputs(self, aligned: AlignedFrames, weights: Tensor, shown: Tensor, average: Tensor, level: Tensor) -> Tensor:
        """`[B, C, H / 4, W / 4]`: colours with all pixels of a cell as channels, weights and validity as cell means.

        Args:
            aligned: the frames.
            weights, shown: `[B, T, 1, H, W]`.
            average: `[B, 3, H, W]`.
            level: `[B, 3, 1, 1]`, mean colour.
        """
        brightness = luma(average)
        detailed, smooth = [average - level], []
        for number in self._numbers(aligned):
            if number is None:
                detailed.append(torch.zeros_like(brightness))
                smooth += [torch.zeros_like(brightness)] * 2
            else:
                unlike = luma(aligned.frames[:, number]) - brightness
                detailed.append(UNLIKE_SCALE * unlike * shown[:, number])
                smooth += [weights[:, number], shown[:, number]]
        cells = F.pixel_unshuffle(torch.cat(detailed, 1), STRIDE)
        return torch.cat([cells, F.avg_pool2d(torch.cat(smooth, 1), STRIDE)], 1)

    @staticmethod
    def _numbers(aligned: AlignedFrames) -> list[int | None]:
        """Which frames the convolutions see; None in the place of one that is not there."""
        places = [aligned.centre + step for step in STEPS]
        return [place if 0 <= place < aligned.frames.shape[1] else None for place in places]


def _limited(missing: Tensor, cells: Tensor) -> Tensor:
    """Detail to add, without its mean around each cell, and at most half of the range of the picture there.

    Args:
        missing, cells: detail and picture, `[B, 3 STRIDE^2, h, w]`, with the pixels of a cell as channels.
    """
    shape = (-1, 3, STRIDE**2, *cells.shape[-2:])
    missing, cells = missing.reshape(shape), cells.reshape(shape)
    level = F.avg_pool2d(missing.mean(2), 3, stride=1, padding=1, count_include_pad=False)
    highest, lowest = (F.max_pool2d(each, 3, stride=1, padding=1) for each in (cells.amax(2), -cells.amin(2)))
    limit = (0.5 * (highest + lowest)).unsqueeze(2)
    return torch.clamp(missing - level.unsqueeze(2), -limit, limit).flatten(1, 2)
