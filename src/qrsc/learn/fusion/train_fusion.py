"""`train_fusion`: from nothing, or from where a run stopped, to weights of a fusion network."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.fusion.networks import FusionNetwork, arrange, build_network
from qrsc.learn.fusion.alignment import AlignmentMotion
from qrsc.learn.fusion.losses import DEFAULT, PUBLISHED, Scaling, TermName, load_term
from qrsc.learn.fusion.samples import FusionSamples, SamplePool
from qrsc.learn.trainer.run import data_seed, first_state, fit, own_device
from qrsc.names import FusionNetworkName
from qrsc.warp import Interpolation
from qrsc.weights import load_strictly

WEIGHTS = "fusion.safetensors"

Kind = FusionNetworkName


@dataclass(frozen=True)
class FusionOptions:
    """How to train. The defaults are our own recipe; `FusionOptions.published()` is the paper's.

    Attributes:
        kind: `rsa2` or `rsa2-lite`.
        network: options of the network by their names, where they differ from its defaults.
        terms: losses.
        scaling: `balanced` brings all losses but the first to its scale, as the paper has it; `proportional` adds up
            the logarithms of every sample's losses.
        unseen_weight: how much the error counts beside a term where the centre frame does not show the pixel.
        batch: samples a step and device.
        crop: `(height, width)` of what a step sees of a sample; all of it if None.
        steps: of the whole training, however many runs it takes.
        total_minutes: of the whole training; the learning rate falls towards the sooner of the two ends.
        minutes: after which this run stops and saves.
        peak: highest learning rate.
        stepwise: let the learning rate fall in the paper's steps in place of a cosine.
        decay: of the running average of the weights.
        fewer: show the network also fewer frames than three.
        teacher_weight: how much a teacher counts beside the truth.
        motion, interpolation: what the samples' frames were brought to the instant by, and how they were sampled; noted
            beside the weights, so that frames are prepared alike when they are used.
        pool, uses: samples kept on the device, and how often each is drawn on average.
        compiled: use `torch.compile`.
        seed: of the first weights and the data.
        devices, nodes: GPUs of this machine, and machines.
    """

    kind: Kind = "rsa2"
    network: Mapping[str, Any] = field(default_factory=dict)
    terms: tuple[TermName, ...] = DEFAULT
    # No measurable difference: a narrow rsa2-lite after 250 steps, gain over the mean on 64 held-out samples in three
    # pairs of runs, balanced +0.53, +0.51, +0.48 dB, proportional +0.48, +0.41, +0.51.
    scaling: Scaling = "balanced"
    unseen_weight: float = 1.0
    batch: int = 16
    crop: tuple[int, int] | None = (256, 256)
    steps: int = 100_000
    total_minutes: float = math.inf
    minutes: float = math.inf
    peak: float = 5e-4
    stepwise: bool = False
    decay: float = 0.999
    fewer: bool = True
    teacher_weight: float = 0.5
    motion: AlignmentMotion = "path"
    interpolation: Interpolation = "bicubic"
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
            network={"validity": False, "prior": False, "mask_width": 1, "calm": False},
            terms=PUBLISHED,
            batch=4,
            steps=80 * samples // 4,
            peak=1e-4,
            stepwise=True,
            fewer=False,
            unseen_weight=0.0,
            interpolation="bilinear",
        )


def train_fusion(
    folder: Path,
    render: Callable[[torch.Generator], FusionSamples],
    options: FusionOptions,
    *,
    resume: bool = False,
    start: Mapping[str, Tensor] | None = None,
    teacher: FusionNetwork | None = None,
    logger: Any = False,
    progress_bar: bool = True,
) -> FusionNetwork:
    """Train a fusion network and save its weights and all that is needed to go on.

    Args:
        folder: gets `fusion.safetensors` (the averaged weights, half precision) and the training state.
        render: makes samples; see `qrsc.learn.pool.pool.Pool`. If it has an attribute `progress`, that is set to a
            function that tells how much of the training is done.
        options: see there.
        resume: go on from the state in the folder.
        start: weights to start from in place of first ones.
        teacher: a trained network whose results are learned from beside the truth.
        logger: a Lightning logger, or True for the default one.
        progress_bar: show one.

    Returns:
        The network with the averaged weights.
    """
    from qrsc.learn.flow.module import Schedule
    from qrsc.learn.fusion.fusion_module import FusionTraining, StepSchedule

    state = first_state(folder, resume)
    torch.manual_seed(options.seed)
    network = build_network(options.kind, dict(options.network))
    if start is not None:
        load_strictly(network, start, "the weights to start from")
    device = own_device()
    arrange(network.to(device))
    seed = data_seed(options.seed, state, options.devices)
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
            scaling=options.scaling,
            unseen_weight=options.unseen_weight,
            teacher=None if teacher is None else teacher.to(device),
            teacher_weight=options.teacher_weight,
            seed=seed,
        )
        if state is not None:
            module.restore(state)
        if hasattr(render, "progress"):
            render.progress = lambda: module.schedule.progress(module.minutes, module.steps_done)
        fit(
            module,
            folder / WEIGHTS,
            {
                "kind": options.kind,
                "options": json.dumps(asdict(network.options)),
                "motion": options.motion,
                "interpolation": options.interpolation,
            },
            devices=options.devices,
            nodes=options.nodes,
            # Not every batch reaches every weight: one frame alone has no use for the masks.
            several="ddp_find_unused_parameters_true",
            logger=logger,
            progress_bar=progress_bar,
        )
    result = build_network(options.kind, dict(options.network)).to(device)
    load_strictly(result, module.state().average, "the running average")
    return result
