"""The training of the flow network as a Lightning module."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytorch_lightning as lightning
import torch
from torch import Tensor

from qrsc.flow.raft_rs.network import FlowNetwork
from qrsc.learn.flow.pairs import FlowPairs
from qrsc.learn.flow.sequence_loss import flow_loss
from qrsc.learn.pool.pool import PairPool
from qrsc.learn.trainer.state import TrainingState
from qrsc.weights import load_strictly


@dataclass(frozen=True)
class Schedule:
    """How long to train, and how fast to learn when.

    A run ends after `minutes` of training or `steps`, whichever comes first. The learning rate rises over the first
    few per cent of the whole and falls as a cosine to a hundredth at its end; a run that is resumed goes on where it
    was.

    Attributes:
        minutes: of the whole, resumed parts counted together.
        steps: of the whole.
        peak: the highest learning rate.
        warm_up: part of the whole over which it rises.
    """

    minutes: float = math.inf
    steps: int = 100_000
    peak: float = 5e-4
    warm_up: float = 0.04

    def progress(self, minutes: float, steps: int) -> float:
        """How much of the whole is done, 0 to 1."""
        return min(1.0, max(minutes / self.minutes, steps / self.steps))

    def learning_rate(self, progress: float) -> float:
        """At a part of the whole."""
        if progress < self.warm_up:
            return self.peak * (0.02 + 0.98 * progress / self.warm_up)
        along = (progress - self.warm_up) / (1.0 - self.warm_up)
        return self.peak * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * along)))


class Steps:
    """Numbers without end, in place of a data loader: the batches are made on the device."""

    def __iter__(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1


class FlowTraining(lightning.LightningModule):
    """Optimises a flow network on pairs from a pool, and keeps a running average of its weights.

    Args:
        network: to be trained, in place.
        pool: where batches come from.
        batch: pairs a step; both directions of each are used.
        schedule: how long and how fast.
        minutes: the most that this run may take; the schedule may go on beyond it.
        decay: of the running average, a step.
        compiled: compile the convolutional parts and the loss with `torch.compile`.
    """

    def __init__(
        self,
        network: FlowNetwork,
        pool: PairPool,
        *,
        batch: int,
        schedule: Schedule,
        minutes: float = math.inf,
        decay: float = 0.999,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.network = network
        self.pool = pool
        self.batch = batch
        self.schedule = schedule
        self.run_minutes = minutes
        self.decay = decay
        self.steps_done = 0
        self.minutes_before = 0.0
        self.losses: list[float] = []
        self._recent: list[Tensor] = []
        self._started: float | None = None
        self._average: list[Tensor] | None = None
        self._restored: TrainingState | None = None
        self._loss = flow_loss
        if compiled:
            self._loss = torch.compile(flow_loss, dynamic=False)
            for part in (network.encoder, network.update, network.fine_update, network.enlarge, network.fine_enlarge):
                part.compile(dynamic=False)  # two of them are used at two sizes, each of which stays

    # --- where the run stands ---

    @property
    def minutes(self) -> float:
        """Time spent on steps, in this run and those before it."""
        spent = 0.0 if self._started is None else (time.monotonic() - self._started) / 60.0
        return self.minutes_before + spent

    def state(self) -> TrainingState:
        """All that is needed to go on."""
        names = [name for name, _ in self.network.named_parameters()]
        moments: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
        optimizer = self._optimizer()
        for name, parameter in self.network.named_parameters():
            known = optimizer.state.get(parameter, {})
            if "exp_avg" in known:
                moments[0][name], moments[1][name] = known["exp_avg"], known["exp_avg_sq"]
        assert self._average is not None  # set when the optimiser was
        average = dict(zip(names, self._average, strict=True))
        return TrainingState(self.steps_done, self.minutes, self.network.state_dict(), average, *moments)

    def restore(self, state: TrainingState) -> None:
        """Go on from a state; before the run starts."""
        load_strictly(self.network, state.network, "the training state")
        self.steps_done = state.step
        self.minutes_before = state.minutes
        self._restored = state

    # --- what Lightning calls ---

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW; the learning rate is set before every step."""
        parameters = list(self.network.parameters())
        # In one launch on a GPU, whose training step waits for the processor otherwise.
        fused = parameters[0].is_cuda
        optimizer = torch.optim.AdamW(parameters, lr=self.schedule.peak, weight_decay=1e-5, eps=1e-8, fused=fused)
        self._average = [parameter.detach().clone() for parameter in parameters]
        if self._restored is not None:
            self._restore_optimizer(optimizer, self._restored)
        return optimizer

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip the norm here: Lightning refuses to with a fused optimizer, which matters for scaled float16 alone."""
        if gradient_clip_val is not None:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), gradient_clip_val)

    def on_train_start(self) -> None:
        """Start the clock when everything is in place."""
        self._started = time.monotonic()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        """Set the learning rate, or end the run (-1) when its time is over."""
        minutes = self.minutes
        if self.trainer.world_size > 1:  # the clocks of several processes differ, and they must stop and learn alike
            minutes = self.trainer.strategy.broadcast(minutes)
        progress = self.schedule.progress(minutes, self.steps_done)
        if progress >= 1.0 or minutes - self.minutes_before >= self.run_minutes:
            self.trainer.should_stop = True
            return -1
        for group in self._optimizer().param_groups:
            group["lr"] = self.schedule.learning_rate(progress)
        return None

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss on one batch of pairs."""
        with torch.autocast(self.device.type, enabled=False):
            pairs: FlowPairs = self.pool.draw(self.batch)
        loss = self._loss(self.network(pairs.first, pairs.second, True), pairs)
        self._recent.append(loss.detach())
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Update the running average; every 100 steps, note the loss."""
        assert self._average is not None
        self.steps_done += 1
        # Young averages follow faster, or the first random weights would stay in them.
        weight = 1.0 - min(self.decay, (1 + self.steps_done) / (10 + self.steps_done))
        torch._foreach_lerp_(self._average, [parameter.detach() for parameter in self.network.parameters()], weight)
        if len(self._recent) == 100:
            self._note()

    def on_train_end(self) -> None:
        """Note the loss of the last steps."""
        self._note()

    # --- details ---

    def _note(self) -> None:
        if not self._recent:
            return
        value = float(torch.stack(self._recent).mean())
        self._recent.clear()
        self.losses.append(value)
        if self.trainer.logger is not None:
            rate = self._optimizer().param_groups[0]["lr"]
            noted = {"loss": value, "minutes": self.minutes, "learning rate": rate, "rendered": self.pool.rendered}
            self.trainer.logger.log_metrics(noted, step=self.steps_done)

    def _optimizer(self) -> torch.optim.Optimizer:
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)  # there is one
        return optimizer

    def _restore_optimizer(self, optimizer: torch.optim.Optimizer, state: TrainingState) -> None:
        assert self._average is not None
        for slot, (name, parameter) in enumerate(self.network.named_parameters()):
            self._average[slot].copy_(state.average[name])
            if name in state.first_moments:
                optimizer.state[parameter] = {
                    "step": torch.tensor(float(state.step), device=parameter.device),
                    "exp_avg": state.first_moments[name].to(parameter),
                    "exp_avg_sq": state.second_moments[name].to(parameter),
                }
