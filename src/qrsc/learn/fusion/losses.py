"""Losses of the fusion networks on pixels, structure and features, and how their terms are combined.

Convention
    Pictures are `[B, 3, H, W]` in [0, 1]; every loss is one number per picture, `[B]`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.image.blur import binomial_blur
from qrsc.image.colour import luma
from qrsc.learn.fusion.perceptual import perceptual

Loss = Callable[[Tensor, Tensor], Tensor]
TermName = Literal["charbonnier", "mse", "perceptual", "laplacian", "census", "ssim"]
Scaling = Literal["proportional", "balanced"]
TERMS: tuple[TermName, ...] = get_args(TermName)
PUBLISHED: tuple[TermName, ...] = ("charbonnier", "perceptual", "mse")
# Without weights that are not part of the package.
DEFAULT: tuple[TermName, ...] = ("charbonnier", "mse", "laplacian")

EPSILON = 1e-3
FLOOR = 1e-6  # added to losses before their logarithm is taken; 60 dB
LEAST_UNSEEN = 50  # occluded pixels that a sample needs for the extra loss on them
LEVELS = 4  # of the Laplacian pyramid
CENSUS_REACH = 2  # pixels; windows of 5 x 5
# The constants of SSIM for values in [0, 1], and its window.
SSIM_BRIGHTNESS, SSIM_CONTRAST = 0.01**2, 0.03**2
SSIM_SIGMA, SSIM_REACH = 1.5, 5
CENSUS_SOFTNESS = 0.03  # a difference of this much in brightness counts 0.7 of a large one


def charbonnier(picture: Tensor, truth: Tensor) -> Tensor:
    """Mean of `sqrt(d^2 + 1e-6)`: nearly the absolute difference, smooth at 0."""
    return _mean(torch.sqrt((picture - truth).square() + EPSILON**2))


def mse(picture: Tensor, truth: Tensor) -> Tensor:
    """Mean squared difference."""
    return _mean((picture - truth).square())


def laplacian(picture: Tensor, truth: Tensor) -> Tensor:
    """Sum over the bands of a Laplacian pyramid of their mean absolute differences."""
    difference = picture - truth
    total = difference.new_zeros(len(difference))
    for _ in range(LEVELS):
        if min(difference.shape[-2:]) < 2:
            break
        coarse = F.avg_pool2d(binomial_blur(difference), 2, ceil_mode=True, count_include_pad=False)
        spread = F.interpolate(coarse, size=difference.shape[-2:], mode="bilinear", align_corners=False)
        total = total + _mean((difference - spread).abs())
        difference = coarse
    return total + _mean(difference.abs())


def census(picture: Tensor, truth: Tensor) -> Tensor:
    """Difference of soft census transforms: compares each pixel with its neighbours, independent of brightness."""
    difference = _ranks(picture) - _ranks(truth)
    squared = difference.square()
    return _mean(squared / (0.1 + squared))


def dissimilarity(picture: Tensor, truth: Tensor) -> Tensor:
    """One minus the structural similarity: windows of 11 x 11 (Gaussian, sigma 1.5), mean over the channels.

    Grain that the truth has as well, only another one, costs less here than in squared differences: the contrast of a
    window counts beside the agreement of its pixels.
    """
    one, other = picture.float(), truth.float()
    moments = torch.cat([one, other, one * one, other * other, one * other], 1)
    mean_one, mean_other, square_one, square_other, product = _window_means(moments).chunk(5, 1)
    both = mean_one * mean_other
    squares = mean_one.square() + mean_other.square()
    brightness = (2.0 * both + SSIM_BRIGHTNESS) / (squares + SSIM_BRIGHTNESS)
    spread = square_one + square_other - squares
    return 1.0 - _mean(brightness * (2.0 * (product - both) + SSIM_CONTRAST) / (spread + SSIM_CONTRAST))


def load_term(name: TermName, device: torch.device | str = "cpu") -> Loss:
    """A loss by its name.

    Raises:
        ValueError: there is no such loss, or what it needs is missing.
    """
    simple: dict[str, Loss] = {
        "charbonnier": charbonnier,
        "mse": mse,
        "laplacian": laplacian,
        "census": census,
        "ssim": dissimilarity,
    }
    if name in simple:
        return simple[name]
    if name == "perceptual":
        return perceptual(device)
    raise ValueError(f"unknown loss {name!r}; choose from {', '.join(TERMS)}.")


def balanced(values: Sequence[Tensor]) -> Tensor:
    """The sum of losses `[B]`, all but the first scaled to its size: `L_0 + sum_k (|L_0| / |L_k|) L_k` of their means.

    The ratios are detached, so that a relative change counts the same in every term. A term that is exactly 0 is left
    out.
    """
    first = values[0].mean()
    total = first
    for value in (each.mean() for each in values[1:]):
        size = value.detach().abs()
        ratio = torch.where(size > 0, first.detach().abs() / torch.where(size > 0, size, 1.0), 0.0)
        total = total + ratio * value
    return total


def proportional(values: Sequence[Tensor]) -> Tensor:
    """The sum of the logarithms of losses `[B]`, averaged over the samples.

    A relative change of the error counts the same in every sample and term, as in decibels. A plain mean is dominated
    by hopeless samples: one of 20 dB has a hundred times the squared error of one of 40.
    """
    return torch.stack([torch.log(value + FLOOR).mean() for value in values]).sum()


def unseen_error(picture: Tensor, truth: Tensor, seen: Tensor) -> Tensor:
    """Log mean squared error of the pixels that are occluded in the centre frame, averaged over the samples.

    They are 2 to 3 % of a picture and hardly count in a mean over all of it, but they are what the other frames are
    needed for.

    Args:
        seen: `[B, 1, H, W]`, bool: the point is visible in the centre frame.
    """
    unseen = (~seen).to(picture)
    count = unseen.flatten(1).sum(1)
    squared = ((picture - truth).square().mean(1, keepdim=True) * unseen).flatten(1).sum(1)
    enough = (count >= LEAST_UNSEEN).to(picture)
    return (enough * torch.log(squared / count.clamp_min(1.0) + FLOOR)).sum() / enough.sum().clamp_min(1.0)


def _mean(values: Tensor) -> Tensor:
    """Mean over all but the first dimension, `[B]`."""
    return values.flatten(1).mean(1)


def _window_means(values: Tensor) -> Tensor:
    """Gaussian means over the windows of SSIM that lie inside, `[B, C, H - 10, W - 10]`."""
    places = torch.arange(-SSIM_REACH, SSIM_REACH + 1, dtype=values.dtype)
    taps = torch.exp(-0.5 * (places / SSIM_SIGMA).square())
    for dim in (-2, -1):
        inner = values.shape[dim] - 2 * SSIM_REACH
        parts = zip((taps / taps.sum()).tolist(), range(2 * SSIM_REACH + 1), strict=True)
        values = torch.stack([weight * values.narrow(dim, start, inner) for weight, start in parts]).sum(0)
    return values


def _ranks(picture: Tensor) -> Tensor:
    """Soft census transform: how much brighter each neighbour is, from -1 to 1, `[B, 24, H - 4, W - 4]`."""
    shades = luma(picture)[:, 0]
    height, width = (side - 2 * CENSUS_REACH for side in shades.shape[-2:])
    side = 2 * CENSUS_REACH + 1
    middle = shades[:, CENSUS_REACH : CENSUS_REACH + height, CENSUS_REACH : CENSUS_REACH + width]
    found = []
    for place in range(side * side):
        row, column = divmod(place, side)
        if row == column == CENSUS_REACH:
            continue
        against = shades[:, row : row + height, column : column + width] - middle
        found.append(against / torch.sqrt(CENSUS_SOFTNESS**2 + against.square()))
    return torch.stack(found, 1)
