"""Score methods on a data set: frames stream through all methods side by side, flows are computed once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import tee
from pathlib import Path
from typing import Any

import torch

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.backend.threads import at_most_threads, thread_pool
from qrsc.data.dataset import ClipFiles, LoadedFrame, TruthInstant, load_frame, split_at_gaps
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.methods.registry import (
    METHODS,
    FrameFolder,
    Method,
    MethodTable,
    load_method,
    method_fingerprint,
    method_instants,
)
from qrsc.evaluate.methods.results import Result, frame_of
from qrsc.evaluate.methods.shared_flow import SharedFlow, shared_flow, shared_flow_fingerprint
from qrsc.evaluate.metrics.measures import Measure
from qrsc.evaluate.metrics.metric_table import DEFAULT_METRICS
from qrsc.evaluate.run.record import Record, record_key
from qrsc.evaluate.run.scores import FrameScore, Scorer, load_measures, needs_order
from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import write_frame

READ_AHEAD = 2  # frames that are decoded while others are corrected
SCORE_BEHIND = 4  # frames whose figures may be outstanding
MEASURERS = 2  # threads that measure, and that make late frames
WORKERS = 2 + MEASURERS  # one reads, one corrects
GPU_BATCH = 8  # pairs of frames; on a CPU a batch takes as long as its pairs one by one

DEFAULT_METHODS = ("rs", "linear", "qrs", "cubic", "multi-qrs")


@dataclass(frozen=True)
class Plan:
    """What is to be scored, and how.

    Attributes:
        title: of the data set.
        sequences: from `qrsc.data.dataset.index_data`.
        methods: names from `table`, or `module:function`.
        folders: frames that other programs have made, by their names in the results.
        instants: `first`, `middle`, or both; sequences without a truth there are skipped.
        window: odd; a frame is scored if it is the middle one of so many frames of its clip. 5 is what the paper
            corrects one frame from; 1 scores all, those at the ends of clips included.
        metrics: from `qrsc.evaluate.metrics.metric_table.METRICS`.
        flow: name of the flow that all methods share; `truth` for the exact one of simulated sequences.
        device: where frames are corrected and measured.
        batch: pairs of frames whose flows are found at a time; None chooses by the device.
        flow_folder: keeps flows from run to run.
        save_frames: by method, a folder for its corrected frames as `INSTANT/SEQUENCE/FILE`.
        resume: folder that keeps the figures of finished sequences.
        table: the methods that can be named.
    """

    title: str
    sequences: Sequence[SequenceFiles]
    methods: Sequence[str] = DEFAULT_METHODS
    folders: Mapping[str, FrameFolder] = field(default_factory=dict)
    instants: Sequence[TruthInstant] = ("middle",)
    window: int = 1
    metrics: Sequence[str] = DEFAULT_METRICS
    flow: str = "dis"
    device: torch.device | str = "cpu"
    batch: int | None = None
    flow_folder: Path | None = None
    save_frames: Mapping[str, Path] = field(default_factory=dict)
    resume: Path | None = None
    table: MethodTable = field(default_factory=lambda: METHODS)

    def __post_init__(self) -> None:
        if self.window < 1 or self.window % 2 == 0:
            raise ValueError(f"a window with a frame in its middle has 1, 3, 5 ... frames; got {self.window!r}.")

    @property
    def pairs_at_a_time(self) -> int:
        """See `batch`."""
        return self.batch or (1 if torch.device(self.device).type == "cpu" else GPU_BATCH)


def evaluate(
    plan: Plan, *, progress: ProgressCallback | None = None, cancel: CancelToken | None = None
) -> list[FrameScore]:
    """Score every frame with a truth, by every method; sequence by sequence, so that memory stays bounded.

    Figures of sequences that `plan.resume` holds for the same settings and weights are taken from there.

    Args:
        progress: called for every frame; the stage is the title of the data set.
        cancel: asked for every frame; once it is set the call raises `Cancelled`. `plan.resume` keeps the figures of
            finished sequences.
    """
    stage = Stage(plan.title, sum(len(sequence.frames) for sequence in plan.sequences), progress, cancel)
    flow = shared_flow(plan.flow, plan.flow_folder, plan.pairs_at_a_time)
    methods = {name: load_method(name, flow, plan.table) for name in plan.methods}
    taken = sorted(set(methods) & set(plan.folders))
    if taken:
        raise ValueError(f"there are two methods called {', '.join(taken)}; give the folder another name.")
    if not methods and not plan.folders:
        raise ValueError("name at least one method to score.")
    if not plan.folders and not any(_gives(plan, name, at) for name in plan.methods for at in plan.instants):
        raise ValueError(f"nothing to score: {'; '.join(not_scored(plan))}. Choose another instant of the truth.")
    measures = load_measures(plan.metrics)
    record, settings = Record(plan.resume), _settings(plan)
    scores: list[FrameScore] = []
    for sequence in plan.sequences:
        key = record_key(sequence, settings)
        found = record.scores(key)
        if found is not None:
            count_frames(stage, len(sequence.frames))
        else:
            found = []
            for clip in split_at_gaps(sequence):
                found += _score_clip(_without_outer_truths(clip, plan.window), plan, methods, flow, measures, stage)
            record.add(key, found)
        scores += found
    if not scores:
        where = "" if plan.window == 1 else f" and lies in the middle of {plan.window} consecutive ones"
        raise ValueError(
            f"nothing to score: no frame of {plan.title} has a truth at {' or '.join(plan.instants)} row's "
            f"instant{where}."
        )
    return scores


def not_scored(plan: Plan) -> list[str]:
    """A line for each method that does not give an instant of the plan, and so has no row there."""
    return [
        f"{name} gives the instant of the {method_instants(name, plan.table)[0]} row alone"
        for name in plan.methods
        if not all(_gives(plan, name, at) for at in plan.instants)
    ]


def _gives(plan: Plan, name: str, at: TruthInstant) -> bool:
    return at in method_instants(name, plan.table)


def count_frames(stage: Stage, frames: int) -> None:
    """Count frames that need no work."""
    for _ in range(frames):
        stage.advance()


def middles(frames: int, window: int) -> range:
    """Which of a clip's frames are the middle one of so many of its frames; `window` is odd."""
    return range(window // 2, frames - window // 2)


def _without_outer_truths(clip: ClipFiles, window: int) -> ClipFiles:
    """The clip with truths for the middle frames of a window alone: the others serve as neighbours."""
    scored = middles(len(clip.frames), window)
    frames = [
        files if place in scored else replace(files, files={"rolling": files.files["rolling"]})
        for place, files in enumerate(clip.frames)
    ]
    return replace(clip, frames=tuple(frames))


def _score_clip(
    clip: ClipFiles,
    plan: Plan,
    methods: Mapping[str, Method],
    flow: SharedFlow,
    measures: Mapping[str, Measure],
    stage: Stage,
) -> list[FrameScore]:
    instants = [at for at in plan.instants if any(at in files.files for files in clip.frames)]
    if not instants:
        count_frames(stage, len(clip.frames))
        return []
    scorer = Scorer(plan.title, clip.sequence, clip.folder, measures)
    flow.start_clip()
    scores: list[FrameScore] = []
    outstanding: deque[Future[list[FrameScore]]] = deque()
    # Decoding and measuring release Python's lock, so they run in parallel with the correction. Metrics that compare
    # consecutive frames need them in order.
    measurers = 1 if needs_order(measures) else MEASURERS
    # With all cores for each thread, operations of one would wait for cores that another one holds.
    shared = at_most_threads(max(1, (os.cpu_count() or 1) // WORKERS))
    with shared, thread_pool(1) as reader, thread_pool(measurers) as measurer, torch.no_grad():
        jobs = [(at, name, method) for at in instants for name, method in methods.items() if _gives(plan, name, at)]
        own, *feeds = tee(_announced(_read_ahead(clip, instants, plan.device, reader), flow), 1 + len(jobs))
        streams: dict[tuple[TruthInstant, str], Iterator[Result]] = {
            (at, name): iter(method((loaded.rolling for loaded in feed), clip.readout, clip.readout.instant(at)))
            for (at, name, method), feed in zip(jobs, feeds, strict=True)
        }
        for at in instants:
            for name, folder in plan.folders.items():
                streams[at, name] = folder.frames(clip, at, plan.device)
        for loaded in own:
            results = {job: _next_result(job[1], stream, clip) for job, stream in streams.items()}
            for at in loaded.truths:
                mine = {name: result for (when, name), result in results.items() if when == at}
                if not mine:
                    continue
                outstanding.append(measurer.submit(_measure, scorer, plan, clip, loaded, at, mine))
            flow.take_back(loaded)
            while len(outstanding) > SCORE_BEHIND:
                scores += outstanding.popleft().result()
            stage.advance()
        for future in outstanding:
            scores += future.result()
    return scores


def _measure(
    scorer: Scorer,
    plan: Plan,
    clip: ClipFiles,
    loaded: LoadedFrame,
    at: TruthInstant,
    results: Mapping[str, Result],
) -> list[FrameScore]:
    scores = scorer.score(loaded, at, results)
    for name, folder in plan.save_frames.items():
        if name in results:
            inside = loaded.files.files["rolling"].relative_to(clip.folder).with_suffix(".png")
            with atomic_file(folder / at / clip.sequence / inside) as work:
                write_frame(work, frame_of(results[name]))
    return scores


def _read_ahead(
    clip: ClipFiles, instants: Sequence[TruthInstant], device: torch.device | str, reader: ThreadPoolExecutor
) -> Iterator[LoadedFrame]:
    """The frames of a clip; the next few are decoded in the meantime."""
    waiting: deque[Future[LoadedFrame]] = deque()
    for files in clip.frames:
        waiting.append(reader.submit(load_frame, files, instants, device=device))
        if len(waiting) > READ_AHEAD:
            yield waiting.popleft().result()
    for future in waiting:
        yield future.result()


def _announced(frames: Iterable[LoadedFrame], flow: SharedFlow) -> Iterator[LoadedFrame]:
    """The same frames, announced to the flow early enough for a batch of pairs."""
    waiting: deque[LoadedFrame] = deque()
    for loaded in frames:
        flow.announce(loaded)
        waiting.append(loaded)
        if len(waiting) >= flow.batch:
            yield waiting.popleft()
    yield from waiting


def _next_result(name: str, stream: Iterator[Result], clip: ClipFiles) -> Result:
    for result in stream:
        return result
    raise ValueError(
        f"the method {name} gave fewer frames than the {len(clip.frames)} of the clip in {clip.folder}: one for each "
        "was expected."
    )


def _settings(plan: Plan) -> dict[str, Any]:
    """What the figures of a plan depend on, for the keys of the record."""
    return {
        "set": plan.title,
        "methods": [method_fingerprint(name, plan.table) for name in plan.methods],
        "folders": {name: str(folder.folder.resolve()) for name, folder in plan.folders.items()},
        "instants": list(plan.instants),
        "metrics": list(plan.metrics),
        "flow": shared_flow_fingerprint(plan.flow),
        "window": plan.window,
        "device": torch.device(plan.device).type,
    }
