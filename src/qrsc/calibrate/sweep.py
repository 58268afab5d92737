"""One frame corrected at several gammas, side by side, to judge gamma by eye."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.calibrate.grey_frames import ClipSource
from qrsc.flow import load_flow
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
    window = _most_active(clip)  # [3, 3, h, w]
    flow = load_flow("dis")
    pictures = []
    for gamma in gammas:
        readout = Readout(gamma, scan)
        corrected = list(Corrector(readout, fusion="none", frames=3, flow=flow).stream(window))[1].frame
        pictures.append(labelled(corrected, "as it is" if gamma == 0.0 else f"gamma {gamma:.2f}"))
    blank = torch.ones_like(pictures[0])
    pictures += [blank] * (-len(pictures) % COLUMNS)
    rows = [beside(pictures[start : start + COLUMNS]) for start in range(0, len(pictures), COLUMNS)]
    return above(rows)


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
