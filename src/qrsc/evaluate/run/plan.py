"""Score methods on a data set: frames stream through all methods side by side, flows are computed once."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import tee
from pathlib import Path

import torch

from qrsc.backend.threads import at_most_threads
from qrsc.data.dataset import ClipFiles, LoadedFrame, TruthInstant, load_frame, split_at_gaps
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.methods.registry import FrameFolder, Method, load_method
from qrsc.evaluate.methods.results import Result, frame_of
from qrsc.evaluate.methods.shared_flow import SharedFlow, shared_flow
from qrsc.evaluate.run.record import Record, record_key
from qrsc.evaluate.run.scores import DEFAULT_METRICS, FrameScore, Measures, Scorer, load_measures
from qrsc.media.image_folder import write_frame

READ_AHEAD = 2  # frames that are decoded while others are corrected
SCORE_BEHIND = 4  # frames whose figures may be outstanding
MEASURERS = 2  # threads that measure, and move the frames that nobody has moved yet
WORKERS = 2 + MEASURERS  # one reads, one corrects
GPU_BATCH = 8  # pairs of frames; on a CPU a batch takes as long as its pairs one by one


@dataclass(frozen=True)
class Plan:
    """What is to be scored.

    Attributes:
        title: of the data set.
        sequences: from `qrsc.data.dataset.index_data`.
        methods: names from `qrsc.evaluate.methods.registry.METHODS`, or `module:function`.
        folders: frames that other programs have made, by the name they are to have in the table.
        instants: `first`, `middle`, or both; sequences without a truth there are passed over.
        window: odd; a frame is scored if it is the middle one of so many frames of its clip. 5 is what the paper
            corrects one frame from; 1 scores all, those at the ends of clips included.
        metrics: from `qrsc.evaluate.run.scores.METRICS`.
        flow: that all methods share; `truth` for the exact one of simulated sequences.
        device: where frames are corrected and measured.
        batch: pairs of frames whose flows are found at a time; None chooses by the device.
        flow_folder: keeps flows from run to run.
        save_frames: folder for `METHOD/[SET/]INSTANT/SEQUENCE/` with the corrected frames.
        resume: folder that keeps the figures of finished sequences.
    """

    title: str
    sequences: Sequence[SequenceFiles]
    methods: Sequence[str] = ("rs", "linear", "qrs", "cubic", "multi-qrs")
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

    def __post_init__(self) -> None:
        if self.window < 1 or self.window % 2 == 0:
            raise ValueError(f"a window with a frame in its middle has 1, 3, 5 ... frames; got {self.window!r}.")

    @property
    def pairs_at_a_time(self) -> int:
        """See `batch`."""
        return self.batch or (1 if torch.device(self.device).type == "cpu" else GPU_BATCH)


def evaluate(plan: Plan, advance: Callable[[int], None] = lambda frames: None) -> list[FrameScore]:
    """The figures of every frame with a truth, by every method; sequence by sequence, so that memory stays bounded.

    `advance` is called with the number of frames that are done.
    """
    flow = shared_flow(plan.flow, plan.flow_folder, plan.pairs_at_a_time)
    methods = {name: load_method(name, flow) for name in plan.methods}
    taken = sorted(set(methods) & set(plan.folders))
    if taken:
        raise ValueError(f"there are two methods called {', '.join(taken)}; give the folder another name.")
    if not methods and not plan.folders:
        raise ValueError("name at least one method to score.")
    measures = load_measures(plan.metrics)
    record = Record(plan.resume)
    scores: list[FrameScore] = []
    for sequence in plan.sequences:
        key = _key(plan, sequence)
        found = record.scores(key)
        if found is not None:
            advance(len(sequence.frames))
        else:
            found = []
            for clip in split_at_gaps(sequence):
                found += _score_clip(_judged(clip, plan.window), plan, methods, flow, measures, advance)
            record.add(key, found)
        scores += found
    if not scores:
        where = "" if plan.window == 1 else f" and lies in the middle of {plan.window} consecutive ones"
        raise ValueError(
            f"nothing to score: no frame of {plan.title} has a truth at {' or '.join(plan.instants)} row's "
            f"instant{where}."
        )
    return scores


def middles(frames: int, window: int) -> range:
    """Which of a clip's frames are the middle one of so many of its frames; `window` is odd."""
    return range(window // 2, frames - window // 2)


def _judged(clip: ClipFiles, window: int) -> ClipFiles:
    """The clip with truths for the middle frames of a window alone: the others serve as neighbours."""
    judged = middles(len(clip.frames), window)
    frames = [
        files if place in judged else replace(files, files={"rolling": files.files["rolling"]})
        for place, files in enumerate(clip.frames)
    ]
    return replace(clip, frames=tuple(frames))


def _score_clip(
    clip: ClipFiles,
    plan: Plan,
    methods: Mapping[str, Method],
    flow: SharedFlow,
    measures: Measures,
    advance: Callable[[int], None],
) -> list[FrameScore]:
    instants = [at for at in plan.instants if any(at in files.files for files in clip.frames)]
    if not instants:
        advance(len(clip.frames))
        return []
    scorer = Scorer(plan.title, clip.sequence, clip.folder, plan.metrics, *measures)
    scores: list[FrameScore] = []
    outstanding: deque[Future[list[FrameScore]]] = deque()
    # Decoding and measuring leave Python's lock, and so go on beside the correction. Figures that compare consecutive
    # frames need them in order.
    measurers = 1 if "warping" in plan.metrics else MEASURERS
    # With all cores for each thread, operations of one would wait for the cores that another one holds.
    shared = at_most_threads(max(1, (os.cpu_count() or 1) // WORKERS))
    with shared, ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(measurers) as measurer, torch.no_grad():
        own, *feeds = tee(
            _announced(_read_ahead(clip, instants, plan.device, reader), flow), 1 + len(methods) * len(instants)
        )
        jobs = [(at, name, method) for at in instants for name, method in methods.items()]
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
                outstanding.append(measurer.submit(_measure, scorer, plan, clip, loaded, at, mine))
            flow.take_back(loaded)
            while len(outstanding) > SCORE_BEHIND:
                scores += outstanding.popleft().result()
            advance(1)
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
            path = folder / at / clip.sequence / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            write_frame(path, frame_of(results[name]))
    return scores


def _read_ahead(
    clip: ClipFiles, instants: Sequence[TruthInstant], device: torch.device | str, reader: ThreadPoolExecutor
) -> Iterator[LoadedFrame]:
    """The frames of a clip, the next few of which are being decoded meanwhile."""
    waiting: deque[Future[LoadedFrame]] = deque()
    for files in clip.frames:
        waiting.append(reader.submit(load_frame, files, instants, device=device))
        if len(waiting) > READ_AHEAD:
            yield waiting.popleft().result()
    for future in waiting:
        yield future.result()


def _announced(frames: Iterable[LoadedFrame], flow: SharedFlow) -> Iterator[LoadedFrame]:
    """The same frames, announced to the flow so early that it can find the flows of a batch of pairs."""
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


def _key(plan: Plan, sequence: SequenceFiles) -> str:
    folders = {name: str(folder.folder.resolve()) for name, folder in plan.folders.items()}
    asked = [plan.title, list(plan.methods), folders, list(plan.instants), list(plan.metrics), plan.flow, plan.window]
    return record_key(sequence, asked)
