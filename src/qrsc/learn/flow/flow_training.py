"""`train_flow`: the training of the flow network, from options to weights and scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.backend.progress import ProgressCallback
from qrsc.flow import load_flow
from qrsc.flow.raft_rs.estimator import NeuralFlow
from qrsc.flow.raft_rs.network import MULTIPLE, FlowNetwork, NetworkSize
from qrsc.learn.flow.endpoint_scores import FlowScore, score_flow, score_table
from qrsc.learn.flow.flow_options import FlowTrainingOptions
from qrsc.learn.flow.flow_task import FlowTask
from qrsc.learn.flow.pairs import PairPool, PairSource, join_pairs
from qrsc.learn.flow.world_pairs import WorldPairs
from qrsc.learn.pool.world_settings import training_textures
from qrsc.learn.trainer import run
from qrsc.learn.trainer.result import TrainingResult
from qrsc.weights import load_strictly

WEIGHTS = "flow.safetensors"
HELD_OUT_SEED = 12345  # of the pairs that are scored after the training; training seeds are drawn in another way
HELD_OUT_PAIRS = 32


def train_flow(
    output: Path, options: FlowTrainingOptions | None = None, *, progress: ProgressCallback | None = None
) -> TrainingResult[FlowNetwork, FlowScore] | None:
    """Train the flow network on random scenes that are rendered during the training.

    Args:
        output: folder; gets `flow.safetensors` (half precision) and the training state.
        options: see there; None for the defaults.
        progress: called after each step.

    Returns:
        The network, with its end-point errors (`trained`) and those of `dis` on held-out pairs; None in all processes
        but the first.

    Raises:
        ValueError: an option is wrong, or Lightning is missing.
        FileExistsError: the folder holds a training state and `resume` is not set.
    """
    options = options or FlowTrainingOptions()
    run.require_lightning()
    height, width = options.size
    if height % MULTIPLE or width % MULTIPLE:
        raise ValueError(f"both sides of --size must be multiples of {MULTIPLE}; got {width}x{height}.")
    textures = training_textures(options.textures, run.own_device())
    network = fit_flow(
        output,
        WorldPairs(textures, options.size, scenes=options.scenes),
        options,
        start=run.initial_weights(options.start),
        logger=run.tensorboard_logger(output) if options.tensorboard else False,
        progress=progress,
    )
    if run.own_rank(options.devices) > 0:
        return None
    render = WorldPairs(textures, options.size, scenes=4, frames=2)
    generator = torch.Generator().manual_seed(HELD_OUT_SEED)
    pairs = join_pairs([render(generator) for _ in range(HELD_OUT_PAIRS // render.scenes)])
    estimators = {"trained": NeuralFlow(network), "dis": load_flow("dis")}
    scores = {name: score_flow(flow, pairs) for name, flow in estimators.items()}
    heading = f"end-point errors in pixels on {len(pairs)} pairs that were not trained on:"
    return TrainingResult(network, output / WEIGHTS, len(pairs), scores, heading, score_table(scores))


def fit_flow(
    folder: Path,
    render: PairSource,
    options: FlowTrainingOptions,
    *,
    start: Mapping[str, Tensor] | None = None,
    logger: Any = False,
    progress: ProgressCallback | None = None,
) -> FlowNetwork:
    """Train the flow network on pairs from any source, and save its weights and the training state.

    Args:
        folder: gets `flow.safetensors` (half precision) and the training state.
        render: returns new pairs; see `qrsc.learn.pool.pool.Pool`. The speeds of `WorldPairs` grow with the training.
        options: those that describe data or initial weights are not read.
        start: initial weights; random ones if None.
        logger: a Lightning logger, or True for the default one.
        progress: called after each step.

    Returns:
        The network with the exponential moving average of its weights.
    """
    state = run.state_to_resume(folder, options.resume)
    torch.manual_seed(options.seed)
    size = NetworkSize(**options.architecture)
    network = FlowNetwork(size)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # missing in torch's stubs
    if start is not None:
        load_strictly(network, start, "the weights to start from")

    def follow(share: float) -> None:
        if isinstance(render, WorldPairs):
            render.progress = share

    follow(0.0 if state is None else options.schedule().progress(state.minutes, state.step))
    device = run.own_device()
    seed = run.data_seed(options.seed, state, options.devices)
    with PairPool(render, capacity=options.pool, device=device, uses=options.uses, seed=seed) as pool:
        average = run.fit(
            FlowTask(network, pool, batch=options.batch, compiled=run.use_compiler(options, device)),
            options,
            run.WeightsFile(folder / WEIGHTS, {"size": json.dumps(asdict(size))}),
            state,
            logger=logger,
            before_step=follow,
            progress=progress,
        )
    # A new network: parts of the trained one may be compiled for the sizes of the training, and slow at any other.
    result = FlowNetwork(size).to(device)
    load_strictly(result, average, "the exponential moving average")
    return result
