"""The training of the fusion networks as a Lightning module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from qrsc.fusion.denoise import anchored, calmed
from qrsc.fusion.networks import FusionNetwork
from qrsc.learn.flow.module import FlowTraining, Schedule
from qrsc.learn.fusion.losses import Loss, Scaling, balanced, charbonnier, proportional, unseen_error
from qrsc.learn.fusion.samples import FusionSamples, SamplePool

# How often a batch shows only some of its three frames, and of samples from which side of a clip: the centre and one
# neighbour, or the centre alone. With half as many of them `rsa2` was behind the mean on samples of two frames.
FEWER_SHARES: tuple[tuple[slice, int, float], ...] = (
    (slice(0, 2), -1, 0.14),
    (slice(1, 3), 1, 0.14),
    (slice(1, 2), 0, 0.04),
)


class StepSchedule(Schedule):
    """The paper's: a tenth of the learning rate after every 25 of 80 epochs, from the first step on."""

    def learning_rate(self, progress: float) -> float:
        """At a part of the whole."""
        return self.peak * 0.1 ** int(progress * 80.0 / 25.0)


class FusionTraining(FlowTraining):
    """Optimises a fusion network on samples from a pool, and keeps a running average of its weights.

    Args:
        network: to be trained, in place.
        pool: where batches come from.
        terms: losses.
        scaling: how they are added up, `balanced` or `proportional`.
        unseen_weight: how much those pixels count by themselves that the centre frame does not show, beside a term.
        batch: samples a step.
        schedule: how long and how fast.
        minutes: the most that this run may take.
        decay: of the running average, a step.
        compiled: compile the network with `torch.compile`, for batches that show all frames.
        fewer: also train on batches that show some of the frames.
        teacher: another network, trained, whose result is a second truth.
        teacher_weight: how much it counts.
        seed: of which batches those are.
    """

    def __init__(
        self,
        network: FusionNetwork,
        pool: SamplePool,
        terms: Sequence[Loss],
        *,
        batch: int,
        schedule: Schedule,
        minutes: float = math.inf,
        decay: float = 0.999,
        compiled: bool = False,
        fewer: bool = True,
        scaling: Scaling = "balanced",
        unseen_weight: float = 0.0,
        teacher: FusionNetwork | None = None,
        teacher_weight: float = 0.5,
        seed: int = 0,
    ) -> None:
        # All that is said about networks and pools there holds for these, too.
        super().__init__(
            cast(Any, network), cast(Any, pool), batch=batch, schedule=schedule, minutes=minutes, decay=decay
        )
        self.terms = tuple(terms)
        self.fewer = fewer
        self.scaling = scaling
        self.unseen_weight = unseen_weight
        self.teacher_weight = teacher_weight
        # Not as a module of this one: its weights are the network's and must not be counted twice.
        self._fast: list[Any] = [torch.compile(network, dynamic=False) if compiled else network]
        self._teacher = None if teacher is None else [teacher.eval().requires_grad_(False)]
        self._choosing = torch.Generator().manual_seed(seed)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss on one batch of samples."""
        chosen, side = self._frames()
        with torch.autocast(self.device.type, enabled=False):
            samples: FusionSamples = cast(Any, self.pool).draw(self.batch, side)
        fused = self._made(self._fast[0] if chosen is None else self.network, samples, chosen)
        taught = self._taught(samples, chosen if side else None)
        with torch.autocast(self.device.type, enabled=False):
            values = [term(fused, samples.truth) for term in self.terms]
            loss = (proportional if self.scaling == "proportional" else balanced)(values)
            if self.unseen_weight > 0:
                # A logarithm pulls as hard as a loss that is brought to the scale of the first, if that is its factor.
                factor = 1.0 if self.scaling == "proportional" else values[0].detach().mean()
                loss = loss + self.unseen_weight * factor * unseen_error(fused, samples.truth, samples.seen)
            if taught is not None:
                # In units of the teacher's own error: a pupil has no reason to be closer to it than it is to the truth.
                own = charbonnier(taught, samples.truth)
                loss = loss + self.teacher_weight * (charbonnier(fused, taught) / own).mean()
        self._recent.append(loss.detach())
        return loss

    @torch.no_grad()
    def _taught(self, samples: FusionSamples, chosen: slice | None) -> Tensor | None:
        """What the teacher makes of the frames, `[B, 3, H, W]`; None without one."""
        if self._teacher is None:
            return None
        return self._made(self._teacher[0], samples, chosen).clamp(0.0, 1.0)

    def _made(self, network: Any, samples: FusionSamples, chosen: slice | None = None) -> Tensor:
        """What a network makes of the samples, `[B, 3, H, W]`, as `NetworkFusion` has it."""
        aligned = samples.aligned(chosen)
        if not network.options.calm:
            return cast(Tensor, network(aligned)).float()
        with torch.autocast(self.device.type, enabled=False):
            aligned = calmed(aligned)
        fused = cast(Tensor, network(aligned)).float()
        with torch.autocast(self.device.type, enabled=False):
            return anchored(fused, aligned)

    def _frames(self) -> tuple[slice | None, int]:
        """Which frames of the samples this batch shows, None for all, and from which side of a clip they are."""
        drawn = float(torch.rand((), generator=self._choosing))
        if self.fewer:
            for chosen, side, share in FEWER_SHARES:
                if drawn < share:
                    return chosen, side
                drawn -= share
        return None, 0
