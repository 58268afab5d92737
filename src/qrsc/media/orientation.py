"""Rotation and mirroring for display: the display matrix of a video.

Convention
    A display matrix is nine integers `(a, b, u, c, d, v, x, y, w)`, row by row: a stored point `(x, y)` is shown
    at `(a x + c y, b x + d y)`, in units of 1/65536, x to the right, y down.
"""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

Matrix = tuple[int, ...]

IDENTITY: Matrix = (65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)


def matrix_from_bytes(data: bytes) -> Matrix:
    """A display matrix from the side data of a frame; a damaged one, which shows nothing, counts as none."""
    matrix = struct.unpack("=9i", data[:36])
    return matrix if matrix[0] * matrix[4] != matrix[1] * matrix[3] else IDENTITY


def degrees(matrix: Matrix) -> int:
    """Clockwise rotation for display, to the nearest quarter turn: 0, 90, 180 or 270."""
    a, b = matrix[0], matrix[1]
    if abs(a) >= abs(b):
        return 0 if a >= 0 else 180
    return 90 if b > 0 else 270


def mirrored(matrix: Matrix) -> bool:
    """Whether the frame is displayed mirrored."""
    return matrix[0] * matrix[4] - matrix[1] * matrix[3] < 0


def stored_direction(shown: tuple[int, int], matrix: Matrix) -> tuple[int, int]:
    """The direction (right, down) in the stored frame of a direction as displayed; one of the four along an axis."""
    # The matrix maps stored directions to displayed ones; its transpose maps them back.
    x = matrix[0] * shown[0] + matrix[1] * shown[1]
    y = matrix[3] * shown[0] + matrix[4] * shown[1]
    return ((x > 0) - (x < 0), 0) if abs(x) > abs(y) else (0, (y > 0) - (y < 0))


def upright(pixels: npt.NDArray[np.uint8], matrix: Matrix) -> npt.NDArray[np.uint8]:
    """Stored pixels `[H, W, C]` as people see them: turned and mirrored as the matrix says, by quarter turns."""
    right, down = matrix[0], matrix[4]
    if abs(matrix[0]) < abs(matrix[1]):  # stored rows are shown as columns
        pixels, right, down = pixels.swapaxes(0, 1), matrix[3], matrix[1]
    return np.ascontiguousarray(pixels[:: 1 if down >= 0 else -1, :: 1 if right >= 0 else -1])
