"""Slow, obvious twins of the functions of `qrsc.motion`, with the same names.

Each one follows its definition literally: a loop over pixels, one small matrix solve per pixel, a sum over taps. The
numbers in the loops are torch scalars, so that gradients can be compared as well. Meant for images of a few pixels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from qrsc.motion.consistency import MAX_FLOW, MIN_CONFIDENCE
from qrsc.motion.trajectory import Trajectory
from qrsc.motion.velocity_samples import MIN_TIME
from qrsc.reference.pixels import as_pictures, assembled, pixels_of, read
from qrsc.timing import Readout


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

    Order 3 only without regularisation: the fast function shrinks its terms one after the other, which is not a ridge
    penalty.
    """
    if order == 3 and regularisation != 0.0:
        raise ValueError(f"order 3 has no twin with regularisation; got {regularisation!r}.")
    steps = sorted(flows)
    order = min(order, len(steps))
    shape = flows[steps[0]].shape
    trust = {step: torch.ones_like(flows[step][..., :1, :, :]) for step in steps} | dict(confidences or {})
    pictures = {step: as_pictures(flows[step]) for step in steps}
    trusts = {step: as_pictures(trust[step]) for step in steps}
    motions = []
    for picture, y, x in pixels_of(pictures[steps[0]]):
        here = [(step, pictures[step][picture, :, y, x], trusts[step][picture, 0, y, x]) for step in steps]
        motions.append(_fit_pixel(here, readout, order, regularisation, shape))
    derivatives = torch.stack([motion.derivatives for motion in motions])  # [N, 3, 2]
    velocity, acceleration, jerk = (assembled(derivatives[:, n], shape) for n in range(3))
    return Trajectory(
        velocity,
        acceleration if order >= 2 else None,
        jerk if order >= 3 else None,
        assembled(torch.stack([motion.valid for motion in motions])[:, None], shape),
        assembled(torch.stack([motion.confidence for motion in motions])[:, None], shape),
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
    """`step` frame intervals, plus the difference in readout time between the row of landing and the row of origin."""
    height, width = shape[-2:]
    return {
        "top-down": step + readout.gamma * flow[1] / height,
        "bottom-up": step - readout.gamma * flow[1] / height,
        "left-right": step + readout.gamma * flow[0] / width,
        "right-left": step - readout.gamma * flow[0] / width,
    }[readout.scan]


def displacement_at(trajectory: Trajectory, time: Tensor | float) -> Tensor:
    """Twin of `motion.Trajectory.displacement_at`: the polynomial term by term."""
    shape = trajectory.velocity.shape
    times = torch.as_tensor(time, dtype=trajectory.velocity.dtype).expand(*shape[:-3], 1, *shape[-2:])
    terms = [
        as_pictures(term)
        for term in (trajectory.velocity, trajectory.acceleration, trajectory.jerk)
        if term is not None
    ]
    moved = []
    for picture, y, x in pixels_of(terms[0]):
        t = as_pictures(times)[picture, 0, y, x]
        total = torch.zeros_like(terms[0][picture, :, y, x])
        for n, term in enumerate(terms, start=1):
            total = total + term[picture, :, y, x] * t**n / math.factorial(n)
        moved.append(total)
    return assembled(torch.stack(moved), shape)


def correction_field(trajectory: Trajectory, readout: Readout, tau: float, frame_offset: int = 0) -> Tensor:
    """Twin of `motion.correction_field`: rows are counted from the edge that is read first."""
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
    """Twin of `motion.consistency_confidence`, for finite flows: forward and back, pixel by pixel."""
    shape = flow.shape
    flows, reverses = as_pictures(flow), as_pictures(reverse_flow)
    confidences = []
    for picture, y, x in pixels_of(flows):
        there = flows[picture, :, y, x]
        where = torch.stack([x + there[0], y + there[1]])
        back, inside = read(reverses[picture], where, "bilinear")
        gap = ((there + back) ** 2).sum()
        tolerance = 0.25 + 0.01 * ((there**2).sum() + (back**2).sum())
        confidence = torch.exp(-gap / tolerance) if inside else gap.new_zeros(())
        confidences.append(confidence.clamp(MIN_CONFIDENCE, 1.0))
    return assembled(torch.stack(confidences)[:, None], shape)
