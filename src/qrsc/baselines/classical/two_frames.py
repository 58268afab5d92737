"""What the classical methods share: a frame, the flow to its neighbour, and the times at which points are seen.

Convention
    A frame is corrected from the flow to the frame before it; the first frame of a clip from the flow to the next.
    Times are in frame intervals since the start of the frame that is corrected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qrsc.evaluate.methods.registry import Method
from qrsc.evaluate.methods.results import FrameAndField
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.image.pyramid_fill import fill_from_neighbours
from qrsc.image.sampling import pixel_grid
from qrsc.motion.fill import TrustedFlow
from qrsc.timing import Readout
from qrsc.warp import splat

Array = NDArray[np.float64]

MOST_POINTS = 3000  # that a model is fitted to
LEAST_TRUSTED = 500  # below so many points of trusted flow, points of any flow are used


@dataclass(frozen=True)
class Displacements:
    """Points of a frame, where they are seen in another one, and when.

    Attributes:
        position: `[N, 2]` (x, y) in pixels.
        flow: `[N, 2]`, pixels.
        start: `[N]`, when the points are seen in this frame.
        end: `[N]`, when they are seen in the other one.
    """

    position: Array
    flow: Array
    start: Array
    end: Array

    def __getitem__(self, chosen: Array | NDArray[np.bool_] | NDArray[np.int64]) -> Displacements:
        return Displacements(self.position[chosen], self.flow[chosen], self.start[chosen], self.end[chosen])

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class CorrectedPoints:
    """What a motion model says about the pixels of a frame.

    Attributes:
        field: `[H W, 2]`, displacement to the target instant in pixels.
        nearness: `[H W]`, larger for points nearer to the camera: they hide the others.
    """

    field: Array
    nearness: Array | None = None


# From all pixels, the points that a model is fitted to, and the target instant, to the correction.
Correct = Callable[[Displacements, Displacements, float, tuple[int, int]], CorrectedPoints]


def two_frame_method(correct: Correct, flow: SharedFlow, seed: int = 0) -> Method:
    """A method that corrects each frame from the flow to one neighbour.

    Args:
        correct: fits a motion model and gives the correction of every pixel.
        flow: shared with the other methods.
        seed: of the choice of points; the same for every frame.
    """

    def corrected(frame: Tensor, trusted: TrustedFlow, frames: int, readout: Readout, tau: float) -> FrameAndField:
        height, width = frame.shape[-2:]
        pixels = displacements(trusted.flow, readout, frames)
        points = pixels[chosen_points(trusted.confidence, seed)]
        found = correct(pixels, points, tau, (height, width))
        field = torch.from_numpy(found.field.T.reshape(2, height, width).copy()).to(frame)
        nearness = None if found.nearness is None else torch.from_numpy(found.nearness).to(frame)
        return FrameAndField(_splatted(frame, field, nearness), field)

    def method(frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterator[FrameAndField]:
        frame: Tensor | None = None
        back: TrustedFlow | None = None
        for following in frames:
            if frame is not None:
                # Asked for before the frame is given back, while the shared flow still knows both.
                onward, behind = flow.filled(frame.unsqueeze(0), following.unsqueeze(0))
                used = (onward, 1) if back is None else (back, -1)
                yield corrected(frame, *used, readout, tau)
                back = behind
            frame = following
        if frame is not None and back is not None:
            yield corrected(frame, back, -1, readout, tau)
        elif frame is not None:
            yield FrameAndField(frame, torch.zeros_like(frame[:2]))  # one frame shows no motion

    return method


def displacements(flow: Tensor, readout: Readout, frames: int) -> Displacements:
    """All pixels of a frame as points.

    Args:
        flow: `[1, 2, H, W]`, to the other frame.
        frames: how many frame intervals later the other one starts: 1 or -1.
    """
    height, width = flow.shape[-2:]
    precise = flow[0].detach().cpu().double()
    start = readout.row_times(height, width, dtype=torch.float64).expand(1, height, width)
    end = start + readout.flight_time(precise, frames)
    grid = pixel_grid(height, width, dtype=torch.float64)
    return Displacements(
        grid.flatten(1).T.contiguous().numpy(),
        precise.flatten(1).T.contiguous().numpy(),
        start.flatten().numpy(),
        end.flatten().numpy(),
    )


def chosen_points(confidence: Tensor, seed: int) -> NDArray[np.int64]:
    """Indices of random pixels of trusted flow; of any flow where too little of it is trusted."""
    trusted = np.flatnonzero(confidence.detach().cpu().numpy().ravel() > 0.5)
    candidates = trusted if len(trusted) >= LEAST_TRUSTED else np.arange(confidence.numel())
    random = np.random.default_rng(seed)
    return np.sort(random.choice(candidates, min(MOST_POINTS, len(candidates)), replace=False))


def _splatted(frame: Tensor, field: Tensor, nearness: Tensor | None) -> Tensor:
    """A frame `[3, H, W]` pushed along a field, the nearest on top, with its holes filled from around."""
    if not bool((field != 0).any()):
        return frame
    importance = torch.zeros_like(field[:1])
    if nearness is not None:
        scale = torch.quantile(nearness[:: max(1, len(nearness) // 4096)], 0.9).clamp_min(1e-9)
        importance = (10.0 * nearness / scale).clamp(0.0, 30.0).reshape(1, *frame.shape[-2:])
    image, covered = splat(frame, field, importance)
    filled = fill_from_neighbours(image.unsqueeze(0), covered.to(frame).unsqueeze(0))[0]
    return torch.where(covered, image, filled)
