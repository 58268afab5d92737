"""A step of several networks on one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial

import torch
from torch import Tensor

from qrsc.baselines.learned.window import FeatureLoss
from qrsc.baselines.training.features import SharedFeatures
from qrsc.baselines.training.learner import Learner
from qrsc.baselines.training.samples import WindowSamples
from qrsc.learn.trainer.recorded_step import WARM_UP, GraphMemory, RecordedStep

TRUTHS = "features of the truths"


class StepsOnOneBatch:
    """The step of each of several learners, on a GPU as CUDA graphs.

    Args:
        learners: prepared before each call.
        features: the loss on features.
        device: of the learners.
        mixed: use bfloat16.
        recorded: record the steps.
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        features: FeatureLoss,
        device: torch.device,
        *,
        mixed: bool,
        recorded: bool,
    ) -> None:
        self._features, self._mixed, self._recorded = features, mixed, recorded
        self._samples: WindowSamples | None = None
        self._taken = 0
        # One after the other they can share their working memory.
        memory = GraphMemory(recorded=recorded and device.type == "cuda")
        self._steps = {
            learner.name: RecordedStep(partial(self._step, learner), device, recorded=recorded, memory=memory)
            for learner in learners
        }
        self._truths = RecordedStep(self._remember, device, recorded=recorded, memory=memory)

    def __call__(self, samples: WindowSamples, lap: Callable[[str], None] = lambda name: None) -> dict[str, Tensor]:
        """Take a step with each learner on a batch.

        Args:
            samples: all batches of one size.
            lap: called after each part with its name.

        Returns:
            Loss and norm of the gradient, `[2]`, of each learner by name; the next call may overwrite them.
        """
        self._taken += 1
        self._hold(samples)
        if isinstance(self._features, SharedFeatures):
            self._truths()
            lap(TRUTHS)
        found = {}
        for name, step in self._steps.items():
            found[name] = step()
            lap(name)
        return found

    @property
    def starting(self) -> bool:
        """The next call chooses kernels or records, in which nothing else on the device should disturb it."""
        return self._recorded and self._taken <= WARM_UP

    def fallbacks(self) -> Mapping[str, str]:
        """What is launched kernel by kernel although it should be recorded, and why."""
        parts = {TRUTHS: self._truths, **self._steps}
        return {name: part.fallback for name, part in parts.items() if part.fallback is not None}

    def _hold(self, samples: WindowSamples) -> None:
        """Put a batch where recorded steps read it."""
        if not self._recorded:
            self._samples = samples
        elif self._samples is None:
            self._samples = replace(samples, **{each.name: getattr(samples, each.name).clone() for each in _FIELDS})
        else:
            for each in _FIELDS:
                getattr(self._samples, each.name).copy_(getattr(samples, each.name))

    def _step(self, learner: Learner) -> Tensor:
        assert self._samples is not None  # by `_hold`
        return learner.step(self._samples, self._features, mixed=self._mixed)

    def _remember(self) -> Tensor:
        assert self._samples is not None  # by `_hold`
        assert isinstance(self._features, SharedFeatures)  # by the caller
        truths = self._samples.truths()
        self._features.remember((truths.before, truths.first, truths.middle))
        return truths.middle


_FIELDS = fields(WindowSamples)
