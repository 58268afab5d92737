"""What `qrsc train flow` and `qrsc train fusion` do between their options and their figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.data.dataset import Dataset, index_data
from qrsc.data.layouts import Split
from qrsc.flow import load_flow
from qrsc.flow.raft_rs.estimator import NeuralFlow
from qrsc.flow.raft_rs.network import MULTIPLE
from qrsc.fusion import mean_fusion
from qrsc.fusion.networks import FusionNetwork, NetworkFusion, load_network, network_from_file
from qrsc.learn.flow.endpoint_scores import score_flow, score_table
from qrsc.learn.flow.pairs import FlowPairs, join_pairs
from qrsc.learn.flow.train_flow import WEIGHTS, FlowOptions, train_flow
from qrsc.learn.flow.world_pairs import WorldPairs, training_textures
from qrsc.learn.fusion.alignment import AlignmentMotion
from qrsc.learn.fusion.folders import FRAMES as WINDOW
from qrsc.learn.fusion.folders import FolderSamples, MixedSamples
from qrsc.learn.fusion.losses import TERMS, TermName
from qrsc.learn.fusion.sample_scores import fusion_table, score_fusion
from qrsc.learn.fusion.samples import join_samples
from qrsc.learn.fusion.train_fusion import WEIGHTS as FUSION_WEIGHTS
from qrsc.learn.fusion.train_fusion import FusionOptions, Kind, train_fusion
from qrsc.learn.fusion.world_samples import INNER_SHARES, WorldSamples
from qrsc.learn.trainer.run import own_device, own_rank
from qrsc.names import parse_size
from qrsc.warp import Interpolation
from qrsc.weights import load_weights, read_weights

HELD_OUT_SEED = 12345  # of the pairs that the figures at the end are measured on; training seeds are drawn otherwise
HELD_OUT_PAIRS = 32
HELD_OUT_SAMPLES = 24


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
    scores = {
        name: score_flow(flow, pairs) for name, flow in (("trained", NeuralFlow(network)), ("dis", load_flow("dis")))
    }
    heading = f"end-point errors in pixels on {len(pairs)} pairs that were not trained on:"
    return f"{heading}\n\n{score_table(scores)}\n\nwrote {run.output / WEIGHTS}"


@dataclass(frozen=True)
class FusionRun:
    """The options of the command, by their names."""

    output: Path
    network: Kind
    paper: bool
    minutes: float | None
    total_minutes: float | None
    steps: int | None
    batch: int | None
    size: str
    crop: str
    loss: str | None
    unseen_weight: float | None
    flow: str
    motion: AlignmentMotion
    interpolation: Interpolation
    data: Path | None
    layout: str | None
    split: Split | None
    share: float
    teacher: str | None
    textures: Path | None
    start: str | None
    resume: bool
    peak: float | None
    scenes: int
    pool: int
    uses: float
    compiled: bool | None
    devices: int
    nodes: int
    tensorboard: bool
    seed: int


def train_fusion_network(run: FusionRun, *, quiet: bool) -> str:
    """Trains, and returns a table of PSNR on samples that were not trained on; empty in a second process."""
    _require_lightning()
    if run.resume and run.start is not None:
        raise ValueError("--resume goes on from the state in OUT and --start begins from other weights; give one.")
    if run.paper and run.network != "rsa2":
        raise ValueError("--paper is the recipe of the network rsa2; leave out one of --paper and --network.")
    size, crop = parse_size(run.size), parse_size(run.crop)
    if crop[0] % MULTIPLE or crop[1] % MULTIPLE or crop[0] > size[0] or crop[1] > size[1]:
        raise ValueError(
            f"both sides of --crop must be multiples of {MULTIPLE} and fit into --size; got {run.crop} of {run.size}."
        )
    device = own_device()
    folders = _folder_samples(run, size, device)
    teacher = None if run.teacher is None else _fusion_network(run.teacher)
    textures = training_textures(run.textures, device)
    flow = None if run.flow == "true" else load_flow(run.flow)
    worlds = WorldSamples(textures, size, flow, scenes=run.scenes, motion=run.motion, interpolation=run.interpolation)
    network = train_fusion(
        run.output,
        worlds if folders is None else MixedSamples(folders, worlds, run.share),
        _fusion_options(run, crop, device),
        resume=run.resume,
        start=_first_weights(run.start),
        teacher=teacher,
        logger=_tensorboard(run.output) if run.tensorboard else False,
        progress_bar=not quiet,
    )
    if own_rank(run.devices) > 0:
        return ""
    render = replace(worlds, scenes=4, frames=5, clips=INNER_SHARES)
    generator = torch.Generator().manual_seed(HELD_OUT_SEED)
    samples = join_samples([render(generator) for _ in range(HELD_OUT_SAMPLES // 4)])
    fusions = {"none": None, "mean": mean_fusion, run.network: NetworkFusion(network)}
    scores = {name: score_fusion(fusion, samples) for name, fusion in fusions.items()}
    heading = f"PSNR in dB on {len(samples)} simulated samples that were not trained on:"
    return f"{heading}\n\n{fusion_table(scores)}\n\nwrote {run.output / FUSION_WEIGHTS}"


def _folder_samples(run: FusionRun, size: tuple[int, int], device: torch.device) -> FolderSamples | None:
    """Samples of the data set that was asked for; None if none was."""
    if run.data is None or run.layout is None:
        if run.data is not None or run.layout is not None:
            raise ValueError("--data and --layout belong together: where a data set is, and how it lies there.")
        return None
    if run.flow == "true":
        raise ValueError("the true flow of a data set is not known; name another --flow, or leave out --data.")
    sequences = index_data(run.data, run.layout, split=run.split)
    windows = Dataset(sequences, frames=WINDOW)
    return FolderSamples(
        windows,
        size,
        load_flow(run.flow),
        count=run.scenes,
        device=device,
        motion=run.motion,
        interpolation=run.interpolation,
    )


def _fusion_network(named: str) -> FusionNetwork:
    return network_from_file(Path(named)) if named.endswith(".safetensors") else load_network(named)


def _fusion_options(run: FusionRun, crop: tuple[int, int], device: torch.device) -> FusionOptions:
    recipe = FusionOptions.published() if run.paper else FusionOptions(kind=run.network)
    return replace(
        recipe,
        terms=_terms(run.loss) if run.loss else recipe.terms,
        unseen_weight=recipe.unseen_weight if run.unseen_weight is None else run.unseen_weight,
        batch=run.batch or recipe.batch,
        crop=crop,
        steps=run.steps or recipe.steps,
        total_minutes=run.total_minutes or run.minutes or math.inf,
        minutes=run.minutes or math.inf,
        peak=run.peak or recipe.peak,
        motion=run.motion,
        interpolation=run.interpolation,
        pool=run.pool,
        uses=run.uses,
        compiled=device.type == "cuda" if run.compiled is None else run.compiled,
        seed=run.seed,
        devices=run.devices,
        nodes=run.nodes,
    )


def _terms(text: str) -> tuple[TermName, ...]:
    chosen = tuple(term for name in text.split(",") for term in TERMS if term == name.strip())
    if len(chosen) != len(text.split(",")):
        raise ValueError(f"--loss is one or more of {', '.join(TERMS)}, with commas between them; got {text!r}.")
    return chosen


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
