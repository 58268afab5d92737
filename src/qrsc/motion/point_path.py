"""The camera path as single points follow it, and the path of a clip from its tracks of points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from qrsc.motion.camera_path import PathOfFrame, centred


@dataclass(frozen=True)
class PathOfPoints(PathOfFrame):
    """The path as points follow it, each from its own exposure on: `PathOfFrame` for any places and times.

    Attributes:
        points: `[Q, 2]`, where the points were seen, in pixels of a pinhole camera.
        times: `[Q]`, when, since `time`.
    """

    points: Tensor
    times: Tensor

    def of(self, which: slice | Tensor) -> PathOfPoints:
        """Some of the points."""
        return replace(self, points=self.points[which], times=self.times[which])

    @cached_property
    def _exposed(self) -> Tensor:
        return self.times.reshape(1, 1, -1)

    @cached_property
    def _grid(self) -> Tensor:
        return centred(self.points.t().unsqueeze(1), self.size)
