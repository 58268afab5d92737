"""Structural similarity of several pictures to one truth, plane by plane.

Convention
    Planes hold the integers 0 to 255. The window is 11x11, Gaussian of sigma 1.5; the 5 pixels along each border,
    where it would leave the picture, do not count. With x the picture, y the truth, b the window, m = b(.) and the
    constants C1, C2 of the original publication, the map of similarity is

        (2 mx my + C1) (2 (b(xy) - mx my) + C2) / ((mx^2 + my^2 + C1) (b(x^2 + y^2) - mx^2 - my^2 + C2)).

    Three filters per picture are enough: only the sum of the two variances is needed.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

WINDOW = 11
_BORDER = WINDOW // 2
_SIGMA = 1.5
_STRIP = 128  # rows
_LUMINANCE_CONSTANT = (0.01 * 255) ** 2
_CONTRAST_CONSTANT = (0.03 * 255) ** 2

Plane = npt.NDArray[np.float32]
Planes = TypeVar("Planes", Tensor, Plane)


def structural_similarity(levels: Tensor, truth: Tensor) -> Tensor:
    """The mean of the map for pictures `[P, N, H, W]` against a truth `[N, H, W]`, all uint8: `[P, N]`, float64."""
    measure = _in_strips if levels.device.type == "cpu" else _at_once
    return measure(levels, truth)


def _at_once(levels: Tensor, truth: Tensor) -> Tensor:
    picture, exact = levels.float(), truth.float()  # [P, N, H, W], [N, H, W]
    mean_truth = _blur_by_shifts(exact)
    parts = picture, picture.square() + exact.square(), 2 * picture * exact
    mean, squares, product = (_blur_by_shifts(part) for part in parts)
    _similarity(mean, squares, product, 2 * mean_truth, mean_truth.square(), picture)
    widest = torch.float32 if levels.device.type == "mps" else torch.float64
    return picture[..., _BORDER:-_BORDER, _BORDER:-_BORDER].mean((-2, -1), dtype=widest)


def _in_strips(levels: Tensor, truth: Tensor) -> Tensor:
    """The same on a CPU, one strip of a plane at a time, in buffers that stay in the processor's cache.

    On whole planes it takes twice as long, with torch in place of numpy twice as long again.
    """
    pictures, planes, height, width = levels.shape
    sums = torch.zeros(pictures, planes, dtype=torch.float64)
    room = np.empty((10, _STRIP + 2 * _BORDER, width), np.float32)
    for start in range(0, height - 2 * _BORDER, _STRIP):
        rows = slice(start, start + room.shape[1])
        for plane in range(planes):
            sums[:, plane] += _strip_sums(levels[:, plane, rows].numpy(), truth[plane, rows].numpy(), room)
    return sums / ((height - 2 * _BORDER) * (width - 2 * _BORDER))


def _strip_sums(pictures: npt.NDArray[np.uint8], truth: npt.NDArray[np.uint8], room: Plane) -> Tensor:
    """The sums `[P]` of the map over a strip `[P, h, W]` of a plane, against that of the truth `[h, W]`."""
    buffers = room.reshape(-1)[: len(room) * truth.size].reshape(-1, *truth.shape)
    (twice, squared, twice_mean, mean_squared), three, blurred = buffers[:4], buffers[4:7], buffers[7:]
    value, squares, product = three
    np.copyto(value, truth)
    np.multiply(value, 2, out=twice)
    np.multiply(value, value, out=squared)
    _blur_plane(value, mean_squared)
    np.multiply(mean_squared, 2, out=twice_mean)
    mean_squared *= mean_squared
    sums = []
    for picture in pictures:
        np.copyto(value, picture)
        np.multiply(value, value, out=squares)
        squares += squared
        np.multiply(value, twice, out=product)
        # The three are stacked, and one call filters them all. Rows where the window reaches from one into the next are
        # not used.
        _blur_plane(three.reshape(-1, truth.shape[1]), blurred.reshape(-1, truth.shape[1]))
        inner = slice(_BORDER, -_BORDER)
        _similarity(*(part[inner] for part in (*blurred, twice_mean, mean_squared, value)))
        sums.append(float(value[inner, inner].sum()))
    return torch.tensor(sums, dtype=torch.float64)


def _similarity(
    mean: Planes, squares: Planes, product: Planes, twice_mean_truth: Planes, mean_truth_squared: Planes, result: Planes
) -> None:
    """Write the map into `result`; the first three, mx, b(x^2 + y^2) and 2 b(xy), are overwritten."""
    luminance, lengths = result, mean
    luminance[:] = mean
    luminance *= twice_mean_truth
    lengths *= mean
    lengths += mean_truth_squared
    for blurred, known in ((product, luminance), (squares, lengths)):
        blurred -= known
        blurred += _CONTRAST_CONSTANT
        known += _LUMINANCE_CONSTANT
        known *= blurred
    luminance /= lengths


def _blur_plane(plane: Plane, target: Plane) -> None:
    """Filter a plane `[H, W]` with the window into another one; the border of the result is not to be used."""
    import cv2

    kernel = _gaussian().numpy()
    cv2.sepFilter2D(plane, cv2.CV_32F, kernel, kernel, dst=target)


def _blur_by_shifts(planes: Tensor) -> Tensor:
    """Filter planes `[..., H, W]` with the window on any device, as a sum of shifted planes.

    Not a convolution: on a GPU that may round its factors to 10 bits (TF32), and variances are small differences of
    large squares.
    """
    for dim in (-1, -2):
        size = planes.shape[dim]
        rim = (_BORDER, _BORDER, 0, 0) if dim == -1 else (0, 0, _BORDER, _BORDER)
        wide = F.pad(planes, rim)
        planes = torch.zeros_like(planes)
        for place, weight in enumerate(_gaussian().tolist()):
            planes.add_(wide.narrow(dim, place, size), alpha=weight)
    return planes


@lru_cache(1)
def _gaussian() -> Tensor:
    """`[11]`, sums to 1."""
    weights = [math.exp(-0.5 * ((place - _BORDER) / _SIGMA) ** 2) for place in range(WINDOW)]
    return torch.tensor(weights, dtype=torch.float64).div(sum(weights)).float()
