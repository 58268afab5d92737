"""The camera's path from tracks of points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from qrsc.motion.camera_path import CameraPath
from qrsc.motion.path_fit import PathEquations, displacement_equations, fit_path
from qrsc.motion.point_path import PathOfPoints
from qrsc.points.observations import Observations
from qrsc.timing import Readout

# A path is fitted to this many frames at a time, and so many on both sides: the time of a fit grows with the cube.
WINDOW, MARGIN = 40, 3
POINTS = 400  # from a frame to the next
FEWEST = 8  # a path has four coordinates; with fewer points from a frame to the next it is not fitted
FURTHEST = 2.0  # frame intervals; displacements over longer times are not used


class PathWindow(NamedTuple):
    """Frames that share a path."""

    start: float
    end: float
    path: CameraPath | None

    def of_points(self, observations: Observations, which: Tensor, readout: Readout) -> PathOfPoints | None:
        """The path as the observations numbered `which` follow it."""
        if self.path is None:
            return None
        times = (observations.start[which] - self.start) + observations.alpha[which]
        return PathOfPoints(
            self.path.tabulated, self.path.origin(0.0), readout, observations.size, observations.position[which], times
        )


@torch.no_grad()
def path_windows(observations: Observations, readout: Readout) -> Iterator[PathWindow]:
    """The paths of a clip, window by window; a window without enough tracks has none."""
    pairs = _pairs(observations)
    first, last = float(observations.start.min()), float(observations.start.max())
    start = first
    while start <= last:
        end = start + WINDOW
        yield PathWindow(start, end, _path(observations, pairs, start, end, readout))
        start = end


def _pairs(observations: Observations) -> Tensor:
    """Numbers of observations whose successor in the track is near, in an order that is random but always the same."""
    same = observations.track[1:] == observations.track[:-1]
    near = (observations.start[1:] - observations.start[:-1]) <= FURTHEST
    number = torch.nonzero(same & near).flatten()
    generator = torch.Generator().manual_seed(0)
    if len(number) > 1_000_000:
        number = number[:: len(number) // 1_000_000 + 1]
    return number[torch.randperm(len(number), generator=generator).to(number.device)]


def _path(observations: Observations, pairs: Tensor, start: float, end: float, readout: Readout) -> CameraPath | None:
    begun = observations.start[pairs]
    within = pairs[(begun >= start - MARGIN) & (begun < end + MARGIN)]
    equations = []
    for frame in torch.unique(observations.start[within]).tolist():
        chosen = within[observations.start[within] == frame][:POINTS]
        if len(chosen) >= FEWEST:
            equations.append(_equations(observations, chosen, frame, start, readout))
    return fit_path(equations, observations.position.detach()) if equations else None


def _equations(
    observations: Observations, chosen: Tensor, frame: float, origin: float, readout: Readout
) -> PathEquations:
    """What the displacements from one frame to the next say; padded with points of no weight to one number."""
    missing = POINTS - len(chosen)
    index = torch.cat([chosen, chosen.new_zeros(missing)])
    position = observations.position.detach().double()
    shift = (position[index + 1] - position[index]).t().reshape(1, 2, 1, -1)
    given = observations.trust
    trust = torch.ones(POINTS, dtype=torch.float64) if given is None else (given[index] * given[index + 1]).double()
    trust = trust.to(position.device)
    trust[len(chosen) :] = 0.0
    seen, seen_there = (
        (observations.start[i] - origin + observations.alpha.detach()[i]).double().reshape(1, 1, 1, -1)
        for i in (index, index + 1)
    )
    seen[..., len(chosen) :] = seen_there[..., len(chosen) :] = frame - origin + readout.offset
    shift[..., len(chosen) :] = 0.0
    period = (frame - origin + readout.offset, frame - origin + readout.offset + FURTHEST + readout.gamma)
    points = position[index].t().unsqueeze(1)
    return displacement_equations(
        points, shift, trust.reshape(1, 1, 1, -1), seen, seen_there, period, observations.size
    )
