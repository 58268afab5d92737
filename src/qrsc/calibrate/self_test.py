"""Whether parts of a clip agree on its readout: their estimates combined, or the finding that no readout explains all.

The standard error of one estimate comes from within its frames. An error that all of them share, such as a scene that
differs from its model, is not in it. Parts of a clip show different scenes and motions. What estimates at several
places differ by beyond their standard errors is added to the error of the result (a random-effects model, with the
moment estimator of DerSimonian and Laird); for the halves of a short clip, its error is multiplied by the Birge ratio.
Where parts contradict each other, no single gamma explains the clip: it was stabilised or re-timed, or its scene is
not what the model assumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from qrsc.backend.threads import at_most_threads
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.estimate import (
    GLOBAL_GAMMA,
    INTERVAL,
    MIN_PAIRS,
    NO_SINGLE_READOUT,
    SCAN_OF,
    Calibration,
    estimate_readout,
    explanation,
    objection_to_interval,
)
from qrsc.calibrate.linear_algebra import small_thread_pool
from qrsc.timing import Readout, Scan

# Quantiles of 0.999 of the chi-squared distribution with 1, 2 and 3 degrees of freedom: parts that differ by more do
# not differ by chance.
CONTRADICTION = (10.8, 13.8, 16.3)
WIDE = 0.4  # half width of an interval that halves need not widen further
UNWITNESSED = 1.5  # factor on the error of a clip whose shear says nothing, so that less could contradict it
VAGUE = 10.0  # stands for a standard error that is not finite


class RandomEffects(NamedTuple):
    """Estimates combined.

    Attributes:
        mean: their mean, weighted by their errors and the variance between them.
        error: its standard error.
        excess: Cochran's Q over its degrees of freedom: about 1 if they differ by chance only.
        contradictory: whether they differ by more than chance explains.
    """

    mean: float
    error: float
    excess: float
    contradictory: bool


def random_effects(estimates: Sequence[float], errors: Sequence[float]) -> RandomEffects:
    """Combine two to four independent estimates whose true values may differ."""
    values = np.array(estimates)
    variances = np.minimum(np.array(errors), VAGUE) ** 2
    weights = 1.0 / variances
    mean = (weights * values).sum() / weights.sum()
    excess = float((weights * (values - mean) ** 2).sum())  # Cochran's Q
    freedom = len(values) - 1
    between = max(0.0, (excess - freedom) / (weights.sum() - (weights**2).sum() / weights.sum()))
    weights = 1.0 / (variances + between)
    return RandomEffects(
        float((weights * values).sum() / weights.sum()),
        float(weights.sum() ** -0.5),
        excess / freedom,
        excess > CONTRADICTION[freedom - 1],
    )


def checked_readout(
    motions: ClipMotions,
    *,
    scan: Scan | None = None,
    either_axis: bool = False,
    around: float | None = None,
    early: Callable[[Calibration], None] | None = None,
) -> Calibration:
    """The readout of a clip, tested by its halves.

    Args:
        motions, scan, either_axis, around: as for `estimate_readout`.
        early: gets the estimate before it is tested; the test begins when it returns.
    """
    estimate = partial(estimate_readout, motions, scan=scan, either_axis=either_axis, around=around)
    if either_axis or early is not None:  # halves do not choose the axis, but take it from the whole
        whole = estimate()
        if early is not None:
            early(whole)
        return tested_by_halves(whole, motions, known_scan=scan is not None)
    # The halves one after the other beside the whole: on two cores, 0.8 of the time that all three take in turn.
    with at_most_threads(1), small_thread_pool() as threads:
        halves = threads.submit(_estimated_halves, motions, scan)
        return _compared_with_halves(estimate(), halves.result())


def tested_by_halves(whole: Calibration, motions: ClipMotions, *, known_scan: bool) -> Calibration:
    """An estimate whose interval is widened by what the halves of the clip differ by.

    The interval of a clip that is open widens as well: what is done with the clip depends on it.

    Args:
        whole: the estimate.
        motions: from which it was made.
        known_scan: whether the scan was given, so that halves have to keep it.
    """
    if not _is_testable(whole):
        return whole
    # Halves are free to choose the direction, but not the axis: that needs more frames.
    sideways = Readout(0.0, whole.scan).sideways != (motions.size[0] > motions.size[1])
    halves = _estimated_halves(motions, whole.scan if sideways or known_scan else None)
    return _compared_with_halves(whole, halves)


def _is_testable(whole: Calibration) -> bool:
    """Whether halves could tell more about a clip."""
    return whole.measured and INTERVAL * whole.error <= WIDE and not whole.altered and not whole.against_scan


def _estimated_halves(motions: ClipMotions, scan: Scan | None) -> list[Calibration]:
    """The readout from either half of a clip; none from one that is too short for halves."""
    middle = motions.pairs // 2
    if middle < MIN_PAIRS:
        return []
    return [estimate_readout(motions.part(*ends), scan=scan) for ends in ((0, middle), (middle, motions.pairs))]


def _compared_with_halves(whole: Calibration, halves: Sequence[Calibration]) -> Calibration:
    """An estimate with an interval that is wide enough for what the halves of the clip differ by."""
    if not _is_testable(whole) or not halves or not all(half.measured for half in halves):
        return whole
    both = _compared(halves, whole.scan)
    # The Birge ratio. The variance between two halves, each vaguer than the whole, would be too uncertain to add.
    error = whole.error * max(1.0, math.sqrt(both.excess)) * (1.0 if whole.witnessed else UNWITNESSED)
    found = _result(whole, _along(whole, whole.scan), error, halves if both.contradictory else ())
    if whole.determined:
        return found
    return replace(
        found,
        determined=False,
        reason=whole.reason if found.determined else found.reason,
        low=min(whole.low, found.low),
        least=min(whole.least, found.least),
        high=max(whole.high, found.high),
    )


def combined(parts: Sequence[Calibration]) -> Calibration:
    """The readout of a clip from estimates at up to four places of it."""
    fastest, pairs = max(part.fastest for part in parts), sum(part.pairs for part in parts)
    measured = [part for part in parts if part.measured]
    altered = next((part for part in measured if part.altered), None)
    if altered is not None:
        return replace(altered, fastest=fastest, pairs=pairs)
    against = next((part for part in measured if part.against_scan), None)
    if against is not None:
        return replace(against, fastest=fastest, pairs=pairs)
    best = min(measured or parts, key=_error)
    same_axis = [part for part in measured if Readout(0.0, part.scan).sideways == Readout(0.0, best.scan).sideways]
    if len(same_axis) < 2:
        return replace(best, fastest=fastest, pairs=pairs)
    all_parts = random_effects([_along(part, best.scan) for part in same_axis], [_error(part) for part in same_axis])
    contradictory = _compared(same_axis, best.scan).contradictory
    found = _result(best, all_parts.mean, all_parts.error, same_axis if contradictory else ())
    return replace(found, fastest=fastest, pairs=pairs)


def _compared(parts: Sequence[Calibration], scan: Scan) -> RandomEffects:
    """Parts compared by what they say about gamma, not about the direction: that may be open in a part."""
    return random_effects(_apart_from_direction(parts, scan), [part.error for part in parts])


def _apart_from_direction(parts: Sequence[Calibration], scan: Scan) -> list[float]:
    """The gammas of estimates along a scan; those whose direction is open are taken to run along it."""
    return [part.gamma if part.both_directions else _along(part, scan) for part in parts]


def _along(found: Calibration, scan: Scan) -> float:
    """The gamma of an estimate along a scan, negative if it runs the other way."""
    return found.gamma if Readout(0.0, found.scan).backwards == Readout(0.0, scan).backwards else -found.gamma


def _error(found: Calibration) -> float:
    """Standard error of an estimate; as large as its gamma where its direction is open."""
    return max(min(found.error, VAGUE), (found.gamma - found.least) / INTERVAL if found.both_directions else 0.0)


def _result(found: Calibration, along: float, error: float, contradictory: Sequence[Calibration]) -> Calibration:
    """An estimate with another gamma along its scan and another error, or with parts that contradict each other."""
    scan = found.scan
    half = INTERVAL * error
    objection = objection_to_interval(along, half)
    least, high = along - half, along + half
    if contradictory:
        values = [(_along(part, scan), INTERVAL * _error(part)) for part in contradictory]
        least = min(least, *(value - width for value, width in values))
        high = max(high, *(value + width for value, width in values))
        shown = ", ".join(
            f"{gamma:.2f} ± {INTERVAL * part.error:.2f}"
            for gamma, part in zip(_apart_from_direction(contradictory, scan), contradictory, strict=True)
        )
        # Simulated clips with a readout contradict themselves only where something very near fills the picture.
        objection = f"its parts contradict each other (gamma {shown}), {NO_SINGLE_READOUT}, or very near things pass by"
    if along < 0.0 and abs(along) >= GLOBAL_GAMMA:
        scan = _opposite(scan)
        along, least, high = -along, -high, -least
    return replace(
        found,
        gamma=min(1.0, abs(along)),
        low=float(np.clip(least, 0.0, 1.0)),
        high=float(np.clip(high, 0.0, 1.0)),
        least=float(np.clip(least, -1.0, 1.0)),
        error=error if math.isfinite(error) else VAGUE,
        scan=scan,
        determined=not objection,
        reason=objection or explanation(found.change),
        altered=bool(contradictory),
    )


def _opposite(scan: Scan) -> Scan:
    axis, backwards = next(key for key, name in SCAN_OF.items() if name == scan)
    return SCAN_OF[axis, not backwards]
