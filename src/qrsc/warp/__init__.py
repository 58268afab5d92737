"""Moving pictures along displacement fields: sampling, inverting a field, splatting forward.

Convention
    Pixel centres lie at whole coordinates, x to the right, y down; fields are `[..., 2, H, W]` holding (dx, dy) in
    pixels. A frame covers half a pixel around its outermost centres; what lies further out is not valid, and takes the
    nearest edge pixel. Outside pixels are reached by clamping coordinates, never by `padding_mode="border"`, which
    some devices lack.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from qrsc.image.sampling import INTERPOLATIONS, Warped, check_field, enlarged, inside, pixel_grid, sample
from qrsc.names import Interpolation, WarpMethod
from qrsc.warp.invert import fixed_point_inverse

# The two rooms below this one are its own: others import their functions from here.
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

WARP_METHODS: tuple[WarpMethod, ...] = get_args(WarpMethod)

# A field whose inverse still moves by more than this after the last step has not been inverted there.
MAX_RESIDUAL = 0.25
# A target pixel that receives less than this part of a source pixel is a hole.
MIN_COVERAGE = 0.25
# A target pixel on which this many source pixels land shows several surfaces: the field folds one over the other.
MAX_COVERAGE = 1.75
# Range of the importance inside one picture: e^-40 is far below what rounding lets through, and far from underflow.
IMPORTANCE_RANGE = 40.0


class InvertedField(NamedTuple):
    """The inverse of a displacement field, `[..., 2, H, W]`, and where there is one, `[..., 1, H, W]` bool."""

    field: Tensor
    valid: Tensor


def backward_warp(image: Tensor, field: Tensor, interpolation: Interpolation = "bilinear") -> Warped:
    """Take every output pixel from where the field points.

    Convention
        `field` lives on the output grid: `output(m) = image(m + field(m))`. To make a global-shutter frame it is the
        distortion field, not the correction field.

    Args:
        image: `[..., C, H, W]`.
        field: `[..., 2, H, W]`.
        interpolation: `bilinear` or `bicubic`.
    """
    check_field(field, "field")
    height, width = field.shape[-2:]
    return sample(image, pixel_grid(height, width, dtype=field.dtype, device=field.device) + field, interpolation)


def invert_field(field: Tensor, steps: int = 8) -> InvertedField:
    """The field that leads back: `field(m + inverse(m)) = -inverse(m)`.

    Convention
        `field` displaces points of the source grid; the inverse lives on the grid that they land on. For a correction
        field (RS -> GS, on the RS grid) it is the distortion field (GS -> RS, on the GS grid).

    Found as by `fixed_point_inverse`. Not valid: points that come from outside the frame, did not converge, or lie
    where the field folds over.

    Args:
        field: `[..., 2, H, W]`.
        steps: iterations at most; the error shrinks by the field's gradient in each.
    """
    inverse, residual = fixed_point_inverse(field, steps)
    height, width = field.shape[-2:]
    x, y = (pixel_grid(height, width, dtype=field.dtype, device=field.device) + inverse.detach()).chunk(2, -3)
    shown = inside(x, y, height, width)
    # Where the field folds over there are several sources, and which of them is in front is a guess.
    single = (jacobian(inverse.detach()) > 0) & (coverage(field.detach()) < MAX_COVERAGE)
    return InvertedField(inverse, shown & (residual < MAX_RESIDUAL) & single)


def jacobian(field: Tensor) -> Tensor:
    """How much the map `m -> m + field(m)` enlarges areas, `[..., 1, H, W]`; negative where it folds over.

    Central differences inside, one-sided ones at the edges.
    """
    check_field(field, "field")
    along_x = _difference(field, -1)
    along_y = _difference(field, -2)
    xx, yx = along_x.unbind(-3)
    xy, yy = along_y.unbind(-3)
    return ((1.0 + xx) * (1.0 + yy) - xy * yx).unsqueeze(-3)


def coverage(field: Tensor) -> Tensor:
    """How many pixels land on each pixel when all follow the field, `[..., 1, H, W]`: 0 in holes, 2 in folds."""
    check_field(field, "field")
    height, width = field.shape[-2:]
    target = _landing(field)
    landed = _scatter_bilinear(torch.ones_like(target[:, :1]), target, height, width)
    return landed.reshape(*field.shape[:-3], 1, height, width)


def splat(image: Tensor, field: Tensor, importance: Tensor | None = None, *, deterministic: bool = False) -> Warped:
    """Push every pixel to where the field points, spread over the four pixels around (softmax splatting).

    Convention
        `field` lives on the input grid: `image(m)` lands at `m + field(m)`. Where several pixels land, they are
        averaged with weights `exp(importance)`. Holes get 0 and are not valid; nor, without an importance to choose
        by, are pixels where the field folds one surface over another.

    Args:
        image: `[..., C, H, W]`.
        field: `[..., 2, H, W]`.
        importance: `[..., 1, H, W]`; differences beyond 40 inside one picture count as 40.
        deterministic: bitwise the same result each time on a GPU, too, at some cost.
    """
    check_field(field, "field")
    if image.ndim != field.ndim or image.shape[:-3] != field.shape[:-3] or image.shape[-2:] != field.shape[-2:]:
        raise ValueError(
            "image [..., C, H, W] and field [..., 2, H, W] must agree but for the channels; got "
            f"{tuple(image.shape)} and {tuple(field.shape)}."
        )
    height, width = field.shape[-2:]
    target = _landing(field)
    weight = _splat_weight(importance, target)

    channels = image.shape[-3]
    payload = torch.cat([image.reshape(-1, channels, height * width) * weight, weight, torch.ones_like(weight)], 1)
    with _deterministic_algorithms(deterministic):
        landed = _scatter_bilinear(payload, target, height, width)  # [B, C + 2, H * W]
    summed, total, count = landed[:, :channels], landed[:, channels : channels + 1], landed[:, channels + 1 :]
    covered = count > MIN_COVERAGE
    safe = torch.where(covered, total, torch.ones_like(total))
    result = torch.where(covered, summed / safe, torch.zeros_like(summed))
    valid = covered if importance is not None else covered & (count < MAX_COVERAGE)
    return Warped(result.reshape(image.shape), valid.reshape(*field.shape[:-3], 1, height, width))


def apply_correction(
    frame: Tensor,
    correction_field: Tensor,
    method: WarpMethod = "invert",
    *,
    interpolation: Interpolation = "bicubic",
    importance: Tensor | None = None,
) -> Warped:
    """Turn a rolling-shutter frame into the global-shutter one that its correction field leads to.

    Convention
        `correction_field` is RS -> GS on the RS grid. `invert` samples with its inverse; `splat` pushes pixels along it
        and leaves holes; `negate` samples with its negative, as the published code does: right only where the field
        is constant, and here for comparison.

    Args:
        frame: `[..., C, H, W]`.
        correction_field: `[..., 2, H, W]`.
        method: `invert`, `splat` or `negate`.
        interpolation: for `invert` and `negate`.
        importance: `[..., 1, H, W]`, for `splat`: which of several pixels that land together is seen.
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


