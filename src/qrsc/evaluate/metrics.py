"""PSNR, masked PSNR and SSIM of pictures against the truth.

Convention
    Pictures are `[..., 3, H, W]` in [0, 1] and one figure per picture comes back, `[...]`, in float64. Before anything
    is measured both pictures are clamped to [0, 1] and rounded to 8 bits: what is measured is what a file would hold.
"""

from __future__ import annotations

import torch
from torch import Tensor

_WINDOW = 11
_SIGMA = 1.5


def psnr(picture: Tensor, truth: Tensor) -> Tensor:
    """Peak signal-to-noise ratio in dB, peak 1, over all pixels and channels.

    Args:
        picture: `[..., 3, H, W]`.
        truth: the same shape.

    Returns:
        `[...]`, float64; infinite where the two are equal after rounding to 8 bits.
    """
    _require_pair(picture, truth)
    squared_error = (to_eight_bits(picture) - to_eight_bits(truth)).square()
    return _decibels(squared_error.mean(dim=(-3, -2, -1)))


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
    if mask.dtype != torch.bool:
        raise TypeError(f"the mask must be a bool tensor, got {mask.dtype}; compare it with a threshold first.")
    if mask.ndim < 3 or mask.shape[-3] != 1 or mask.shape[-2:] != picture.shape[-2:]:
        raise ValueError(
            f"the mask must be [..., 1, H, W] with the H, W of the pictures {list(picture.shape)}; "
            f"got {list(mask.shape)}."
        )
    squared_error = (to_eight_bits(picture) - to_eight_bits(truth)).square()
    # [..., 3, H, W]: expanded to the channels, so that each counts once in the sum and once in the number.
    counted = mask.expand_as(picture)
    total = torch.where(counted, squared_error, 0.0).sum(dim=(-3, -2, -1))
    return _decibels(total / counted.sum(dim=(-3, -2, -1)))


def ssim(picture: Tensor, truth: Tensor) -> Tensor:
    """Structural similarity with an 11x11 Gaussian window of sigma 1.5 and a data range of 1, mean over the channels.

    Variances are those of the population (divided by N, not N - 1). The 5 pixels along each border, where the window
    would leave the picture, are left out of the mean, as in the original publication and in scikit-image.

    Args:
        picture: `[..., 3, H, W]`, at least 11x11.
        truth: the same shape.

    Returns:
        `[...]`, float64; 1 where the two are equal.
    """
    from torchmetrics.functional.image import structural_similarity_index_measure

    _require_pair(picture, truth)
    height, width = picture.shape[-2:]
    if min(height, width) < _WINDOW:
        raise ValueError(f"SSIM needs pictures of at least {_WINDOW}x{_WINDOW} pixels, got {width}x{height}.")
    # Its own mean takes the border in, padded by reflection (0.04 lower on the 32x47 picture of the tests), so the mean
    # is taken here over the inner part of its map [N, 3, H, W].
    # In float32, a tenth of the time of float64 on a CPU and within 1e-5 of it.
    rounded = to_eight_bits(picture)
    _, similarity = structural_similarity_index_measure(
        rounded.float().reshape(-1, 3, height, width),
        to_eight_bits(truth).float().reshape(-1, 3, height, width),
        gaussian_kernel=True,
        sigma=_SIGMA,
        kernel_size=_WINDOW,
        reduction="none",
        data_range=1.0,
        return_full_image=True,
    )
    border = _WINDOW // 2
    inner = similarity[..., border : height - border, border : width - border]
    return inner.to(rounded.dtype).mean(dim=(-3, -2, -1)).reshape(picture.shape[:-3])


def to_eight_bits(picture: Tensor) -> Tensor:
    """The values that an 8-bit file would hold, as float64 in [0, 1] (on MPS float32, its widest); any shape."""
    precise = torch.float32 if picture.device.type == "mps" else torch.float64
    return (picture.to(precise).clamp(0, 1) * 255).round() / 255


def _decibels(mean_squared_error: Tensor) -> Tensor:
    return -10 * torch.log10(mean_squared_error)


def _require_pair(picture: Tensor, truth: Tensor) -> None:
    if picture.shape != truth.shape or picture.ndim < 3 or picture.shape[-3] != 3:
        raise ValueError(
            f"two pictures [..., 3, H, W] of one shape were expected; got {list(picture.shape)} and "
            f"{list(truth.shape)}."
        )
