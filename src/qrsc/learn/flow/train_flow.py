"""`train_flow`: from nothing, or from where a run stopped, to weights of the flow network."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.flow.raft_rs.network import FlowNetwork, NetworkSize
from qrsc.learn.pool.pool import PairPool, Renderer
from qrsc.learn.trainer.run import data_seed, first_state, fit, own_device
from qrsc.weights import load_strictly

WEIGHTS = "flow.safetensors"


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
        render: makes pairs; see `qrsc.learn.pool.pool.PairPool`. If it has an attribute `progress`, that is set to a
            function that tells how much of the training is done.
        options: see there.
        resume: go on from the state in the folder.
        start: weights to start from in place of random ones.
        logger: a Lightning logger, or True for the default one.
        progress_bar: show one.

    Returns:
        The network with the averaged weights.
    """
    from qrsc.learn.flow.module import FlowTraining, Schedule

    state = first_state(folder, resume)
    torch.manual_seed(options.seed)
    network = FlowNetwork(options.size)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    if start is not None:
        load_strictly(network, start, "the weights to start from")
    device = own_device()
    seed = data_seed(options.seed, state, options.devices)
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
        fit(
            module,
            folder / WEIGHTS,
            {"size": json.dumps(asdict(options.size))},
            devices=options.devices,
            nodes=options.nodes,
            logger=logger,
            progress_bar=progress_bar,
        )
    # Not the network that was trained: its parts may be compiled for the sizes of training, and slow at any other.
    result = FlowNetwork(options.size).to(device)
    load_strictly(result, module.state().average, "the running average")
    return result
