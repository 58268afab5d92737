"""Parts that Triton kernels share: which pixels are a program's own, and which lie around a position.

Triton puts them into each kernel that calls them, so that a call costs nothing there.
"""

# Triton has no types, and its arguments are pointers and blocks of numbers.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def own_pixels(height, width, BLOCK: tl.constexpr):
    """A run of pixels for each program along the first axis, a picture for each along the second.

    Returns the number of the picture, and of each pixel whether it exists, its index in the picture, row and column.
    """
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = tl.program_id(1).to(tl.int64)
    there = index < height * width
    row = index // width
    return number, there, index, row, index - row * width


@triton.jit
def nearest(place, size):
    """The nearest of the places from 0 to `size - 1`: pictures are continued by their edges."""
    return tl.minimum(tl.maximum(place, 0), size - 1)


@triton.jit
def shown(wanted, x, y, height, width):
    """Which of those that are wanted have whole coordinates inside the picture."""
    return wanted & (x >= 0) & (x < width) & (y >= 0) & (y < height)


@triton.jit
def whole_and_part(position):
    """The floor of a position, int32, and what is left of it. A position far outside of any picture is moved nearer."""
    position = tl.minimum(tl.maximum(position, -1e6), 1e6)
    floor = tl.floor(position)
    return floor.to(tl.int32), position - floor


@triton.jit
def share_of(corner: tl.constexpr, part_x, part_y):
    """The bilinear weight of a pixel around a position: 0 and 1 are the upper two, 0 and 2 the left ones."""
    return (part_x if corner % 2 else 1.0 - part_x) * (part_y if corner // 2 else 1.0 - part_y)


@triton.jit
def around(x, y, height, width):
    """The four pixels around a position, which is moved into the picture first.

    Returns the indices of the upper two and of the lower two, and by how much the position is right of and below the
    first of them.
    """
    x = tl.minimum(tl.maximum(x, 0.0), width - 1.0)
    y = tl.minimum(tl.maximum(y, 0.0), height - 1.0)
    left = tl.floor(x)
    top = tl.floor(y)
    x0 = left.to(tl.int32)
    y0 = top.to(tl.int32)
    x1 = tl.minimum(x0 + 1, width - 1)
    y1 = tl.minimum(y0 + 1, height - 1)
    a = y0 * width + x0
    b = y0 * width + x1
    c = y1 * width + x0
    d = y1 * width + x1
    return a, b, c, d, x - left, y - top


@triton.jit
def pixels_at(plane, a, b, c, d):
    """Four pixels of a plane, all inside, float32."""
    first = tl.load(plane + a).to(tl.float32)
    second = tl.load(plane + b).to(tl.float32)
    third = tl.load(plane + c).to(tl.float32)
    fourth = tl.load(plane + d).to(tl.float32)
    return first, second, third, fourth
