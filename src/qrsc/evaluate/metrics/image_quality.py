"""PSNR, masked PSNR and SSIM of pictures against the truth.

Convention
    Pictures are `[..., 3, H, W]` in [0, 1] and one figure per picture comes back, `[...]`, in float64. Before anything
    is measured, both pictures are clamped to [0, 1] and rounded to 8 bits, the values that a file would hold.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.evaluate.metrics.similarity import WINDOW, structural_similarity


class Reference:
    """A truth that several pictures are compared with: what depends on the truth alone is computed once.

    The methods measure what the functions of the same names do; they take pictures `[..., 3, H, W]` from `to_levels`.

    Args:
        truth: `[..., 3, H, W]` in [0, 1].
    """

    def __init__(self, truth: Tensor) -> None:
        if truth.ndim < 3 or truth.shape[-3] != 3:
            raise ValueError(f"pictures [..., 3, H, W] were expected; got {list(truth.shape)}.")
        self._levels = to_levels(truth).contiguous()

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
        # Three values per pixel, each counted once in the sum and once in the count.
        return _decibels(_squared_error(levels, self._levels, mask), 3 * mask.sum((-3, -2, -1)))

    def ssim(self, levels: Tensor) -> Tensor:
        """`[...]`; or `[P, ...]` of several pictures `[P, ..., 3, H, W]`, for which the truth is filtered once."""
        several = levels if levels.ndim > self._levels.ndim else levels.unsqueeze(0)
        _require_pair(several[0], self._levels)
        height, width = levels.shape[-2:]
        if min(height, width) < WINDOW:
            raise ValueError(f"SSIM needs pictures of at least {WINDOW}x{WINDOW} pixels, got {width}x{height}.")
        planes = several.reshape(len(several), -1, height, width)
        similarity = structural_similarity(planes, self._levels.reshape(-1, height, width))  # [P, N]
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
        `[...]`, float64; infinite where the two are equal on the mask, NaN where the mask is empty: any number would
        pass for a result.
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
    """The levels 0 to 255 that an 8-bit file would hold, uint8; any shape. A uint8 tensor is returned as it is."""
    if picture.dtype == torch.uint8:
        return picture
    precise = picture if picture.dtype in (torch.float32, torch.float64) else picture.float()
    return precise.clamp(0, 1).mul_(255).round_().to(torch.uint8)


def to_eight_bits(picture: Tensor) -> Tensor:
    """The values that an 8-bit file would hold, as float64 in [0, 1] (on MPS float32, its widest); any shape."""
    return to_levels(picture).to(_widest(picture)) / 255


def _squared_error(levels: Tensor, truth: Tensor, mask: Tensor | None) -> Tensor:
    """The exact sum `[...]` of squared differences of `[..., 3, H, W]` in 8-bit levels, where a mask is true."""
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


def _decibels(squared_levels: Tensor, count: Tensor | int) -> Tensor:
    """PSNR from the sum of squared differences, in 8-bit levels, of so many values."""
    return -10 * torch.log10(squared_levels.to(_widest(squared_levels)) / count / 255**2)


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
