"""Corrected frames, and a mean of them, without the fine detail that is noise.

Sampled sharply, frames keep their detail and their noise; sampled softly, they lose both. Here they are sampled sharply
and detail is weighed by what the clip says about itself: that of the mean, or that of every frame before a network
fuses them. Two frames of the scene have detail of energy E each and a mean product S. They differ by noise, of energy n
alike all over the picture, and by motion that was not found, which makes their detail alike to the part
r^2 = S / (E - n), and either one to the truth's to the part r. The mean has detail of energy V = S + e (E - S), where e
is the sum of the squared weights. A Wiener filter keeps

    r (E - n) / V

of it, at most all: with noise alone S / V, and with motion alone all of it. Brightness and colours are weighed apart,
in two bands.
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
from qrsc.image.colour import from_ycc, grey, to_ycc
from qrsc.warp import Interpolation, Warped

# Detail of up to about 1.5 pixels, and of about 3. A third band gains nothing on real frames.
BANDS = 2
# In pixels: detail is compared in cells of this side. Half of what is kept is decided there, half by the whole picture,
# as faint detail of a single cell drowns in the rounding to 8 bits.
CELL = 8
# Frames that overlap by less than this in a cell are no measurement there, and the whole picture decides.
LEAST_OVERLAP = 0.01
# Noise is what frames differ by in the calmer half of the cells. In the calmer quarter real samples lose 0.03 dB and
# simulated clips, which have no noise, gain 0.06; at three quarters it is +0.02 and -0.13.
CALM = 0.5
# Halves of the whole picture's share and of the cell's lie closer together than what is best: they are drawn apart by
# this factor, and all of a band is kept from this share on. Real samples 33.07 -> 33.09 dB, simulated clips 37.02 ->
# 37.08 (1.6 and 0.9: 33.08 and 37.10).
CONTRAST, WHOLE = 1.3, 0.95

# Around half of a cell and its neighbours shown, by this part of one to either side, lies the end of a frame. Simulated
# pixels that the frame does not show lose 0.06 dB by the fading there; fading at every thin gap as well cost 0.28.
SEAM = 4.0

DETAIL_SCALE = 10.0  # what is taken away is a hundredth or two, colours are 1; to a network they should be alike


class CoherentFusion:
    """One frame from several; see the module's description.

    Attributes:
        interpolation: how the frames should be sampled that it is given.
        interpolation_alone: the same for one frame alone: nothing would take the noise of sharp sampling away.
    """

    interpolation: Interpolation = "bicubic"
    interpolation_alone: Interpolation = "bilinear"

    def __call__(self, aligned: AlignedFrames) -> Warped:
        """`[B, 3, H, W]`, and where any of the frames shows the pixel, `[B, 1, H, W]` bool."""
        weights = mean_weights(aligned, CALM_DISAGREEMENT)
        mean = weighted_mean(aligned, weights)
        if aligned.frames.shape[1] == 1:
            return mean
        return Warped(_weighed(mean.image, _shares(aligned, weights)), mean.valid)


def calmed(aligned: AlignedFrames) -> AlignedFrames:
    """The frames with as much of their detail as `CoherentFusion` keeps of the mean's; one alone stays as it is."""
    frames = aligned.frames
    if frames.shape[1] == 1:
        return replace(aligned, detail=torch.zeros_like(frames))
    shares = _shares(aligned, mean_weights(aligned, CALM_DISAGREEMENT))
    kept = torch.stack([_weighed(each, shares) for each in frames.unbind(1)], 1)
    return replace(aligned, frames=kept, detail=frames - kept)


def restored(aligned: AlignedFrames, gates: Tensor) -> Tensor:
    """Calmed frames with some of the detail back that was taken away from them, `[B, T, 3, H, W]`.

    Args:
        gates: `[B, T, 2, H, W]`, how much of its brightness and of its colours; 0 is none, 1 all.
    """
    detail = _taken(aligned)
    brightness = grey(detail)
    return aligned.frames + gates[:, :, :1] * brightness + gates[:, :, 1:] * (detail - brightness)


def anchored(picture: Tensor, aligned: AlignedFrames) -> Tensor:
    """What a network made of calmed frames, in the brightness and the colours of their mean, and without seams.

    A network is there for what is finer: over many pixels it can only drift. `rsa2` did on real frames, by one of 256
    steps, the farther the longer it was trained on simulated ones; without that they gain 0.05 to 0.08 dB, and
    simulated clips 0.03. And where a frame ends, a network may go on less sharply with what is left; the mean hides
    that: a few pixels to either side of the line are faded into it. Thin gaps in a frame are left to the network.

    Args:
        picture: `[B, 3, H, W]`.
    """
    mean = weighted_mean(aligned, mean_weights(aligned, CALM_DISAGREEMENT)).image
    size = picture.shape[-2:]
    drift = F.interpolate(_by_cell(picture - mean), size=size, mode="bilinear")
    shown = F.interpolate(_by_cell(aligned.valid[:, :, 0].to(picture)), size=size, mode="bilinear")  # [B, T, H, W]
    ends = (1.0 - SEAM * (shown - 0.5).abs()).clamp_min(0.0).amax(1, keepdim=True)
    return torch.lerp(picture - drift, mean, ends)


