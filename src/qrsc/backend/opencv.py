"""Image operations by OpenCV, which take a fraction of PyTorch's time on a CPU, plane by plane.

Convention
    Each function has a counterpart in PyTorch, for all devices, where it is called; `supports` decides between them.
    Results are new tensors without gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.names import Interpolation

Plane = npt.NDArray[np.float32]

# cv2.remap stores row and column indices in 16 bits.
REMAP_LIMIT = 32767


def supports(*tensors: Tensor) -> bool:
    """Whether OpenCV can process these tensors: not empty, on a CPU, float32, and no gradient needed."""
    if torch.compiler.is_compiling():
        return False
    if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        return False
    return all(each.device.type == "cpu" and each.dtype == torch.float32 and each.numel() > 0 for each in tensors)


def supports_remap(*tensors: Tensor, interpolation: Interpolation = "bilinear") -> bool:
    """Whether images `[..., H, W]` and coordinates `[..., h, w]` suit `remap_plane`."""
    small = all(max(each.shape[-2:]) < REMAP_LIMIT for each in tensors)
    return supports(*tensors) and small and remap_is_exact(interpolation)


def remap(image: Tensor, x: Tensor, y: Tensor, interpolation: Interpolation = "bilinear") -> Tensor:
    """Sample an image `[..., C, H, W]` at coordinates `[..., h, w]` inside it: `[..., C, h, w]`.

    On 640x480 it takes less than half the time of `grid_sample` if bilinear and little more than half if bicubic, with
    an error of 1e-7 and 3e-7 instead of 5e-5, since `grid_sample` rescales coordinates to [-1, 1].
    """
    images = image.detach().reshape(-1, *image.shape[-3:]).contiguous()
    across, down = (part.detach().reshape(-1, *x.shape[-2:]).contiguous().numpy() for part in (x, y))
    result = image.new_empty(*image.shape[:-2], *x.shape[-2:])
    for source, out, map_x, map_y in zip(images, result.reshape(-1, *result.shape[-3:]), across, down, strict=True):
        for plane, target in zip(source.numpy(), out.numpy(), strict=True):
            remap_plane(plane, map_x, map_y, target, interpolation)
    return result


def remap_plane(plane: Plane, x: Plane, y: Plane, target: Plane, interpolation: Interpolation = "bilinear") -> None:
    """Sample a plane `[H, W]` at coordinates `[h, w]` into `target` `[h, w]`; all contiguous."""
    import cv2

    flag = cv2.INTER_LINEAR if interpolation == "bilinear" else cv2.INTER_CUBIC
    cv2.remap(plane, x, y, flag, target, cv2.BORDER_REPLICATE)


@lru_cache
def remap_is_exact(interpolation: Interpolation = "bilinear") -> bool:
    """Whether this OpenCV interpolates at exact coordinates, by the kernel of `grid_sample`.

    Before version 5 it rounded coordinates to 1/32 pixel.
    """
    single = np.zeros((64, 64), np.float32)
    single[32, 32] = 1.0
    # Around a single bright pixel, samples are values of the kernel itself.
    x = np.tile(np.linspace(30.01, 33.99, 64, dtype=np.float32), (64, 1))
    found = np.empty_like(single)
    remap_plane(single, x, np.ascontiguousarray(x.T), found, interpolation)
    distance = np.abs(x[0].astype(np.float64) - 32.0)
    kernel = np.maximum(0.0, 1.0 - distance) if interpolation == "bilinear" else _keys_cubic(distance)
    return bool(np.abs(found - np.outer(kernel, kernel)).max() < 1e-4)


def _keys_cubic(distance: npt.NDArray[np.float64], a: float = -0.75) -> npt.NDArray[np.float64]:
    """Keys' cubic kernel at distances up to 2, with the parameter that PyTorch uses."""
    near = ((a + 2.0) * distance - (a + 3.0)) * distance**2 + 1.0
    far = a * (((distance - 5.0) * distance + 8.0) * distance - 4.0)
    return np.where(distance <= 1.0, near, far)


def upsample(image: Tensor, size: tuple[int, int]) -> Tensor:
    """Upsample an image `[B, C, H, W]` bilinearly to a size `(h, w)`."""
    import cv2

    return _resized(image, size, cv2.INTER_LINEAR)


def block_means(image: Tensor, size: tuple[int, int]) -> Tensor:
    """Downsample an image `[B, C, H, W]` to a size `(h, w)` that divides its own, by means over blocks."""
    import cv2

    return _resized(image, size, cv2.INTER_AREA)


def box_sums(image: Tensor, side: int) -> Tensor:
    """Sum `[B, C, H, W]` over square windows of an odd side, padded with zeros."""
    import cv2

    result = torch.empty_like(image, memory_format=torch.contiguous_format)
    for plane, target in _planes(image, result):
        cv2.boxFilter(plane, -1, (side, side), target, normalize=False, borderType=cv2.BORDER_CONSTANT)
    return result


def median(image: Tensor, side: int) -> Tensor:
    """The median of `[B, C, H, W]` over square windows of side 3 or 5, edges replicated."""
    import cv2

    result = torch.empty_like(image, memory_format=torch.contiguous_format)
    for plane, target in _planes(image, result):
        target[:] = cv2.medianBlur(plane, side)
    return result


def separable_filter(image: Tensor, taps: Sequence[float]) -> Tensor:
    """Filter `[B, C, H, W]` with the same odd number of taps along rows and columns, edges replicated."""
    import cv2

    kernel = np.array(taps, np.float32)
    result = torch.empty_like(image, memory_format=torch.contiguous_format)
    for plane, target in _planes(image, result):
        cv2.sepFilter2D(plane, -1, kernel, kernel, target, borderType=cv2.BORDER_REPLICATE)
    return result


def _resized(image: Tensor, size: tuple[int, int], interpolation: int) -> Tensor:
    import cv2

    result = image.new_empty(*image.shape[:2], *size)
    for plane, target in _planes(image, result):
        cv2.resize(plane, (size[1], size[0]), target, interpolation=interpolation)
    return result


def _planes(image: Tensor, result: Tensor) -> list[tuple[Plane, Plane]]:
    """Pair the planes of `[B, C, H, W]` with those of the result `[B, C, h, w]`, which are views to write into."""
    given = image.detach().contiguous().flatten(0, 1).numpy()
    return list(zip(given, result.flatten(0, 1).numpy(), strict=True))
