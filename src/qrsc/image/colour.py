"""RGB as brightness and two colour differences (full range), and back."""

from __future__ import annotations

import torch
from torch import Tensor

LUMA = (0.299, 0.587, 0.114)  # parts of red, green and blue in the brightness: ITU-R BT.601, what cv2.cvtColor uses
_TO_YCC = torch.tensor((LUMA, (-0.168736, -0.331264, 0.5), (0.5, -0.418688, -0.081312)), dtype=torch.float64)


def grey(pictures: Tensor) -> Tensor:
    """The brightness of RGB `[..., 3, H, W]`, `[..., 1, H, W]`."""
    red, green, blue = pictures.unsqueeze(-3).unbind(-4)
    return LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue


def to_ycc(pictures: Tensor) -> Tensor:
    """`[B, 3, H, W]` RGB to brightness and colour differences; at least in single precision."""
    return _mixed(pictures, _TO_YCC)


def from_ycc(pictures: Tensor) -> Tensor:
    """`[B, 3, H, W]` back to RGB; at least in single precision."""
    return _mixed(pictures, torch.linalg.inv(_TO_YCC))


def _mixed(pictures: Tensor, matrix: Tensor) -> Tensor:
    """Channels under a 3 x 3 matrix."""
    red, green, blue = pictures.to(torch.promote_types(pictures.dtype, torch.float32)).unbind(1)
    # Plain numbers: to bring a matrix to a GPU is nothing that it can record.
    mixed = [(parts[0] * red).add_(green, alpha=parts[1]).add_(blue, alpha=parts[2]) for parts in matrix.tolist()]
    return torch.stack(mixed, 1)
