"""A mean of the corrected frames whose fine detail counts as far as the frames agree on it.

Sampled sharply, frames keep their detail and their noise; sampled softly, they lose both. Here they are sampled sharply
and fused as by `mean`, and then detail is weighed: what two frames show alike is the scene's, what they show
differently is noise, compression or motion that was not found. With S the mean product of the detail of two frames and
N half of their mean squared difference, a Wiener filter keeps `S / (S + N e)` of it, where e, the sum of the squared
weights, is the part of the noise that the mean has left. Brightness and colours are weighed apart, in two bands.

On 13 real frames of three data sets this is 0.2 dB ahead of the mean of softly sampled frames (never behind on any of
them) and 0.45 dB ahead of that of sharply sampled ones; on ten simulated clips, which have no noise, 0.7 dB ahead of
the former and 0.3 dB behind the latter.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.colours import from_ycc, to_ycc
from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.mean import mean_weights, weighted_mean
from qrsc.warp import Interpolation, Warped

# Detail of up to about 1.5 pixels, and of about 3. A third band gains nothing on real frames.
BANDS = 2
# In pixels: detail is compared in cells of this side. Half of what is kept is decided there, half by the whole picture,
# as faint detail of a single cell drowns in the rounding to 8 bits.
CELL = 8
# Frames that overlap by less than this in a cell are no measurement there, and the whole picture decides.
LEAST_OVERLAP = 0.01
# How much of the difference of two frames counts as noise. Not all: part of it is that they sample the scene at other
# places. From 0.5 to 1 real frames stay within 0.03 dB, and simulated ones without noise lose 0.26 dB.
NOISE_PART = 0.7
# Frames that differ by this much count 1/e as much. Softer than in `mean`: a faint double image is weighed down as
# detail that frames do not agree on.
DISAGREEMENT = 0.25


class CoherentFusion:
    """One frame from several; see the module's description.

    Attributes:
        interpolation: how the frames should be sampled that it is given.
    """

    interpolation: Interpolation = "bicubic"

    def __call__(self, aligned: AlignedFrames) -> Warped:
        """`[B, 3, H, W]`, and where any of the frames shows the pixel, `[B, 1, H, W]` bool."""
        weights = mean_weights(aligned, DISAGREEMENT)
        mean = weighted_mean(aligned, weights)
        if aligned.frames.shape[1] == 1:
            return mean
        return Warped(_agreed(mean.image, aligned, weights), mean.valid)


def _agreed(mean: Tensor, aligned: AlignedFrames, weights: Tensor) -> Tensor:
    """The mean `[B, 3, H, W]` with the detail that frames agree on.

    Args:
        weights: `[B, T, 1, H, W]`, of the frames in the mean.
    """
    centre = aligned.centre
    others = [i for i in range(aligned.frames.shape[1]) if i != centre]
    left = _by_cell(weights.square().sum(1))  # [B, 1, h, w], of the noise
    overlaps = [torch.minimum(weights[:, centre], weights[:, i]) for i in others]  # [B, 1, H, W] each
    overlap = torch.stack(overlaps).sum(0)
    picture = to_ycc(mean)
    own = _bands(to_ycc(aligned.frames[:, centre]))
    every = [_bands(to_ycc(aligned.frames[:, i])) for i in others]
    rest = picture
    for band in _bands(picture):
        mine, theirs = next(own), [next(each) for each in every]
        alike = torch.zeros_like(band)
        noise = torch.zeros_like(band)
        for there, share in zip(theirs, overlaps, strict=True):
            unlike = mine - there
            alike.addcmul_(share * mine, there)
            noise.addcmul_(share * unlike, unlike, value=0.5)
        rest = rest - (1.0 - _kept(alike, noise, overlap, left)) * band
    result = from_ycc(rest).to(mean.dtype)
    return torch.clamp(result, mean.amin(), mean.amax())


def _kept(alike: Tensor, noise: Tensor, overlap: Tensor, left: Tensor) -> Tensor:
    """How much of a band is kept, 0 to 1.

    Args:
        alike, noise: `[B, 3, H, W]`, sums over pairs of frames of the product of their detail, and of half the squared
            difference: of what its mean square has beyond the product.
        overlap: `[B, 1, H, W]`, of the pairs' weights.
        left: `[B, 1, h, w]`, the part of the noise that the mean has left, in cells.
    """
    whole = overlap.mean((-2, -1), keepdim=True)
    divisor = torch.where(whole > 0, whole, 1.0)
    alike_overall, noise_overall = (value.mean((-2, -1), keepdim=True) / divisor for value in (alike, noise))
    divisor = _by_cell(overlap) + LEAST_OVERLAP
    alike_within = (_by_cell(alike) + LEAST_OVERLAP * alike_overall) / divisor
    noise_within = (_by_cell(noise) + LEAST_OVERLAP * noise_overall) / divisor
    cells = 0.5 * (_wiener(alike_overall, noise_overall, left) + _wiener(alike_within, noise_within, left))
    return F.interpolate(cells, size=alike.shape[-2:], mode="bilinear")


def _wiener(alike: Tensor, noise: Tensor, left: Tensor) -> Tensor:
    signal = alike.clamp_min(0.0)
    total = signal + NOISE_PART * left * noise
    return torch.where(total > 0, signal / torch.where(total > 0, total, 1.0), 1.0)


def _bands(values: Tensor) -> Iterator[Tensor]:
    """Detail of `[B, 3, H, W]` that a binomial blur takes away, finest first."""
    for band in range(BANDS):
        smooth = _blurred(values, 2**band)
        yield values - smooth
        values = smooth


def _blurred(values: Tensor, step: int) -> Tensor:
    """Under the window 1, 2, 1 with so many pixels between, in rows and columns."""
    padded = F.pad(values, (step, step, step, step), mode="replicate")
    rows = (padded[..., : -2 * step, :] + padded[..., 2 * step :, :]).mul_(0.25)
    rows.add_(padded[..., step:-step, :], alpha=0.5)
    columns = (rows[..., : -2 * step] + rows[..., 2 * step :]).mul_(0.25)
    return columns.add_(rows[..., step:-step], alpha=0.5)


def _by_cell(values: Tensor) -> Tensor:
    """Means over cells, a little smoothed; the cells of a mirrored picture are mirrored."""
    rows, columns = (-(-side // CELL) for side in values.shape[-2:])
    return _blurred(F.adaptive_avg_pool2d(values, (rows, columns)), 1)
