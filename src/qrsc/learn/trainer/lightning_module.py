"""The training of any network as a Lightning module."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytorch_lightning as lightning
import torch
from torch import Tensor, nn

from qrsc.backend.progress import Progress, ProgressCallback
from qrsc.learn.trainer.schedule import Schedule
from qrsc.learn.trainer.state import TrainingState
from qrsc.weights import WeightsError, load_strictly

LOG_EVERY = 100  # steps, over which the logged loss is averaged


class TrainingTask(Protocol):
    """What is trained: a network, and the loss of its next batch."""

    @property
    def network(self) -> nn.Module:
        """The network, trained in place."""
        ...

    @property
    def rendered(self) -> int:
        """Training samples rendered so far, for the log."""
        ...

    def loss(self) -> Tensor:
        """The loss on a new batch, a scalar with gradients."""
        ...


class EndlessSteps:
    """Step numbers without end, in place of a data loader: the batches are made on the device."""

    def __iter__(self) -> Iterator[int]:
        number = 0
        while True:
            yield number
            number += 1


class NetworkTraining(lightning.LightningModule):
    """Optimises the network of a task and keeps the exponential moving average of its weights.

    Args:
        task: the network and its loss.
        schedule: the length of the whole training and its learning rate.
        minutes: after which this run stops, which may be before the end of the schedule.
        decay: of the exponential moving average, per step.
        before_step: called before each step with the share of the training that is done.
        progress: called after each step in the first process.
    """

    def __init__(
        self,
        task: TrainingTask,
        schedule: Schedule,
        *,
        minutes: float = math.inf,
        decay: float = 0.999,
        before_step: Callable[[float], None] | None = None,
        progress: ProgressCallback | None = None,
    ) -> None:
        super().__init__()
        self.task = task
        self.network = task.network
        self.schedule = schedule
        self.run_minutes = minutes
        self.decay = decay
        self.steps_done = 0
        self.steps_before = 0
        self.minutes_before = 0.0
        self._before_step = before_step
        self._report = progress
        self._recent: list[Tensor] = []
        self._started: float | None = None
        self._average: list[Tensor] | None = None
        self._restored: TrainingState | None = None

    @property
    def minutes(self) -> float:
        """Minutes spent on steps, those of earlier runs included."""
        spent = 0.0 if self._started is None else (time.monotonic() - self._started) / 60.0
        return self.minutes_before + spent

    def state(self) -> TrainingState:
        """Everything that is needed to resume."""
        names = [name for name, _ in self.network.named_parameters()]
        moments: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
        optimizer = self._optimizer()
        for name, parameter in self.network.named_parameters():
            known = optimizer.state.get(parameter, {})
            if "exp_avg" in known:
                moments[0][name], moments[1][name] = known["exp_avg"], known["exp_avg_sq"]
        assert self._average is not None  # set together with the optimiser
        average = dict(zip(names, self._average, strict=True))
        return TrainingState(self.steps_done, self.minutes, self.network.state_dict(), average, *moments)

    def restore(self, state: TrainingState) -> None:
        """Continue from a state; to be called before the run starts."""
        load_strictly(self.network, state.network, "the training state")
        if {name for name, _ in self.network.named_parameters()} - state.average.keys():
            raise WeightsError("the training state is damaged: it has no moving average of some weights.")
        self.steps_done = self.steps_before = state.step
        self.minutes_before = state.minutes
        self._restored = state

    # --- called by Lightning ---

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW; its learning rate is set before every step."""
        parameters = list(self.network.parameters())
        # One launch for all weights on a GPU, where the step would otherwise wait for the CPU.
        fused = parameters[0].is_cuda
        optimizer = torch.optim.AdamW(parameters, lr=self.schedule.peak, weight_decay=1e-5, eps=1e-8, fused=fused)
        self._average = [parameter.detach().clone() for parameter in parameters]
        if self._restored is not None:
            self._restore_optimizer(optimizer, self._restored)
        return optimizer

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: float | None = None, gradient_clip_algorithm: str | None = None
    ) -> None:
        """Clip the norm here: Lightning refuses with a fused optimiser, for a reason that concerns float16 alone."""
        if gradient_clip_val is not None:
            torch.nn.utils.clip_grad_norm_(self.network.parameters(), gradient_clip_val)

    def on_train_start(self) -> None:
        """Start the clock once everything is set up."""
        self._started = time.monotonic()

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        """Set the learning rate, or end the run by returning -1."""
        minutes = self.minutes
        if self.trainer.world_size > 1:  # all processes must stop together and use one learning rate
            minutes = self.trainer.strategy.broadcast(minutes)
        progress = self.schedule.progress(minutes, self.steps_done)
        if progress >= 1.0 or minutes - self.minutes_before >= self.run_minutes:
            self.trainer.should_stop = True
            return -1
        if self._before_step is not None:
            self._before_step(progress)
        for group in self._optimizer().param_groups:
            group["lr"] = self.schedule.learning_rate(progress)
        return None

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss on a new batch."""
        loss = self.task.loss()
        self._recent.append(loss.detach())
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Update the moving average, log the loss every `LOG_EVERY` steps, report progress."""
        assert self._average is not None
        self.steps_done += 1
        # A shorter average in the first steps, or the random initialisation would stay in it.
        weight = 1.0 - min(self.decay, (1 + self.steps_done) / (10 + self.steps_done))
        torch._foreach_lerp_(self._average, [parameter.detach() for parameter in self.network.parameters()], weight)
        if len(self._recent) == LOG_EVERY:
            self._log_loss()
        if self._report is not None and self.trainer.is_global_zero:
            self._report(self._progress())

    def on_train_end(self) -> None:
        """Log the loss of the last steps."""
        self._log_loss()

    # --- details ---

    def _progress(self) -> Progress:
        """Where the training stands; its seconds are those of this run."""
        minutes, taken = self.minutes, self.steps_done - self.steps_before
        run = minutes - self.minutes_before
        left = min(
            (self.schedule.steps - self.steps_done) * run / taken,
            self.schedule.minutes - minutes,
            self.run_minutes - run,
        )
        share = self.schedule.progress(minutes, self.steps_done)
        total = max(self.steps_done, round(self.steps_done / share))  # fewer than the schedule's if time runs out first
        return Progress("training", self.steps_done, total, 60.0 * run, 60.0 * max(0.0, left))

    def _log_loss(self) -> None:
        if not self._recent:
            return
        loss = float(torch.stack(self._recent).mean())
        self._recent.clear()
        if self.trainer.logger is not None:
            figures = {
                "loss": loss,
                "minutes": self.minutes,
                "learning rate": self._optimizer().param_groups[0]["lr"],
                "rendered": self.task.rendered,
            }
            self.trainer.logger.log_metrics(figures, step=self.steps_done)

    def _optimizer(self) -> torch.optim.Optimizer:
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)  # there is one
        return optimizer

    @torch.no_grad()
    def _restore_optimizer(self, optimizer: torch.optim.Optimizer, state: TrainingState) -> None:
        assert self._average is not None
        for slot, (name, parameter) in enumerate(self.network.named_parameters()):
            self._average[slot].copy_(state.average[name])
            if name in state.first_moments:
                # In the memory format of the weights, perhaps channels last: a fused optimiser requires that.
                moments = [torch.empty_like(parameter) for _ in range(2)]
                for moment, stored in zip(moments, (state.first_moments, state.second_moments), strict=True):
                    moment.copy_(stored[name])
                optimizer.state[parameter] = {
                    "step": torch.tensor(float(state.step), device=parameter.device),
                    "exp_avg": moments[0],
                    "exp_avg_sq": moments[1],
                }
