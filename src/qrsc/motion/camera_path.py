"""The path of the camera: one smooth motion in continuous time that the flows of several frames share.

A parabola per pixel knows three instants of it: its own exposure and where the two flows lead. What a shaking hand does
in between, it cannot see. But rows are exposed one after the other, so the pixels of a few frames together have seen
the camera at every instant. The path is fitted to all of their flows: a cubic spline over time of four numbers, a shift
across and down, a turn and a change of scale. A pixel then moves with the path, and by a parabola of its own for what
the path does not explain: depth, things that move, a lens.

Convention
    A state of the path is `(across, down, turn, scale)` in pixels, the last two at a distance of half the frame's
    width from its centre. Between two times a point `(x, y)`, counted from the centre in half widths, moves by

        (across (1 + q x^2) + down q x y - turn y + scale x,
         down (1 + q y^2) + across q x y + turn x + scale y)

    of the difference of the states, with `(x, y)` half way. `q` is 0 for a camera that shifts, and `1 / f^2` for one
    that turns about its centre with a focal length of `f` half widths. Times are in frame intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.timing import Readout
from qrsc.warp import pixel_grid

KNOTS = 3  # a frame interval; a hand trembles at up to about 10 Hz
STATES = 4
# Between these many times from one knot to the next the path is taken to be straight: where it bends by 50 pixels per
# squared frame interval, that is 0.002 pixels off.
TABLE = 32
ACROSS = 16  # flows are looked at on so many columns of the frame, and on rows as far apart
BEYOND = 0.2  # of half the frame: a point that lands further outside was guessed, and its row's time with it
# Rows at one height are exposed a frame interval apart. So flows say how the path changes over about that time, and
# next to nothing about a part of it that repeats itself in every frame: there a pull on the path's differences decides,
# of these orders with these weights. The motion of a hand falls off steeply with the rate, which third differences say
# best; but of two or three frames they would take a near thing at the lower edge for a camera that speeds up. Mean
# error of the correction over 6 simulated clips that shake, and 6 others: 0.173 and 0.147 px; with second differences
# and two knots 0.178 and 0.150; Fastec-RS 30.26 and 30.22 dB.
BENDS = {2: 0.3, 3: 1.0}
# How stiff is right depends on the clip, and the clip says it: the ratio of what flows differ from the path by to how
# much the path bends, both squared, times this factor. A hand that trembles gets a path that bends, flows that
# contradict each other (many depths, many things that move) a stiff one.
STIFFNESS = 1.5e-3
LEAST_STIFF, START_STIFF, MOST_STIFF = 1e-4, 1e-2, 1.0
STIFFER = (1.0, 1.0, 3.0, 3.0)  # turn and scale are measured by the frame's margins alone
ROUNDS = 4  # of finding the path, and weighing anew what contradicts it and how stiff it is
# Near things move faster than far ones, and more often than not they are further down in the picture, where rows are
# exposed later: without a say of their own, places that move faster would be taken for a camera that does.
STEADY_PLACES = (6, 3)
STEADY_DOUBT = 3e-5  # pull of their velocities towards 0, in the units of a measurement's squared time
KNOT_DOUBT = 1e-6  # pull of the path itself towards 0: a steady motion is as well that of all places
MOST_BULGE = 1.0  # a horizontal view of 90 degrees
BULGE_DOUBT = 0.01  # pull of the bulge towards 0, in the units of a measurement's squared displacement


class PathEquations(NamedTuple):
    """What a flow says about a path: its measurements, for the splines that they have to do with, in float32.

    Attributes:
        first: number of the first of these splines; spline `i` has its centre at time `i / KNOTS`.
        factors: `[B, 2 P, 4 m]`, of the states of m splines in P displacements, x and y by turns.
        bulging: `[B, 2 P, 4 m]`, what a bulge of 1 adds to them.
        steady: `[B, 2 P, 2 G]`, of the velocities of G places of the picture.
        shift: `[B, 2 P]`, the displacements.
        trust: `[B, P]`.
    """

    first: int
    factors: Tensor
    bulging: Tensor
    steady: Tensor
    shift: Tensor
    trust: Tensor


@dataclass(frozen=True)
class CameraPath:
    """A path in time, one for each clip of a batch.

    Attributes:
        knots: `[B, N, 4]`, weights of the splines.
        first: number of the first of these splines.
        bulge: `[B]`, see above.
    """

    knots: Tensor
    first: int
    bulge: Tensor

    @cached_property
    def _table(self) -> Tensor:
        """`[B, 4, 1, M]`: the states at `TABLE` times between two knots, from the second knot to the last but one."""
        pieces = self.knots.shape[1] - 3
        places = 1.0 + torch.arange(pieces * TABLE + 1, dtype=self.knots.dtype, device=self.knots.device) / TABLE
        numbers = torch.arange(pieces + 3, dtype=places.dtype, device=places.device)
        states = _splines(places / KNOTS, numbers) @ self.knots  # [B, M, 4]
        return states.transpose(1, 2).unsqueeze(2)

    def states(self, times: Tensor, since: float = 0.0) -> Tensor:
        """The states `[B, 4, h, w]` at times `[B, 1, h, w]` or `[1, h, w]` counted from a time `since`.

        Beyond its ends the path stands still.
        """
        batch, _, _, length = self._table.shape
        # The start of a frame late in a clip is a large number, and is taken off before it meets a float32.
        place = (times * KNOTS + (since * KNOTS - (self.first + 1))) * (2.0 * TABLE / (length - 1)) - 1.0
        place = place.reshape(-1, *times.shape[-2:]).expand(batch, -1, -1)
        # Clamped here, and not by `padding_mode="border"`, which some devices lack.
        grid = torch.stack([place.clamp(-1.0, 1.0), torch.zeros_like(place)], -1)
        return F.grid_sample(self._table, grid, "bilinear", "zeros", align_corners=True)

    def from_frame(self, time: float, readout: Readout, size: tuple[int, int]) -> PathOfFrame:
        """How the pixels of a frame that started at a time move along the path."""
        return PathOfFrame(self, time, readout, size)


@dataclass(frozen=True)
class PathOfFrame:
    """The path as the pixels of one frame move along it, from each one's own exposure on.

    Attributes:
        path: of B clips.
        time: at which the frame started.
        readout: how it was read.
        size: `(H, W)` of the grid that the path was measured on.
    """

    path: CameraPath
    time: float
    readout: Readout
    size: tuple[int, int]

    @cached_property
    def _exposed(self) -> Tensor:
        knots = self.path.knots
        return self.readout.row_times(*self.size, dtype=knots.dtype, device=knots.device)

    @cached_property
    def _grid(self) -> Tensor:
        knots = self.path.knots
        return centred(pixel_grid(*self.size, dtype=knots.dtype, device=knots.device), self.size)

    @cached_property
    def _first(self) -> Tensor:
        return self.path.states(self._exposed, self.time)

    def displacement_at(self, time: Tensor | float) -> Tensor:
        """Where the path has taken each pixel at a time after its exposure.

        Args:
            time: a number, or anything that broadcasts to `[B, 1, H, W]`.

        Returns:
            `[B, 2, H, W]`.
        """
        change = self.path.states(self._exposed + time, self.time) - self._first
        moved = self._moved(self._grid, change)
        return self._moved(self._grid + moved / self.size[1], change)  # half of the way, in half widths

    def _moved(self, points: Tensor, change: Tensor) -> Tensor:
        """The displacement `[B, 2, H, W]` of points `[..., 2, H, W]` by a change of state `[B, 4, h, w]`."""
        across, down, turn, scale = change.chunk(STATES, 1)
        x, y = points.chunk(2, -3)
        outwards = scale + self.path.bulge.reshape(-1, 1, 1, 1) * torch.addcmul(x * across, y, down)
        return torch.cat([across - y * turn + x * outwards, down + x * turn + y * outwards], 1)


def centred(points: Tensor, size: tuple[int, int]) -> Tensor:
    """Points `[..., 2, ?, ?]` in pixels, counted from the frame's centre in half widths."""
    height, width = size
    middle = torch.tensor([0.5 * (width - 1), 0.5 * (height - 1)], dtype=points.dtype, device=points.device)
    return (points - middle.reshape(2, 1, 1)) * (2.0 / width)


