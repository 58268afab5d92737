"""What every training run has in common: its process and device, its data's seed, Lightning, and saving."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from qrsc.learn.trainer.state import LIST, TrainingState, load_state, save_state

if TYPE_CHECKING:
    from qrsc.learn.flow.module import FlowTraining

SAVE_EVERY = 3.0  # minutes


def own_rank(devices: int) -> int:
    """Which of all the processes of a training this is, from what its launcher says; 0 if there is one."""
    return int(os.environ.get("NODE_RANK", 0)) * devices + int(os.environ.get("LOCAL_RANK", 0))


def own_device() -> torch.device:
    """Where this process trains: the GPU with its number among those of the machine, or the processor."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))


def first_state(folder: Path, resume: bool) -> TrainingState | None:
    """The state to go on from; None for a new run, whose folder must not hold one."""
    if resume:
        return load_state(folder)
    if (folder / LIST).exists():
        raise FileExistsError(f"{folder} holds a training state; resume it, or name another folder.")
    return None


def data_seed(seed: int, state: TrainingState | None, devices: int) -> int:
    """A resumed run must not see the first run's data again, nor one process those of another."""
    return seed + (state.step if state is not None else 0) + 1_000_003 * own_rank(devices)


def fit(
    module: FlowTraining,
    weights: Path,
    notes: Mapping[str, str],
    *,
    devices: int,
    nodes: int,
    several: str = "ddp",
    logger: Any = False,
    progress_bar: bool = True,
) -> None:
    """Run a training to its end, saving every few minutes and at the end.

    Args:
        module: what to train.
        weights: file for the averaged weights, half precision; the training state goes beside it.
        notes: what the file says about itself.
        devices, nodes: GPUs (or processes) of each machine, and machines.
        several: Lightning's strategy where there is more than one process.
        logger: a Lightning logger, or True for the default one.
        progress_bar: show one.
    """
    import pytorch_lightning as lightning

    from qrsc.learn.flow.module import Steps

    device = own_device()
    trainer = lightning.Trainer(
        accelerator=device.type,
        devices=devices,
        num_nodes=nodes,
        strategy=several if devices * nodes > 1 else "auto",
        precision="bf16-mixed" if device.type == "cuda" else "32-true",
        max_epochs=1,
        gradient_clip_val=1.0,
        logger=logger,
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=progress_bar,
        callbacks=[_save_now_and_then(weights, notes)],
    )
    trainer.fit(module, train_dataloaders=Steps())
    if trainer.is_global_zero:
        _save(module, weights, notes)


def _save_now_and_then(weights: Path, notes: Mapping[str, str]) -> Any:
    import pytorch_lightning as lightning

    class Saving(lightning.Callback):
        """Saves every few minutes, so that a run that is cut off loses little."""

        saved = 0.0

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if pl_module.minutes - max(self.saved, pl_module.minutes_before) > SAVE_EVERY:
                self.saved = pl_module.minutes
                if trainer.is_global_zero:
                    _save(pl_module, weights, notes)

    return Saving()


def _save(module: FlowTraining, weights: Path, notes: Mapping[str, str]) -> None:
    from safetensors.torch import save_file

    state = module.state()
    save_state(weights.parent, state)
    half = {name: value.detach().to("cpu", torch.float16).contiguous() for name, value in state.average.items()}
    save_file(half, weights, metadata=dict(notes))
