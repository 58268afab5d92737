"""Fitting the camera path: each displacement is linear in the splines of the path, and most of them follow it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.motion.camera_path import KNOTS, STATES, CameraPath, centred, splines
from qrsc.timing import Readout
from qrsc.warp import pixel_grid

COLUMNS = 16  # flows are sampled on this many columns of the frame, and on rows as far apart
BEYOND = 0.2  # of half the frame: a point that lands further outside was guessed, and the time of its row with it
# Rows at one height are exposed a frame interval apart. So flows show how the path changes over about that time, and
# almost nothing of a component that repeats in every frame. That component is decided by a roughness penalty on
# differences of the knots, of these orders with these weights. The motion of a hand falls off steeply with frequency,
# which third differences describe best; but over two or three frames they would take a near object at the lower edge
# for an accelerating camera. Mean error of the correction over 6 simulated clips that shake, and 6 others: 0.173 and
# 0.147 px; with second differences and two knots 0.178 and 0.150; Fastec-RS 30.26 and 30.22 dB.
ROUGHNESS = {2: 0.3, 3: 1.0}
# The right weight of the penalty depends on the clip: the squared residual of the flows over the squared roughness of
# the path, times this factor. A trembling hand gets a flexible path; flows that contradict each other (many depths,
# many moving objects) get a smooth one.
SMOOTHING = 1.5e-3
MIN_SMOOTHING, INITIAL_SMOOTHING, MAX_SMOOTHING = 1e-4, 1e-2, 1.0
STATE_SMOOTHING = (1.0, 1.0, 3.0, 3.0)  # roll and scale show at the margins of the frame alone
ROUNDS = 4  # of iteratively reweighted least squares
# Near objects move faster than far ones, and are more often low in the picture, where rows are exposed later. Each
# region of the picture therefore has a steady velocity of its own; otherwise a fast region would be taken for an
# accelerating camera.
STEADY_REGIONS = (6, 3)
STEADY_PULL = 3e-5  # of these velocities towards 0, in units of a measurement's squared time
KNOT_PULL = 1e-6  # of the path itself towards 0: a steady motion can as well be that of all regions
MAX_PERSPECTIVE = 1.0  # a horizontal field of view of 90 degrees
PERSPECTIVE_PULL = 0.01  # towards 0, in units of a measurement's squared displacement


class PathEquations(NamedTuple):
    """What a flow says about a path: linear equations in the splines that it depends on, in float32.

    Attributes:
        first: number of the first of these splines; spline `i` has its centre at time `i / KNOTS`.
        factors: `[B, 2 P, 4 m]`, of the states of m splines in P displacements, x and y interleaved.
        perspective_factors: `[B, 2 P, 4 m]`, what a perspective term of 1 adds to them.
        steady: `[B, 2 P, 2 G]`, of the velocities of G regions of the picture.
        shift: `[B, 2 P]`, the displacements.
        trust: `[B, P]`, the confidences.
    """

    first: int
    factors: Tensor
    perspective_factors: Tensor
    steady: Tensor
    shift: Tensor
    trust: Tensor


@torch.no_grad()
def path_equations(flow: Tensor, confidence: Tensor, start: float, end: float, readout: Readout) -> PathEquations:
    """What a flow between two frames says about the path of the camera.

    Args:
        flow: `[B, 2, H, W]`; values that are not finite are ignored.
        confidence: `[B, 1, H, W]` in [0, 1].
        start: time at which the frame started.
        end: time at which the other frame did.
        readout: how both were read.
    """
    origin, period = period_of(start, end, readout)
    found = equations_between(flow, confidence, start - origin, end - origin, readout, period)
    return found._replace(first=found.first + origin * KNOTS)


def period_of(start: float, end: float, readout: Readout) -> tuple[int, tuple[float, float]]:
    """A whole number near the start of two frames, and from when to when since then their points may be exposed."""
    origin = math.floor(min(start, end))
    first = min(start, end) - origin + readout.offset - 0.5 * BEYOND * readout.gamma
    last = max(start, end) - origin + readout.offset + (1.0 + 0.5 * BEYOND) * readout.gamma
    return origin, (first, last)


@torch.no_grad()
def equations_between(
    flow: Tensor,
    confidence: Tensor,
    start: Tensor | float,
    end: Tensor | float,
    readout: Readout,
    period: tuple[float, float],
) -> PathEquations:
    """As `path_equations`, with times since the origin and the period of `period_of`."""
    height, width = flow.shape[-2:]
    apart = max(1, min(width // COLUMNS, height))  # a wide, flat frame has one row of samples
    picked = (..., slice(apart // 2, None, apart), slice(apart // 2, None, apart))
    shift, trust = _float64(flow[picked]), _float64(confidence[picked])
    grid = pixel_grid(height, width, dtype=torch.float64, device=shift.device)[picked]
    landing = grid + shift
    far = centred(landing, (height, width)).abs()
    inside = (far[:, :1] < 1.0 + BEYOND) & (far[:, 1:] < (1.0 + BEYOND) * height / width)
    trust = torch.where(inside, trust, 0.0)
    # A measurement with zero weight must not be NaN either.
    shift = torch.where(inside, shift, 0.0)
    seen = start + readout.row_time(readout.scan_component(grid), height, width)
    seen_there = end + readout.row_time(readout.scan_component(landing), height, width)
    seen_there = torch.where(inside, seen_there, end + readout.offset)
    return displacement_equations(grid, shift, trust, seen, seen_there, period, (height, width))


def spline_range(period: tuple[float, float]) -> tuple[int, int]:
    """Numbers of the first and the last spline that states within a period depend on."""
    return math.floor(period[0] * KNOTS) - 1, math.ceil(period[1] * KNOTS) + 1


@torch.no_grad()
def displacement_equations(
    points: Tensor,
    shift: Tensor,
    trust: Tensor,
    seen: Tensor,
    seen_there: Tensor,
    period: tuple[float, float],
    size: tuple[int, int],
) -> PathEquations:
    """What the displacements of points between two exposures each say about the path; all in float64.

    Args:
        points: `[..., 2, h, w]`, where the points were seen, in pixels.
        shift: `[B, 2, h, w]`, how far they moved, finite.
        trust: `[B, 1, h, w]` in [0, 1].
        seen, seen_there: `[..., 1, h, w]`, when they were seen first, and after the displacement.
        period: from the earliest to the latest of these times that can be.
        size: `(H, W)` of the picture.
    """
    batch, (height, width) = len(shift), size
    first, last = spline_range(period)
    numbers = torch.arange(first, last + 1, dtype=torch.float64, device=shift.device)
    between = splines(seen_there.flatten(1), numbers) - splines(seen.flatten(), numbers)  # [B, P, m]

    x, y = centred(points + 0.5 * shift, size).flatten(2).unbind(1)  # [B, P]
    one, zero = torch.ones_like(x), torch.zeros_like(x)
    follows = torch.stack([one, zero, -y, x, zero, one, x, y], -1)
    by_perspective = torch.stack([x * x, x * y, zero, zero, x * y, y * y, zero, zero], -1)
    factors, perspective_factors = (
        torch.einsum("bpm,bpcs->bpcms", between, each.reshape(batch, -1, 2, STATES)).flatten(3).flatten(1, 2)
        for each in (follows, by_perspective)
    )
    rows, columns = STEADY_REGIONS
    down, across = _hat_functions(y * (width / height), rows), _hat_functions(x, columns)
    regions = across.unsqueeze(-2) * down.unsqueeze(-1)  # [B, P, rows, columns]
    passed = (seen_there - seen).flatten(1).unsqueeze(-1)  # [B, P, 1]
    steady = torch.einsum("bpg,cd->bpcdg", passed * regions.flatten(-2), torch.eye(2, dtype=x.dtype, device=x.device))
    steady, measured = steady.flatten(3).flatten(1, 2), shift.flatten(2).transpose(1, 2).flatten(1)
    found = (factors, perspective_factors, steady, measured, trust.reshape(batch, -1))
    return PathEquations(first, *(each.float() for each in found))


@torch.no_grad()
def fit_path(equations: Sequence[PathEquations], like: Tensor) -> CameraPath:
    """The path that most of the flows follow, by iteratively reweighted least squares.

    Args:
        equations: of flows between frames of the same B clips, all of one size.
        like: a tensor with the dtype and device of the result; the fit itself is in float64.
    """
    return fit_with(layout_of(equations), equations, like)


@torch.no_grad()
def fit_with(layout: Layout, equations: Sequence[PathEquations], like: Tensor) -> CameraPath:
    """As `fit_path`, with the layout of the equations: a CUDA graph must hold what it reads."""
    system, matrix, right = first_round(layout, equations)
    perspective = torch.zeros_like(right[:, 0])
    for _ in range(ROUNDS - 1):
        perspective, matrix, right = next_round(layout, system, solve(matrix, right), perspective)
    return path_of(layout, solve(matrix, right), perspective, like)


def _float64(values: Tensor) -> Tensor:
    """Values in float64; on the CPU if their device has none, which is MPS."""
    return (values.cpu() if values.device.type == "mps" else values).double()


class System(NamedTuple):
    """The equations of L flows as one system.

    The unknowns are the knots, then the velocities of the regions, and last the change of the perspective term. Sums
    of products in float32 are as exact as the flows, with half as much to read; the system is solved in float64.

    Attributes:
        factors: `[L, B, 2 P, 4 m + 2 G]`.
        perspective_factors: `[L, B, 2 P, 4 m]`.
        shift: `[L, B, 2 P]`, measurements.
        trust: `[L, B, P]`, confidences.
    """

    factors: Tensor
    perspective_factors: Tensor
    shift: Tensor
    trust: Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the equations of flows stand in the whole system, and what does not depend on the flows.

    Attributes:
        first: number of the first spline.
        splines: `4 m`, how many knots' states a flow has factors of; those of fewer are padded.
        places: where the factors of each flow begin among these.
        knots: number of unknowns of the path.
        roughness, pulls: `[U, U]`, quadratic forms.
        index: `[L, 4 m + 2 G + 1]`, the unknowns that the factors belong to.
        targets: positions of the products of factors, and after them of those with the measurements, in the whole.
    """

    first: int
    splines: int
    places: tuple[int, ...]
    knots: int
    roughness: Tensor
    pulls: Tensor
    index: Tensor
    targets: Tensor


