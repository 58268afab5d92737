"""RGB to luma and YCbCr (full range), and back."""

from __future__ import annotations

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)  # weights of red, green and blue: ITU-R BT.601, as in cv2.cvtColor
_TO_YCBCR = torch.tensor((LUMA, (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312)), dtype=torch.float64)


def luma(images: Tensor) -> Tensor:
    """Luma of RGB `[..., 3, H, W]`: `[..., 1, H, W]`."""
    red, green, blue = images.unsqueeze(-3).unbind(-4)
    return (LUMA[0] * red).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])


def to_ycbcr(images: Tensor) -> Tensor:
    """RGB `[B, 3, H, W]` to YCbCr with chroma around 0; at least float32."""
    return _mixed(images, _TO_YCBCR)


def from_ycbcr(images: Tensor) -> Tensor:
    """YCbCr `[B, 3, H, W]` with chroma around 0 to RGB; at least float32."""
    return _mixed(images, torch.linalg.inv(_TO_YCBCR))


def _mixed(images: Tensor, matrix: Tensor) -> Tensor:
    """Multiply the channels by a 3 x 3 matrix."""
    red, green, blue = images.to(torch.promote_types(images.dtype, torch.float32)).unbind(1)
    # Python numbers: a CUDA graph cannot record the copy of a matrix to the GPU.
    mixed = [(parts[0] * red).add_(green, alpha=parts[1]).add_(blue, alpha=parts[2]) for parts in matrix.tolist()]
    return torch.stack(mixed, 1)