# --- details ---


def _difference(field: Tensor, dim: int) -> Tensor:
    size = field.shape[dim]
    if size == 1:
        return torch.zeros_like(field)
    inner = 0.5 * (field.narrow(dim, 2, size - 2) - field.narrow(dim, 0, size - 2))
    first = field.narrow(dim, 1, 1) - field.narrow(dim, 0, 1)
    last = field.narrow(dim, size - 1, 1) - field.narrow(dim, size - 2, 1)
    return torch.cat([first, inner, last], dim)


def _landing(field: Tensor) -> Tensor:
    """Where each pixel lands, `[B, 2, H * W]`; what is not finite lands outside."""
    height, width = field.shape[-2:]
    grid = pixel_grid(height, width, dtype=field.dtype, device=field.device)
    target = (grid + field).reshape(-1, 2, height * width)
    finite = torch.isfinite(target).all(1, keepdim=True)
    target = torch.where(finite, target, torch.full_like(target, -1.0))
    # One pixel outside already reaches none inside.
    return torch.stack([target[:, 0].clamp(-1.0, width), target[:, 1].clamp(-1.0, height)], 1)


def _splat_weight(importance: Tensor | None, target: Tensor) -> Tensor:
    """`exp(importance)` scaled so that the largest of each picture is 1: `[B, 1, H * W]`."""
    if importance is None:
        return torch.ones_like(target[:, :1])
    expected = target.shape[0] * target.shape[2]
    if importance.numel() != expected:
        raise ValueError(f"importance must be [..., 1, H, W] for the same pictures; got {tuple(importance.shape)}.")
    flat = importance.reshape(target.shape[0], 1, -1).to(target.dtype)
    return torch.exp((flat - flat.amax(-1, keepdim=True)).clamp(min=-IMPORTANCE_RANGE))


def _scatter_bilinear(payload: Tensor, target: Tensor, height: int, width: int) -> Tensor:
    """Add each pixel's payload `[B, P, N]` to the four pixels around its target `[B, 2, N]`: `[B, P, H * W]`."""
    pictures = len(payload)
    corner = target.floor()
    across, down = (target - corner).unbind(1)  # [B, N]
    # With a rim of one pixel before and two after, every corner of a target from -1 to the size has a place.
    columns, rows = width + 3, height + 3
    left, top = corner.long().add_(1).unbind(1)
    place = top * columns + left
    place += rows * columns * torch.arange(pictures, device=payload.device).unsqueeze(1)
    # Plane by plane in one dimension: less than half the time of one scatter over all dimensions on a CPU.
    planes = [payload.new_zeros(pictures * rows * columns) for _ in range(payload.shape[1])]
    for step_y, share_y in ((0, 1.0 - down), (columns, down)):
        for step_x, share_x in ((0, 1.0 - across), (1, across)):
            index, share = (place + (step_y + step_x)).reshape(-1), share_x * share_y
            for number, plane in enumerate(planes):
                planes[number] = plane.scatter_add(0, index, (payload[:, number] * share).reshape(-1))
    landed = torch.stack([plane.reshape(pictures, rows, columns) for plane in planes], 1)
    return landed[..., 1:-2, 1:-2].reshape(pictures, -1, height * width)


@contextmanager
def _deterministic_algorithms(wanted: bool) -> Iterator[None]:
    """Torch's deterministic kernels for a while; the caller's own setting comes back after."""
    if not wanted:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
