"""PSNR, masked PSNR and SSIM of pictures against the truth.

Convention
    Pictures are `[..., 3, H, W]` in [0, 1] and one figure per picture comes back, `[...]`, in float64. Before anything
    is measured both pictures are clamped to [0, 1] and rounded to 8 bits: what is measured is what a file would hold.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

_WINDOW = 11
_BORDER = _WINDOW // 2
_SIGMA = 1.5
_STRIP = 64  # rows
# The constants of the original publication, (0.01 L)^2 and (0.03 L)^2 for a data range L of 255 steps.
_LUMINANCE_CONSTANT = (0.01 * 255) ** 2
_BOTH_CONSTANTS = _LUMINANCE_CONSTANT + (0.03 * 255) ** 2

Planes = TypeVar("Planes", Tensor, npt.NDArray[np.float32])


class Reference:
    """A truth that several pictures are held against: what depends on the truth alone is computed once.

    The methods measure as the functions of their names do; they take pictures `[..., 3, H, W]` from `to_levels`.

    Args:
        truth: `[..., 3, H, W]` in [0, 1].
    """

    def __init__(self, truth: Tensor) -> None:
        if truth.ndim < 3 or truth.shape[-3] != 3:
            raise ValueError(f"pictures [..., 3, H, W] were expected; got {list(truth.shape)}.")
        self._levels = to_levels(truth).contiguous()
        self._blurred: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def psnr(self, levels: Tensor) -> Tensor:
        """`[...]`, dB."""
        _require_pair(levels, self._levels)
        height, width = levels.shape[-2:]
        return _decibels(_squared_error(levels, self._levels, None), 3 * height * width)

    def masked_psnr(self, levels: Tensor, mask: Tensor) -> Tensor:
        """`[...]`, dB, over the pixels of a mask `[..., 1, H, W]`, bool."""
        _require_pair(levels, self._levels)
        _require_mask(mask, levels)
        mask = mask.expand(*levels.shape[:-3], 1, *levels.shape[-2:])
        # Three values a pixel, each counted once in the sum and once in the number.
        return _decibels(_squared_error(levels, self._levels, mask), 3 * mask.sum((-3, -2, -1)))

    def ssim(self, levels: Tensor) -> Tensor:
        """`[...]`."""
        _require_pair(levels, self._levels)
        height, width = levels.shape[-2:]
        if min(height, width) < _WINDOW:
            raise ValueError(f"SSIM needs pictures of at least {_WINDOW}x{_WINDOW} pixels, got {width}x{height}.")
        if self._blurred is None:
            truth = self._levels.float().reshape(-1, height, width)
            mean = _blur(truth)
            # What each step needs of the truth, [N, H, W] each; see `_similarity`.
            self._blurred = 2 * truth, truth.square(), 2 * mean, mean.square() + _LUMINANCE_CONSTANT
        measure = _ssim_in_strips if levels.device.type == "cpu" else _ssim_at_once
        similarity = measure(levels.reshape(-1, height, width), *self._blurred)  # [N]
        return similarity.reshape(levels.shape[:-2]).mean(-1)


def psnr(picture: Tensor, truth: Tensor) -> Tensor:
    """Peak signal-to-noise ratio in dB, peak 1, over all pixels and channels.

    Args:
        picture: `[..., 3, H, W]`.
        truth: the same shape.

    Returns:
        `[...]`, float64; infinite where the two are equal after rounding to 8 bits.
    """
    _require_pair(picture, truth)
    return Reference(truth).psnr(to_levels(picture))


def masked_psnr(picture: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """PSNR over the pixels of a mask: the squared error is averaged over those pixels and the three channels.

    Args:
        picture: `[..., 3, H, W]`.
        truth: the same shape.
        mask: `[..., 1, H, W]`, bool; True where a pixel counts; expanded to the pictures' leading dimensions.

    Returns:
        `[...]`, float64; infinite where the two are equal on the mask, NaN where the mask is empty: there is nothing
        to measure then, and a number would pass for a result.
    """
    _require_pair(picture, truth)
    return Reference(truth).masked_psnr(to_levels(picture), mask)


def ssim(picture: Tensor, truth: Tensor) -> Tensor:
    """Structural similarity with an 11x11 Gaussian window of sigma 1.5 and a data range of 1, mean over the channels.

    Variances are those of the population (divided by N, not N - 1). The 5 pixels along each border, where the window
    would leave the picture, are left out of the mean, as in the original publication and in scikit-image. Filtered in
    float32, within 1e-5 of float64.

    Args:
        picture: `[..., 3, H, W]`, at least 11x11.
        truth: the same shape.

    Returns:
        `[...]`, float64; 1 where the two are equal.
    """
    _require_pair(picture, truth)
    return Reference(truth).ssim(to_levels(picture))


def to_levels(picture: Tensor) -> Tensor:
    """The whole numbers 0 to 255 that an 8-bit file would hold, uint8; any shape. Levels stay as they are."""
    if picture.dtype == torch.uint8:
        return picture
    precise = picture if picture.dtype in (torch.float32, torch.float64) else picture.float()
    return precise.clamp(0, 1).mul_(255).round_().to(torch.uint8)


def to_eight_bits(picture: Tensor) -> Tensor:
    """The values that an 8-bit file would hold, as float64 in [0, 1] (on MPS float32, its widest); any shape."""
    return to_levels(picture).to(_widest(picture)) / 255


def _ssim_at_once(
    levels: Tensor, twice_truth: Tensor, truth_squared: Tensor, twice_mean: Tensor, mean_squared: Tensor
) -> Tensor:
    """SSIM `[N]` of planes `[N, H, W]`, with what is known of the truth."""
    picture = levels.float()
    # Three filters a picture: of the two variances only the sum is asked for.
    squares = _blur(picture.square() + truth_squared) + _BOTH_CONSTANTS
    product = _blur(picture * twice_truth) + _BOTH_CONSTANTS
    similarity = _similarity(_blur(picture), squares, product, twice_mean, mean_squared)
    return similarity[:, _BORDER:-_BORDER, _BORDER:-_BORDER].mean((-2, -1), dtype=_widest(levels))


def _ssim_in_strips(
    levels: Tensor, twice_truth: Tensor, truth_squared: Tensor, twice_mean: Tensor, mean_squared: Tensor
) -> Tensor:
    """The same on a CPU, a strip of a plane at a time: what is computed on the way stays in the processor's cache.

    In strips it takes half the time of one piece, with numpy half the time of strips with torch.
    """
    height, width = levels.shape[-2:]
    sums = []
    known = (twice_truth, truth_squared, twice_mean, mean_squared)
    for planes in zip(*(part.numpy() for part in (levels, *known)), strict=True):
        total = 0.0
        for start in range(0, height - 2 * _BORDER, _STRIP):
            rows = slice(start, start + _STRIP + 2 * _BORDER)
            strip, twice_exact, exact_squared, *means = (plane[rows] for plane in planes)
            picture = strip.astype(np.float32)
            squared = picture * picture
            squared += exact_squared
            squares = _blur_planes(squared, _BOTH_CONSTANTS)
            product = _blur_planes(picture * twice_exact, _BOTH_CONSTANTS)
            parts = (part[_BORDER:-_BORDER] for part in (_blur_planes(picture), squares, product, *means))
            similarity = _similarity(*parts)
            total += float(similarity[:, _BORDER:-_BORDER].sum(dtype=np.float64))
        sums.append(total)
    return torch.tensor(sums, dtype=torch.float64) / ((height - 2 * _BORDER) * (width - 2 * _BORDER))


def _similarity(
    mean_picture: Planes, squares: Planes, product: Planes, twice_mean: Planes, mean_squared: Planes
) -> Planes:
    """The map of SSIM; `squares` and `product` are overwritten.

    With x the picture, y the truth, m their blurred selves and C1, C2 the constants, it is

        (2 mx my + C1) (2 (b(xy) - mx my) + C2) / ((mx^2 + my^2 + C1) (b(x^2 + y^2) - mx^2 - my^2 + C2)).

    Args:
        mean_picture: mx.
        squares: b(x^2 + y^2) + C1 + C2.
        product: 2 b(xy) + C1 + C2.
        twice_mean: 2 my.
        mean_squared: my^2 + C1.
    """
    luminance = mean_picture * twice_mean
    luminance += _LUMINANCE_CONSTANT
    lengths = mean_picture * mean_picture
    lengths += mean_squared
    product -= luminance
    squares -= lengths
    luminance *= product
    lengths *= squares
    luminance /= lengths
    return luminance


def _blur(planes: Tensor) -> Tensor:
    """Planes `[N, H, W]` under the Gaussian window; the 5 pixels along each border are not to be used."""
    if planes.device.type == "cpu":
        # One tall picture: windows that reach from one plane into the next lie within the unused border.
        tall = planes.reshape(-1, planes.shape[-1]).numpy()
        return torch.from_numpy(_blur_planes(tall)).reshape(planes.shape)
    return _blur_by_shifts(planes)


def _blur_by_shifts(planes: Tensor) -> Tensor:
    """The same on any device, as a sum of shifted planes.

    Not by a convolution: on a GPU that may round its factors to 10 bits (TF32), and variances are the small differences
    of large squares.
    """
    for dim in (-1, -2):
        size = planes.shape[dim]
        rim = (_BORDER, _BORDER, 0, 0) if dim == -1 else (0, 0, _BORDER, _BORDER)
        wide = F.pad(planes, rim)
        planes = torch.zeros_like(planes)
        for place, weight in enumerate(_gaussian().tolist()):
            planes.add_(wide.narrow(dim, place, size), alpha=weight)
    return planes


def _blur_planes(planes: npt.NDArray[np.float32], added: float = 0.0) -> npt.NDArray[np.float32]:
    """A tall picture `[N * H, W]` under the window, with a constant added."""
    import cv2

    kernel = _gaussian().numpy()
    return cv2.sepFilter2D(planes, cv2.CV_32F, kernel, kernel, delta=added).astype(np.float32, copy=False)


@lru_cache(1)
def _gaussian() -> Tensor:
    """`[11]`, sums to 1."""
    weights = [math.exp(-0.5 * ((place - _BORDER) / _SIGMA) ** 2) for place in range(_WINDOW)]
    return torch.tensor(weights, dtype=torch.float64).div(sum(weights)).float()


def _squared_error(levels: Tensor, truth: Tensor, mask: Tensor | None) -> Tensor:
    """The sum `[...]` of squared differences of `[..., 3, H, W]` in steps of 8 bits, where a mask is true: exact."""
    if levels.device.type != "cpu":
        squares = (levels.to(torch.int32) - truth).square()
        squares = squares if mask is None else squares * mask
        return squares.sum((-3, -2, -1), dtype=torch.int64)
    import cv2

    planes = [part.contiguous().reshape(-1, *levels.shape[-2:]).numpy() for part in (levels, truth)]
    masks = None if mask is None else mask.expand_as(levels).reshape(planes[0].shape).to(torch.uint8).numpy()
    sums = [
        cv2.norm(plane, exact, cv2.NORM_L2SQR, None if masks is None else masks[index])
        for index, (plane, exact) in enumerate(zip(*planes, strict=True))
    ]
    return torch.tensor(sums, dtype=torch.float64).reshape(levels.shape[:-2]).sum(-1)


def _widest(picture: Tensor) -> torch.dtype:
    return torch.float32 if picture.device.type == "mps" else torch.float64


def _decibels(squared_steps: Tensor, count: Tensor | int) -> Tensor:
    """From a sum of squared steps of 8 bits over so many values to dB below the peak."""
    return -10 * torch.log10(squared_steps.to(_widest(squared_steps)) / count / 255**2)


def _require_pair(picture: Tensor, truth: Tensor) -> None:
    if picture.shape != truth.shape or picture.ndim < 3 or picture.shape[-3] != 3:
        raise ValueError(
            f"two pictures [..., 3, H, W] of one shape were expected; got {list(picture.shape)} and "
            f"{list(truth.shape)}."
        )


def _require_mask(mask: Tensor, picture: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise TypeError(f"the mask must be a bool tensor, got {mask.dtype}; compare it with a threshold first.")
    if mask.ndim < 3 or mask.shape[-3] != 1 or mask.shape[-2:] != picture.shape[-2:]:
        raise ValueError(
            f"the mask must be [..., 1, H, W] with the H, W of the pictures {list(picture.shape)}; "
            f"got {list(mask.shape)}."
        )
