"""The motion of each observation from the others of its track: the closed-form solver of dense flow, point by point.

An observation and its neighbours in the track take the place of a pixel and its flows. The solver is linear in the
displacements, so it is run once on unit displacements, one channel for each neighbour. What comes out are the factors
with which each neighbour enters velocity, acceleration and position: positions are sums with these factors, and their
variance is the sum of the squares.

With as many neighbours as the order, the motion passes through all of them and through the observation itself. With
more, the observation has a residual too: its own position is then fitted together with the motion, in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from qrsc.motion.point_path import PathOfPoints
from qrsc.motion.trajectory import Trajectory, fit_displacements
from qrsc.points.observations import Observations

# Observations solved at a time: few enough for the processor's cache.
CHUNK = 1 << 15
# Residuals, in multiples of the median one, at which a neighbour has a quarter of its weight (Geman-McClure).
CUTOFF = 4.0
SLACK = 0.1  # pixels per frame interval added to that, for tracks without any error
NUDGE = 0.05  # frame intervals over which the speed of the path is measured
SAMPLE = 20_000  # observations from which typical accelerations are taken
MAX_REGULARISATION = 1e3
LN4 = 1.3863  # median of the square of a vector with two normal components of variance 1


class Window(NamedTuple):
    """Which observations are neighbours: the nearest in each track, as many before as after where there are."""

    first: Tensor  # [P], the first observation of the track
    last: Tensor  # [P]


@dataclass(frozen=True)
class SolverOptions:
    """How motions are fitted; see `correct_tracks`."""

    order: int
    neighbours: int
    reach: float
    regularisation: float
    robust_scale: tuple[float, float] | None = None


class Solved(NamedTuple):
    """The motion of Q observations, in undistorted pixels and frame intervals."""

    correction: Tensor  # [2, Q], from where the point was seen to where it is at the instant
    velocity: Tensor  # [2, Q], at the exposure
    acceleration: Tensor  # [2, Q]
    gain: Tensor  # [Q], variance of the corrected position over that of an observation
    confidence: Tensor  # [Q]
    used: Tensor  # [Q], int64, how many neighbours have a weight


class _Neighbours(NamedTuple):
    shift: Tensor  # [n, 2, 1, Q]
    time: Tensor  # [n, 1, 1, Q], from the exposure of the observation to that of the neighbour
    trust: Tensor | None  # [n, 1, 1, Q]; None for all ones


def track_windows(track: Tensor) -> Window:
    """The ends of the track of each observation, for sorted tracks `[P]`."""
    number = torch.arange(len(track), device=track.device)
    new = torch.ones_like(track, dtype=torch.bool)
    new[1:] = track[1:] != track[:-1]
    first = torch.where(new, number, 0).cummax(0).values
    ending = torch.ones_like(new)
    ending[:-1] = new[1:]
    last = torch.where(ending, number, len(track)).flip(0).cummin(0).values.flip(0)
    return Window(first, last)


def solve(
    observations: Observations,
    windows: Window,
    which: Tensor | None,
    tau: float,
    options: SolverOptions,
    path: PathOfPoints | None = None,
) -> Solved:
    """The motion of the observations numbered `which` `[Q]`, or of all, along the camera's path if there is one."""
    if which is None:
        every = torch.arange(len(observations), device=observations.track.device)
        return _solve_all(observations, windows, every, tau, options, path)
    parts = [
        _solve_chunk(
            observations,
            chosen,
            _gather(observations, windows, chosen, options),
            tau,
            options,
            None if path is None else path.of(slice(at, at + CHUNK)),
        )
        for at in range(0, len(which), CHUNK)
        for chosen in [which[at : at + CHUNK]]
    ]
    return Solved(*(torch.cat(values, -1) for values in zip(*parts, strict=True)))


def _solve_all(
    observations: Observations,
    windows: Window,
    every: Tensor,
    tau: float,
    options: SolverOptions,
    path: PathOfPoints | None,
) -> Solved:
    """All observations. Most of them have their two neighbours just before and after them in memory.

    These need no gathering, which takes two thirds of the time otherwise. The others are solved again by number.
    """
    if options.neighbours != 2 or len(every) < 3:
        return solve(observations, windows, every, tau, options, path)
    passed = observations.start.diff()
    inner = (every > windows.first) & (every < windows.last)
    inner[1:-1] &= torch.maximum(passed[:-1], passed[1:]) <= options.reach
    rest = torch.nonzero(~inner).flatten()
    parts = []
    for start in range(1, len(every) - 1, CHUNK):
        end = min(start + CHUNK, len(every) - 1)
        near = _adjacent(observations, start, end, inner[start:end])
        along = None if path is None else path.of(slice(start, end))
        parts.append(_solve_chunk(observations, every[start:end], near, tau, options, along))
    others = solve(observations, windows, rest, tau, options, None if path is None else path.of(rest))
    joined = []
    for values, replaced in zip(zip(*parts, strict=True), others, strict=True):
        blank = values[0][..., :1]
        joined.append(torch.cat([blank, *values, blank], -1).index_copy(-1, rest, replaced))
    return Solved(*joined)