@torch.no_grad()
def path_equations(flow: Tensor, confidence: Tensor, start: float, end: float, readout: Readout) -> PathEquations:
    """What a flow between two frames says about the path of the camera.

    Args:
        flow: `[B, 2, H, W]`; what is not finite is left out.
        confidence: `[B, 1, H, W]` in [0, 1].
        start: time at which the frame started.
        end: time at which the other frame did.
        readout: how both were read.
    """
    batch, _, height, width = flow.shape
    apart = max(1, width // ACROSS)
    picked = (..., slice(apart // 2, None, apart), slice(apart // 2, None, apart))
    shift, trust = _exact(flow[picked]), _exact(confidence[picked])
    grid = pixel_grid(height, width, dtype=torch.float64, device=shift.device)[picked]
    landing = grid + shift
    far = centred(landing, (height, width)).abs()
    inside = (far[:, :1] < 1.0 + BEYOND) & (far[:, 1:] < (1.0 + BEYOND) * height / width)
    trust = torch.where(inside, trust, 0.0)
    # A measurement without weight must not be NaN either.
    shift = torch.where(inside, shift, 0.0)

    origin = math.floor(min(start, end))
    start, end = start - origin, end - origin
    seen = start + readout.row_time(readout.scan_component(grid), height, width)
    seen_there = end + readout.row_time(readout.scan_component(landing), height, width)
    seen_there = torch.where(inside, seen_there, end + readout.offset)
    first = math.floor((min(start, end) + readout.offset - 0.5 * BEYOND * readout.gamma) * KNOTS) - 1
    last = math.ceil((max(start, end) + readout.offset + (1.0 + 0.5 * BEYOND) * readout.gamma) * KNOTS) + 1
    numbers = torch.arange(first, last + 1, dtype=torch.float64, device=shift.device)
    between = _splines(seen_there.flatten(1), numbers) - _splines(seen.flatten(), numbers)  # [B, P, m]

    x, y = centred(grid + 0.5 * shift, (height, width)).flatten(2).unbind(1)  # [B, P]
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    follows = torch.stack([one, zero, -y, x, zero, one, x, y], -1)
    bulges = torch.stack([x * x, x * y, zero, zero, x * y, y * y, zero, zero], -1)
    factors, bulging = (
        torch.einsum("bpm,bpcs->bpcms", between, each.reshape(batch, -1, 2, STATES)).flatten(3).flatten(1, 2)
        for each in (follows, bulges)
    )
    places = _hats(x, STEADY_PLACES[1]).unsqueeze(-2) * _hats(y * (width / height), STEADY_PLACES[0]).unsqueeze(-1)
    passed = (seen_there - seen).flatten(1).unsqueeze(-1)  # [B, P, 1]
    steady = torch.einsum("bpg,cd->bpcdg", passed * places.flatten(-2), torch.eye(2, dtype=x.dtype, device=x.device))
    steady, measured = steady.flatten(3).flatten(1, 2), shift.flatten(2).transpose(1, 2).flatten(1)
    found = (factors, bulging, steady, measured, trust.reshape(batch, -1))
    return PathEquations(first + origin * KNOTS, *(each.float() for each in found))


@torch.no_grad()
def fit_path(equations: Sequence[PathEquations], like: Tensor) -> CameraPath:
    """The path that most of the flows follow.

    Args:
        equations: of flows between frames of the same B clips, all of one size.
        like: a tensor whose dtype and device the path shall have; it is fitted in float64.
    """
    first = min(each.first for each in equations)
    count = max(each.first + each.factors.shape[-1] // STATES for each in equations) - first
    fit = _Fit(equations, first, count)
    weights = fit.trust
    stiffness = torch.full_like(weights[0, :, 0], START_STIFF, dtype=torch.float64)
    bulge = torch.zeros_like(stiffness)
    bulged = torch.zeros_like(fit.shift)
    for round_ in range(ROUNDS):
        solution = fit.solved(weights, stiffness, bulge, bulged)
        bulge = (bulge + solution[:, -1]).clamp(0.0, MOST_BULGE)
        if round_ < ROUNDS - 1:
            weights, usual, bulged = fit.weighed_anew(solution, bulge)
            stiffness = _suitable_stiffness(fit.knots_of(solution), usual)
    return CameraPath(fit.knots_of(solution).to(like), first, bulge.to(like))


def _exact(values: Tensor) -> Tensor:
    """In float64, on the processor if their device has none: MPS."""
    return (values.cpu() if values.device.type == "mps" else values).double()


class _Fit:
    """The equations of L flows in one.

    Unknown are the knots, behind them the velocities of the places, and last what the bulge is off by. Factors are
    `[L, B, 2 P, 4 m + 2 G]`, measurements `[L, B, 2 P]`, trust `[L, B, P]`. Sums of their products in float32 are as
    exact as flows are, and there is half as much to read; what is solved is in float64.
    """

    def __init__(self, equations: Sequence[PathEquations], first: int, count: int) -> None:
        most = max(each.factors.shape[-1] for each in equations)
        # A flow over a longer time has to do with more splines; the others get splines of no effect.
        starts = [min((each.first - first) * STATES, count * STATES - most) for each in equations]
        places = [(each.first - first) * STATES - start for each, start in zip(equations, starts, strict=True)]
        placed = list(zip(equations, places, strict=True))
        self.bulging = torch.stack([_placed(each.bulging, place, most) for each, place in placed])
        self.factors = torch.stack(
            [torch.cat([_placed(each.factors, place, most), each.steady], -1) for each, place in placed]
        )
        self.shift = torch.stack([each.shift for each in equations])
        self.trust = torch.stack([each.trust for each in equations])
        self.knots = count * STATES
        unknowns = self.knots + equations[0].steady.shape[-1] + 1
        number = self.trust.shape[0] * self.trust.shape[2]
        self.bending = number * F.pad(_straightening(count, self.shift.device), (0, unknowns - self.knots) * 2)
        held = torch.full((unknowns,), number * STEADY_DOUBT, dtype=torch.float64, device=self.shift.device)
        held[: self.knots], held[-1] = number * KNOT_DOUBT, number * BULGE_DOUBT
        self.holding = torch.diag(held)
        every = torch.arange(unknowns, device=self.shift.device)
        # [L, 4 m + 2 G + 1], which of the unknowns the factors belong to.
        self.index = torch.stack([torch.cat([every[start : start + most], every[self.knots :]]) for start in starts])
        # Where products of factors, and behind them those with the measurements, have their place in all equations.
        among = F.pad(self.index, (0, 1), value=unknowns)
        self.places = (among.unsqueeze(-1) * (unknowns + 1) + among.unsqueeze(-2)).flatten()

    def solved(self, weights: Tensor, stiffness: Tensor, bulge: Tensor, bulged: Tensor) -> Tensor:
        """The unknowns `[B, U]` of least squares, in float64.

        Args:
            weights: `[L, B, P]`.
            stiffness: `[B]`, float64.
            bulge: `[B]`, as it was found so far, float64.
            bulged: `[L, B, 2 P]`, what a bulge of 1 adds to the displacements of the path found so far.
        """
        # Roots of the weights on both factors of a product: one matrix times itself.
        rooted = torch.cat([self.factors, bulged.unsqueeze(-1), self.shift.unsqueeze(-1)], -1)
        rooted[..., : self.bulging.shape[-1]].addcmul_(bulge.float().reshape(-1, 1, 1), self.bulging)
        rooted *= weights.sqrt().repeat_interleave(2, -1).unsqueeze(-1)
        products = (rooted.transpose(-1, -2) @ rooted).double()  # [L, B, 4 m + 2 G + 2, 4 m + 2 G + 2]
        unknowns = len(self.holding)
        sums = products.new_zeros(products.shape[1], (unknowns + 1) ** 2)
        sums.index_add_(1, self.places, products.transpose(0, 1).flatten(1))
        sums = sums.reshape(-1, unknowns + 1, unknowns + 1)
        matrix = sums[:, :-1, :-1] + stiffness.reshape(-1, 1, 1) * self.bending + self.holding
        right = sums[:, :-1, -1].clone()
        right[:, -1] -= self.holding[-1, -1] * bulge  # the whole bulge is pulled towards 0, not its change
        solution: Tensor = torch.linalg.solve(matrix, right)
        return solution

    def knots_of(self, solution: Tensor) -> Tensor:
        """`[B, N, 4]`."""
        return solution[:, : self.knots].reshape(len(solution), -1, STATES)

    def weighed_anew(self, solution: Tensor, bulge: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weights `[L, B, P]` that fall off with the distance from the path, and the usual distance `[B]`.

        Also what a bulge of 1 adds to the displacements, `[L, B, 2 P]`.
        """
        near = solution[:, self.index[:, :-1]].transpose(0, 1).float()  # [L, B, 4 m + 2 G]
        bulged = (self.bulging @ near[..., : self.bulging.shape[-1], None]).squeeze(-1)
        gap = self.shift - (self.factors @ near.unsqueeze(-1)).squeeze(-1) - bulge.float().unsqueeze(-1) * bulged
        distance = torch.hypot(gap[..., 0::2], gap[..., 1::2])
        trusted = torch.where(self.trust > 0.05, distance, torch.nan).transpose(0, 1).flatten(1)
        usual = trusted.nanmedian(-1).values.nan_to_num(1.0)
        scale = (3.0 * usual + 0.1).unsqueeze(-1)
        return self.trust / (1.0 + (distance / scale) ** 2) ** 2, usual.double(), bulged


def _hats(place: Tensor, count: int) -> Tensor:
    """Weights `[..., count]` of places evenly spaced from -1 to 1, for linear interpolation between them."""
    if count == 1:
        return torch.ones_like(place).unsqueeze(-1)
    away = 0.5 * (count - 1) * (place.clamp(-1.0, 1.0).unsqueeze(-1) + 1.0)
    return (1.0 - (away - torch.arange(count, dtype=place.dtype, device=place.device)).abs()).clamp(min=0.0)


def _placed(part: Tensor, offset: int, size: int) -> Tensor:
    """Factors `[B, 2 P, ?]` of some splines among those of `[B, 2 P, size]`."""
    return F.pad(part, (offset, size - offset - part.shape[-1]))


def _splines(times: Tensor, numbers: Tensor) -> Tensor:
    """Cubic B-splines by number `[m]` at times `[...]`: `[..., m]`."""
    away = (KNOTS * times.unsqueeze(-1) - numbers).abs()
    return ((2.0 - away).clamp(min=0.0) ** 3 - 4.0 * (1.0 - away).clamp(min=0.0) ** 3) / 6.0


def _straightening(count: int, device: torch.device) -> Tensor:
    """`[4 count, 4 count]`: how much the knots bend, as a sum of squares."""
    knots = torch.eye(count, dtype=torch.float64, device=device)
    each = torch.diag(torch.tensor(STIFFER, dtype=torch.float64, device=device))
    bends = torch.cat([math.sqrt(weight) * knots.diff(n=order, dim=0) for order, weight in BENDS.items()])
    return torch.kron(bends.T @ bends, each)


def _suitable_stiffness(knots: Tensor, usual: Tensor) -> Tensor:
    """The stiffness `[B]` that goes with the bends of a path `[B, N, 4]` and the usual distance `[B]` from it."""
    shift = knots[..., :2]
    bends = [weight * shift.diff(n=order, dim=1).square().mean((1, 2)) for order, weight in BENDS.items()]
    return (STIFFNESS * usual.square() / torch.stack(bends).sum(0).clamp(min=1e-8)).clamp(LEAST_STIFF, MOST_STIFF)
