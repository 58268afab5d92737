"""`train_flow`: from nothing, or from where a run stopped, to weights of the flow network."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from qrsc.flow.network import FlowNetwork, NetworkSize
from qrsc.learn.state import LIST, load_state, save_state
from qrsc.learn.stream import PairPool, Renderer
from qrsc.weights import load_strictly

if TYPE_CHECKING:
    from qrsc.learn.flow_training import FlowTraining

WEIGHTS = "flow.safetensors"
SAVE_EVERY = 3.0  # minutes


@dataclass(frozen=True)
class FlowOptions:
    """How to train. The defaults made the shipped weights.

    Attributes:
        size: of the network.
        batch: pairs a step.
        steps: of the whole training, however many runs it takes.
        total_minutes: of the whole training; the learning rate falls towards the sooner of the two ends.
        minutes: after which this run stops and saves.
        peak: highest learning rate.
        decay: of the running average of the weights.
        pool, uses: pairs kept on the device, and how often each is drawn on average.
        compiled: use `torch.compile`.
        seed: of the first weights and the data.
        devices, nodes: GPUs (or processes) of each machine, and machines. Lightning starts one process for each device
            of a machine, or joins those that torchrun or a cluster has started; each renders its own pairs, and a step
            takes `batch` from each.
    """

    size: NetworkSize = field(default_factory=NetworkSize)
    batch: int = 16
    steps: int = 100_000
    total_minutes: float = math.inf
    minutes: float = math.inf
    peak: float = 5e-4
    decay: float = 0.999
    pool: int = 2048
    uses: float = 2.0
    compiled: bool = False
    seed: int = 0
    devices: int = 1
    nodes: int = 1


def train_flow(
    folder: Path,
    render: Renderer,
    options: FlowOptions,
    *,
    resume: bool = False,
    start: Mapping[str, Tensor] | None = None,
    logger: Any = False,
    progress_bar: bool = True,
) -> FlowNetwork:
    """Train the flow network and save its weights and all that is needed to go on.

    Args:
        folder: gets `flow.safetensors` (the averaged weights, half precision) and the training state.
        render: makes pairs; see `qrsc.learn.stream.PairPool`. If it has an attribute `progress`, that is set to a
            function that tells how much of the training is done.
        options: see there.
        resume: go on from the state in the folder.
        start: weights to start from in place of random ones.
        logger: a Lightning logger, or True for the default one.
        progress_bar: show one.

    Returns:
        The network with the averaged weights.
    """
    import pytorch_lightning as lightning

    from qrsc.learn.flow_training import FlowTraining, Schedule, Steps

    if not resume and (folder / LIST).exists():
        raise FileExistsError(f"{folder} holds a training state; resume it, or name another folder.")
    torch.manual_seed(options.seed)
    network = FlowNetwork(options.size)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    if start is not None:
        load_strictly(network, start, "the weights to start from")
    device = own_device()
    state = load_state(folder) if resume else None
    # A resumed run must not see the first run's pairs again, nor one process those of another.
    seed = options.seed + (state.step if state is not None else 0) + 1_000_003 * own_rank(options.devices)
    with PairPool(render, capacity=options.pool, device=device, uses=options.uses, seed=seed) as pool:
        module = FlowTraining(
            network,
            pool,
            batch=options.batch,
            schedule=Schedule(options.total_minutes, options.steps, options.peak),
            minutes=options.minutes,
            decay=options.decay,
            compiled=options.compiled,
        )
        if state is not None:
            module.restore(state)
        if hasattr(render, "progress"):
            render.progress = lambda: module.schedule.progress(module.minutes, module.steps_done)
        trainer = lightning.Trainer(
            accelerator=device.type,
            devices=options.devices,
            num_nodes=options.nodes,
            strategy="ddp" if options.devices * options.nodes > 1 else "auto",
            precision="bf16-mixed" if device.type == "cuda" else "32-true",
            max_epochs=1,
            gradient_clip_val=1.0,
            logger=logger,
            log_every_n_steps=1,
            enable_checkpointing=False,
            enable_model_summary=False,
            enable_progress_bar=progress_bar,
            callbacks=[_save_now_and_then(folder)],
        )
        trainer.fit(module, train_dataloaders=Steps())
        if trainer.is_global_zero:
            _save(folder, module)
    # Not the network that was trained: its parts may be compiled for the sizes of training, and slow at any other.
    result = FlowNetwork(options.size).to(device)
    load_strictly(result, module.state().average, "the running average")
    return result


def own_rank(devices: int) -> int:
    """Which of all the processes of a training this is, from what its launcher says; 0 if there is one."""
    return int(os.environ.get("NODE_RANK", 0)) * devices + int(os.environ.get("LOCAL_RANK", 0))


def own_device() -> torch.device:
    """Where this process trains: the GPU with its number among those of the machine, or the processor."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))


def _save_now_and_then(folder: Path) -> Any:
    import pytorch_lightning as lightning

    class Saving(lightning.Callback):
        """Saves every few minutes, so that a run that is cut off loses little."""

        saved = 0.0

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if pl_module.minutes - max(self.saved, pl_module.minutes_before) > SAVE_EVERY:
                self.saved = pl_module.minutes
                if trainer.is_global_zero:
                    _save(folder, pl_module)

    return Saving()


def _save(folder: Path, module: FlowTraining) -> None:
    from safetensors.torch import save_file

    state = module.state()
    save_state(folder, state)
    half = {name: value.detach().to("cpu", torch.float16).contiguous() for name, value in state.average.items()}
    save_file(half, folder / WEIGHTS, metadata={"size": json.dumps(asdict(module.network.size))})
