"""What follows from a check of the result: a correction that leaves a clip more distorted than it came is lessened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from torch import Tensor

from qrsc.pipeline import Corrected
from qrsc.timing import Readout
from qrsc.video.clip_job import ClipJob
from qrsc.video.frame_distortion import Bending
from qrsc.video.result_check import SURE, VERY_SURE, CheckedResult, ResultCheck

FIRST_LOOK = 24  # pairs of frames after which a clear verdict ends a run early; looked at again whenever they double
MOST_TRIES = 3  # the last one corrects nothing
TOO_STRONG = 0.75  # a part of the correction that is surely below this is worth a word


AGAINST = "rows do not lean as it makes them while the picture accelerates"


class NotBetterError(Exception):
    """A correction was stopped, since it leaves the clip more distorted than it came; caught where it was started."""

    def __init__(self, checked: CheckedResult) -> None:
        super().__init__(checked.text())
        self.checked = checked


@dataclass
class CheckedRun:
    """Checks a correction while it runs.

    Args:
        job: the clip.
        readout: that it is corrected with, and how strongly.
        strength: of the correction, 0 to 1.
        lessens: the correction may be lessened, and is not an order.

    Attributes:
        checked: what was found, once it is concluded.
    """

    job: ClipJob
    readout: Readout
    strength: float
    lessens: bool
    checked: CheckedResult = field(default_factory=lambda: CheckedResult("open"))
    _check: ResultCheck = field(init=False)
    _look: int = FIRST_LOOK

    def __post_init__(self) -> None:
        self._check = ResultCheck(replace(self.readout, gamma=self.readout.gamma * self.strength))

    def add(self, frame: Tensor, corrected: Corrected, *, restarts: bool = False) -> None:
        """Take a frame `[3, H, W]` and what became of it.

        Raises:
            NotBetterError: that the result is worse is clear already.
        """
        self._check.add(frame, corrected, restarts=restarts)
        self._take_a_look()

    def replay(self, links: Iterable[Bending | None], size: tuple[int, int]) -> None:
        """Take what was found between consecutive frames `(H, W)` elsewhere; see `ResultCheck.take`.

        Raises:
            NotBetterError: as for `add`.
        """
        for link in links:
            self._check.take(link, size)
            self._take_a_look()

    def _take_a_look(self) -> None:
        if self.lessens and self._check.pairs >= self._look:
            self._look *= 2
            self._require_better(VERY_SURE)

    def conclude(self) -> None:
        """Say what was found, before the output gets its name.

        Raises:
            NotBetterError: the result is worse, and may be lessened.
        """
        self._require_better(SURE)
        if self.checked.against:
            self.job.tally.warn(
                f"the readout looks wrong: {AGAINST}. Try another --scan, or leave the readout to be found"
            )
        elif self.checked.verdict == "worse":
            self.job.tally.warn(f"the result looks worse than the input: {self.checked.measured()}. {self._advice()}")
        elif self._too_strong:
            self.job.tally.note(f"the correction looks too strong. {self._advice()}")

    def _require_better(self, sure: float) -> None:
        self.checked = self._check.found(sure)
        if self.lessens and self.checked.verdict == "worse":
            raise NotBetterError(self.checked)

    @property
    def _too_strong(self) -> bool:
        part, error = self.checked.part, self.checked.part_error
        return self.checked.verdict == "better" and part is not None and part + 2.0 * error < TOO_STRONG

    def _advice(self) -> str:
        part, fps = self.checked.useful_part, self.job.fps if self.job.info is None else self.job.info.fps
        if part == 0.0:
            return "No part of this correction helps; leave the readout to be found"
        gamma = part * self.strength * self.readout.gamma
        option = f"--gamma {gamma:.2f}" if fps is None else f"--readout {1000.0 * gamma / fps:.1f}"
        return f"About {part:.0%} of it would fit better: {option}"


@dataclass(frozen=True)
class Lessening:
    """How much of a correction is used, after tries that were no better than the input.

    Attributes:
        strength: of the next try.
        tries: that there were.
        checked: of the last one; None before the first.
        why: less is used than was asked for, in words; empty before the first.
    """

    strength: float
    tries: int = 0
    checked: CheckedResult | None = None
    why: str = ""

    def after(self, job: ClipJob, checked: CheckedResult) -> Lessening:
        """What follows from another try; says so."""
        part = checked.useful_part if self.tries < MOST_TRIES - 1 else 0.0
        what = f"{part:.0%} of it is used" if part > 0.0 else "nothing is corrected"
        if checked.against:
            why = f"the readout looks wrong ({AGAINST})"
        else:
            why = f"the correction leaves the clip more distorted than it came ({checked.measured()})"
        next_try = Lessening(part * self.strength, self.tries + 1, checked, f"{why}: {what}")
        next_try.tell(job)
        return next_try

    def tell(self, job: ClipJob) -> None:
        """Count the frames of a clip from the beginning, and say why."""
        job.tally.restart(self.why)
        job.tally.note(f"{self.why}; --always keeps all of it")
