"""A training run: its process and device, the seed of its data, Lightning, and saving."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from qrsc.backend.progress import ProgressCallback
from qrsc.learn.trainer.state import LIST, TrainingState, load_state, save_state
from qrsc.learn.trainer.training_options import TrainingOptions
from qrsc.weights import load_weights, read_weights

if TYPE_CHECKING:
    from qrsc.learn.trainer.lightning_module import NetworkTraining, TrainingTask

SAVE_EVERY = 3.0  # minutes


def require_lightning() -> None:
    """Raise a `ValueError` that names the extra to install where Lightning is missing."""
    if find_spec("pytorch_lightning") is None:
        raise ValueError("training needs Lightning; install it with: pip install 'qrsc[train]'")


def own_rank(devices: int) -> int:
    """The rank of this process among all of the training, from the launcher's environment; 0 if there is one."""
    return int(os.environ.get("NODE_RANK", 0)) * devices + int(os.environ.get("LOCAL_RANK", 0))


def own_device() -> torch.device:
    """The device of this process: the GPU of its local rank, or the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))


def use_compiler(options: TrainingOptions, device: torch.device) -> bool:
    """Whether `torch.compile` is used: as the options say, otherwise on a GPU only."""
    return device.type == "cuda" if options.compiled is None else options.compiled


def initial_weights(start: str | None) -> Mapping[str, Tensor] | None:
    """Weights by the name that they are shipped under, or from a safetensors file; None if there is no name."""
    if start is None:
        return None
    return read_weights(Path(start)) if start.endswith(".safetensors") else load_weights(start)


def tensorboard_logger(folder: Path) -> Any:
    """A Lightning logger that writes into the folder.

    Raises:
        ValueError: the package tensorboard is missing.
    """
    try:
        from pytorch_lightning.loggers import TensorBoardLogger

        return TensorBoardLogger(folder, name="tensorboard")
    except ImportError as error:
        raise ValueError(
            "--tensorboard needs the package tensorboard; install it with: pip install tensorboard"
        ) from error


def state_to_resume(folder: Path, resume: bool) -> TrainingState | None:
    """The state to resume from; None for a new run.

    Raises:
        FileExistsError: the folder of a new run holds a training state.
        WeightsError: there is no state to resume, or it is damaged.
    """
    if resume:
        return load_state(folder)
    if (folder / LIST).exists():
        raise FileExistsError(f"{folder} holds a training state; resume it, or name another folder.")
    return None


def data_seed(seed: int, state: TrainingState | None, devices: int) -> int:
    """The seed of the data: a resumed run renders other samples than the runs before it, and so does each process."""
    return seed + (state.step if state is not None else 0) + 1_000_003 * own_rank(devices)


@dataclass(frozen=True)
class WeightsFile:
    """The file that a training writes.

    Attributes:
        path: of the file; the training state is saved beside it.
        notes: its metadata.
    """

    path: Path
    notes: Mapping[str, str]


def fit(
    task: TrainingTask,
    options: TrainingOptions,
    weights: WeightsFile,
    state: TrainingState | None,
    *,
    strategy: str = "ddp",
    logger: Any = False,
    before_step: Callable[[float], None] | None = None,
    progress: ProgressCallback | None = None,
) -> dict[str, Tensor]:
    """Run a training to its end. Saves every few minutes and at the end.

    Args:
        task: the network and its loss.
        options: length, learning rate, devices.
        weights: file for the moving average of the weights, in half precision.
        state: to resume from; None for a new run.
        strategy: of Lightning, where there is more than one process.
        logger: a Lightning logger, or True for the default one.
        before_step: called before each step with the share of the training that is done, 0 to 1.
        progress: called after each step, in the first process.

    Returns:
        The exponential moving average of the weights, float32, by name.
    """
    import pytorch_lightning as lightning

    from qrsc.learn.trainer.lightning_module import EndlessSteps, NetworkTraining

    device = own_device()
    module = NetworkTraining(
        task,
        options.schedule(),
        minutes=options.run_minutes,
        decay=options.decay,
        before_step=before_step,
        progress=progress,
    )
    if state is not None:
        module.restore(state)
    trainer = lightning.Trainer(
        accelerator=device.type,
        devices=options.devices,
        num_nodes=options.nodes,
        strategy=strategy if options.devices * options.nodes > 1 else "auto",
        precision="bf16-mixed" if device.type == "cuda" else "32-true",
        max_epochs=1,
        gradient_clip_val=1.0,
        logger=logger,
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        callbacks=[_periodic_saving(weights)],
    )
    trainer.fit(module, train_dataloaders=EndlessSteps())
    if trainer.is_global_zero:
        _save(module, weights)
    return module.state().average


def _periodic_saving(weights: WeightsFile) -> Any:
    import pytorch_lightning as lightning

    class Saving(lightning.Callback):
        """Saves every few minutes, so that an interrupted run loses little."""

        saved = 0.0

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if pl_module.minutes - max(self.saved, pl_module.minutes_before) > SAVE_EVERY:
                self.saved = pl_module.minutes
                if trainer.is_global_zero:
                    _save(pl_module, weights)

    return Saving()


def _save(module: NetworkTraining, weights: WeightsFile) -> None:
    from safetensors.torch import save_file

    state = module.state()
    save_state(weights.path.parent, state)
    half = {name: value.detach().to("cpu", torch.float16).contiguous() for name, value in state.average.items()}
    save_file(half, weights.path, metadata=dict(weights.notes))
