"""One network in training: its optimiser, learning rate, and the moving average of its weights."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

from qrsc.baselines.learned.window import Baseline, FeatureLoss
from qrsc.baselines.training.samples import WindowSamples
from qrsc.fusion.networks import arrange
from qrsc.learn.trainer.schedule import Schedule

RAMP = 100  # steps of a run over which its learning rate rises: a resumed run starts without moments


class Learner:
    """A network, trained in place.

    Nothing in a step waits for the device, so that `qrsc.learn.trainer.recorded_step` can record it.

    Args:
        name: of the network.
        network: on its device.
        schedule: its learning rate.
        clip: largest norm of its gradient.
        decay: of the moving average, per step.
        steps: taken before this run.
    """

    def __init__(
        self, name: str, network: Baseline, schedule: Schedule, *, clip: float, decay: float, steps: int = 0
    ) -> None:
        self.name, self.network, self.schedule = name, network, schedule
        self.clip, self.decay = clip, decay
        self.steps, self.taken = steps, 0
        arrange(network)
        self.weights = list(network.parameters())
        device = self.weights[0].device
        # What changes from step to step is on the device.
        self.rate, self.share = torch.zeros(2, device=device).unbind()
        self.losses, self.finite, self.left_out = torch.zeros(3, device=device).unbind()
        self.optimizer = torch.optim.AdamW(
            self.weights, lr=self.rate, weight_decay=1e-5, fused=True, capturable=device.type == "cuda"
        )
        self.average = [weight.detach().clone() for weight in self.weights]

    def prepare(self, progress: float) -> None:
        """Set the learning rate of the next step, and how much of the weights goes into their average.

        Args:
            progress: share of the training that is done.
        """
        self.steps += 1
        self.taken += 1
        self.rate.fill_(self.schedule.learning_rate(progress) * min(1.0, self.taken / RAMP))
        # A shorter average in the first steps, or the random initialisation would stay in it.
        self.share.fill_(1.0 - min(self.decay, (1 + self.steps) / (10 + self.steps)))

    def step(self, samples: WindowSamples, features: FeatureLoss, *, mixed: bool) -> Tensor:
        """Take a step on a batch, or none where loss or gradient are not finite.

        Returns the loss and the norm of the gradient, `[2]`.

        Args:
            mixed: use bfloat16 where it does no harm.
        """
        device = samples.gamma.device.type
        self.optimizer.zero_grad(set_to_none=True)  # what a recording that failed may have left
        with torch.autocast(device, torch.bfloat16, enabled=mixed, cache_enabled=False):
            loss = self.network.loss(samples.window().shown(self.network.inputs), samples.truths(), features)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's stubs
        norm = torch.nn.utils.clip_grad_norm_(self.weights, self.clip)
        loss = loss.detach().float()
        finite = loss.isfinite() & norm.isfinite()
        # The protocol of torch's own scaling of gradients: where this is 1, the step changes nothing.
        self.optimizer.found_inf = (~finite).float()  # type: ignore[attr-defined]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            change = torch._foreach_sub([weight.detach() for weight in self.weights], self.average)
            torch._foreach_mul_(change, torch.where(finite, self.share, torch.zeros_like(self.share)))
            torch._foreach_add_(self.average, change)
            self.losses += torch.where(finite, loss, torch.zeros_like(loss))
            self.finite += finite
            self.left_out += ~finite
        return torch.stack([loss, norm.float()])

    @property
    def skipped(self) -> int:
        """Steps that were left out in this run because loss or gradient were not finite."""
        return int(self.left_out)

    def mean_loss(self) -> float | None:
        """Mean of the finite losses since it was last asked for; None if there is none."""
        total, count = torch.stack([self.losses, self.finite]).tolist()
        self.losses.zero_()
        self.finite.zero_()
        return total / count if count else None

    def averaged(self) -> dict[str, Tensor]:
        """The moving average of the weights, by name."""
        return {name: value for (name, _), value in zip(self.network.named_parameters(), self.average, strict=True)}

    def save(self, folder: Path, minutes: float, batch: int) -> Path:
        """Write the moving average in half precision, with what a run needs to go on."""
        from safetensors.torch import save_file

        path = weights_file(folder, self.name)
        partial = path.with_suffix(".partial")
        half = {name: value.to("cpu", torch.float16).contiguous() for name, value in self.averaged().items()}
        notes = {
            "baseline": self.name,
            "options": json.dumps({"width": self.network.width}),
            "training": json.dumps(
                {"steps": self.steps, "minutes": round(minutes, 3), "batch": batch, "peak": self.schedule.peak}
            ),
        }
        save_file(half, partial, metadata=notes)
        partial.replace(path)
        return path


def weights_file(folder: Path, name: str) -> Path:
    """Where the weights of a network are kept."""
    return folder / f"{name}.safetensors"
