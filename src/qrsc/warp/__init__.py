"""Warping along displacement fields: `backward`, `invert` (a field), `splatting` (forward), `apply` (a correction).

Convention
    Pixel centres lie at integer coordinates, x to the right, y down; fields are `[..., 2, H, W]` holding (dx, dy) in
    pixels. A frame extends half a pixel beyond its outermost centres; positions further out are not valid, and take the
    nearest edge pixel.
"""

from __future__ import annotations

from qrsc.image.sampling import INTERPOLATIONS, Warped, enlarged, pixel_grid, sample
from qrsc.names import Interpolation, WarpMethod
from qrsc.warp.apply import WARP_METHODS, apply_correction
from qrsc.warp.backward import backward_warp
from qrsc.warp.invert import InvertedField, fixed_point_inverse, invert_field, jacobian
from qrsc.warp.splatting import coverage, splat

__all__ = [
    "INTERPOLATIONS",
    "WARP_METHODS",
    "Interpolation",
    "InvertedField",
    "WarpMethod",
    "Warped",
    "apply_correction",
    "backward_warp",
    "coverage",
    "enlarged",
    "fixed_point_inverse",
    "invert_field",
    "jacobian",
    "pixel_grid",
    "sample",
    "splat",
]
