"""Fusion without a network: a mean of the corrected frames, weighted by validity, closeness in time and agreement."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from qrsc.fusion.aligned import AlignedFrames
from qrsc.image.blur import box_mean
from qrsc.warp import Warped, enlarged

# A frame exposed this much further from the instant (in frame intervals) counts 1/e as much. On true two- and
# three-frame samples with DIS flow, mean PSNR at the middle row for 0.1 | 0.25 | 0.5 | 1.5: Carla-RS 32.7 | 32.8 |
# 32.9 | 33.0, Fastec-RS 29.5 | 29.7 | 29.9 | 29.8, BS-RSC 27.5 | 27.5 | 27.6 | 27.7.
TIME_CONSTANT = 0.5
# A frame that differs from the centre one by this much (root mean square over a small window, in [0, 1]) counts 1/e as
# much: where the motion was found wrong, one surface would be seen twice. Without it there is a ghost beside thin
# poles; on the same samples it costs 0.04, 0.05 and 0.01 dB.
DISAGREEMENT = 0.15
# The same where detail is weighed (see `qrsc.fusion.coherent`): a faint double image is weighed down there.
CALM_DISAGREEMENT = 0.25
WINDOW = 5  # pixels
COARSE_WINDOW = 3  # the same where likeness is looked at on a coarser grid


def mean_fusion(aligned: AlignedFrames) -> Warped:
    """One frame from several.

    A pixel that no frame shows keeps the centre frame's value (its nearest edge pixel) and is not valid. Where motion
    was found at a smaller size, so is how much frames count.

    Returns:
        `[B, 3, H, W]` and `[B, 1, H, W]` bool.
    """
    coarse = aligned.correction_fields.shape[-2:] != aligned.frames.shape[-2:]
    return weighted_mean(aligned, _coarse_weights(aligned) if coarse else mean_weights(aligned))


def mean_weights(aligned: AlignedFrames, disagreement: float = DISAGREEMENT) -> Tensor:
    """How much each frame counts, `[B, T, 1, H, W]`: adds up to 1, or is 0 where no frame shows the pixel."""
    likely = log_weights(aligned.frames, aligned.valid, aligned.time_distance, aligned.centre, disagreement)
    return _shares(torch.exp(likely), aligned.valid)


def _coarse_weights(aligned: AlignedFrames) -> Tensor:
    """As `mean_weights`, but for validity by few pixels: those that lie at the places of the correction fields."""
    height, width = aligned.frames.shape[-2:]
    rows, columns = aligned.correction_fields.shape[-2:]
    down = (torch.arange(rows, device=aligned.frames.device) * height + height // 2) // rows
    across = (torch.arange(columns, device=aligned.frames.device) * width + width // 2) // columns
    frames, valid, time_distance = (
        each[..., down[:, None], across] for each in (aligned.frames, aligned.valid, aligned.time_distance)
    )
    weight = torch.exp(log_weights(frames, valid, time_distance, aligned.centre, window=COARSE_WINDOW))
    return _shares(enlarged(weight.flatten(1, 2), (height, width)).unsqueeze(2), aligned.valid)


def weighted_mean(aligned: AlignedFrames, weights: Tensor) -> Warped:
    """The frames added up by weights `[B, T, 1, H, W]`; see `mean_fusion`."""
    seen = _seen(aligned.valid)
    mean = _numbers(~seen, weights) * aligned.frames[:, aligned.centre]
    for weight, frame in zip(weights.unbind(1), aligned.frames.unbind(1), strict=True):
        mean = torch.addcmul(mean, weight, frame)
    return Warped(mean, seen)


def _shares(weight: Tensor, valid: Tensor) -> Tensor:
    """What weights over 0 are of their sum, where frames show the pixel; all `[B, T, 1, H, W]`."""
    weight = weight * _numbers(valid, weight)
    total = weight.sum(1, keepdim=True) + _numbers(~_seen(valid), weight).unsqueeze(1)
    return weight / total


def _seen(valid: Tensor) -> Tensor:
    """Where any frame shows the pixel, `[B, 1, H, W]`; `any` takes twenty times as long on a CPU."""
    return reduce(torch.logical_or, valid.unbind(1))


def _numbers(mask: Tensor, like: Tensor) -> Tensor:
    """1 where a mask holds and 0 elsewhere; on a CPU bytes become numbers in a tenth of the time that truths do."""
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
    """Logarithms of the weights of valid pixels, by closeness in time and likeness to the centre frame.

    Args:
        frames: `[B, T, 3, H, W]`.
        valid: `[B, T, 1, H, W]`, bool; a pixel that the centre does not show can be unlike anything.
        time_distance: `[B, T, 1, H, W]`.
        centre: which of the T frames is the centre one.
        disagreement: see `DISAGREEMENT`.
        window: pixels that differences are averaged over, across and down.

    Returns:
        `[B, T, 1, H, W]`, 0 or less.
    """
    mine = frames[:, centre]
    others = [i for i in range(frames.shape[1]) if i != centre]
    if not others:
        return -time_distance / TIME_CONSTANT
    squared = torch.stack([_squared_difference(frames[:, i], mine) for i in others], 1)  # [B, T - 1, H, W]
    unlike = box_mean(squared, window) * (_numbers(valid[:, centre], frames) / (3.0 * disagreement**2))
    # The centre frame is like itself.
    with_mine = torch.cat([unlike[:, :centre], torch.zeros_like(unlike[:, :1]), unlike[:, centre:]], 1)
    return -time_distance / TIME_CONSTANT - with_mine.unsqueeze(2)


def _squared_difference(picture: Tensor, other: Tensor) -> Tensor:
    """Of pictures `[B, 3, H, W]`, added up over their colours: `[B, H, W]`; plane by plane, a quarter of the time."""
    red, green, blue = (one - two for one, two in zip(picture.unbind(1), other.unbind(1), strict=True))
    return torch.addcmul(torch.addcmul(red * red, green, green), blue, blue)
