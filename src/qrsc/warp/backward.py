"""Backward warping: every output pixel is sampled from the position that a field on the output grid points to."""

from __future__ import annotations

from torch import Tensor

from qrsc.image.sampling import Warped, check_field, pixel_grid, sample
from qrsc.names import Interpolation


def backward_warp(image: Tensor, field: Tensor, interpolation: Interpolation = "bilinear") -> Warped:
    """Take every output pixel from where the field points.

    Convention
        `field` is defined on the output grid: `output(m) = image(m + field(m))`. To obtain a global-shutter frame it is
        the distortion field, not the correction field.

    Args:
        image: `[..., C, H, W]`.
        field: `[..., 2, H, W]`.
        interpolation: `bilinear` or `bicubic`.
    """
    check_field(field, "field")
    height, width = field.shape[-2:]
    return sample(image, pixel_grid(height, width, dtype=field.dtype, device=field.device) + field, interpolation)