def _solve_chunk(
    observations: Observations,
    which: Tensor,
    near: _Neighbours,
    tau: float,
    options: SolverOptions,
    path: PathOfPoints | None,
) -> Solved:
    own = None if observations.trust is None else observations.trust[which].reshape(1, 1, -1)
    if path is not None:
        near = _beyond(near, path)
    if options.robust_scale is not None:
        near = near._replace(trust=_robust(near, *options.robust_scale))
    count = len(near.time)
    impulses = torch.eye(count, dtype=near.time.dtype, device=near.time.device).reshape(count, count, 1, 1)
    motion = fit_displacements(
        list(impulses.expand(-1, -1, 1, len(which))),
        list(near.time),
        order=options.order,
        confidences=None if near.trust is None else list(near.trust),
        regularisation=options.regularisation,
    )
    wait = (tau - observations.alpha[which]).reshape(1, 1, -1)
    factors = motion.displacement_at(wait)  # [n, 1, Q], of each neighbour's shift in the correction
    velocity, acceleration = motion.velocity, motion.acceleration
    if count > options.order:
        offset = _offset_factors(motion, near, own, options.regularisation)  # [n, 1, Q]
        factors = factors + offset * (1.0 - factors.sum(0, keepdim=True))
        velocity = velocity - offset * velocity.sum(0, keepdim=True)
        if acceleration is not None:
            acceleration = acceleration - offset * acceleration.sum(0, keepdim=True)

    found = [_summed(factors, near.shift), _summed(velocity, near.shift)]
    found.append(torch.zeros_like(found[0]) if acceleration is None else _summed(acceleration, near.shift))
    if path is not None:
        before, after = (path.displacement_at(nudge)[0, :, 0] for nudge in (-NUDGE, NUDGE))
        found[0] = found[0] + path.displacement_at(wait)[0, :, 0]
        found[1] = found[1] + (after - before) / (2.0 * NUDGE)
        found[2] = found[2] + (after + before) / NUDGE**2
    confidence = motion.confidence[0, 0]
    return Solved(
        found[0],
        found[1],
        found[2],
        _gain(factors, near.trust, own),
        confidence if own is None else confidence * own[0, 0],
        torch.full_like(which, count) if near.trust is None else (near.trust[:, 0, 0] > 0).sum(0),
    )


def _summed(factors: Tensor, shifts: Tensor) -> Tensor:
    """Sums `[2, Q]` of shifts `[n, 2, 1, Q]` with factors `[n, 1, Q]`."""
    total = factors[0] * shifts[0, :, 0]
    for factor, shift in zip(factors[1:], shifts[1:, :, 0], strict=True):
        total = torch.addcmul(total, factor, shift)
    return total


def _gain(factors: Tensor, trust: Tensor | None, own: Tensor | None) -> Tensor:
    """The variance `[Q]` of a sum of observations with factors `[n, 1, Q]`, and 1 less their sum of the own one."""
    squares, left = factors.square(), (1.0 - factors.sum(0)).square()
    if trust is not None:
        squares = torch.where(trust[:, 0] > 0, squares / trust[:, 0].clamp_min(1e-6), 0.0)
    return (squares.sum(0) + (left if own is None else left / own[0].clamp_min(1e-6)))[0]


def _adjacent(observations: Observations, start: int, end: int, inner: Tensor) -> _Neighbours:
    """The observations just before and after those from `start` to `end`; what is not `inner` gets any valid times."""
    position = observations.position.t()  # [2, P], contiguous
    here = slice(start, end)
    shifts, times, trusts = [], [], []
    for step in (-1, 1):
        there = slice(start + step, end + step)
        shifts.append((position[:, there] - position[:, here]).unsqueeze(1))
        passed = observations.start[there] - observations.start[here]
        time = passed + (observations.alpha[there] - observations.alpha[here])
        times.append(torch.where(inner, time, float(step)).reshape(1, 1, -1))
        if observations.trust is not None:
            trusts.append(observations.trust[there].reshape(1, 1, -1))
    return _Neighbours(torch.stack(shifts), torch.stack(times), torch.stack(trusts) if trusts else None)


