"""The small counterpart of RSA^2-Net: 2-D and separable convolutions at a quarter of the frames' resolution.

It is initialised as `mean_fusion`, and learns for every pixel of every frame a small kernel that sharpens or smooths
it, and a weight. Kernels sum to 1, and so do weights, so that colours cannot drift. The result is refined at half the
resolution, where most of the operations are; see `qrsc.fusion.lite.polish`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.convolutions import convolved, rectified
from qrsc.backend.kernels import by_kernel
from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.blocks import FIELD_SCALE, INVALID, Pictures, over_frames, shuffled, start_at_zero
from qrsc.fusion.denoise import restored, visible_detail
from qrsc.fusion.lite.polish import UNLIKE_SCALE, Polish
from qrsc.fusion.mean import CALM_DISAGREEMENT, DISAGREEMENT
from qrsc.image.blur import fine_detail
from qrsc.weights.architecture import require_sizes

STRIDE = 4  # of the finest features, in pixels of the frame
# Frames that disagree have weights down to e^-40 in the mean; the network must be able to raise them again.
LEAST_PRIOR = -2.0 * INVALID


_LIMITS = {"widths": (1, 1024), "depths": (0, 32), "kernel": (1, 9), "polish": (0, 1024), "polishes": (0, 32)}


@dataclass(frozen=True)
class LiteOptions:
    """The network's architecture.

    Attributes:
        widths: channels at 1/4, 1/8 and 1/16 of the resolution.
        depths: blocks at these; the first two occur twice, on the way down and on the way up.
        kernel: side of the kernels, in pixels.
        calm: for denoised frames (see `qrsc.fusion.denoise.calmed`); not in the paper. The removed detail is an input,
            and the network decides how much of it is restored.
        bands: fine detail has weights of its own. Low frequencies are best averaged over frames; fine detail is best
            taken from the centre frame, except where that frame does not show the pixel.
        anchor: for frames that are not denoised: finish the result, see `qrsc.fusion.finish`. Results of denoised
            frames always get the colours of their mean.
        polish, polishes: channels of the refining convolutions, and number of pairs; 0 channels is no refinement.
    """

    widths: tuple[int, int, int] = (48, 64, 96)
    depths: tuple[int, int, int] = (1, 1, 2)
    kernel: int = 3
    calm: bool = True
    bands: bool = False
    anchor: bool = False
    polish: int = 40
    polishes: int = 5

    def __post_init__(self) -> None:
        require_sizes(self, _LIMITS)
        if self.polish == 1:
            raise ValueError("polish must be 0, or 2 or more: half of its channels are context; got 1.")


class LiteNetwork(nn.Module):
    """Fuse any number T >= 1 of frames; see the module's description."""

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
        self.head = nn.Conv2d(fine, (taps + 1 + options.bands) * STRIDE**2 + 2 * options.calm, 1)
        # PyTorch's default initialisation everywhere else gives features of about 0.1. With features of 1, as in
        # RSA^2-Net, a step changes the kernels ten times as much: overfitting to eight samples, +0.3 dB after 200 steps
        # instead of +3.2.
        start_at_zero(self.head)
        if options.polish:
            self.polish = Polish(calm=options.calm, around=2 * fine, width=options.polish, pairs=options.polishes)

    def forward(self, aligned: AlignedFrames, mean: Tensor | None = None) -> Tensor:
        """Fuse frames to `[B, 3, H, W]`; H and W are multiples of `qrsc.fusion.blocks.MULTIPLE`.

        Args:
            aligned: the frames, float.
            mean: `[B, 1, 3, 1, 1]` from `input_mean`; for tiles, that of the whole frames.
        """
        frames = aligned.frames
        mean = self.input_mean(aligned) if mean is None else mean
        disagreement = CALM_DISAGREEMENT if self.options.calm else DISAGREEMENT
        valid = aligned.valid.to(frames)
        pictures = Pictures(frames, valid, aligned.time_distance, aligned.centre, disagreement)
        prior = pictures.prior().clamp_min(LEAST_PRIOR)  # [B, T, 1, H, W]
        features = self._features(self._entered(aligned, pictures, prior, mean), aligned.centre, frames.shape[1])
        features = rectified(features, self.finish)
        found = self.head(features)
        scores, gates = self._read(found)
        if self.options.calm:
            frames = restored(aligned, gates.to(frames.dtype).reshape(*frames.shape[:2], *gates.shape[1:]))
        filtered = filter_pictures(frames.flatten(0, 1), found, self.options.kernel).reshape(frames.shape)
        scores = scores.to(prior.dtype).reshape(*frames.shape[:2], -1, *frames.shape[-2:])
        weight, fine_weight = (torch.softmax(prior + each, 1) for each in (scores[:, :, :1], scores[:, :, -1:]))
        fused = (weight * filtered).sum(1)
        if self.options.bands:
            fine = fine_detail(filtered.flatten(0, 1)).reshape(filtered.shape)
            fused = fused + ((fine_weight - weight) * fine).sum(1)
            weight = fine_weight
        if not self.options.polish:
            return fused
        each = features.reshape(*frames.shape[:2], *features.shape[1:])
        around = torch.cat([over_frames(each), each[:, aligned.centre]], 1)
        polished: Tensor = self.polish(fused, aligned, filtered, weight, mean[:, 0], around)
        return polished

    def input_mean(self, aligned: AlignedFrames) -> Tensor:
        """The mean of each colour over frames and pixels, which is subtracted from the input."""
        return aligned.frames.mean((1, 3, 4), keepdim=True)

    def _entered(self, aligned: AlignedFrames, pictures: Pictures, prior: Tensor, mean: Tensor) -> Tensor:
        """`enter`, `[B T, fine, H / 4, W / 4]`: detailed inputs with all their pixels, smooth ones as block means."""
        frames = aligned.frames
        unlike = UNLIKE_SCALE * (frames - frames[:, aligned.centre, None])
        parts = [frames - mean, unlike, pictures.valid]
        if self.options.calm:
            parts.append(visible_detail(aligned))
        weight = self.enter.weight
        detailed = torch.cat([part.to(weight.dtype) for part in parts], 2).flatten(0, 1)
        smooth = torch.cat([FIELD_SCALE * aligned.correction_fields, aligned.time_distance, prior / INVALID], 2)
        smooth = F.avg_pool2d(smooth.flatten(0, 1), STRIDE).to(weight.dtype)
        # The pixels of a cell are channels of the weights, in the order of `pixel_unshuffle`, or a kernel of its side.
        pixels = detailed.shape[1] * STRIDE**2
        kernels = weight[:, :pixels].reshape(-1, detailed.shape[1], STRIDE, STRIDE)
        return F.conv2d(detailed, kernels, self.enter.bias, STRIDE) + F.conv2d(smooth, weight[:, pixels:])

    def _features(self, fine: Tensor, centre: int, count: int) -> Tensor:
        """`[B T, fine, H / 4, W / 4]` to the same shape."""
        fine = self.down_fine(fine, centre, count)
        middle = self.down_middle(self.to_middle(fine), centre, count)
        coarse = self.bottom(self.to_coarse(middle), centre, count)
        middle = self.up_middle(middle + _doubled(self.from_coarse(coarse)), centre, count)
        result: Tensor = self.up_fine(fine + _doubled(self.from_middle(middle)), centre, count)
        return result

    def _read(self, found: Tensor) -> tuple[Tensor, Tensor]:
        """Scores `[B T, 1 or 2, H, W]` and, for calmed frames, gates `[B T, 2, H, W]`; kernels come before them."""
        kernels, gates = self.options.kernel**2 * STRIDE**2, 2 * self.options.calm
        scores, smooth = found[:, kernels : found.shape[1] - gates], found[:, found.shape[1] - gates :]
        smooth = smooth.float()
        if self.options.calm:
            smooth = F.interpolate(smooth, scale_factor=float(STRIDE), mode="bilinear", align_corners=False)
        return shuffled(scores.float(), STRIDE), smooth


