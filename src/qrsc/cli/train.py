"""What `qrsc train flow` does between its options and its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.cli.demo import parse_size
from qrsc.flow import load_flow
from qrsc.flow.network import MULTIPLE
from qrsc.flow.neural import NeuralFlow
from qrsc.learn.pairs import FlowPairs, join_pairs
from qrsc.learn.rendering import WorldPairs, training_textures
from qrsc.learn.scores import score_flow, score_table
from qrsc.learn.train_flow import WEIGHTS, FlowOptions, own_device, own_rank, train_flow
from qrsc.weights import load_weights, read_weights

HELD_OUT_SEED = 12345  # of the pairs that the figures at the end are measured on; training seeds are drawn otherwise
HELD_OUT_PAIRS = 32


@dataclass(frozen=True)
class FlowRun:
    """The options of the command, by their names."""

    output: Path
    minutes: float | None
    total_minutes: float | None
    steps: int
    batch: int
    size: str
    textures: Path | None
    start: str | None
    resume: bool
    peak: float
    scenes: int
    pool: int
    uses: float
    compiled: bool | None
    devices: int
    nodes: int
    tensorboard: bool
    seed: int


def train_flow_network(run: FlowRun, *, quiet: bool) -> str:
    """Trains, and returns a table of end-point errors on pairs that were not trained on; empty in a second process."""
    _require_lightning()
    height, width = parse_size(run.size)
    if height % MULTIPLE or width % MULTIPLE:
        raise ValueError(f"both sides of --size must be multiples of {MULTIPLE}; got {run.size}.")
    if run.resume and run.start is not None:
        raise ValueError("--resume goes on from the state in OUT and --start begins from other weights; give one.")
    device = own_device()
    textures = training_textures(run.textures, device)
    render = WorldPairs(textures, (height, width), scenes=run.scenes)
    options = FlowOptions(
        batch=run.batch,
        steps=run.steps,
        total_minutes=run.total_minutes or run.minutes or math.inf,
        minutes=run.minutes or math.inf,
        peak=run.peak,
        pool=run.pool,
        uses=run.uses,
        compiled=device.type == "cuda" if run.compiled is None else run.compiled,
        seed=run.seed,
        devices=run.devices,
        nodes=run.nodes,
    )
    network = train_flow(
        run.output,
        render,
        options,
        resume=run.resume,
        start=_first_weights(run.start),
        logger=_tensorboard(run.output) if run.tensorboard else False,
        progress_bar=not quiet,
    )
    if own_rank(run.devices) > 0:
        return ""
    pairs = _held_out(WorldPairs(textures, (height, width), scenes=4, frames=2))
    scores = {name: score_flow(flow, pairs) for name, flow in (("trained", NeuralFlow(network)), ("dis", load_flow()))}
    heading = f"end-point errors in pixels on {len(pairs)} pairs that were not trained on:"
    return f"{heading}\n\n{score_table(scores)}\n\nwrote {run.output / WEIGHTS}"


def _held_out(render: WorldPairs) -> FlowPairs:
    generator = torch.Generator().manual_seed(HELD_OUT_SEED)
    return join_pairs([render(generator) for _ in range(HELD_OUT_PAIRS // render.scenes)])


def _first_weights(start: str | None) -> Mapping[str, Tensor] | None:
    if start is None:
        return None
    return read_weights(Path(start)) if start.endswith(".safetensors") else load_weights(start)


def _tensorboard(folder: Path) -> Any:
    try:
        from pytorch_lightning.loggers import TensorBoardLogger

        return TensorBoardLogger(folder, name="tensorboard")
    except ImportError as error:
        raise ValueError(
            "--tensorboard needs the package tensorboard; install it with: pip install tensorboard"
        ) from error


def _require_lightning() -> None:
    from importlib.util import find_spec

    if find_spec("pytorch_lightning") is None:
        raise ValueError("training needs Lightning; install it with: pip install 'qrsc[train]'")
