"""Forward warping: every input pixel is spread over the four output pixels around its target (softmax splatting)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from qrsc.image.sampling import Warped, check_field, pixel_grid

# A target pixel that receives less than this part of a source pixel is a hole.
MIN_COVERAGE = 0.25
# A target pixel that receives this many source pixels shows several surfaces: the field folds one over the other.
MAX_COVERAGE = 1.75
# Range of the importance within one image: e^-40 is far below the rounding error, and far from underflow.
IMPORTANCE_RANGE = 40.0


def splat(image: Tensor, field: Tensor, importance: Tensor | None = None, *, deterministic: bool = False) -> Warped:
    """Push every pixel to where the field points, spread over the four pixels around its target.

    Convention
        `field` is defined on the input grid: `image(m)` lands at `m + field(m)`. Where several pixels land, they are
        averaged with weights `exp(importance)`. Holes are 0 and not valid. Without an importance to choose by, pixels
        where the field folds one surface over another are not valid either.

    Args:
        image: `[..., C, H, W]`.
        field: `[..., 2, H, W]`.
        importance: `[..., 1, H, W]`; differences beyond 40 within one image count as 40.
        deterministic: use deterministic kernels on a GPU, at some cost: the same bits every time.
    """
    check_field(field, "field")
    if image.ndim != field.ndim or image.shape[:-3] != field.shape[:-3] or image.shape[-2:] != field.shape[-2:]:
        raise ValueError(
            "image [..., C, H, W] and field [..., 2, H, W] must have the same shape except for the channels; got "
            f"{tuple(image.shape)} and {tuple(field.shape)}."
        )
    height, width = field.shape[-2:]
    target = _targets(field)
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


def coverage(field: Tensor) -> Tensor:
    """Count the pixels that land on each pixel along the field, `[..., 1, H, W]`: 0 in holes, 2 in folds."""
    check_field(field, "field")
    height, width = field.shape[-2:]
    target = _targets(field)
    landed = _scatter_bilinear(torch.ones_like(target[:, :1]), target, height, width)
    return landed.reshape(*field.shape[:-3], 1, height, width)


def _targets(field: Tensor) -> Tensor:
    """Where each pixel lands, `[B, 2, H * W]`; outside the frame if that is not finite."""
    height, width = field.shape[-2:]
    grid = pixel_grid(height, width, dtype=field.dtype, device=field.device)
    target = (grid + field).reshape(-1, 2, height * width)
    finite = torch.isfinite(target).all(1, keepdim=True)
    target = torch.where(finite, target, torch.full_like(target, -1.0))
    # One pixel outside the frame is far enough to reach no pixel inside.
    return torch.stack([target[:, 0].clamp(-1.0, width), target[:, 1].clamp(-1.0, height)], 1)


def _splat_weight(importance: Tensor | None, target: Tensor) -> Tensor:
    """`exp(importance)`, scaled so that the largest of each image is 1: `[B, 1, H * W]`."""
    if importance is None:
        return torch.ones_like(target[:, :1])
    expected = target.shape[0] * target.shape[2]
    if importance.numel() != expected:
        raise ValueError(f"importance must be [..., 1, H, W] for the same images; got {tuple(importance.shape)}.")
    flat = importance.reshape(target.shape[0], 1, -1).to(target.dtype)
    return torch.exp((flat - flat.amax(-1, keepdim=True)).clamp(min=-IMPORTANCE_RANGE))


def _scatter_bilinear(payload: Tensor, target: Tensor, height: int, width: int) -> Tensor:
    """Add each pixel's payload `[B, P, N]` to the four pixels around its target `[B, 2, N]`: `[B, P, H * W]`."""
    batch = len(payload)
    corner = target.floor()
    across, down = (target - corner).unbind(1)  # [B, N]
    # Padded by one pixel before and two after, so that all four corners of a target from -1 to the size exist.
    columns, rows = width + 3, height + 3
    left, top = corner.long().add_(1).unbind(1)
    place = top * columns + left
    place += rows * columns * torch.arange(batch, device=payload.device).unsqueeze(1)
    # Plane by plane in one dimension: less than half the time of one scatter over all dimensions on a CPU.
    planes = [payload.new_zeros(batch * rows * columns) for _ in range(payload.shape[1])]
    for step_y, share_y in ((0, 1.0 - down), (columns, down)):
        for step_x, share_x in ((0, 1.0 - across), (1, across)):
            index, share = (place + (step_y + step_x)).reshape(-1), share_x * share_y
            for number, plane in enumerate(planes):
                planes[number] = plane.scatter_add(0, index, (payload[:, number] * share).reshape(-1))
    landed = torch.stack([plane.reshape(batch, rows, columns) for plane in planes], 1)
    return landed[..., 1:-2, 1:-2].reshape(batch, -1, height * width)


@contextmanager
def _deterministic_algorithms(wanted: bool) -> Iterator[None]:
    """Switch PyTorch to deterministic kernels inside the block, and back to the caller's setting after it."""
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
