"""`train_baselines`: several networks trained side by side, each batch given to all of them.

All see the same samples in the same order, the same crops and colours, and take the same number of steps. Loss and
learning rate are each network's own.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from qrsc.baselines.learned.networks import baseline_from_file, build_baseline
from qrsc.baselines.learned.window import Baseline, FeatureLoss
from qrsc.baselines.training.features import SharedFeatures, no_features
from qrsc.baselines.training.learner import Learner, weights_file
from qrsc.baselines.training.one_batch import StepsOnOneBatch
from qrsc.baselines.training.options import BaselineTrainingOptions
from qrsc.baselines.training.samples import WindowPool, WindowSamples
from qrsc.baselines.training.scores import Scores, score_baselines, score_table
from qrsc.baselines.training.window_worlds import WindowWorlds
from qrsc.files.documents import shortened
from qrsc.flow import load_flow
from qrsc.learn.pool.world_settings import training_textures
from qrsc.learn.trainer.recorded_step import WARM_UP
from qrsc.learn.trainer.run import own_device
from qrsc.learn.trainer.step_clock import StepClock
from qrsc.weights import WeightsError, load_strictly, noted_options, read_notes

HELD_OUT_SEED = 12345  # of the windows that are scored after the training; training seeds are drawn in another way
HELD_OUT_CALLS = 8
LEAST_SIDE = 64  # pixels: a part of the loss on features is computed at an eighth of the size
SAVE_EVERY = 2.0  # minutes
KERNELS = 3  # that cuDNN tries for a convolution before the first step; all six networks have a thousand of them
Say = Callable[[str], None]
Source = Callable[[torch.Generator], WindowSamples]


@dataclass(frozen=True)
class BaselineTrainingResult:
    """Trained networks by name, and their mean PSNR on windows that they were not trained on.

    Attributes:
        networks: with the moving average of their weights.
        scores: by row and instant.
        windows: how many were scored.
        table: the scores as text.
    """

    networks: dict[str, Baseline]
    scores: Scores
    windows: int
    table: str

    def summary(self) -> str:
        """The scores as a table."""
        return f"PSNR in dB on {self.windows} windows that were not trained on:\n\n{self.table}"


def train_baselines(
    names: Sequence[str], output: Path, options: BaselineTrainingOptions | None = None, *, say: Say | None = None
) -> BaselineTrainingResult:
    """Train networks on windows of random scenes, and score them.

    Args:
        names: of the networks.
        output: folder; gets a file of weights for each network, from which a run can be resumed.
        options: see there; None for the defaults.
        say: gets a line about the losses every half minute.

    Raises:
        ValueError: an option is wrong, or the weights of the feature loss are missing.
        FileExistsError: the folder holds such weights and `resume` is not set.
        WeightsError: weights that a run goes on from are missing, damaged, or not all of the same step.
    """
    begun = time.monotonic()
    options = options or BaselineTrainingOptions()
    if options.features and min(options.size[0], options.crop) < LEAST_SIDE:
        raise ValueError(
            f"the loss on features needs crops of at least {LEAST_SIDE} x {LEAST_SIDE}; got {options.crop} x "
            f"{options.size[0]}. Make --size and --crop larger, or leave the loss out by --no-features."
        )
    device = own_device()
    features = SharedFeatures().arranged(device) if options.features else no_features
    flow = load_flow(options.flow)
    worlds = WindowWorlds(training_textures(options.textures, device), options.size, flow, scenes=options.scenes)
    networks = fit_baselines(names, output, worlds, features, options, begun=begun, say=say)
    render = replace(worlds, frames=3)
    generator = torch.Generator().manual_seed(HELD_OUT_SEED)
    calls = [render(generator) for _ in range(HELD_OUT_CALLS)]
    scores = score_baselines(networks, calls, flow)
    return BaselineTrainingResult(networks, scores, sum(map(len, calls)), score_table(scores, networks))


def fit_baselines(
    names: Sequence[str],
    folder: Path,
    render: Source,
    features: FeatureLoss,
    options: BaselineTrainingOptions,
    *,
    mixed: bool | None = None,
    begun: float | None = None,
    say: Say | None = None,
) -> dict[str, Baseline]:
    """Train networks on windows from any source, and save their weights.

    Args:
        names, say: as for `train_baselines`.
        folder: gets the weights.
        render: returns new windows; see `qrsc.learn.pool.pool.Pool`.
        features: the loss on features that all networks use.
        options: those that describe data are not read.
        mixed: use bfloat16 where it does no harm; if None on a GPU only.
        begun: when the command began, by `time.monotonic`; None for now.

    Returns:
        The networks with the moving average of their weights, by name.
    """
    begun = time.monotonic() if begun is None else begun
    device = own_device()
    before = _before(names, folder) if options.resume else Before()
    taken = [name for name in names if weights_file(folder, name).exists()]
    if taken and not options.resume:
        raise FileExistsError(f"{folder} holds weights of {', '.join(taken)}; resume, or name another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    learners = []
    for name in names:
        torch.manual_seed(options.seed)
        network = baseline_from_file(weights_file(folder, name)) if options.resume else build_baseline(name)
        schedule = options.schedule(network.peak)
        network.to(device).train()
        learners.append(Learner(name, network, schedule, clip=options.clip, decay=options.decay, steps=before.steps))
    if device.type == "cuda":
        torch.backends.cudnn.benchmark = True  # one size throughout
        torch.backends.cudnn.benchmark_limit = KERNELS
        torch.set_float32_matmul_precision("high")
    with WindowPool(
        render, capacity=options.pool, device=device, uses=options.uses, seed=options.seed + before.steps
    ) as pool:
        pool.crop = options.crop
        half = device.type == "cuda" if mixed is None else mixed
        pool.draw(1)  # the clock starts with the first samples
        spent = (time.monotonic() - begun) / 60.0
        say = say or (lambda line: None)
        say(f"the first samples are there after {60.0 * spent:.0f} s")
        options = options.shortened(spent)
        for learner in learners:
            learner.schedule = options.schedule(learner.network.peak)
        Lockstep(learners, pool, features, options, before, half, say).run(folder)
    for learner in learners:
        load_strictly(learner.network, learner.averaged(), "the exponential moving average")
    return {learner.name: learner.network.eval() for learner in learners}


@dataclass(frozen=True)
class Before:
    """Steps and minutes of the runs before this one."""

    steps: int = 0
    minutes: float = 0.0


class Lockstep:
    """Learners that take their steps together.

    Args:
        learners: all with as many steps behind them.
        pool: of windows.
        features: the loss on features.
        options: length and batch.
        before: the runs before this one.
        mixed: use bfloat16.
        say: gets lines about the training.
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        pool: WindowPool,
        features: FeatureLoss,
        options: BaselineTrainingOptions,
        before: Before,
        mixed: bool,
        say: Say | None = None,
    ) -> None:
        self.learners, self.pool, self.options, self.before = learners, pool, options, before
        self.steps = before.steps
        self.say: Say = (lambda line: None) if say is None else say
        recorded = options.graphs and pool.device.type == "cuda"
        self.together = StepsOnOneBatch(learners, features, pool.device, mixed=mixed, recorded=recorded)
        self._clock = StepClock(pool.device, skip=WARM_UP + 2 if recorded else 1)
        self._told: set[str] = set()
        self._ends: deque[torch.cuda.Event] = deque()
        self._started = time.monotonic()

    @property
    def minutes(self) -> float:
        """Minutes spent on steps, those of earlier runs included."""
        return self.before.minutes + (time.monotonic() - self._started) / 60.0

    def run(self, folder: Path) -> None:
        """Train to the end of the run; save every few minutes, at the end, and when something goes wrong."""
        try:
            self._run(folder)
        finally:
            self._save(folder)
        self.say(self._line())

    def _run(self, folder: Path) -> None:
        schedule = self.learners[0].schedule
        self._started = time.monotonic()
        said, saved = self._started, self.minutes
        while True:
            minutes = self.minutes
            progress = schedule.progress(minutes, self.steps)
            if progress >= 1.0 or minutes - self.before.minutes >= self.options.run_minutes:
                break
            self._step(progress)
            if time.monotonic() - said >= self.options.report:
                said = time.monotonic()
                self.say(self._line())
            if minutes - saved >= SAVE_EVERY:
                saved = minutes
                self._save(folder)

    def _step(self, progress: float) -> None:
        self._clock.start()
        samples = self.pool.draw(self.options.batch)
        self._clock.lap("samples")
        for learner in self.learners:
            learner.prepare(progress)
        with self.pool.paused() if self.together.starting else nullcontext():
            self.together(samples, self._clock.lap)
        self.steps += 1
        self._wait_for_the_last_but_one()
        told = self._clock.finish()
        if told is not None:
            self.say(told)
        for name, reason in self.together.fallbacks().items():
            if name not in self._told:
                self._told.add(name)
                self.say(f"{name}: {reason}")

    def _wait_for_the_last_but_one(self) -> None:
        """Stay close to a GPU, which is told of many recorded steps in no time: new samples wait for all of them."""
        if self.pool.device.type == "cuda":
            self._ends.append(torch.cuda.Event())  # type: ignore[no-untyped-call]  # torch's stubs
            self._ends[-1].record(torch.cuda.current_stream(self.pool.device))
            if len(self._ends) > 2:
                self._ends.popleft().synchronize()

    def _line(self) -> str:
        """Where the training stands, and the mean losses since the last line. The device is waited for here."""
        losses = [learner.mean_loss() for learner in self.learners]
        run = 60.0 * (self.minutes - self.before.minutes)
        parts = [
            f"step {self.steps}",
            f"{self.minutes:.1f} min",
            f"{1000.0 * run / max(1, self.steps - self.before.steps):.0f} ms a step",
            f"{self.pool.rendered} rendered",
        ]
        for learner, loss in zip(self.learners, losses, strict=True):
            skipped = learner.skipped
            mean = "none finite" if loss is None else f"{loss:.3f}"
            parts.append(f"{learner.name} {mean}" + (f" ({skipped} skipped)" if skipped else ""))
        return ", ".join(parts)

    def _save(self, folder: Path) -> None:
        for learner in self.learners:
            learner.save(folder, self.minutes, self.options.batch)


def _before(names: Sequence[str], folder: Path) -> Before:
    """Steps and minutes behind the weights in a folder, which are the same for all networks that go on together."""
    found: dict[str, Before] = {}
    for name in names:
        path = weights_file(folder, name)
        noted = noted_options(path, {"training": "{}", **read_notes(path)}, "training")
        steps, minutes = noted.get("steps"), noted.get("minutes")
        if type(steps) is not int or steps < 0 or not isinstance(minutes, (int, float)):
            raise WeightsError(
                f"{path} does not say how far it was trained: {shortened(json.dumps(noted))}. Start anew."
            )
        found[name] = Before(steps, float(minutes))
    if len({each.steps for each in found.values()}) > 1:
        told = ", ".join(f"{name} {each.steps}" for name, each in found.items())
        raise WeightsError(f"networks that go on together have taken the same number of steps; here: {told}.")
    return next(iter(found.values()))
