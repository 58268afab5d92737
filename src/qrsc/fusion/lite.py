"""The light sibling of RSA^2-Net: 2-D and separable convolutions at a quarter of the frames' size.

It starts as `mean_fusion` and learns three things for every frame: a shift that brings it closer, a small kernel that
sharpens or smooths it, and how much it counts. Kernels add up to 1 and weights, too, so that colours cannot drift. What
no frame shows cannot be made of them: for that a bounded colour can be added to the result.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.coherent import restored, visible_detail
from qrsc.fusion.encoder import start_at_zero
from qrsc.fusion.heads import INVALID, Pictures
from qrsc.fusion.mean import CALM_DISAGREEMENT, DISAGREEMENT
from qrsc.fusion.rsa2 import FIELD_SCALE
from qrsc.warp import backward_warp

STRIDE = 4  # pixels of the frame a cell of the finest features
# Unlike frames have weights down to e^-40 in the mean; what the network adds must be able to bring them back.
LEAST_PRIOR = -2.0 * INVALID
LARGEST_COLOUR = 0.25  # by which a colour of the network's own can change the result


@dataclass(frozen=True)
class LiteOptions:
    """How the network is built.

    Attributes:
        widths: channels at 1/4, 1/8 and 1/16 of the size.
        depths: blocks there; the first two twice, on the way down and up.
        kernel: side of the kernels.
        calm: for frames whose detail was weighed (see `qrsc.fusion.coherent.calmed`), which the paper does not do: look
            also at what was taken away, and say how much of it comes back.
        colours: add colours of its own to the result. Not by default: in trainings of 200 to 250 steps a narrow network
            was 0.02 dB behind with them on held-out samples, and 0.25 dB on eight to be learned by heart.
    """

    widths: tuple[int, int, int] = (64, 96, 128)
    depths: tuple[int, int, int] = (2, 2, 4)
    kernel: int = 3
    calm: bool = True
    colours: bool = False


class LiteNetwork(nn.Module):
    """Fuses T >= 1 frames; see the module's description."""

    def __init__(self, options: LiteOptions | None = None) -> None:
        super().__init__()
        self.options = options = LiteOptions() if options is None else options
        fine, middle, coarse = options.widths
        taps = options.kernel**2
        self.enter = nn.Conv2d((7 + options.calm) * STRIDE**2 + 4, fine, 1)
        self.down_fine = Blocks(fine, options.depths[0])
        self.to_middle = nn.Conv2d(fine, middle, 2, stride=2)
        self.down_middle = Blocks(middle, options.depths[1])
        self.to_coarse = nn.Conv2d(middle, coarse, 2, stride=2)
        self.bottom = Blocks(coarse, options.depths[2])
        self.from_coarse = nn.Conv2d(coarse, middle, 1)
        self.up_middle = Blocks(middle, options.depths[1])
        self.from_middle = nn.Conv2d(middle, fine, 1)
        self.up_fine = Blocks(fine, options.depths[0])
        self.finish = nn.Conv2d(fine, fine, 3, padding=1)
        self.head = nn.Conv2d(fine, (taps + 1) * STRIDE**2 + 2 + 2 * options.calm, 1)
        # PyTorch's own first weights everywhere else: features of a tenth. With features of 1, as RSA^2-Net has them, a
        # step changes shifts and kernels by ten times as much: on eight samples to be learned by heart, +0.3 dB after
        # 200 steps in place of +3.2.
        start_at_zero(self.head)
        if options.colours:
            self.colour = nn.Conv2d(2 * fine, 3 * STRIDE**2, 1)
            start_at_zero(self.colour)

    def forward(self, aligned: AlignedFrames, mean: Tensor | None = None) -> Tensor:
        """One frame `[B, 3, H, W]` from several whose sides are multiples of 16.

        Args:
            aligned: the frames, float; see there.
            mean: `[B, 1, 3, 1, 1]` from `input_mean`, of the whole frames when these are tiles of them.
        """
        frames = aligned.frames
        disagreement = CALM_DISAGREEMENT if self.options.calm else DISAGREEMENT
        valid = aligned.valid.to(frames)
        pictures = Pictures(frames, valid, aligned.time_distance, aligned.centre, disagreement)
        prior = pictures.prior().clamp_min(LEAST_PRIOR)  # [B, T, 1, H, W]
        features = self._features(self._inputs(aligned, pictures, prior, mean), aligned.centre, frames.shape[1])
        features = F.relu(self.finish(features))
        kernels, scores, shifts, gates = self._read(features)
        if self.options.calm:
            frames = restored(aligned, gates.to(frames.dtype).reshape(*frames.shape[:2], *gates.shape[1:]))
        moved = backward_warp(frames.flatten(0, 1), shifts.to(frames.dtype)).image
        filtered = filter_pictures(moved, kernels).reshape(frames.shape)
        weight = torch.softmax(prior + scores.to(prior.dtype).reshape(prior.shape), 1)
        fused = (weight * filtered).sum(1)
        return fused + self._colours(features, aligned.centre, frames.shape[1]) if self.options.colours else fused

    def input_mean(self, aligned: AlignedFrames) -> Tensor:
        """The mean of every colour over frames and pixels, which the network does not get to see."""
        return aligned.frames.mean((1, 3, 4), keepdim=True)

    def _inputs(self, aligned: AlignedFrames, pictures: Pictures, prior: Tensor, mean: Tensor | None) -> Tensor:
        """`[B T, C, H / 4, W / 4]`: what has detail pixel by pixel, what is smooth by its mean."""
        frames = aligned.frames
        mean = self.input_mean(aligned) if mean is None else mean
        unlike = 4.0 * (frames - frames[:, aligned.centre, None])  # small wherever it matters
        parts = [frames - mean, unlike, pictures.valid]
        if self.options.calm:
            parts.append(visible_detail(aligned))
        detailed = torch.cat(parts, 2).flatten(0, 1)
        smooth = torch.cat([FIELD_SCALE * aligned.correction_fields, aligned.time_distance, prior / INVALID], 2)
        return torch.cat([F.pixel_unshuffle(detailed, STRIDE), F.avg_pool2d(smooth.flatten(0, 1), STRIDE)], 1)

    def _features(self, inputs: Tensor, centre: int, count: int) -> Tensor:
        """`[B T, C, H / 4, W / 4]`."""
        fine = self.down_fine(self.enter(inputs), centre, count)
        middle = self.down_middle(self.to_middle(fine), centre, count)
        coarse = self.bottom(self.to_coarse(middle), centre, count)
        middle = self.up_middle(middle + _doubled(self.from_coarse(coarse)), centre, count)
        result: Tensor = self.up_fine(fine + _doubled(self.from_middle(middle)), centre, count)
        return result

    def _read(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Kernels `[B T, K K, H, W]`, scores `[B T, 1, H, W]`, shifts in pixels and gates `[B T, 2, H, W]` each."""
        found = self.head(features).float()
        smooth = 2 + 2 * self.options.calm
        enlarged = F.interpolate(found[:, -smooth:], scale_factor=float(STRIDE), mode="bilinear", align_corners=False)
        dense = F.pixel_shuffle(found[:, :-smooth], STRIDE)
        return dense[:, :-1], dense[:, -1:], STRIDE * enlarged[:, :2], enlarged[:, 2:]

    def _colours(self, features: Tensor, centre: int, count: int) -> Tensor:
        """What is added to the result, `[B, 3, H, W]`."""
        each = features.reshape(-1, count, *features.shape[1:])
        found = self.colour(torch.cat([each.mean(1), each[:, centre]], 1)).float()
        return LARGEST_COLOUR * torch.tanh(F.pixel_shuffle(found, STRIDE))


class Blocks(nn.Module):
    """Separable residual blocks, and before them a look at the mean of the frames and at the centre one."""

    def __init__(self, channels: int, depth: int) -> None:
        super().__init__()
        self.look = nn.Conv2d(3 * channels, channels, 1)
        self.around = nn.ModuleList(nn.Conv2d(channels, channels, 5, padding=2, groups=channels) for _ in range(depth))
        self.widen = nn.ModuleList(nn.Conv2d(channels, 2 * channels, 1) for _ in range(depth))
        self.narrow = nn.ModuleList(nn.Conv2d(2 * channels, channels, 1) for _ in range(depth))
        # Residual branches start at nearly nothing, which takes the place of normalisation.
        for layer in (self.look, *self.narrow):
            assert isinstance(layer, nn.Conv2d)
            assert layer.bias is not None
            nn.init.normal_(layer.weight, std=1e-2)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor, centre: int, count: int) -> Tensor:
        """`[B T, C, h, w]` of `count` frames each to the same shape."""
        each = features.reshape(-1, count, *features.shape[1:])
        others = torch.cat([each.mean(1, keepdim=True), each[:, centre : centre + 1]], 2).expand(-1, count, -1, -1, -1)
        features = features + self.look(torch.cat([each, others], 2).flatten(0, 1))
        for around, widen, narrow in zip(self.around, self.widen, self.narrow, strict=True):
            features = features + narrow(F.relu(widen(around(features))))
        return features


def filter_pictures(pictures: Tensor, kernels: Tensor) -> Tensor:
    """Pictures under kernels of their own at each pixel, made to add up to 1.

    Args:
        pictures: `[N, 3, H, W]`.
        kernels: `[N, K * K, H, W]`, added to the kernel that changes nothing; their mean is removed.

    Returns:
        `[N, 3, H, W]`.
    """
    height, width = pictures.shape[-2:]
    side = round(kernels.shape[1] ** 0.5)
    reach = side // 2
    padded = F.pad(pictures, (reach, reach, reach, reach), mode="replicate")
    kernels = (kernels - kernels.mean(1, keepdim=True)).to(pictures.dtype)
    total = pictures
    for tap in range(side * side):
        row, column = divmod(tap, side)
        total = total + kernels[:, tap : tap + 1] * padded[..., row : row + height, column : column + width]
    return total


def _doubled(features: Tensor) -> Tensor:
    return F.interpolate(features, scale_factor=2.0, mode="nearest")