def layout_of(equations: Sequence[PathEquations]) -> Layout:
    """The layout of the system of these equations."""
    first = min(each.first for each in equations)
    spans = tuple((each.first - first, each.factors.shape[-1]) for each in equations)
    _, points = equations[0].trust.shape
    layout = _layout(spans, equations[0].steady.shape[-1], points, equations[0].shift.device)
    return replace(layout, first=first)


@lru_cache(16)
@torch.inference_mode(False)
def _layout(spans: tuple[tuple[int, int], ...], regions: int, points: int, device: torch.device) -> Layout:
    """The layout for flows by the numbers of their first spline and of their factors."""
    count = max(begins + size // STATES for begins, size in spans)
    most = max(size for _, size in spans)
    # A flow over a longer time depends on more splines; the others are padded with splines of no effect.
    starts = [min(begins * STATES, count * STATES - most) for begins, _ in spans]
    knots, number = count * STATES, len(spans) * points
    unknowns = knots + regions + 1
    roughness = number * F.pad(_roughness_matrix(count, device), (0, unknowns - knots) * 2)
    pulls = torch.full((unknowns,), number * STEADY_PULL, dtype=torch.float64, device=device)
    pulls[:knots], pulls[-1] = number * KNOT_PULL, number * PERSPECTIVE_PULL
    every = torch.arange(unknowns, device=device)
    index = torch.stack([torch.cat([every[start : start + most], every[knots:]]) for start in starts])
    among = F.pad(index, (0, 1), value=unknowns)
    return Layout(
        0,
        most,
        tuple(begins * STATES - start for (begins, _), start in zip(spans, starts, strict=True)),
        knots,
        roughness,
        torch.diag(pulls),
        index,
        (among.unsqueeze(-1) * (unknowns + 1) + among.unsqueeze(-2)).flatten(),
    )


def first_round(layout: Layout, equations: Sequence[PathEquations]) -> tuple[System, Tensor, Tensor]:
    """The system, and the linear equations of its first round: `[B, U, U]` and `[B, U]`, float64."""
    placed = list(zip(equations, layout.places, strict=True))
    factors = [torch.cat([_placed(each.factors, at, layout.splines), each.steady], -1) for each, at in placed]
    system = System(
        torch.stack(factors),
        torch.stack([_placed(each.perspective_factors, at, layout.splines) for each, at in placed]),
        torch.stack([each.shift for each in equations]),
        torch.stack([each.trust for each in equations]),
    )
    smoothing = torch.full_like(system.trust[0, :, 0], INITIAL_SMOOTHING, dtype=torch.float64)
    none = torch.zeros_like(smoothing)
    return system, *_linear(layout, system, system.trust, smoothing, none, torch.zeros_like(system.shift))


def next_round(layout: Layout, system: System, solution: Tensor, perspective: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The perspective term `[B]` after a round, and the linear equations of the next.

    Args:
        solution: `[B, U]`, of the linear equations of the round.
        perspective: `[B]`, before the round.
    """
    perspective = (perspective + solution[:, -1]).clamp(0.0, MAX_PERSPECTIVE)
    weights, typical, unit_perspective = _reweighted(layout, system, solution, perspective)
    smoothing = _suitable_smoothing(_knots(layout, solution), typical)
    return perspective, *_linear(layout, system, weights, smoothing, perspective, unit_perspective)


def path_of(layout: Layout, solution: Tensor, perspective: Tensor, like: Tensor) -> CameraPath:
    """The path after the last round; arguments as for `next_round`."""
    perspective = (perspective + solution[:, -1]).clamp(0.0, MAX_PERSPECTIVE)
    return CameraPath(_knots(layout, solution).to(like), layout.first, perspective.to(like))


def solve(matrix: Tensor, right: Tensor) -> Tensor:
    """The solution `[B, U]` of linear equations; without waiting for a GPU to say that there is one."""
    if matrix.is_cuda:
        return solve_by_cholesky(matrix, right)
    solution: Tensor = torch.linalg.solve_ex(matrix, right).result
    return solution


def solve_by_cholesky(matrix: Tensor, right: Tensor) -> Tensor:
    """The same: the matrices are positive definite by their pulls. A GPU takes 0.11 ms, for an LU factorisation 0.27.

    One by one, since not all of CUDA's libraries for batches can be recorded.
    """
    pairs = zip(matrix.unbind(), right.unsqueeze(-1).unbind(), strict=True)
    return torch.stack([torch.cholesky_solve(each, torch.linalg.cholesky_ex(one).L) for one, each in pairs]).squeeze(-1)


def _knots(layout: Layout, solution: Tensor) -> Tensor:
    """`[B, N, 4]`."""
    return solution[:, : layout.knots].reshape(len(solution), -1, STATES)


def _linear(
    layout: Layout, system: System, weights: Tensor, smoothing: Tensor, perspective: Tensor, unit_perspective: Tensor
) -> tuple[Tensor, Tensor]:
    """The normal equations of a round, `[B, U, U]` and `[B, U]`, in float64.

    Args:
        weights: `[L, B, P]`.
        smoothing: `[B]`, float64.
        perspective: `[B]`, the current estimate, float64.
        unit_perspective: `[L, B, 2 P]`, what a perspective term of 1 adds to the displacements of the current path.
    """
    # The square root of the weights on both factors of each product: one matrix times itself.
    rooted = torch.cat([system.factors, unit_perspective.unsqueeze(-1), system.shift.unsqueeze(-1)], -1)
    rooted[..., : system.perspective_factors.shape[-1]].addcmul_(
        perspective.float().reshape(-1, 1, 1), system.perspective_factors
    )
    rooted *= weights.sqrt().repeat_interleave(2, -1).unsqueeze(-1)
    products = (rooted.transpose(-1, -2) @ rooted).double()  # [L, B, 4 m + 2 G + 2, 4 m + 2 G + 2]
    unknowns = len(layout.pulls)
    sums = products.new_zeros(products.shape[1], (unknowns + 1) ** 2)
    sums.index_add_(1, layout.targets, products.transpose(0, 1).flatten(1))
    sums = sums.reshape(-1, unknowns + 1, unknowns + 1)
    matrix = sums[:, :-1, :-1] + smoothing.reshape(-1, 1, 1) * layout.roughness + layout.pulls
    right = sums[:, :-1, -1].clone()
    # The perspective term itself is pulled towards 0, not its change.
    right[:, -1] -= layout.pulls[-1, -1] * perspective
    return matrix, right


def _reweighted(layout: Layout, system: System, solution: Tensor, perspective: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weights `[L, B, P]` that fall off with the residual, and the typical residual `[B]`.

    Also what a perspective term of 1 adds to the displacements, `[L, B, 2 P]`.
    """
    near = solution[:, layout.index[:, :-1]].transpose(0, 1).float()  # [L, B, 4 m + 2 G]
    of_path = near[..., : system.perspective_factors.shape[-1], None]
    unit_perspective = (system.perspective_factors @ of_path).squeeze(-1)
    explained = (system.factors @ near.unsqueeze(-1)).squeeze(-1)
    gap = system.shift - explained - perspective.float().unsqueeze(-1) * unit_perspective
    residual = torch.hypot(gap[..., 0::2], gap[..., 1::2])
    trusted = torch.where(system.trust > 0.05, residual, torch.nan).transpose(0, 1).flatten(1)
    typical = trusted.nanmedian(-1).values.nan_to_num(1.0)
    scale = (3.0 * typical + 0.1).unsqueeze(-1)
    return system.trust / (1.0 + (residual / scale) ** 2) ** 2, typical.double(), unit_perspective


def _hat_functions(place: Tensor, count: int) -> Tensor:
    """Weights `[..., count]` of nodes evenly spaced from -1 to 1, for linear interpolation between them."""
    if count == 1:
        return torch.ones_like(place).unsqueeze(-1)
    away = 0.5 * (count - 1) * (place.clamp(-1.0, 1.0).unsqueeze(-1) + 1.0)
    return (1.0 - (away - torch.arange(count, dtype=place.dtype, device=place.device)).abs()).clamp(min=0.0)


def _placed(part: Tensor, offset: int, size: int) -> Tensor:
    """Factors `[B, 2 P, ?]` padded to `[B, 2 P, size]`, beginning at an offset."""
    return F.pad(part, (offset, size - offset - part.shape[-1]))


def _roughness_matrix(count: int, device: torch.device) -> Tensor:
    """`[4 count, 4 count]`: the roughness of the knots as a quadratic form."""
    knots = torch.eye(count, dtype=torch.float64, device=device)
    each = torch.diag(torch.tensor(STATE_SMOOTHING, dtype=torch.float64, device=device))
    differences = torch.cat([math.sqrt(weight) * knots.diff(n=order, dim=0) for order, weight in ROUGHNESS.items()])
    return torch.kron(differences.T @ differences, each)


def _suitable_smoothing(knots: Tensor, typical: Tensor) -> Tensor:
    """The weight `[B]` of the roughness penalty, for a path `[B, N, 4]` and the typical residual `[B]`."""
    shift = knots[..., :2]
    differences = [weight * shift.diff(n=order, dim=1).square().mean((1, 2)) for order, weight in ROUGHNESS.items()]
    return (SMOOTHING * typical.square() / torch.stack(differences).sum(0).clamp(min=1e-8)).clamp(
        MIN_SMOOTHING, MAX_SMOOTHING
    )
