"""Slow, obvious twins of the functions of `motion` and `warp`, under the same names; only tests import them.

Each one is written as its definition reads: a loop over pixels, one small matrix solve per pixel, a sum over taps. The
numbers in the loops are torch scalars, so that gradients can be compared, too. Meant for pictures of a few pixels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from qrsc.consistency import MAX_FLOW, MIN_CONFIDENCE
from qrsc.motion import MIN_TIME, Trajectory
from qrsc.settling import MAX_LEAP
from qrsc.timing import Readout
from qrsc.warp import (
    IMPORTANCE_RANGE,
    MAX_COVERAGE,
    MAX_RESIDUAL,
    MIN_COVERAGE,
    Interpolation,
    InvertedField,
    Warped,
)

# --- motion ---


class _Motion(NamedTuple):
    derivatives: Tensor  # [3, 2]: velocity, acceleration and jerk, each (x, y)
    valid: Tensor  # bool
    confidence: Tensor


def fit_trajectory(
    flows: Mapping[int, Tensor],
    readout: Readout,
    *,
    order: int = 2,
    confidences: Mapping[int, Tensor] | None = None,
    regularisation: float = 0.0,
) -> Trajectory:
    """Twin of `motion.fit_trajectory`: for each pixel the normal equations of its flows over `[t, t^2/2, t^3/6]`.

    Order 3 is here without regularisation only: the fast twin draws its terms to zero one after the other, which is no
    ridge.
    """
    if order == 3 and regularisation != 0.0:
        raise ValueError(f"order 3 has no twin with regularisation; got {regularisation!r}.")
    steps = sorted(flows)
    order = min(order, len(steps))
    shape = flows[steps[0]].shape
    trust = {step: torch.ones_like(flows[step][..., :1, :, :]) for step in steps} | dict(confidences or {})
    pictures = {step: _pictures(flows[step]) for step in steps}
    trusts = {step: _pictures(trust[step]) for step in steps}
    motions = []
    for picture, y, x in _pixels(pictures[steps[0]]):
        here = [(step, pictures[step][picture, :, y, x], trusts[step][picture, 0, y, x]) for step in steps]
        motions.append(_fit_pixel(here, readout, order, regularisation, shape))
    derivatives = torch.stack([motion.derivatives for motion in motions])  # [N, 3, 2]
    velocity, acceleration, jerk = (_assembled(derivatives[:, n], shape) for n in range(3))
    return Trajectory(
        velocity,
        acceleration if order >= 2 else None,
        jerk if order >= 3 else None,
        _assembled(torch.stack([motion.valid for motion in motions])[:, None], shape),
        _assembled(torch.stack([motion.confidence for motion in motions])[:, None], shape),
    )


def _fit_pixel(
    flows: list[tuple[int, Tensor, Tensor]], readout: Readout, order: int, regularisation: float, shape: torch.Size
) -> _Motion:
    times, displacements, weights = [], [], []
    for step, flow, trust in flows:
        time = _time_until_seen_again(flow, step, readout, shape)
        if bool((flow.abs() < MAX_FLOW).all()) and abs(float(time.detach())) > MIN_TIME:
            times.append(time)
            displacements.append(flow)
            weights.append(trust)
    valid = len(times) == len(flows)
    if order > 1 and any(abs(float((s - t).detach())) <= MIN_TIME for s, t in itertools.combinations(times, 2)):
        valid, order = False, 1
    order = min(order, len(times))
    motion = flows[0][1].new_zeros(3, 2)
    if order:
        design = torch.stack(  # [K, order]
            [torch.stack([t**n / math.factorial(n) for n in range(1, order + 1)]) for t in times]
        )
        ridge = [0.0, regularisation, 0.0][:order]
        weighted = torch.stack(weights)[:, None] * design
        normal = weighted.T @ design + torch.diag(design.new_tensor(ridge))
        solved = torch.linalg.solve(normal, weighted.T @ torch.stack(displacements))  # [order, 2]
        motion = torch.cat([solved, motion[order:]])
    most = torch.stack([motion.new_zeros(()), *weights]).max()
    return _Motion(motion, torch.tensor(valid), most)


def _time_until_seen_again(flow: Tensor, step: int, readout: Readout, shape: torch.Size) -> Tensor:
    """`step` frames later, and as much more as the row where the point lands is read after the one it started from."""
    height, width = shape[-2:]
    return {
        "top-down": step + readout.gamma * flow[1] / height,
        "bottom-up": step - readout.gamma * flow[1] / height,
        "left-right": step + readout.gamma * flow[0] / width,
        "right-left": step - readout.gamma * flow[0] / width,
    }[readout.scan]


def displacement_at(trajectory: Trajectory, time: Tensor | float) -> Tensor:
    """Twin of `motion.Trajectory.displacement_at`: the terms of the polynomial, one after the other."""
    shape = trajectory.velocity.shape
    times = torch.as_tensor(time, dtype=trajectory.velocity.dtype).expand(*shape[:-3], 1, *shape[-2:])
    terms = [
        _pictures(term) for term in (trajectory.velocity, trajectory.acceleration, trajectory.jerk) if term is not None
    ]
    moved = []
    for picture, y, x in _pixels(terms[0]):
        t = _pictures(times)[picture, 0, y, x]
        total = torch.zeros_like(terms[0][picture, :, y, x])
        for n, term in enumerate(terms, start=1):
            total = total + term[picture, :, y, x] * t**n / math.factorial(n)
        moved.append(total)
    return _assembled(torch.stack(moved), shape)


def correction_field(trajectory: Trajectory, readout: Readout, tau: float, frame_offset: int = 0) -> Tensor:
    """Twin of `motion.correction_field`: rows counted by hand from the edge that is read first."""
    height, width = trajectory.velocity.shape[-2:]
    remaining = torch.empty(1, height, width, dtype=trajectory.velocity.dtype)
    for y, x in itertools.product(range(height), range(width)):
        row, rows = {
            "top-down": (y, height),
            "bottom-up": (height - 1 - y, height),
            "left-right": (x, width),
            "right-left": (width - 1 - x, width),
        }[readout.scan]
        remaining[0, y, x] = frame_offset + tau - (readout.offset + readout.gamma * row / rows)
    return displacement_at(trajectory, remaining)


def consistency_confidence(flow: Tensor, reverse_flow: Tensor) -> Tensor:
    """Twin of `motion.consistency_confidence`, for finite flows: there and back again, pixel by pixel."""
    shape = flow.shape
    flows, reverses = _pictures(flow), _pictures(reverse_flow)
    confidences = []
    for picture, y, x in _pixels(flows):
        there = flows[picture, :, y, x]
        where = torch.stack([x + there[0], y + there[1]])
        back, inside = _read(reverses[picture], where, "bilinear")
        gap = ((there + back) ** 2).sum()
        tolerance = 0.25 + 0.01 * ((there**2).sum() + (back**2).sum())
        confidence = torch.exp(-gap / tolerance) if inside else gap.new_zeros(())
        confidences.append(confidence.clamp(MIN_CONFIDENCE, 1.0))
    return _assembled(torch.stack(confidences)[:, None], shape)


# --- warp ---


def sample(image: Tensor, position: Tensor, interpolation: Interpolation = "bilinear") -> Warped:
    """Twin of `warp.sample`: the taps of each pixel, their coordinates clamped to the picture."""
    images, positions = _pictures(image), _pictures(position)
    values, valid = [], []
    for picture, y, x in _pixels(positions):
        value, inside = _read(images[picture], positions[picture, :, y, x], interpolation)
        values.append(value)
        valid.append(torch.tensor([inside]))
    return Warped(_assembled(torch.stack(values), position.shape), _assembled(torch.stack(valid), position.shape))


def backward_warp(image: Tensor, field: Tensor, interpolation: Interpolation = "bilinear") -> Warped:
    """Twin of `warp.backward_warp`."""
    return sample(image, _grid(field) + field, interpolation)


def invert_field(field: Tensor, steps: int = 8) -> InvertedField:
    """Twin of `warp.invert_field`: the fixed-point iteration of each pixel by itself, all steps of it."""
    height, width = field.shape[-2:]
    fields = _pictures(field)
    found, settled = [], []
    for picture, y, x in _pixels(fields):
        here = torch.tensor([x, y], dtype=field.dtype)
        source = _landing_at(fields[picture].detach(), y, x)
        row, column = (y, x) if source is None else source
        inverse = -fields[picture, :, row, column]
        residual = 0.0
        for _ in range(steps):
            onward = -_read(fields[picture], here + inverse, "bilinear")[0]
            residual = float((onward - inverse).detach().abs().max())
            if source is None or residual <= MAX_LEAP:
                inverse = onward
        found.append(inverse)
        dx, dy = inverse.detach().tolist()
        inside = -0.5 <= x + dx <= width - 0.5 and -0.5 <= y + dy <= height - 0.5
        settled.append(inside and residual < MAX_RESIDUAL)
    inverses = _pictures(_assembled(torch.stack(found), field.shape))
    landed = [_coverage(picture) for picture in fields.detach()]
    valid = []
    for n, (picture, y, x) in enumerate(_pixels(inverses)):
        single = _enlargement(inverses[picture].detach(), y, x) > 0 and landed[picture][y, x] < MAX_COVERAGE
        valid.append(torch.tensor([settled[n] and single]))
    return InvertedField(inverses.reshape(field.shape), _assembled(torch.stack(valid), field.shape))


def _landing_at(field: Tensor, y: int, x: int) -> tuple[int, int] | None:
    """The pixel (row, column) of a field `[2, H, W]` that lands nearest to a pixel; of several the furthest-moved."""
    best, longest = None, -1.0
    for row, column in itertools.product(range(field.shape[-2]), range(field.shape[-1])):
        dx, dy = field[:, row, column]
        length = float((dx * dx + dy * dy).float())
        # Halves are rounded to even, as torch does; of equals the last one counts.
        if (round(column + float(dx)), round(row + float(dy))) == (x, y) and length >= longest:
            best, longest = (row, column), length
    return best


def splat(image: Tensor, field: Tensor, importance: Tensor | None = None) -> Warped:
    """Twin of `warp.splat`: every pixel added to the four around the place where it lands."""
    height, width = field.shape[-2:]
    images, fields = _pictures(image), _pictures(field)
    importances = None if importance is None else _pictures(importance)
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
    return Warped(_assembled(torch.stack(results), field.shape), _assembled(torch.stack(valid), field.shape))


def _coverage(field: Tensor) -> dict[tuple[int, int], float]:
    """How many pixels land on each pixel (row, column) of a field `[2, H, W]`."""
    places = list(itertools.product(range(field.shape[-2]), range(field.shape[-1])))
    landed = dict.fromkeys(places, 0.0)
    for y, x in places:
        for place, share in _shares(x + field[0, y, x], y + field[1, y, x]):
            if place in landed:
                landed[place] += float(share)
    return landed


def _shares(x: Tensor, y: Tensor) -> Iterator[tuple[tuple[int, int], Tensor]]:
    """The four pixels (row, column) around a place, and the share of each."""
    left, top = math.floor(float(x.detach())), math.floor(float(y.detach()))
    for row, column in itertools.product((top, top + 1), (left, left + 1)):
        yield (row, column), (1 - (x - column).abs()) * (1 - (y - row).abs())


def _read(image: Tensor, position: Tensor, interpolation: Interpolation) -> tuple[Tensor, bool]:
    """The value `[C]` of a picture `[C, H, W]` at one position `[2]`, and whether that lies inside."""
    height, width = image.shape[-2:]
    x, y = position
    inside = -0.5 <= float(x.detach()) <= width - 0.5 and -0.5 <= float(y.detach()) <= height - 0.5
    x = torch.zeros_like(x) if x.isnan() else x.clamp(0, width - 1)
    y = torch.zeros_like(y) if y.isnan() else y.clamp(0, height - 1)
    left, top = math.floor(float(x.detach())), math.floor(float(y.detach()))
    taps = (0, 1) if interpolation == "bilinear" else (-1, 0, 1, 2)
    value = torch.zeros_like(image[:, 0, 0])
    for row, column in itertools.product([top + tap for tap in taps], [left + tap for tap in taps]):
        weight = _kernel((x - column).abs(), interpolation) * _kernel((y - row).abs(), interpolation)
        value = value + weight * image[:, min(max(row, 0), height - 1), min(max(column, 0), width - 1)]
    return value, inside


def _kernel(distance: Tensor, interpolation: Interpolation, a: float = -0.75) -> Tensor:
    """Weight of a tap at a distance: a triangle, or Keys' cubic."""
    s = distance
    if interpolation == "bilinear":
        return 1 - s
    if float(s.detach()) <= 1:
        return (a + 2) * s**3 - (a + 3) * s**2 + 1
    return a * s**3 - 5 * a * s**2 + 8 * a * s - 4 * a