def _gather(observations: Observations, windows: Window, which: Tensor, options: SolverOptions) -> _Neighbours:
    first, last = windows.first[which], windows.last[which]
    count = options.neighbours
    start = (which - count // 2).minimum(last - count).maximum(first)
    position = observations.position.t()  # [2, P]
    shifts, times, trusts = [], [], []
    for step in range(count):
        index = start + step
        index = index + (index >= which).long()  # past the observation itself
        there = index <= last
        index = torch.where(there, index, which)
        # Subtracted before the rest: starts late in a clip are large.
        passed = observations.start[index] - observations.start[which]
        shifts.append((position[:, index] - position[:, which]).unsqueeze(1))
        times.append((passed + (observations.alpha[index] - observations.alpha[which])).reshape(1, 1, -1))
        usable = (there & (passed.abs() <= options.reach)).to(passed.dtype)
        trust = usable if observations.trust is None else usable * observations.trust[index]
        trusts.append(trust.reshape(1, 1, -1))
    return _Neighbours(torch.stack(shifts), torch.stack(times), torch.stack(trusts))


def _beyond(near: _Neighbours, path: PathOfPoints) -> _Neighbours:
    """Neighbours as they lie beyond the camera's path."""
    return near._replace(shift=near.shift - torch.stack([path.displacement_at(time)[0] for time in near.time]))


def _offset_factors(motion: Trajectory, near: _Neighbours, own: Tensor | None, regularisation: float) -> Tensor:
    """Factors `[n, 1, Q]` of the neighbours' shifts in the residual of the observation itself.

    Moved by e, the observation has the motion of shifts smaller by e. The best e minimises the weighted squares of
    what the motion leaves of all shifts, of e itself and of the accelerations that the regularisation counts.
    """
    numerator = torch.zeros_like(motion.velocity)
    denominator = torch.ones_like(numerator[:1]) if own is None else own.clamp_min(1e-6)
    trusts = torch.ones_like(near.time) if near.trust is None else near.trust
    for index, (time, trust) in enumerate(zip(near.time, trusts, strict=True)):
        left = -motion.displacement_at(time)  # [n, 1, Q]
        left = torch.cat([left[:index], left[index : index + 1] + 1.0, left[index + 1 :]])
        common = left.sum(0, keepdim=True)
        numerator = numerator + trust * common * left
        denominator = denominator + trust * common.square()
    for term in (motion.acceleration, motion.jerk):
        if term is not None and regularisation > 0.0:
            common = term.sum(0, keepdim=True)
            numerator = numerator + regularisation * common * term
            denominator = denominator + regularisation * common.square()
    return numerator / denominator


# --- robustness ---


def _robust(near: _Neighbours, typical_speed: float, typical_change: float) -> Tensor:
    """Trust in neighbours, less where they contradict each other.

    The mean velocities to two neighbours of one point differ by its acceleration, which is much the same for most
    points. Where they differ by more, one of them is wrong: likely the one that moves unlike the rest.
    """
    speed, change = _speeds(near)
    agreeing = _falling(change / (CUTOFF * typical_change + SLACK))
    usual = _falling(speed / (CUTOFF * typical_speed + SLACK))
    doubt = agreeing + (1.0 - agreeing) * usual
    return doubt if near.trust is None else near.trust * doubt


def _speeds(near: _Neighbours) -> tuple[Tensor, Tensor]:
    """Lengths `[n, 1, 1, Q]` of the mean velocity to each neighbour, and of its difference from that to the others."""
    usable = torch.ones_like(near.time, dtype=torch.bool) if near.trust is None else near.trust > 0
    velocity = torch.where(usable, near.shift / torch.where(usable, near.time, 1.0), 0.0)  # [n, 2, 1, Q]
    others = usable.sum(0) - usable.long()
    mean = (velocity.sum(0) - velocity) / others.clamp_min(1)
    change = torch.where(usable & (others > 0), velocity - mean, 0.0)
    return _length(velocity), _length(change)


def _length(vectors: Tensor) -> Tensor:
    """Lengths of `[n, 2, 1, Q]`; the gradient of a zero is zero."""
    return (vectors.square().sum(1, keepdim=True) + 1e-12).sqrt()


def _falling(ratio: Tensor) -> Tensor:
    return (1.0 + ratio.square()).square().reciprocal()


class Typical(NamedTuple):
    """What is usual among the observations of a clip, beyond the camera's path."""

    speed: float  # median length of a velocity
    change: float  # median length of the difference between velocities to both sides
    acceleration_variance: float  # of a component, the errors of the observations not removed
    noise_gain: float  # variance of a component of that acceleration by errors alone, over that of an observation


@torch.no_grad()
def typical_motion(
    observations: Observations, windows: Window, which: Tensor, reach: float, path: PathOfPoints | None
) -> Typical | None:
    """Typical motion among the observations numbered `which`, or None if none of them has two neighbours."""
    near = _gather(observations, windows, which, SolverOptions(2, 2, reach, 0.0))
    if path is not None:
        near = _beyond(near, path)
    assert near.trust is not None  # gathered ones have it
    both = (near.trust > 0).all(0)[0, 0]
    if not bool(both.any()):
        return None
    near = _Neighbours(near.shift[..., both], near.time[..., both], None)
    speed, change = _speeds(near)
    (before, after), (shift_before, shift_after) = near.time, near.shift
    apart = after - before
    acceleration = 2.0 * (shift_after / after - shift_before / before) / apart  # [2, 1, Q]
    gain = 4.0 * (after**-2 + before**-2 + (1.0 / after - 1.0 / before) ** 2) / apart**2
    return Typical(
        float(speed.median()),
        float(change.median()),
        float(acceleration.square().sum(0).median()) / LN4,
        float(gain.median()),
    )


def fitting_regularisation(typical: Typical | None, noise: float) -> float:
    """The pull towards zero that suits errors of `noise` pixels: their variance over that of true accelerations."""
    if typical is None or noise == 0.0:
        return 0.0
    true = typical.acceleration_variance - typical.noise_gain * noise**2
    return MAX_REGULARISATION if true <= noise**2 / MAX_REGULARISATION else noise**2 / true
