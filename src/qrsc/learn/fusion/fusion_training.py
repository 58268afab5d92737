"""`train_fusion`: the training of a fusion network, from options to weights and scores."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.backend.progress import ProgressCallback
from qrsc.data.dataset import Dataset, index_data
from qrsc.flow import load_flow
from qrsc.fusion import mean_fusion
from qrsc.fusion.blocks import MULTIPLE
from qrsc.fusion.networks import (
    FusionNetwork,
    NetworkFusion,
    arrange,
    build_network,
    load_network,
    network_from_file,
)
from qrsc.learn.fusion.folders import FRAMES, FolderSamples, MixedSamples
from qrsc.learn.fusion.fusion_options import FusionTrainingOptions
from qrsc.learn.fusion.fusion_task import FusionTask
from qrsc.learn.fusion.losses import DEFAULT, TERMS, load_term
from qrsc.learn.fusion.sample_scores import FusionScore, Measures, fusion_table, score_fusion
from qrsc.learn.fusion.samples import SamplePool, SampleSource, join_samples
from qrsc.learn.fusion.world_samples import INNER_SHARES, WorldSamples
from qrsc.learn.pool.world_settings import training_textures
from qrsc.learn.trainer import run
from qrsc.learn.trainer.result import TrainingResult
from qrsc.weights import load_strictly

WEIGHTS = "fusion.safetensors"
HELD_OUT_SEED = 12345  # of the samples that are scored after the training; training seeds are drawn in another way
HELD_OUT_SAMPLES = 24
# Half of the samples have the noise of a camera, another one in the truth; nothing is compressed.
GRAIN: Mapping[str, Any] = {"grainy_truth": True, "effects": ("blur", "noise"), "noise": 0.0}


def train_fusion(
    output: Path,
    options: FusionTrainingOptions | None = None,
    *,
    measures: Measures | None = None,
    progress: ProgressCallback | None = None,
) -> TrainingResult[FusionNetwork, FusionScore] | None:
    """Train a fusion network on frames of random scenes, or of a data set, that are corrected during the training.

    Args:
        output: folder; gets `fusion.safetensors` (half precision) and the training state.
        options, progress: as for `train_flow`.
        measures: what the network is scored by besides PSNR; `qrsc.evaluate.metrics.sample_measures` has SSIM, detail
            and ST-LPIPS.

    Returns:
        The network, with its scores on held-out simulated samples, beside those of the centre frame alone (`none`) and
        of the mean; None in all processes but the first.

    Raises:
        ValueError, FileExistsError: as for `train_flow`.
    """
    options = options or FusionTrainingOptions()
    run.require_lightning()
    _require_crop_and_terms(options)
    device = run.own_device()
    folders = _folder_samples(options, device)
    teacher = None if options.teacher is None else _fusion_network(options.teacher)
    worlds = rendered_worlds(options, device)
    network = fit_fusion(
        output,
        worlds if folders is None else MixedSamples(folders, worlds, options.share),
        options,
        start=run.initial_weights(options.start),
        teacher=teacher,
        logger=run.tensorboard_logger(output) if options.tensorboard else False,
        progress=progress,
    )
    if run.own_rank(options.devices) > 0:
        return None
    render = replace(worlds, scenes=4, frames=5, clips=INNER_SHARES)
    generator = torch.Generator().manual_seed(HELD_OUT_SEED)
    samples = join_samples([render(generator) for _ in range(HELD_OUT_SAMPLES // 4)])
    fusions = {"none": None, "mean": mean_fusion, options.network: NetworkFusion(network)}
    scores = {name: score_fusion(fusion, samples, measures=measures) for name, fusion in fusions.items()}
    heading = f"PSNR in dB on {len(samples)} simulated samples that were not trained on:"
    return TrainingResult(network, output / WEIGHTS, len(samples), scores, heading, fusion_table(scores))


def rendered_worlds(options: FusionTrainingOptions, device: torch.device) -> WorldSamples:
    """The random scenes that the options describe."""
    worlds = WorldSamples(
        training_textures(options.textures, device),
        options.size,
        None if options.flow == "true" else load_flow(options.flow),
        scenes=options.scenes,
        motion=options.motion,
        interpolation=options.interpolation,
    )
    return replace(worlds, **GRAIN) if options.keep_grain else worlds


def fit_fusion(
    folder: Path,
    render: SampleSource,
    options: FusionTrainingOptions,
    *,
    start: Mapping[str, Tensor] | None = None,
    teacher: FusionNetwork | None = None,
    logger: Any = False,
    progress: ProgressCallback | None = None,
) -> FusionNetwork:
    """Train a fusion network on samples from any source, and save its weights and the training state.

    Args:
        folder: gets `fusion.safetensors` (half precision) and the training state. The file notes the motion model and
            the interpolation of the options, so that frames are prepared in the same way when the weights are used.
        render: returns new samples; see `qrsc.learn.pool.pool.Pool`.
        options: those that describe data, initial weights or the teacher are not read.
        start: initial weights; random ones if None.
        teacher: a trained network whose results are a second target.
        logger: a Lightning logger, or True for the default one.
        progress: called after each step.

    Returns:
        The network with the exponential moving average of its weights.
    """
    state = run.state_to_resume(folder, options.resume)
    torch.manual_seed(options.seed)
    network = build_network(options.network, dict(options.architecture))
    if start is not None:
        load_strictly(network, start, "the weights to start from")
    device = run.own_device()
    arrange(network.to(device))
    seed = run.data_seed(options.seed, state, options.devices)
    with SamplePool(render, capacity=options.pool, device=device, uses=options.uses, seed=seed) as pool:
        pool.crop = options.crop
        task = FusionTask(
            network,
            pool,
            [load_term(name, device) for name in options.loss or DEFAULT],
            batch=options.batch,
            scaling=options.scaling,
            unseen_weight=options.unseen_weight,
            compiled=run.use_compiler(options, device),
            fewer=options.fewer,
            teacher=None if teacher is None else teacher.to(device),
            teacher_weight=options.teacher_weight,
            seed=seed,
        )
        notes = {
            "kind": options.network,
            "options": json.dumps(asdict(network.options)),
            "motion": options.motion,
            "interpolation": options.interpolation,
        }
        average = run.fit(
            task,
            options,
            run.WeightsFile(folder / WEIGHTS, notes),
            state,
            # Not every batch uses every weight: with one frame the masks have no effect.
            strategy="ddp_find_unused_parameters_true",
            logger=logger,
            progress=progress,
        )
    # A new network: the trained one may be compiled for the size of the crops.
    result = build_network(options.network, dict(options.architecture)).to(device)
    load_strictly(result, average, "the exponential moving average")
    return result


def _require_crop_and_terms(options: FusionTrainingOptions) -> None:
    size, crop = options.size, options.crop or options.size
    if crop[0] % MULTIPLE or crop[1] % MULTIPLE or crop[0] > size[0] or crop[1] > size[1]:
        raise ValueError(
            f"both sides of --crop must be multiples of {MULTIPLE} and fit into --size; got {crop[1]}x{crop[0]} of "
            f"{size[1]}x{size[0]}."
        )
    named = options.loss
    if named is not None and (not named or not set(named) <= set(TERMS)):
        raise ValueError(
            f"--loss is one or more of {', '.join(TERMS)}, with commas between them; got {','.join(named)!r}."
        )


def _folder_samples(options: FusionTrainingOptions, device: torch.device) -> FolderSamples | None:
    """Samples of the data set of the options; None if they name none."""
    if options.data is None or options.layout is None:
        if options.data is not None or options.layout is not None:
            raise ValueError("--data and --layout belong together: where a data set is, and how it lies there.")
        return None
    if options.flow == "true":
        raise ValueError("the true flow of a data set is not known; name another --flow, or leave out --data.")
    sequences = index_data(options.data, options.layout, split=options.split)
    return FolderSamples(
        Dataset(sequences, frames=FRAMES),
        options.size,
        load_flow(options.flow),
        count=options.scenes,
        device=device,
        motion=options.motion,
        interpolation=options.interpolation,
    )


def _fusion_network(named: str) -> FusionNetwork:
    """A fusion network by the name that it is shipped under, or from a file of its training."""
    return network_from_file(Path(named)) if named.endswith(".safetensors") else load_network(named)
