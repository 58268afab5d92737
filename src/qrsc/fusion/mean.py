"""Fusion without a network: the mean of the corrected frames, weighted by validity, time distance and agreement."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from qrsc.fusion.aligned import AlignedFrames
from qrsc.image.blur import box_mean, triangle_blur
from qrsc.image.colour import luma
from qrsc.warp import Warped, enlarged

# A frame exposed this much further from the instant (in frame intervals) has 1/e of the weight. On real two- and
# three-frame samples with DIS flow, mean PSNR at the middle row for 0.1 | 0.25 | 0.5 | 1.5: Carla-RS 32.7 | 32.8 |
# 32.9 | 33.0, Fastec-RS 29.5 | 29.7 | 29.9 | 29.8, BS-RSC 27.5 | 27.5 | 27.6 | 27.7.
TIME_CONSTANT = 0.5
# A frame that differs from the centre frame by this much (root mean square over a small window, in [0, 1]) has 1/e of
# the weight: where its motion is wrong, a surface would appear twice. Without this there is a ghost beside thin poles;
# on the same samples it costs 0.04, 0.05 and 0.01 dB.
DISAGREEMENT = 0.15
# The same before denoising (see `qrsc.fusion.denoise`), which itself suppresses a faint double image.
CALM_DISAGREEMENT = 0.25
WINDOW = 5  # pixels
COARSE_WINDOW = 3  # the same on the coarser grid of reduced correction fields


# The largest gain of the mean's detail: if frames share none, what is left of it must not be blown up.
MOST_GAIN = 1.25


def mean_fusion(aligned: AlignedFrames) -> Warped:
    """Fuse frames by their weighted mean, and amplify its fine detail as far as averaging has weakened it.

    A pixel that no frame shows keeps the centre frame's value (its nearest edge pixel) and is not valid. Where the
    correction fields have a lower resolution than the frames, the weights are computed at that resolution.

    Returns:
        `[B, 3, H, W]` and `[B, 1, H, W]` bool.
    """
    mean = plain_mean(aligned)
    return mean if aligned.frames.shape[1] == 1 else Warped(_with_detail(mean.image, aligned), mean.valid)


def plain_mean(aligned: AlignedFrames) -> Warped:
    """The weighted mean of `mean_fusion` as it is."""
    coarse = aligned.correction_fields.shape[-2:] != aligned.frames.shape[-2:]
    return weighted_mean(aligned, _coarse_weights(aligned) if coarse else mean_weights(aligned))


def _with_detail(mean: Tensor, aligned: AlignedFrames) -> Tensor:
    """Amplify the detail of the mean `[B, 3, H, W]` to the energy of the centre frame's, where that frame is valid.

    Averaging removes noise, and detail where frames are not aligned to a fraction of a pixel. One gain for each
    picture: in single cells the two cannot be told apart. See the lab book for the figures.
    """
    valid = _numbers(aligned.valid[:, aligned.centre], mean)  # [B, 1, H, W]
    fine = _fine(mean).mul_(valid)
    wanted, found = (
        (part * part).sum((1, 2, 3))  # [B]
        for part in (_fine(luma(aligned.frames[:, aligned.centre])).mul_(valid), luma(fine))
    )
    there = found > 0
    gain = torch.sqrt(torch.where(there, wanted / torch.where(there, found, 1.0), 1.0))
    return torch.addcmul(mean, fine, (gain.detach().clamp(1.0, MOST_GAIN) - 1.0).reshape(-1, 1, 1, 1))


def _fine(images: Tensor) -> Tensor:
    """The detail of `[B, C, H, W]`; computed in place of the blurred images, which are not needed again."""
    return triangle_blur(images).neg_().add_(images)


def mean_weights(aligned: AlignedFrames, disagreement: float = DISAGREEMENT) -> Tensor:
    """Weight of each frame, `[B, T, 1, H, W]`: the sum is 1, or 0 where no frame shows the pixel."""
    likely = log_weights(aligned.frames, aligned.valid, aligned.time_distance, aligned.centre, disagreement)
    return _normalised(torch.exp(likely), aligned.valid)


def _coarse_weights(aligned: AlignedFrames) -> Tensor:
    """As `mean_weights`, from the pixels at the grid points of the correction fields; validity is of every pixel."""
    height, width = aligned.frames.shape[-2:]
    rows, columns = aligned.correction_fields.shape[-2:]
    down = (torch.arange(rows, device=aligned.frames.device) * height + height // 2) // rows
    across = (torch.arange(columns, device=aligned.frames.device) * width + width // 2) // columns
    frames, valid, time_distance = (
        each[..., down[:, None], across] for each in (aligned.frames, aligned.valid, aligned.time_distance)
    )
    weight = torch.exp(log_weights(frames, valid, time_distance, aligned.centre, window=COARSE_WINDOW))
    return _normalised(enlarged(weight.flatten(1, 2), (height, width)).unsqueeze(2), aligned.valid)


def weighted_mean(aligned: AlignedFrames, weights: Tensor) -> Warped:
    """Sum the frames with weights `[B, T, 1, H, W]`; see `mean_fusion`."""
    seen = _seen(aligned.valid)
    mean = _numbers(~seen, weights) * aligned.frames[:, aligned.centre]
    for weight, frame in zip(weights.unbind(1), aligned.frames.unbind(1), strict=True):
        mean = torch.addcmul(mean, weight, frame)
    return Warped(mean, seen)


def _normalised(weight: Tensor, valid: Tensor) -> Tensor:
    """Normalise positive weights over the frames that show the pixel; all `[B, T, 1, H, W]`."""
    weight = weight * _numbers(valid, weight)
    total = weight.sum(1, keepdim=True) + _numbers(~_seen(valid), weight).unsqueeze(1)
    return weight / total


def _seen(valid: Tensor) -> Tensor:
    """Where any frame shows the pixel, `[B, 1, H, W]`; `Tensor.any` takes twenty times as long on a CPU."""
    return reduce(torch.logical_or, valid.unbind(1))


def _numbers(mask: Tensor, like: Tensor) -> Tensor:
    """A mask as 0 and 1 of a dtype; on a CPU converting bytes takes a tenth of the time of converting bools."""
    as_bytes = mask.device.type == "cpu" and not torch.compiler.is_compiling()
    return (mask.view(torch.uint8) if as_bytes else mask).to(like.dtype)


def log_weights(
    frames: Tensor,
    valid: Tensor,
    time_distance: Tensor,
    centre: int,
    disagreement: float = DISAGREEMENT,
    window: int = WINDOW,
) -> Tensor:
    """Logarithms of the weights of valid pixels, by time distance and difference from the centre frame.

    Args:
        frames: `[B, T, 3, H, W]`.
        valid: `[B, T, 1, H, W]`, bool; where the centre frame is not valid, there is nothing to differ from.
        time_distance: `[B, T, 1, H, W]`.
        centre: index of the centre frame.
        disagreement: see `DISAGREEMENT`.
        window: side, in pixels, of the square that differences are averaged over.

    Returns:
        `[B, T, 1, H, W]`, 0 or less.
    """
    mine = frames[:, centre]
    others = [i for i in range(frames.shape[1]) if i != centre]
    if not others:
        return -time_distance / TIME_CONSTANT
    squared = torch.stack([_squared_difference(frames[:, i], mine) for i in others], 1)  # [B, T - 1, H, W]
    unlike = box_mean(squared, window) * (_numbers(valid[:, centre], frames) / (3.0 * disagreement**2))
    # The centre frame does not differ from itself.
    with_mine = torch.cat([unlike[:, :centre], torch.zeros_like(unlike[:, :1]), unlike[:, centre:]], 1)
    return -time_distance / TIME_CONSTANT - with_mine.unsqueeze(2)


def agreement(image: Tensor, other: Tensor) -> Tensor:
    """How far images `[B, 3, H, W]` agree around each pixel, `[B, 1, H, W]`: 1 where they are equal, down to 0."""
    return torch.exp(box_mean(_squared_difference(image, other)[:, None], WINDOW) / (-3.0 * DISAGREEMENT**2))


def _squared_difference(image: Tensor, other: Tensor) -> Tensor:
    """Squared difference of images `[B, 3, H, W]`, summed over channels, `[B, H, W]`; by plane, 4 times as fast."""
    red, green, blue = (one - two for one, two in zip(image.unbind(1), other.unbind(1), strict=True))
    return torch.addcmul(torch.addcmul(red * red, green, green), blue, blue)
