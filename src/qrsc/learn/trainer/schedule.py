"""How long a training takes, and its learning rate."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The length of a training and its learning rate: linear warm-up, then a cosine.

    The training ends after `minutes` or `steps`, whichever comes first. The learning rate rises over the first few per
    cent of the training and falls as a cosine to a hundredth of its peak at the end. A resumed run continues where the
    previous one stopped.

    Attributes:
        minutes: of the whole training, all runs together.
        steps: of the whole training.
        peak: the highest learning rate.
        warm_up: share of the training over which the learning rate rises.
    """

    minutes: float = math.inf
    steps: int = 100_000
    peak: float = 5e-4
    warm_up: float = 0.04

    def progress(self, minutes: float, steps: int) -> float:
        """The share of the training that is done, 0 to 1."""
        return min(1.0, max(minutes / self.minutes, steps / self.steps))

    def learning_rate(self, progress: float) -> float:
        """The learning rate when this share of the training is done."""
        if progress < self.warm_up:
            return self.peak * (0.02 + 0.98 * progress / self.warm_up)
        along = (progress - self.warm_up) / (1.0 - self.warm_up)
        return self.peak * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * along)))


class StepSchedule(Schedule):
    """The paper's schedule: the learning rate falls to a tenth after every 25 of 80 epochs, without warm-up."""

    def learning_rate(self, progress: float) -> float:
        """The learning rate when this share of the training is done."""
        return self.peak * 0.1 ** int(progress * 80.0 / 25.0)
