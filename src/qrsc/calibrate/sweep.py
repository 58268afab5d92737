"""One frame corrected at several gammas, side by side, to judge gamma by eye."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.calibrate.grey_frames import ClipSource
from qrsc.flow import ConfidentFlows, FlowPair, find_flows, load_flow
from qrsc.media.annotate import above, beside, labelled
from qrsc.pipeline import Corrector
from qrsc.timing import Readout, Scan

WIDTH = 640  # at most, of one picture on the sheet
COLUMNS = 3
SEARCHED_FRAMES = 120  # among which the one with the most motion is chosen


def sweep_gammas(around: float, count: int = 6) -> list[float]:
    """Gammas to compare: 0, which leaves the frame as it is, then evenly spaced ones around the estimate."""
    low, high = max(0.1, around - 0.3), min(1.0, around + 0.3)
    return [0.0] + [low + (high - low) * step / (count - 2) for step in range(count - 1)]


def sweep_sheet(clip: ClipSource, gammas: Sequence[float], scan: Scan) -> Tensor:
    """A sheet `[3, h, w]` of the frame with the most motion, corrected at each gamma."""
    pictures = [
        labelled(picture, "as it is" if gamma == 0.0 else f"gamma {gamma:.2f}")
        for gamma, picture in zip(gammas, corrected_at(clip, gammas, scan), strict=True)
    ]
    blank = torch.ones_like(pictures[0])
    pictures += [blank] * (-len(pictures) % COLUMNS)
    rows = [beside(pictures[start : start + COLUMNS]) for start in range(0, len(pictures), COLUMNS)]
    return above(rows)


def corrected_at(clip: ClipSource, gammas: Sequence[float], scan: Scan) -> Iterator[Tensor]:
    """The frame with the most motion, as stored, corrected at one gamma after the other: each `[3, h, w]`.

    It is scaled to at most `WIDTH`. `scan` is that of the stored frames.
    """
    window = _most_active(clip)  # [3, 3, h, w]
    flow = _KnownFlows(window)
    for gamma in gammas:
        yield list(Corrector(Readout(gamma, scan), fusion="none", frames=3, flow=flow).stream(window))[1].frame


class _KnownFlows:
    """The flows of a window, found once for all gammas: they depend on the frames alone."""

    def __init__(self, window: Tensor) -> None:
        dis = load_flow("dis")
        self._pairs = [find_flows(dis, window[k : k + 1], window[k + 1 : k + 2]) for k in range(len(window) - 1)]

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        return self.confident_pair(0, first, second).flows

    def confident_pair(self, number: int, first: Tensor, second: Tensor) -> ConfidentFlows:
        return self._pairs[number]


def _most_active(clip: ClipSource) -> Tensor:
    """The three consecutive frames that differ most, scaled to the sheet: `[3, 3, h, w]`."""
    scale = min(1.0, WIDTH / clip.size[1])
    size = [max(1, round(side * scale)) for side in clip.size]
    recent: deque[Tensor] = deque(maxlen=3)
    best, most = None, -math.inf
    for frame in islice(clip.frames(), SEARCHED_FRAMES):
        recent.append(F.interpolate(frame[None], size=size, mode="area")[0])
        if len(recent) == 3:
            difference = float((recent[2] - recent[0]).abs().mean())
            if difference > most:
                best, most = torch.stack(list(recent)), difference
    if best is None:
        raise ValueError("a sweep needs at least three frames.")
    return best
