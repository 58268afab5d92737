"""From a rolling-shutter frame and its correction field to a global-shutter frame, by any of the warps."""

from __future__ import annotations

from typing import get_args

from torch import Tensor

from qrsc.image.sampling import Warped
from qrsc.names import Interpolation, WarpMethod
from qrsc.warp.backward import backward_warp
from qrsc.warp.invert import invert_field
from qrsc.warp.splatting import splat

WARP_METHODS: tuple[WarpMethod, ...] = get_args(WarpMethod)


def apply_correction(
    frame: Tensor,
    correction_field: Tensor,
    method: WarpMethod = "invert",
    *,
    interpolation: Interpolation = "bicubic",
    importance: Tensor | None = None,
) -> Warped:
    """Turn a rolling-shutter frame into the global-shutter frame that its correction field leads to.

    Convention
        `correction_field` is RS -> GS on the RS grid. `invert` samples with its inverse. `splat` pushes pixels along it
        and leaves holes. `negate` samples with its negative, as the published code does: that is correct only where
        the field is constant, and is here for comparison.

    Args:
        frame: `[..., C, H, W]`.
        correction_field: `[..., 2, H, W]`.
        method: `invert`, `splat` or `negate`.
        interpolation: for `invert` and `negate`.
        importance: `[..., 1, H, W]`, for `splat`: which of several pixels that land together is visible.
    """
    if method == "splat":
        return splat(frame, correction_field, importance)
    if method == "negate":
        return backward_warp(frame, -correction_field, interpolation)
    if method == "invert":
        inverse, invertible = invert_field(correction_field)
        warped, shown = backward_warp(frame, inverse, interpolation)
        return Warped(warped, shown & invertible)
    raise ValueError(f"unknown warp {method!r}; choose one of {', '.join(WARP_METHODS)}.")
