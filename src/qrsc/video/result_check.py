"""Whether a correction leaves a clip less distorted than it came, by points that are followed through it.

Let `b` be what bends the picture from one frame to the next (see `frame_distortion`), and `c` what the correction takes
from it. The part `p` of the correction that leaves least is `sum(b c) / sum(c c)`: all of it leaves less than none if
`p` is over one half. Passing objects bend the picture steadily, so that the running mean is taken off both.

A path that was fitted with a wrong direction of the readout can still follow the picture from frame to frame. But
plain arithmetic says which way rows lean while the whole picture accelerates, and with which sign: that is compared,
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from torch import Tensor

from qrsc.pipeline import Corrected
from qrsc.timing import Readout
from qrsc.video.frame_distortion import TERMS, Array, Bending, SeenFrame, bending, readout_bending, seen_frame

Verdict = Literal["better", "worse", "open"]

REACH = 4  # pairs on either side that the running mean is taken over
SHORTEST = 5  # pairs without a cut that say anything
FEWEST = 12  # pairs for a verdict
BLOCK = 5  # consecutive pairs that are left out together to find standard errors
LEAST_PX = 0.05  # that the correction changes between frames; less cannot be told from noise
SURE, VERY_SURE = 1.0, 3.0  # standard errors, at the end of a clip and before it
# Rows lean by 0.9 to 1.8 times of what finite differences of the motion say, with the right readout: they miss what
# happens between frames. With one of the wrong direction it is that times -1, and around 0 with one of the wrong axis.
LEAST_LEAN = 0.25
LEAST_PART = 0.2  # of a correction; less is not worth encoding a clip anew


@dataclass(frozen=True)
class CheckedResult:
    """What a correction did to a clip, by points that are followed from frame to frame.

    Attributes:
        verdict: `better` or `worse` than it came, or `open`.
        before_px, after_px: root mean square by which the picture bends from frame to frame, without what is steady.
        part: of this correction that would leave least, 0 to 1; None if that is open.
        part_error: its standard error.
        against: the rows lean the other way than this readout would make them.
        pairs: of frames that were compared.
    """

    verdict: Verdict
    before_px: float = 0.0
    after_px: float = 0.0
    part: float | None = None
    part_error: float = 0.0
    against: bool = False
    pairs: int = 0

    @property
    def useful_part(self) -> float:
        """The part of the correction that is worth while; 0 for none."""
        if self.part is None:
            return 1.0
        return 0.0 if self.against or self.part < LEAST_PART else min(self.part, 1.0)

    def figures(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "verdict": self.verdict,
            "before_px": round(self.before_px, 4),
            "after_px": round(self.after_px, 4),
            "part": None if self.part is None else round(self.part, 3),
            "part_error": round(self.part_error, 3),
            "against": self.against,
            "pairs": self.pairs,
        }

    def text(self) -> str:
        """One line for people."""
        if not self.pairs:
            return "too few points could be followed to say whether the result is better"
        return f"{self.measured()}{'' if self.verdict != 'open' else '; too little to tell'}"

    def measured(self) -> str:
        """What was measured, in words."""
        return f"from frame to frame the picture bends by {self.before_px:.2f} px before, {self.after_px:.2f} px after"


@dataclass
class ResultCheck:
    """Gathers the frames of a clip and their corrections.

    Args:
        readout: that they are corrected with.
    """

    readout: Readout
    _runs: list[list[Bending]] = field(default_factory=lambda: [[]])  # between cuts
    _latest: SeenFrame | None = None
    _size: tuple[int, int] | None = None

    @property
    def pairs(self) -> int:
        """How many pairs of frames were compared."""
        return sum(len(run) for run in self._runs)

    def add(self, frame: Tensor, corrected: Corrected, *, restarts: bool = False) -> None:
        """Take the next frame `[3, H, W]` of the clip, and what became of it."""
        if corrected.repeats:
            return
        link = self.link(frame, corrected, restarts=restarts)
        self.take(link, (frame.shape[-2], frame.shape[-1]))

    def link(self, frame: Tensor, corrected: Corrected, *, restarts: bool = False) -> Bending | None:
        """What bends the picture from the frame before to this one `[3, H, W]`; None if points cannot be followed."""
        seen = seen_frame(frame, None if corrected.unchanged else corrected.correction_field)
        # Where the scene changes, points cannot be followed. The cuts that correcting found are not asked for: with a
        # wrong readout it finds many.
        found = None if restarts or self._latest is None else bending(self._latest, seen)
        self._latest = seen
        return found

    def take(self, link: Bending | None, size: tuple[int, int]) -> None:
        """Take what was found for the next frame `(H, W)`."""
        self._size = size
        if link is None:
            self._runs.append([])
        else:
            self._runs[-1].append(link)

    def found(self, sure: float = SURE) -> CheckedResult:
        """What the frames so far say; `sure` is in standard errors."""
        runs = [run for run in self._runs if len(run) >= SHORTEST]
        pairs = sum(len(run) for run in runs)
        if not pairs or self._size is None:
            return CheckedResult("open")
        before, after = (
            np.concatenate([unsteady(np.stack([getattr(pair, when) for pair in run])) for run in runs])
            for when in ("before", "after")
        )  # [P, 2, 6]
        change = before - after
        energies = [crossed(each, each) for each in (before, after)]
        squares, products = crossed(change, change), crossed(before, change)
        old, new = (float(np.sqrt(max(0.0, energy.mean()))) for energy in energies)
        if pairs < FEWEST or squares.mean() < LEAST_PX**2:
            return CheckedResult("open", old, new, pairs=pairs)
        part, error = _ratio(products, squares)
        against = self._against(runs, self._size, sure)
        worse = against or part + sure * error < 0.5
        verdict: Verdict = "worse" if worse else "better" if part > 0.5 else "open"
        return CheckedResult(verdict, old, new, part=max(0.0, part), part_error=error, against=against, pairs=pairs)

    def _against(self, runs: Sequence[Sequence[Bending]], size: tuple[int, int], sure: float) -> bool:
        """Whether rows lean the other way than this readout makes them while the whole picture accelerates."""
        bent, made = [], []
        for run in runs:
            shift = np.stack([pair.shift for pair in run])
            acceleration = 0.5 * (shift[2:] - shift[:-2])
            seen = np.stack([pair.before.mean(0) for pair in run])[1:-1]
            bent.append(unsteady(seen))
            made.append(unsteady(readout_bending(acceleration, self.readout, size)))
        seen, expected = np.concatenate(bent), np.concatenate(made)
        squares = (expected * expected).sum(-1)
        if squares.mean() < LEAST_PX**2:
            return False
        slope, error = _ratio((seen * expected).sum(-1), squares)
        return slope + 2.0 * sure * error < LEAST_LEAN


def unsteady(values: Array) -> Array:
    """Values `[P, ...]` of consecutive pairs without their running mean."""
    total = np.cumsum(np.concatenate([np.zeros_like(values[:1]), values]), axis=0)
    first = np.maximum(np.arange(len(values)) - REACH, 0)
    last = np.minimum(np.arange(len(values)) + REACH + 1, len(values))
    count = (last - first).reshape(-1, *(1,) * (values.ndim - 1))
    return np.asarray(values - (total[last] - total[first]) / count)


def crossed(first: Array, second: Array) -> Array:
    """Products `[P]` of terms `[P, 2, 6]`, each of one colour with the other colour."""
    assert first.shape[-1] == TERMS
    return np.asarray(0.5 * (first * second[:, ::-1]).sum((-2, -1)))


def _ratio(above: Array, below: Array) -> tuple[float, float]:
    """The ratio of two sums over pairs, and its standard error, by leaving out blocks of pairs in turn."""
    ratio = float(above.sum() / below.sum())
    blocks = np.array_split(np.arange(len(above)), max(3, len(above) // BLOCK))
    without = np.array([(above.sum() - above[each].sum()) / (below.sum() - below[each].sum()) for each in blocks])
    spread = float(((without - without.mean()) ** 2).sum())
    return ratio, float(np.sqrt((1.0 - 1.0 / len(blocks)) * spread))