def _enlargement(field: Tensor, y: int, x: int) -> float:
    """The area that a unit square at (x, y) of a field `[2, H, W]` is mapped to."""
    height, width = field.shape[-2:]
    left, right = max(x - 1, 0), min(x + 1, width - 1)
    above, below = max(y - 1, 0), min(y + 1, height - 1)
    along_x = (field[:, y, right] - field[:, y, left]) / max(right - left, 1)
    along_y = (field[:, below, x] - field[:, above, x]) / max(below - above, 1)
    return float((1 + along_x[0]) * (1 + along_y[1]) - along_x[1] * along_y[0])


# --- pictures ---


def _pictures(tensor: Tensor) -> Tensor:
    """`[..., C, H, W]` as `[B, C, H, W]`."""
    return tensor.reshape(-1, *tensor.shape[-3:])


def _pixels(pictures: Tensor) -> Iterator[tuple[int, int, int]]:
    """(picture, y, x) of every pixel of `[B, C, H, W]`."""
    count, _, height, width = pictures.shape
    return itertools.product(range(count), range(height), range(width))


def _assembled(pixels: Tensor, shape: torch.Size) -> Tensor:
    """Pixels `[B * H * W, C]` as pictures `[..., C, H, W]` with the leading dimensions and the size of `shape`."""
    height, width = shape[-2:]
    pictures = pixels.reshape(-1, height, width, pixels.shape[-1]).permute(0, 3, 1, 2)
    return pictures.reshape(*shape[:-3], pixels.shape[-1], height, width)


def _grid(field: Tensor) -> Tensor:
    """The coordinates of every pixel of a field: `[2, H, W]`, x first."""
    height, width = field.shape[-2:]
    rows = [[[float(x) for x in range(width)] for _ in range(height)], [[float(y)] * width for y in range(height)]]
    return torch.tensor(rows, dtype=field.dtype)
