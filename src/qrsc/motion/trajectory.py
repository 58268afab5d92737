"""The motion of each pixel: trajectories of order 1, 2 or 3, fitted in closed form to optical flows.

A point seen at `m0` moves as `m0 + v t + a t^2 / 2 + j t^3 / 6`, with `t` counted from its own exposure. A flow to
another frame gives its displacement `u` at a known time `t`: the row on which it lands says when it was seen there.
Divided by that time, every flow is one sample of the mean velocity

    u / t = v + (a / 2) t + (j / 6) t^2,

so the motion is a small polynomial regression of mean velocities over time, pixel by pixel. With as many flows as
unknowns and equal weights it passes through all of them: Cramer's solution of the paper's equations. Confidences weight
the flows, and a little regularisation gives a pixel that is visible on one side only the linear model from that side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from qrsc.backend import device
from qrsc.image.pyramid_fill import fill_from_neighbours
from qrsc.motion.consistency import MAX_FLOW, longest
from qrsc.motion.velocity_samples import (
    MIN_TIME,
    SharedMotion,
    beyond_shared,
    divide,
    dot,
    sample_weights,
    velocity_sample,
    weighted_means,
)
from qrsc.timing import Readout

ORDERS = {"linear": 1, "quadratic": 2, "cubic": 3}

# Weight of an acceleration when it is filled from its surroundings, and the power with which the weight falls off as
# less of the acceleration is known. The smaller the weight, the wider the surroundings.
FILL_WEIGHT, FILL_POWER = 0.05, 4

Step = TypeVar("Step", int, float)


@dataclass(frozen=True)
class Trajectory:
    """The motion of every pixel of a frame, in pixels and frame intervals from the pixel's own exposure.

    Attributes:
        velocity: `[..., 2, H, W]`.
        acceleration: `[..., 2, H, W]`, or None for the linear model.
        jerk: `[..., 2, H, W]`, or None below the cubic model.
        valid: `[..., 1, H, W]` bool; False where a flow was not finite (or longer than `MAX_FLOW`) or two exposures
            coincide, so that the motion is of a lower order than asked for, or zero.
        confidence: `[..., 1, H, W]` in [0, 1], that of the most trusted flow of the pixel.
        shared: a motion that all pixels share, in addition to their own; None if there is none.
    """

    velocity: Tensor
    acceleration: Tensor | None
    jerk: Tensor | None
    valid: Tensor
    confidence: Tensor
    shared: SharedMotion | None = None

    def displacement_at(self, time: Tensor | float) -> Tensor:
        """The displacement of each pixel at a time after its exposure.

        Args:
            time: a number, or anything that broadcasts to `[..., 1, H, W]`.

        Returns:
            `[..., 2, H, W]`.
        """
        factor = self.velocity
        if self.jerk is not None and self.acceleration is not None:
            factor = factor + (0.5 * time) * (self.acceleration + (time / 3.0) * self.jerk)
        elif self.acceleration is not None:
            factor = factor + (0.5 * time) * self.acceleration
        own = factor * time
        return own if self.shared is None else own + self.shared.displacement_at(time)


def solve_trajectory(
    flow_prev: Tensor | None,
    flow_next: Tensor | None,
    readout: Readout,
    *,
    order: int = 2,
    confidence_prev: Tensor | None = None,
    confidence_next: Tensor | None = None,
    regularisation: float = 0.0,
) -> Trajectory:
    """The motion of a frame's pixels from the flows to its two neighbours, or to the only one.

    Args:
        flow_prev: `[..., 2, H, W]`, flow to the previous frame; None at the start of a clip.
        flow_next: `[..., 2, H, W]`, flow to the next frame; None at its end.
        readout: how the frames were read.
        order: 1 or 2; from one side only the linear model can be had and is given.
        confidence_prev: `[..., 1, H, W]` in [0, 1], trust in `flow_prev`; all ones if None.
        confidence_next: the same for `flow_next`.
        regularisation: pull of the acceleration towards zero, in the units of a confidence. 0 is the paper's solver.
    """
    flows = {step: flow for step, flow in ((-1, flow_prev), (1, flow_next)) if flow is not None}
    given = ((-1, confidence_prev), (1, confidence_next))
    confidences = {step: confidence for step, confidence in given if confidence is not None}
    return fit_trajectory(flows, readout, order=order, confidences=confidences, regularisation=regularisation)


def fit_trajectory(
    flows: Mapping[Step, Tensor],
    readout: Readout,
    *,
    order: int = 2,
    confidences: Mapping[Step, Tensor] | None = None,
    regularisation: float = 0.0,
    shared: SharedMotion | None = None,
    like_surroundings: bool = False,
) -> Trajectory:
    """The motion of a frame's pixels from its flows to any neighbours.

    Args:
        flows: `[..., 2, H, W]` by frame step: -1 is the previous frame, 1 the next, 2 the one after. A clip of uneven
            frame rate has steps that are no whole numbers: how many frame intervals later the other frame started.
        readout: how the frames were read.
        order: 1 linear, 2 quadratic, 3 cubic; with fewer flows than that, as many orders as there are flows.
        confidences: `[..., 1, H, W]` in [0, 1] by the same steps; ones where missing.
        regularisation: pull of the terms above the linear one towards zero, in the units of a confidence.
        shared: a motion that is already known; the trajectory's own terms are fitted to the residual of the flows.
        like_surroundings: pull the acceleration of a quadratic motion `[B, 2, H, W]` towards those of the surroundings,
            not towards zero.
    """
    _check_arguments(flows, order, confidences, regularisation)
    steps = sorted(flows)
    return fit_displacements(
        [flows[step] for step in steps],
        [readout.flight_time(flows[step], step) for step in steps],
        order=order,
        confidences=[confidences.get(step) for step in steps] if confidences else None,
        regularisation=regularisation,
        shared=shared,
        like_surroundings=like_surroundings,
    )


def fit_displacements(
    displacements: Sequence[Tensor],
    times: Sequence[Tensor],
    *,
    order: int = 2,
    confidences: Sequence[Tensor | None] | None = None,
    regularisation: float = 0.0,
    shared: SharedMotion | None = None,
    like_surroundings: bool = False,
) -> Trajectory:
    """The motion of points from displacements over known times, however these were found.

    Args:
        displacements: `[..., C, H, W]` each, one per other exposure.
        times: `[..., 1, H, W]` each, from the point's own exposure to the other one.
        confidences: `[..., 1, H, W]` in [0, 1] in the same order; None for ones.
        order, regularisation, shared, like_surroundings: as for `fit_trajectory`.
    """
    if order == 2 and len(times) == 2 and confidences is None and regularisation == 0.0:
        interpolated = _interpolate(displacements, times, shared)
        if interpolated is not None:
            return interpolated
    elif order <= 2 and len(times) == 2:
        trusts = (None, None) if confidences is None else confidences
        two_sided = _fit_two(displacements, times, order, trusts, regularisation, shared, like_surroundings)
        if two_sided is not None:
            return two_sided
    samples = [velocity_sample(*each, shared) for each in zip(displacements, times, strict=True)]
    weights, confidence = sample_weights(confidences, samples)
    order = min(order, len(samples))

    valid = samples[0].usable
    for sample_ in samples[1:]:
        valid = valid & sample_.usable
    if order == 1:
        _, (velocity,) = weighted_means(weights, [[s.velocity for s in samples]])
        return Trajectory(velocity, None, None, valid, confidence, shared)

    # Where two exposures coincide, the difference of their flows is noise and gives no acceleration.
    distinct = torch.ones_like(valid)
    for index, first in enumerate(samples):
        for second in samples[index + 1 :]:
            coincide = first.usable & second.usable & ((first.time - second.time).abs() <= MIN_TIME)
            distinct = distinct & ~coincide
    valid = valid & distinct

    moments = [s.time for s in samples]
    total, (mean_time, mean_velocity) = weighted_means(weights, [moments, [s.velocity for s in samples]])
    centred = [time - mean_time for time in moments]
    weighted = [weight * c for weight, c in zip(weights, centred, strict=True)]
    spread = dot(weighted, centred)
    slope = divide(dot(weighted, [s.velocity for s in samples]), spread + 4.0 * regularisation, distinct)
    if order == 2:
        own = Trajectory(mean_velocity - mean_time * slope, 2.0 * slope, None, valid, confidence, shared)
        return (
            _like_surroundings(own, divide(spread, spread + 4.0 * regularisation), mean_time)
            if like_surroundings
            else own
        )

    # The cubic term is the part of the squared time that neither the mean nor the slope explains.
    mean_square = divide(spread, total)
    skew = divide(dot(weighted, [c * c for c in centred]), spread)
    curved = [c * c - mean_square - skew * c for c in centred]
    weighted = [weight * q for weight, q in zip(weights, curved, strict=True)]
    cubic = divide(
        dot(weighted, [s.velocity for s in samples]), dot(weighted, curved) + 36.0 * regularisation, distinct
    )
    velocity = mean_velocity - mean_time * slope + cubic * (mean_time * (mean_time + skew) - mean_square)
    acceleration = 2.0 * (slope - cubic * (2.0 * mean_time + skew))
    return Trajectory(velocity, acceleration, 6.0 * cubic, valid, confidence, shared)


def correction_field(
    trajectory: Trajectory, readout: Readout, tau: Tensor | float, frame_offset: Tensor | float = 0
) -> Tensor:
    """The displacement of every pixel from where the rolling shutter saw it to where it is at one instant.

    Convention
        RS -> GS, on the RS grid, in pixels. The instant is `tau` after the start of frame `c`; the trajectory belongs
        to frame `i`; `frame_offset = c - i`, the time between their starts.

    Returns:
        `[..., 2, H, W]`.
    """
    velocity = trajectory.velocity
    height, width = velocity.shape[-2:]
    exposed = readout.row_times(height, width, dtype=velocity.dtype, device=velocity.device)
    return trajectory.displacement_at(frame_offset + tau - exposed)


def _interpolate(
    flows: Sequence[Tensor], times: Sequence[Tensor], shared: SharedMotion | None = None
) -> Trajectory | None:
    """Cramer's solution for the parabola through both flows, or None if any pixel is degenerate.

    The regression gives the same for equal weights, with five times as many passes over memory. Hardly any frame has a
    degenerate pixel, so one check of the whole frame decides. (A compiled regression is one pass in any case.)
    """
    (flow_prev, flow_next), (time_prev, time_next) = flows, times  # [..., 2, H, W] and [..., 1, H, W] each
    if not device.may_decide(flow_prev) or flow_prev.numel() == 0:
        return None
    determinant = time_prev * time_next * (time_next - time_prev)
    regular = time_prev.max() < -MIN_TIME and time_next.min() > MIN_TIME  # False for NaN
    if not (regular and longest(flow_prev) < MAX_FLOW and longest(flow_next) < MAX_FLOW):
        return None
    inverse = determinant.reciprocal()
    flow_prev, flow_next = beyond_shared(flow_prev, time_prev, shared), beyond_shared(flow_next, time_next, shared)
    crossed_prev, crossed_next = time_next * flow_prev, time_prev * flow_next
    velocity = (time_next * crossed_prev - time_prev * crossed_next) * inverse
    acceleration = (crossed_prev - crossed_next) * (-2.0 * inverse)
    everywhere = torch.ones_like(determinant)
    return Trajectory(velocity, acceleration, None, everywhere.bool(), everywhere, shared)


def _fit_two(
    flows: Sequence[Tensor],
    times: Sequence[Tensor],
    order: int,
    confidences: Sequence[Tensor | None],
    regularisation: float,
    shared: SharedMotion | None = None,
    like_surroundings: bool = False,
) -> Trajectory | None:
    """The weighted regression of order 1 or 2 over two flows, or None if any pixel is degenerate.

    Both terms are sums of the two flows, with factors that depend on the times and the weights alone, so that flows are
    read twice and not twenty times. With c the confidences, w = c t^2, W their sum and m the weighted mean time:

        mean velocity = (c t u + c' t' u') / W,    slope = s (u' / t' - u / t),
        s = k (t' - t) / (k (t' - t)^2 + 4 regularisation),    k = w w' / W.
    """
    (flow, other_flow), (time, other_time) = flows, times  # [..., 2, H, W] and [..., 1, H, W] each
    if not device.may_decide(flow) or flow.numel() == 0:
        return None
    apart = other_time - time
    # One exposure before and one after this one, everywhere; False for NaN.
    regular = time.detach().max() < -MIN_TIME and other_time.detach().min() > MIN_TIME
    if not (regular and longest(flow) < MAX_FLOW and longest(other_flow) < MAX_FLOW):
        return None
    everywhere = torch.ones_like(time, dtype=torch.bool)
    trust, other_trust = ((everywhere if one is None else one).to(flow.dtype) for one in confidences)
    share, other_share = trust * time, other_trust * other_time
    weight, other_weight = share * time, other_share * other_time
    total = weight + other_weight
    if not total.detach().min() > 1e-8:  # a pixel trusts neither side
        return None
    inverse = total.reciprocal()
    share, other_share = share * inverse, other_share * inverse
    best = torch.maximum(trust, other_trust)
    flow, other_flow = beyond_shared(flow, time, shared), beyond_shared(other_flow, other_time, shared)
    if order == 1:
        return Trajectory(torch.addcmul(share * flow, other_share, other_flow), None, None, everywhere, best, shared)
    mean_time = torch.addcmul(weight * time, other_weight, other_time) * inverse
    pull = weight * other_weight * inverse * apart
    spread = pull * apart + 4.0 * regularisation
    if 4.0 * regularisation <= 1e-8 and not spread.detach().min() > 1e-8:  # one side is not trusted at all
        return None
    pull = pull / spread
    slope, other_slope = pull / -time, pull / other_time
    share = torch.addcmul(share, mean_time, slope, value=-1)
    other_share = torch.addcmul(other_share, mean_time, other_slope, value=-1)
    velocity = torch.addcmul(share * flow, other_share, other_flow)
    acceleration = torch.addcmul((2.0 * slope) * flow, other_slope, other_flow, value=2)
    own = Trajectory(velocity, acceleration, None, everywhere, best, shared)
    return _like_surroundings(own, pull * apart, mean_time) if like_surroundings else own


def _like_surroundings(own: Trajectory, known: Tensor, mean_time: Tensor) -> Trajectory:
    """A quadratic motion whose acceleration is pulled towards its surroundings instead of towards zero.

    Args:
        own: with velocity and acceleration `[B, 2, H, W]`, pulled towards zero.
        known: `[B, 1, H, W]`, the share of the acceleration that the pull has left, 0 to 1.
        mean_time: `[B, 1, H, W]`, weighted mean time of the flows; the mean velocity at that time is kept.
    """
    assert own.acceleration is not None  # it is quadratic
    known = torch.where(own.valid, known, torch.zeros_like(known))
    unpulled = own.acceleration / known.clamp_min(1e-3)
    missing = (1.0 - known) * fill_from_neighbours(unpulled, FILL_WEIGHT * known**FILL_POWER)
    missing = torch.where(own.valid, missing, torch.zeros_like(missing))
    return replace(own, velocity=own.velocity - 0.5 * mean_time * missing, acceleration=own.acceleration + missing)


def _check_arguments(
    flows: Mapping[Step, Tensor], order: int, confidences: Mapping[Step, Tensor] | None, regularisation: float
) -> None:
    if order not in ORDERS.values():
        known = ", ".join(f"{number} ({name})" for name, number in ORDERS.items())
        raise ValueError(f"order must be one of {known}; got {order!r}.")
    if not flows or 0 in flows:
        raise ValueError(f"a trajectory needs flows to one or more other frames; got frame steps {sorted(flows)}.")
    if not regularisation >= 0.0:
        raise ValueError(f"regularisation must be 0 or more, got {regularisation!r}.")
    shape: torch.Size = next(iter(flows.values())).shape
    for step, flow in flows.items():
        if flow.ndim < 3 or flow.shape[-3] != 2 or flow.shape != shape:
            raise ValueError(
                f"flows must all be [..., 2, H, W] of one size; the one to frame {step:+g} is {tuple(flow.shape)}."
            )
    for step, confidence in (confidences or {}).items():
        expected = (*shape[:-3], 1, *shape[-2:])
        if step not in flows or tuple(confidence.shape) != expected:
            raise ValueError(
                f"the confidence for frame step {step:+g} must go with a flow and be {expected}; got "
                f"{tuple(confidence.shape)} for flows to {sorted(flows)}."
            )
