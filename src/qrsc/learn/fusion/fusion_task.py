"""What is trained in a training of a fusion network."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from qrsc.fusion import AlignedFrames
from qrsc.fusion.denoise import anchored, calmed
from qrsc.fusion.finish import finished
from qrsc.fusion.networks import FusionNetwork
from qrsc.learn.fusion.losses import Loss, Scaling, balanced, charbonnier, proportional, unseen_error
from qrsc.learn.fusion.samples import FusionSamples, SamplePool

# How often a batch shows only some of its three frames (the centre and one neighbour, or the centre alone), and from
# which end of a clip its samples are. With half of these shares `rsa2` was behind the mean on samples of two frames.
FEWER_SHARES: tuple[tuple[slice, int, float], ...] = (
    (slice(0, 2), -1, 0.14),
    (slice(1, 3), 1, 0.14),
    (slice(1, 2), 0, 0.04),
)


class FusionTask:
    """A fusion network and its loss on samples from a pool; a `qrsc.learn.trainer.lightning_module.TrainingTask`.

    Args:
        network: trained in place.
        pool: of samples.
        terms: of the loss.
        batch: samples per step.
        scaling: how the terms are added, `balanced` or `proportional`.
        unseen_weight: weight of the extra loss on the pixels that are not visible in the centre frame.
        compiled: compile the network with `torch.compile`, for batches that show all frames.
        fewer: also train on batches that show some of the frames only.
        teacher: a trained network whose result is a second target; on the device of the pool.
        teacher_weight: weight of that target.
        seed: of the choice of batches that show fewer frames.
    """

    def __init__(
        self,
        network: FusionNetwork,
        pool: SamplePool,
        terms: Sequence[Loss],
        *,
        batch: int,
        scaling: Scaling = "balanced",
        unseen_weight: float = 0.0,
        compiled: bool = False,
        fewer: bool = True,
        teacher: FusionNetwork | None = None,
        teacher_weight: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.network = network
        self.pool = pool
        self.terms = tuple(terms)
        self.batch = batch
        self.scaling = scaling
        self.unseen_weight = unseen_weight
        self.fewer = fewer
        self.teacher = None if teacher is None else teacher.eval().requires_grad_(False)
        self.teacher_weight = teacher_weight
        self._compiled: Callable[[AlignedFrames], Tensor] | None = None
        if compiled:
            self._compiled = torch.compile(network, dynamic=False)
        self._choosing = torch.Generator().manual_seed(seed)

    @property
    def rendered(self) -> int:
        """Samples rendered so far."""
        return self.pool.rendered

    def loss(self) -> Tensor:
        """The loss on a new batch of samples."""
        chosen, side = self._choose_frames()
        with self._full_precision():
            samples = self.pool.draw(self.batch, side)
        fused = self.fuse(self.network, samples, chosen, compiled=self._compiled if chosen is None else None)
        target = self._taught(samples, chosen if side else None)
        with self._full_precision():
            values = [term(fused, samples.truth) for term in self.terms]
            loss = (proportional if self.scaling == "proportional" else balanced)(values)
            if self.unseen_weight > 0:
                # The gradient of a logarithm times a factor is as large as that of a loss of the factor's size.
                factor = 1.0 if self.scaling == "proportional" else values[0].detach().mean()
                loss = loss + self.unseen_weight * factor * unseen_error(fused, samples.truth, samples.seen)
            if target is not None:
                # In units of the teacher's own error: there is no reason to be closer to it than it is to the truth.
                own = charbonnier(target, samples.truth)
                loss = loss + self.teacher_weight * (charbonnier(fused, target) / own).mean()
        return loss

    def fuse(
        self,
        network: FusionNetwork,
        samples: FusionSamples,
        chosen: slice | None = None,
        *,
        compiled: Callable[[AlignedFrames], Tensor] | None = None,
    ) -> Tensor:
        """The result of a network on samples, `[B, 3, H, W]`, computed as `NetworkFusion` does but not clamped.

        Args:
            chosen: the frames that the network gets; all if None.
            compiled: the same network, compiled.
        """
        forward: Callable[[AlignedFrames], Tensor] = network if compiled is None else compiled
        aligned = samples.aligned(chosen)
        options = network.options
        if options.calm:
            with self._full_precision():
                aligned = calmed(aligned)
        fused = forward(aligned).float()
        if not (options.calm or options.anchor):
            return fused
        with self._full_precision():
            return anchored(fused, aligned) if options.calm else finished(fused, aligned)

    @torch.no_grad()
    def _taught(self, samples: FusionSamples, chosen: slice | None) -> Tensor | None:
        """The teacher's result, `[B, 3, H, W]`; None without a teacher."""
        return None if self.teacher is None else self.fuse(self.teacher, samples, chosen).clamp(0.0, 1.0)

    def _choose_frames(self) -> tuple[slice | None, int]:
        """Which frames of the samples this batch shows, None for all, and from which end of a clip they are."""
        drawn = float(torch.rand((), generator=self._choosing))
        if self.fewer:
            for chosen, side, share in FEWER_SHARES:
                if drawn < share:
                    return chosen, side
                drawn -= share
        return None, 0

    def _full_precision(self) -> torch.autocast:
        """A context without autocast."""
        return torch.autocast(self.pool.device.type, enabled=False)
