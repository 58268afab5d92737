"""`train_fusion`: from nothing, or from where a run stopped, to weights of a fusion network."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from qrsc.fusion.neural import FusionNetwork, arrange, build_network
from qrsc.learn.fusion_losses import DEFAULT, PUBLISHED, TermName, load_term
from qrsc.learn.fusion_samples import FusionSamples, SamplePool
from qrsc.learn.state import LIST, load_state, save_state
from qrsc.learn.train_flow import SAVE_EVERY, own_device, own_rank
from qrsc.weights import load_strictly

if TYPE_CHECKING:
    from qrsc.learn.fusion_training import FusionTraining

WEIGHTS = "fusion.safetensors"

Kind = Literal["rsa2", "rsa2-lite"]


@dataclass(frozen=True)
class FusionOptions:
    """How to train. The defaults are our own recipe; `FusionOptions.published()` is the paper's.

    Attributes:
        kind: `rsa2` or `rsa2-lite`.
        network: options of the network by their names, where they differ from its defaults.
        terms: losses; all but the first are brought to its scale.
        batch: samples a step and device.
        crop: `(height, width)` of what a step sees of a sample; all of it if None.
        steps: of the whole training, however many runs it takes.
        total_minutes: of the whole training; the learning rate falls towards the sooner of the two ends.
        minutes: after which this run stops and saves.
        peak: highest learning rate.
        stepwise: let the learning rate fall in the paper's steps in place of a cosine.
        decay: of the running average of the weights.
        fewer: show the network also fewer frames than three.
        pool, uses: samples kept on the device, and how often each is drawn on average.
        compiled: use `torch.compile`.
        seed: of the first weights and the data.
        devices, nodes: GPUs of this machine, and machines.
    """

    kind: Kind = "rsa2"
    network: Mapping[str, Any] = field(default_factory=dict)
    terms: tuple[TermName, ...] = DEFAULT
    batch: int = 16
    crop: tuple[int, int] | None = (256, 256)
    steps: int = 100_000
    total_minutes: float = math.inf
    minutes: float = math.inf
    peak: float = 5e-4
    stepwise: bool = False
    decay: float = 0.999
    fewer: bool = True
    pool: int = 1536
    uses: float = 4.0
    compiled: bool = False
    seed: int = 0
    devices: int = 1
    nodes: int = 1

    @classmethod
    def published(cls, samples: int = 20_000) -> FusionOptions:
        """The paper's settings: 80 epochs of batches of 4, Adam's 1e-4, a tenth of it after every 25 epochs.

        Args:
            samples: that make up an epoch; data are rendered without end here.
        """
        return cls(
            network={"validity": False, "prior": False},
            terms=PUBLISHED,
            batch=4,
            steps=80 * samples // 4,
            peak=1e-4,
            stepwise=True,
            fewer=False,
        )


def train_fusion(
    folder: Path,
    render: Callable[[torch.Generator], FusionSamples],
    options: FusionOptions,
    *,
    resume: bool = False,
    start: Mapping[str, Tensor] | None = None,
    logger: Any = False,
    progress_bar: bool = True,
) -> FusionNetwork:
    """Train a fusion network and save its weights and all that is needed to go on.

    Args:
        folder: gets `fusion.safetensors` (the averaged weights, half precision) and the training state.
        render: makes samples; see `qrsc.learn.stream.Pool`. If it has an attribute `progress`, that is set to a
            function that tells how much of the training is done.
        options: see there.
        resume: go on from the state in the folder.
        start: weights to start from in place of first ones.
        logger: a Lightning logger, or True for the default one.
        progress_bar: show one.

    Returns:
        The network with the averaged weights.
    """
    import pytorch_lightning as lightning

    from qrsc.learn.flow_training import Schedule, Steps
    from qrsc.learn.fusion_training import FusionTraining, StepSchedule

    if not resume and (folder / LIST).exists():
        raise FileExistsError(f"{folder} holds a training state; resume it, or name another folder.")
    torch.manual_seed(options.seed)
    network = build_network(options.kind, dict(options.network))
    if start is not None:
        load_strictly(network, start, "the weights to start from")
    device = own_device()
    arrange(network.to(device))
    state = load_state(folder) if resume else None
    # A resumed run must not see the first run's samples again, nor one process those of another.
    seed = options.seed + (state.step if state is not None else 0) + 1_000_003 * own_rank(options.devices)
    with SamplePool(render, capacity=options.pool, device=device, uses=options.uses, seed=seed) as pool:
        pool.crop = options.crop
        module = FusionTraining(
            network,
            pool,
            [load_term(name, device) for name in options.terms],
            batch=options.batch,
            schedule=(StepSchedule if options.stepwise else Schedule)(
                options.total_minutes, options.steps, options.peak
            ),
            minutes=options.minutes,
            decay=options.decay,
            compiled=options.compiled,
            fewer=options.fewer,
            seed=seed,
        )
        if state is not None:
            module.restore(state)
        if hasattr(render, "progress"):
            render.progress = lambda: module.schedule.progress(module.minutes, module.steps_done)
        trainer = lightning.Trainer(
            accelerator=device.type,
            devices=options.devices,
            num_nodes=options.nodes,
            # Not every batch reaches every weight: one frame alone has no use for the masks.
            strategy="ddp_find_unused_parameters_true" if options.devices * options.nodes > 1 else "auto",
            precision="bf16-mixed" if device.type == "cuda" else "32-true",
            max_epochs=1,
            gradient_clip_val=1.0,
            logger=logger,
            log_every_n_steps=1,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=progress_bar,
            callbacks=[_save_now_and_then(folder, options)],
        )
        trainer.fit(module, train_dataloaders=Steps())
        if trainer.is_global_zero:
            _save(folder, module, options)
    result = build_network(options.kind, dict(options.network)).to(device)
    load_strictly(result, module.state().average, "the running average")
    return result


def _save_now_and_then(folder: Path, options: FusionOptions) -> Any:
    import pytorch_lightning as lightning

    class Saving(lightning.Callback):
        """Saves every few minutes, so that a run that is cut off loses little."""

        saved = 0.0

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if pl_module.minutes - max(self.saved, pl_module.minutes_before) > SAVE_EVERY:
                self.saved = pl_module.minutes
                if trainer.is_global_zero:
                    _save(folder, pl_module, options)

    return Saving()


def _save(folder: Path, module: FusionTraining, options: FusionOptions) -> None:
    from safetensors.torch import save_file

    state = module.state()
    save_state(folder, state)
    network: Any = module.network
    half = {name: value.detach().to("cpu", torch.float16).contiguous() for name, value in state.average.items()}
    described = {"kind": options.kind, "options": json.dumps(asdict(network.options))}
    save_file(half, folder / WEIGHTS, metadata=described)
