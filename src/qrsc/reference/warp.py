"""Slow, obvious twins of the functions of `qrsc.warp`, with the same names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from qrsc.reference.pixels import as_pictures, assembled, grid, pixels_of, read
from qrsc.warp import Interpolation, InvertedField, Warped
from qrsc.warp.invert import MAX_RESIDUAL
from qrsc.warp.invert_cpu import MAX_JUMP
from qrsc.warp.splatting import IMPORTANCE_RANGE, MAX_COVERAGE, MIN_COVERAGE


def sample(image: Tensor, position: Tensor, interpolation: Interpolation = "bilinear") -> Warped:
    """Twin of `warp.sample`: the taps of each pixel, their coordinates clamped to the image."""
    images, positions = as_pictures(image), as_pictures(position)
    values, valid = [], []
    for picture, y, x in pixels_of(positions):
        value, inside = read(images[picture], positions[picture, :, y, x], interpolation)
        values.append(value)
        valid.append(torch.tensor([inside]))
    return Warped(assembled(torch.stack(values), position.shape), assembled(torch.stack(valid), position.shape))


def backward_warp(image: Tensor, field: Tensor, interpolation: Interpolation = "bilinear") -> Warped:
    """Twin of `warp.backward_warp`."""
    return sample(image, grid(field) + field, interpolation)


def invert_field(field: Tensor, steps: int = 8) -> InvertedField:
    """Twin of `warp.invert_field`: the fixed-point iteration pixel by pixel, always with all steps."""
    height, width = field.shape[-2:]
    fields = as_pictures(field)
    found, converged = [], []
    for picture, y, x in pixels_of(fields):
        here = torch.tensor([x, y], dtype=field.dtype)
        source = _landing_at(fields[picture].detach(), y, x)
        row, column = (y, x) if source is None else source
        inverse = -fields[picture, :, row, column]
        residual = 0.0
        for _ in range(steps):
            onward = -read(fields[picture], here + inverse, "bilinear")[0]
            residual = float((onward - inverse).detach().abs().max())
            if source is None or residual <= MAX_JUMP:
                inverse = onward
        found.append(inverse)
        dx, dy = inverse.detach().tolist()
        inside = -0.5 <= x + dx <= width - 0.5 and -0.5 <= y + dy <= height - 0.5
        converged.append(inside and residual < MAX_RESIDUAL)
    inverses = as_pictures(assembled(torch.stack(found), field.shape))
    landed = [_coverage(picture) for picture in fields.detach()]
    valid = []
    for n, (picture, y, x) in enumerate(pixels_of(inverses)):
        single = _jacobian(inverses[picture].detach(), y, x) > 0 and landed[picture][y, x] < MAX_COVERAGE
        valid.append(torch.tensor([converged[n] and single]))
    return InvertedField(inverses.reshape(field.shape), assembled(torch.stack(valid), field.shape))


def _landing_at(field: Tensor, y: int, x: int) -> tuple[int, int] | None:
    """The pixel (row, column) of a field `[2, H, W]` that lands on a pixel; of several the one that moves furthest."""
    best, longest = None, -1.0
    for row, column in itertools.product(range(field.shape[-2]), range(field.shape[-1])):
        dx, dy = field[:, row, column]
        length = float((dx * dx + dy * dy).float())
        # Halves are rounded to even, as in PyTorch; of equals the last one wins.
        if (round(column + float(dx)), round(row + float(dy))) == (x, y) and length >= longest:
            best, longest = (row, column), length
    return best


def splat(image: Tensor, field: Tensor, importance: Tensor | None = None) -> Warped:
    """Twin of `warp.splat`: every pixel is added to the four pixels around its target."""
    height, width = field.shape[-2:]
    images, fields = as_pictures(image), as_pictures(field)
    importances = None if importance is None else as_pictures(importance)
    zero = image.new_zeros(())
    results, valid = [], []
    for picture in range(len(images)):
        summed = {place: image.new_zeros(image.shape[-3]) for place in itertools.product(range(height), range(width))}
        total, coverage = dict.fromkeys(summed, zero), dict.fromkeys(summed, zero)
        for y, x in itertools.product(range(height), range(width)):
            weight = torch.ones_like(zero)
            if importances is not None:
                below = importances[picture, 0, y, x] - importances[picture].max()
                weight = torch.exp(below.clamp(min=-IMPORTANCE_RANGE))
            dx, dy = fields[picture, :, y, x]
            if not bool(torch.isfinite(dx + dy)):
                continue
            for place, share in _shares(x + dx, y + dy):
                if place in summed:
                    summed[place] = summed[place] + share * weight * images[picture, :, y, x]
                    total[place] = total[place] + share * weight
                    coverage[place] = coverage[place] + share
        for place in summed:
            landed = float(coverage[place].detach())
            covered = landed > MIN_COVERAGE
            results.append(summed[place] / total[place] if covered else torch.zeros_like(summed[place]))
            valid.append(torch.tensor([covered and (importance is not None or landed < MAX_COVERAGE)]))
    return Warped(assembled(torch.stack(results), field.shape), assembled(torch.stack(valid), field.shape))


def _coverage(field: Tensor) -> dict[tuple[int, int], float]:
    """Number of pixels that land on each pixel (row, column) of a field `[2, H, W]`."""
    places = list(itertools.product(range(field.shape[-2]), range(field.shape[-1])))
    landed = dict.fromkeys(places, 0.0)
    for y, x in places:
        for place, share in _shares(x + field[0, y, x], y + field[1, y, x]):
            if place in landed:
                landed[place] += float(share)
    return landed


def _shares(x: Tensor, y: Tensor) -> Iterator[tuple[tuple[int, int], Tensor]]:
    """The four pixels (row, column) around a position, and the weight of each."""
    left, top = math.floor(float(x.detach())), math.floor(float(y.detach()))
    for row, column in itertools.product((top, top + 1), (left, left + 1)):
        yield (row, column), (1 - (x - column).abs()) * (1 - (y - row).abs())


def _jacobian(field: Tensor, y: int, x: int) -> float:
    """The Jacobian determinant of a field `[2, H, W]` at (x, y)."""
    height, width = field.shape[-2:]
    left, right = max(x - 1, 0), min(x + 1, width - 1)
    above, below = max(y - 1, 0), min(y + 1, height - 1)
    along_x = (field[:, y, right] - field[:, y, left]) / max(right - left, 1)
    along_y = (field[:, below, x] - field[:, above, x]) / max(below - above, 1)
    return float((1 + along_x[0]) * (1 + along_y[1]) - along_x[1] * along_y[0])