def visible_detail(aligned: AlignedFrames) -> Tensor:
    """The brightness of what was taken away from calmed frames, at a size that a network sees, `[B, T, 1, H, W]`."""
    return DETAIL_SCALE * grey(_taken(aligned))


def _taken(aligned: AlignedFrames) -> Tensor:
    if aligned.detail is None:
        raise ValueError("nothing was taken away from these frames; give the network calmed ones.")
    return aligned.detail


def _weighed(pictures: Tensor, shares: list[Tensor]) -> Tensor:
    """Pictures `[B, 3, H, W]` with shares `[B, 3, h, w]` of their bands; none gets colours that it did not have."""
    rest = to_ycc(pictures)
    for band, share in zip(_bands(rest), shares, strict=True):
        rest = rest - (1.0 - F.interpolate(share, size=band.shape[-2:], mode="bilinear")) * band
    least, most = (limit(pictures, (1, 2, 3), keepdim=True) for limit in (torch.amin, torch.amax))
    return torch.clamp(from_ycc(rest).to(pictures.dtype), least, most)


def _shares(aligned: AlignedFrames, weights: Tensor) -> list[Tensor]:
    """How much of each band is kept in each cell, `[B, 3, h, w]`.

    Args:
        weights: `[B, T, 1, H, W]`, of the frames in the mean.
    """
    centre = aligned.centre
    others = [i for i in range(aligned.frames.shape[1]) if i != centre]
    left = _by_cell(weights.square().sum(1))  # [B, 1, h, w], of what frames differ by
    overlaps = [torch.minimum(weights[:, centre], weights[:, i]) for i in others]  # [B, 1, H, W] each
    overlap = torch.stack(overlaps).sum(0)
    every = [_bands(to_ycc(aligned.frames[:, i])) for i in others]
    shares = []
    for mine in _bands(to_ycc(aligned.frames[:, centre])):
        alike, unlike = torch.zeros_like(mine), torch.zeros_like(mine)
        for bands, weight in zip(every, overlaps, strict=True):
            there = next(bands)
            difference = mine - there
            alike.addcmul_(weight * mine, there)
            unlike.addcmul_(weight * difference, difference, value=0.5)
        shares.append(_kept(alike, unlike, overlap, left))
    return shares


def _kept(alike: Tensor, unlike: Tensor, overlap: Tensor, left: Tensor) -> Tensor:
    """How much of a band is kept, 0 to 1, `[B, 3, h, w]`.

    Args:
        alike, unlike: `[B, 3, H, W]`, sums over pairs of frames of the product of their detail, and of half the squared
            difference: of what its energy has beyond the product.
        overlap: `[B, 1, H, W]`, of the pairs' weights.
        left: `[B, 1, h, w]`, the sum of the squared weights, in cells.
    """
    whole = overlap.mean((-2, -1), keepdim=True)
    divisor = torch.where(whole > 0, whole, 1.0)
    alike_overall, unlike_overall = (value.mean((-2, -1), keepdim=True) / divisor for value in (alike, unlike))
    divisor = _by_cell(overlap) + LEAST_OVERLAP
    alike_within = (_by_cell(alike) + LEAST_OVERLAP * alike_overall) / divisor
    unlike_within = (_by_cell(unlike) + LEAST_OVERLAP * unlike_overall) / divisor
    noise = _quantile(unlike_within.flatten(2), CALM)[..., None]  # [B, 3, 1, 1]
    overall = _wiener(alike_overall, unlike_overall, noise, left)
    within = _wiener(alike_within, unlike_within, noise, left)
    return (1.0 - CONTRAST * (WHOLE - 0.5 * (overall + within))).clamp(0.0, 1.0)


def _quantile(values: Tensor, part: float) -> Tensor:
    """The value that this part of `[..., N]` lies below, `[..., 1]`: as `torch.quantile`, but a GPU can record it."""
    place = part * (values.shape[-1] - 1)
    below = math.floor(place)
    rising = torch.sort(values, dim=-1).values
    return torch.lerp(rising[..., below, None], rising[..., math.ceil(place), None], place - below)


def _wiener(alike: Tensor, unlike: Tensor, noise: Tensor, left: Tensor) -> Tensor:
    """The filter of the module's description, from S, E - S, n and e."""
    product = alike.clamp_min(0.0)
    scene = product + (unlike - noise).clamp_min(0.0)
    energy = product + left * unlike
    known = (product > 0) & (energy > 0)
    share = torch.sqrt(torch.where(known, product * scene, 1.0)) / torch.where(known, energy, 1.0)
    # Without any detail there is nothing to weigh.
    return torch.where(known, share, (energy <= 0).to(share.dtype)).clamp(max=1.0)


def _bands(values: Tensor) -> Iterator[Tensor]:
    """Detail of `[B, 3, H, W]` that a binomial blur takes away, finest first."""
    for band in range(BANDS):
        smooth = binomial_blur(values, 2**band)
        yield values - smooth
        values = smooth


def _by_cell(values: Tensor) -> Tensor:
    """Means over cells, a little smoothed; the cells of a mirrored picture are mirrored."""
    rows, columns = (-(-side // CELL) for side in values.shape[-2:])
    return binomial_blur(F.adaptive_avg_pool2d(values, (rows, columns)))
