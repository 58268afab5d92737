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

    Args:
        name: of the network.
        network: on its device.
        schedule: its learning rate.
        clip: largest norm of its gradient.
        decay: of the moving average, per step.
        steps: taken before this run.

    Attributes:
        skipped: steps that were left out in this run because loss or gradient were not finite.
    """

    def __init__(
        self, name: str, network: Baseline, schedule: Schedule, *, clip: float, decay: float, steps: int = 0
    ) -> None:
        self.name, self.network, self.schedule = name, network, schedule
        self.clip, self.decay = clip, decay
        self.steps, self.taken, self.skipped = steps, 0, 0
        arrange(network)
        self.weights = list(network.parameters())
        # One launch for all weights on a GPU, where the step would otherwise wait for the CPU.
        self.optimizer = torch.optim.AdamW(
            self.weights, lr=schedule.peak, weight_decay=1e-5, fused=self.weights[0].is_cuda
        )
        self.average = [weight.detach().clone() for weight in self.weights]

    def grade(self, samples: WindowSamples, features: FeatureLoss, *, mixed: bool) -> Tensor:
        """Find the gradient on a batch, and clip its norm.

        Returns the loss and the norm as it was, `[2]`, without waiting for them.

        Args:
            mixed: use bfloat16 where it does no harm.
        """
        device = samples.gamma.device.type
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=mixed):
            loss = self.network.loss(samples.window().shown(self.network.inputs), samples.truths(), features)
        loss.backward()  # type: ignore[no-untyped-call]  # torch's stubs
        norm = torch.nn.utils.clip_grad_norm_(self.weights, self.clip)
        return torch.stack([loss.detach().float(), norm.float()])

    def step(self, norm: float, progress: float) -> bool:
        """Take a step along the gradient, or none where it is not finite; says whether one was taken.

        Args:
            norm: of the gradient, from `grade`.
            progress: share of the training that is done.
        """
        self.steps += 1
        self.taken += 1
        if not norm < float("inf"):  # neither for NaN
            self.skipped += 1
            return False
        rate = self.schedule.learning_rate(progress) * min(1.0, self.taken / RAMP)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        # A shorter average in the first steps, or the random initialisation would stay in it.
        weight = 1.0 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(self.average, [each.detach() for each in self.weights], weight)
        return True

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
