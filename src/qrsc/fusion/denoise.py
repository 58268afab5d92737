"""Denoising by what frames agree on: a Wiener filter on the fine detail of aligned frames, or of their mean.

Sampled sharply, frames keep their detail and their noise; sampled softly, they lose both. Here they are sampled
sharply, and the clip itself says how much of the detail is signal. Two frames of a scene have detail of energy E each
and a mean product S. They differ by noise, of energy n all over the image, and by motion that was not found, which
leaves their detail with a squared correlation of r^2 = S / (E - n), and a correlation of r between either one and the
truth. The mean has detail of energy V = S + e (E - S), where e is the sum of the squared weights. The Wiener gain is

    r (E - n) / V

and at most 1: S / V with noise alone, and 1 with motion alone. Luma and chroma are filtered separately, in two bands.

A fusion network gets frames that were denoised like this ("calmed") and the detail that was removed from them: it can
put detail back (`restored`), and the result keeps the low frequencies of the mean (`anchored`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.mean import CALM_DISAGREEMENT, mean_weights, weighted_mean
from qrsc.image.blur import binomial_blur
from qrsc.image.colour import from_ycbcr, luma, to_ycbcr
from qrsc.image.pooling import block_means

# Detail of up to about 1.5 pixels, and of about 3. A third band gains nothing on real frames.
BANDS = 2
# In pixels: detail is compared in cells of this side. The gain is the mean of the cell's own and the whole image's,
# since the faint detail of a single cell drowns in the rounding to 8 bits.
CELL = 8
# Where frames overlap by less than this in a cell, the cell has no measurement of its own and takes the whole image's.
LEAST_OVERLAP = 0.01
# Noise is the difference of frames in the calmer half of the cells. In the calmer quarter real samples lose 0.03 dB and
# simulated clips, which have no noise, gain 0.06; at three quarters it is +0.02 and -0.13.
CALM = 0.5
# Averaging the gains of the cell and of the whole image leaves too little contrast: the mean is stretched by this
# factor, and a band is kept entirely from this gain on. Real samples 33.07 -> 33.09 dB, simulated clips 37.02 ->
# 37.08 (1.6 and 0.9: 33.08 and 37.10).
CONTRAST, WHOLE = 1.3, 0.95

# A frame ends where about half of a cell and its neighbours is visible: 1 / SEAM to either side of one half. Simulated
# pixels that the frame does not show lose 0.06 dB by the blending there; blending at every thin gap as well cost 0.28.
SEAM = 4.0

DETAIL_SCALE = 10.0  # removed detail is a hundredth or two, colours are 1; this brings both to a similar range


def calmed(aligned: AlignedFrames) -> AlignedFrames:
    """Denoise every frame as `CoherentFusion` denoises their mean, and keep what was removed as `detail`.

    A single frame stays as it is.
    """
    frames = aligned.frames
    if frames.shape[1] == 1:
        return replace(aligned, detail=torch.zeros_like(frames))
    gains = band_gains(aligned, mean_weights(aligned, CALM_DISAGREEMENT))
    kept = torch.stack([keep_detail(each, gains) for each in frames.unbind(1)], 1)
    return replace(aligned, frames=kept, detail=frames - kept)


def restored(aligned: AlignedFrames, gates: Tensor) -> Tensor:
    """Add some of the removed detail back to calmed frames, `[B, T, 3, H, W]`.

    Args:
        gates: `[B, T, 2, H, W]`, how much of its luma and of its chroma; 0 is none, 1 all.
    """
    detail = _removed(aligned)
    brightness = luma(detail)
    return aligned.frames + gates[:, :, :1] * brightness + gates[:, :, 1:] * (detail - brightness)


def anchored(image: Tensor, aligned: AlignedFrames, mean: Tensor | None = None) -> Tensor:
    """Give a network's result the low frequencies of the mean of its calmed frames, and blend in the mean at seams.

    The network is there for fine detail: at low frequencies it can only drift. `rsa2` did on real frames, by one of 256
    steps, and more the longer it was trained on simulated ones; without the drift they gain 0.05 to 0.08 dB, and
    simulated clips 0.03. Where a frame ends, the network may continue less sharply with the frames that are left; a
    blend into the mean, a few pixels to either side of the line, hides the seam. Thin gaps in a frame are left to the
    network.

    Args:
        image: `[B, 3, H, W]`, the network's result.
        aligned: the calmed frames it was made from.
        mean: of these frames, `[B, 3, H, W]`, if it is known.
    """
    if mean is None:
        mean = weighted_mean(aligned, mean_weights(aligned, CALM_DISAGREEMENT)).image
    size = image.shape[-2:]
    drift = F.interpolate(_by_cell(image - mean), size=size, mode="bilinear")
    shown = F.interpolate(_by_cell(aligned.valid[:, :, 0].to(image)), size=size, mode="bilinear")  # [B, T, H, W]
    ends = (1.0 - SEAM * (shown - 0.5).abs()).clamp_min(0.0).amax(1, keepdim=True)
    return torch.lerp(image - drift, mean, ends)


def visible_detail(aligned: AlignedFrames) -> Tensor:
    """Luma of the detail removed from calmed frames, scaled as a network input, `[B, T, 1, H, W]`."""
    return DETAIL_SCALE * luma(_removed(aligned))


def keep_detail(images: Tensor, gains: list[Tensor]) -> Tensor:
    """Multiply the bands of images `[B, 3, H, W]` by gains `[B, 3, h, w]`; values stay within each image's range."""
    rest = to_ycbcr(images)
    for band, gain in zip(detail_bands(rest), gains, strict=True):
        rest = rest - (1.0 - F.interpolate(gain, size=band.shape[-2:], mode="bilinear")) * band
    least, most = (limit(images, (1, 2, 3), keepdim=True) for limit in (torch.amin, torch.amax))
    return torch.clamp(from_ycbcr(rest).to(images.dtype), least, most)