class Blocks(nn.Module):
    """Separable residual blocks, after an exchange with the mean over frames and the centre frame."""

    def __init__(self, channels: int, depth: int) -> None:
        super().__init__()
        self.look = nn.Conv2d(3 * channels, channels, 1)
        self.around = nn.ModuleList(nn.Conv2d(channels, channels, 5, padding=2, groups=channels) for _ in range(depth))
        self.widen = nn.ModuleList(nn.Conv2d(channels, 2 * channels, 1) for _ in range(depth))
        self.narrow = nn.ModuleList(nn.Conv2d(2 * channels, channels, 1) for _ in range(depth))
        # Residual branches start near zero, which makes normalisation unnecessary.
        for layer in (self.look, *self.narrow):
            assert isinstance(layer, nn.Conv2d)
            assert layer.bias is not None
            nn.init.normal_(layer.weight, std=1e-2)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor, centre: int, count: int) -> Tensor:
        """Features `[B T, C, h, w]`, with T = `count`, to the same shape."""
        each = features.reshape(-1, count, *features.shape[1:])
        # `look` at each frame with the two: they are the same for all frames, and so is what follows from them.
        mine, theirs = self.look.weight.tensor_split((features.shape[1],), 1)
        around_all = F.conv2d(torch.cat([over_frames(each), each[:, centre]], 1), theirs, self.look.bias)
        looked = F.conv2d(features, mine).reshape(each.shape) + around_all[:, None]
        features = features + looked.flatten(0, 1)
        for around, widen, narrow in zip(self.around, self.widen, self.narrow, strict=True):
            features = convolved(rectified(around(features), widen), narrow, features)
        return features


def filter_pictures(pictures: Tensor, found: Tensor, side: int) -> Tensor:
    """Filter images with a kernel for each pixel; the kernels sum to 1.

    Args:
        pictures: `[N, 3, H, W]`.
        found: `[N, C, H / 4, W / 4]`, whose first `side**2 4**2` channels are the kernels of all pixels of a cell, by
            taps; without their mean the difference from the identity kernel.
        side: of the kernels.

    Returns:
        `[N, 3, H, W]`.
    """

    def kernel() -> Tensor:
        from qrsc.fusion.lite import filter_kernels

        return filter_kernels.filtered(pictures, found, side, STRIDE)

    twin = lambda: plainly_filtered(pictures, found, side)  # noqa: E731  # in the place of a function
    return by_kernel("kernels for each pixel", kernel, twin, pictures, found)


def plainly_filtered(pictures: Tensor, found: Tensor, side: int) -> Tensor:
    """The slow twin of `filter_pictures`."""
    height, width = pictures.shape[-2:]
    kernels = found[:, : side**2 * STRIDE**2].contiguous().float().reshape(-1, side**2, STRIDE**2, *found.shape[-2:])
    level = kernels.mean(1)
    reach = side // 2
    padded = F.pad(pictures, (reach, reach, reach, reach), mode="replicate")
    total = pictures.clone()
    for tap in range(side * side):
        # Tap by tap: the kernels of all pixels at once do not fit into the caches of a processor.
        weight = shuffled(kernels[:, tap] - level, STRIDE).to(pictures.dtype)
        row, column = divmod(tap, side)
        total.addcmul_(weight, padded[..., row : row + height, column : column + width])
    return total


def _doubled(features: Tensor) -> Tensor:
    return F.interpolate(features, scale_factor=2.0, mode="nearest")