def band_gains(aligned: AlignedFrames, weights: Tensor) -> list[Tensor]:
    """Find the gain of each band in each cell, `[B, 3, h, w]`, from the centre frame and each of the others.

    Args:
        weights: `[B, T, 1, H, W]`, of the frames in the mean.
    """
    centre = aligned.centre
    others = [i for i in range(aligned.frames.shape[1]) if i != centre]
    remaining = _by_cell(weights.square().sum(1))  # [B, 1, h, w], part of the frames' differences left in the mean
    overlaps = [torch.minimum(weights[:, centre], weights[:, i]) for i in others]  # [B, 1, H, W] each
    overlap = torch.stack(overlaps).sum(0)
    every = [detail_bands(to_ycbcr(aligned.frames[:, i])) for i in others]
    gains = []
    for mine in detail_bands(to_ycbcr(aligned.frames[:, centre])):
        alike, unlike = torch.zeros_like(mine), torch.zeros_like(mine)
        for bands, weight in zip(every, overlaps, strict=True):
            there = next(bands)
            difference = mine - there
            alike.addcmul_(weight * mine, there)
            unlike.addcmul_(weight * difference, difference, value=0.5)
        gains.append(_gain(alike, unlike, overlap, remaining))
    return gains


def _gain(alike: Tensor, unlike: Tensor, overlap: Tensor, remaining: Tensor) -> Tensor:
    """Find the gain of a band, 0 to 1, `[B, 3, h, w]`.

    Args:
        alike, unlike: `[B, 3, H, W]`, weighted sums over pairs of frames of the product of their detail (S), and of
            half its squared difference (E - S).
        overlap: `[B, 1, H, W]`, sum of the pairs' weights.
        remaining: `[B, 1, h, w]`, sum of the squared weights (e), by cell.
    """
    whole = overlap.mean((-2, -1), keepdim=True)
    divisor = torch.where(whole > 0, whole, 1.0)
    alike_overall, unlike_overall = (value.mean((-2, -1), keepdim=True) / divisor for value in (alike, unlike))
    divisor = _by_cell(overlap) + LEAST_OVERLAP
    alike_within = (_by_cell(alike) + LEAST_OVERLAP * alike_overall) / divisor
    unlike_within = (_by_cell(unlike) + LEAST_OVERLAP * unlike_overall) / divisor
    noise = _quantile(unlike_within.flatten(2), CALM)[..., None]  # [B, 3, 1, 1]
    overall = _wiener(alike_overall, unlike_overall, noise, remaining)
    within = _wiener(alike_within, unlike_within, noise, remaining)
    return (1.0 - CONTRAST * (WHOLE - 0.5 * (overall + within))).clamp(0.0, 1.0)


def _wiener(alike: Tensor, unlike: Tensor, noise: Tensor, remaining: Tensor) -> Tensor:
    """Return the gain in the module's description, from S, E - S, n and e."""
    product = alike.clamp_min(0.0)
    scene = product + (unlike - noise).clamp_min(0.0)
    energy = product + remaining * unlike
    known = (product > 0) & (energy > 0)
    gain = torch.sqrt(torch.where(known, product * scene, 1.0)) / torch.where(known, energy, 1.0)
    # Without any detail there is nothing to filter.
    return torch.where(known, gain, (energy <= 0).to(gain.dtype)).clamp(max=1.0)


def _removed(aligned: AlignedFrames) -> Tensor:
    if aligned.detail is None:
        raise ValueError("these frames have no removed detail: call `calmed` on them before the network.")
    return aligned.detail


def _quantile(values: Tensor, part: float) -> Tensor:
    """Return a quantile of `[..., N]`, `[..., 1]`: as `torch.quantile`, which a CUDA graph cannot record."""
    place = part * (values.shape[-1] - 1)
    below = math.floor(place)
    rising = torch.sort(values, dim=-1).values
    return torch.lerp(rising[..., below, None], rising[..., math.ceil(place), None], place - below)


def detail_bands(values: Tensor) -> Iterator[Tensor]:
    """Split off the detail of `[B, 3, H, W]` that a binomial blur removes, finest band first."""
    for band in range(BANDS):
        smooth = binomial_blur(values, 2**band)
        yield values - smooth
        values = smooth


def _by_cell(values: Tensor) -> Tensor:
    """Average over cells and blur slightly; the cells of a mirrored image are mirrored."""
    rows, columns = (-(-side // CELL) for side in values.shape[-2:])
    return binomial_blur(block_means(values, (rows, columns)))
