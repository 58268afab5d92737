"""A batch: clips in, results out, on any executor."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from qrsc.backend.progress import CancelToken, require_not_cancelled
from qrsc.farm.clip_state import ClipState, begin
from qrsc.farm.executor import Executor
from qrsc.farm.inputs import Clip
from qrsc.farm.manifest import Known, Manifest
from qrsc.farm.settings import Settings
from qrsc.farm.storage import FileState, below, fetch, remove_folder, state_of
from qrsc.farm.tasks import (
    ClipDivided,
    ClipDone,
    Json,
    LeadTooShort,
    NotBetter,
    Outcome,
    SegmentDone,
    SegmentTask,
    Task,
    Undividable,
    lessening_for_json,
)
from qrsc.weights import file_sha256

WORK = ".qrsc-batch"  # folder for what is not finished
WAIT = 0.5  # seconds after which progress is told even if nothing has happened
EXISTS = "the output exists, and this batch has not written it; --overwrite replaces it"
ENDED_AGAIN = "its worker was ended three times, the last time alone and with one thread: memory probably runs out"


@dataclass(frozen=True)
class BatchResult:
    """What became of a clip.

    Attributes:
        source, output: names of files.
        state: `done`; `copied`, since nothing was to be corrected; `kept` from an earlier run; or `failed`.
        reason: of a failure, in a sentence.
        figures: what `VideoResult.figures` has, and more; empty for clips that were kept or failed.
        restarts: how often its workers ended before it was done.
    """

    source: str
    output: str
    state: Literal["done", "copied", "kept", "failed"]
    reason: str = ""
    figures: Json = field(default_factory=dict)
    restarts: int = 0


@dataclass(frozen=True)
class BatchProgress:
    """Where a batch stands.

    Attributes:
        clips, finished, failed: how many there are, are finished in any way, and failed.
        segments, segments_done: of the clips that are being corrected in segments.
        frames: that this run has corrected.
        frames_per_second: of this run.
        seconds: since it began.
        seconds_left: by the bytes of the inputs that are left; None while nothing is known.
    """

    clips: int
    finished: int
    failed: int
    segments: int
    segments_done: int
    frames: int
    frames_per_second: float
    seconds: float
    seconds_left: float | None


@dataclass
class Batch:
    """One run over clips.

    Attributes:
        clips: all of them.
        folder: of the outputs; a path, or remote.
        settings: of the correction.
        executor: does the work.
        manifest: keeps the books.
        retry_failed: try clips again that failed in an earlier run.
        overwrite: replace outputs that other programs wrote.
        progress: called now and then.
        cancel: asked now and then.
        on_note: hears what a user should know.
        after: called with every result, once the books say so.
    """

    clips: Sequence[Clip]
    folder: str
    settings: Settings
    executor: Executor
    manifest: Manifest
    retry_failed: bool = False
    overwrite: bool = False
    progress: Callable[[BatchProgress], None] | None = None
    cancel: CancelToken | None = None
    on_note: Callable[[str], None] = lambda _: None
    after: Callable[[BatchResult], None] = lambda _: None
    _ready: deque[tuple[ClipState, Task]] = field(default_factory=deque)
    _under_way: dict[int, tuple[ClipState, Task]] = field(default_factory=dict)
    _set_aside: deque[tuple[ClipState, Task]] = field(default_factory=deque)
    _active: dict[str, ClipState] = field(default_factory=dict)
    _number: int = 0
    _finished: int = 0
    _failed: int = 0
    _bytes_done: int = 0
    _started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._fingerprint = self.settings.fingerprint()
        self._scratch = self.manifest.path.parent / WORK
        self._bytes_kept = 0

    def results(self) -> Iterator[BatchResult]:
        """Correct all clips; each result comes when it is in the manifest."""
        self.manifest.write("run", fingerprint=self._fingerprint, **self.settings.described())
        known = self.manifest.known()
        coming = iter(self.clips)
        try:
            while True:
                require_not_cancelled(self.cancel)
                for result in self._fill(coming, known):
                    yield self._told(result)
                if not self._under_way:
                    break
                for outcome in self.executor.outcomes(WAIT):
                    for result in self._handled(outcome):
                        yield self._told(result)
                self._report()
        finally:
            self.executor.close()
        remove_folder(below(self.folder, WORK))

    def _told(self, result: BatchResult) -> BatchResult:
        self._finished += 1
        self._failed += result.state == "failed"
        self.after(result)
        return result

    # --- tasks out ---

    def _fill(self, coming: Iterator[Clip], known: dict[str, Known]) -> Iterator[BatchResult]:
        """Give every worker something to do; clips that need nothing are results at once."""
        while len(self._under_way) < self.executor.slots:
            if self._ready:
                self._submit(*self._ready.popleft())
                continue
            clip = next(coming, None)
            if clip is None:
                break
            result = self._begun(clip, known.pop(clip.key, Known()))
            if result is not None:
                yield result
        if not self._under_way and self._set_aside:
            clip_state, task = self._set_aside.popleft()
            self.on_note(f"{clip_state.clip.source} has ended its workers: it is tried alone, with one thread")
            self._submit(clip_state, replace(task, frugal=True))

    def _submit(self, clip_state: ClipState, task: Task) -> None:
        if not clip_state.belongs(task) or clip_state.clip.key not in self._active:
            return
        self._number += 1
        clip_state.under_way += 1
        self._under_way[self._number] = (clip_state, task)
        self.executor.submit(self._number, task)

    def _begun(self, clip: Clip, known: Known) -> BatchResult | None:
        """Queue a clip, from where an earlier run left it, or say at once what became of it."""
        try:
            state = state_of(clip.source)
        except (OSError, ValueError) as error:
            return self._failure(clip, FileState(0, ""), str(error))
        if state is None:
            return self._failure(clip, FileState(0, ""), "the input is no longer there")
        if known.done is not None and self._still_holds(clip, state, known.done):
            self._bytes_kept += state.size
            return BatchResult(clip.source, clip.output, "kept")
        same = known.clip if self._unchanged(known.clip, state) else None
        if known.failed is not None and not self.retry_failed and self._unchanged(known.failed, state):
            self._bytes_kept += state.size
            reason = f"failed in an earlier run: {known.failed['reason'].rstrip('.')}; --retry-failed tries again"
            return BatchResult(clip.source, clip.output, "failed", reason)
        ours = known.done is not None or bool(known.clip)
        if not ours and not self.overwrite and state_of(clip.output) is not None:
            return self._failure(clip, state, EXISTS)
        if ours and same is None:
            self.on_note(f"{clip.source}: the input, the settings or the output changed; it is corrected anew")
        clip_state = begin(
            clip,
            state,
            below(self.folder, WORK, clip.key),
            self.settings,
            overwrite=self.overwrite or ours,
            clip_line=same,
            lessened=known.lessened if same else None,
            segments=tuple(known.segments.values()) if same else (),
        )
        if same is None:
            remove_folder(clip_state.folder)
            self._line("clip", clip_state)
        self._active[clip.key] = clip_state
        self._ready.append((clip_state, clip_state.first_task()))
        return None

    def _unchanged(self, line: Json, state: FileState) -> bool:
        return bool(line) and (line["size"], line["version"], line["fingerprint"]) == (
            state.size, state.version, self._fingerprint,
        )  # fmt: skip

    def _still_holds(self, clip: Clip, state: FileState, done: Json) -> bool:
        """Whether a clip that was done is still what it was, and its output is there."""
        output = state_of(clip.output)
        if output is None or output.size != done["written"] or done["fingerprint"] != self._fingerprint:
            return False
        if (done["size"], done["version"]) == (state.size, state.version):
            return True
        # Copied or touched since: the content decides.
        if done["size"] != state.size:
            return False
        return bool(file_sha256(fetch(clip.source, self._scratch / "hash")) == done["sha256"])

    # --- outcomes in ---

    def _handled(self, outcome: Outcome) -> Iterator[BatchResult]:
        clip_state, task = self._under_way.pop(outcome.number)
        clip_state.under_way -= 1
        clip_state.restarts += outcome.restarts
        key = clip_state.clip.key
        if self._active.get(key) is not clip_state or not clip_state.belongs(task):
            return  # of a clip that has failed, or of a try that has been given up
        if outcome.died and not task.frugal:
            self._set_aside.append((clip_state, task))
        elif outcome.error:
            reason = ENDED_AGAIN if outcome.died else outcome.error
            yield self._ended(clip_state, self._failure(clip_state.clip, clip_state.state, reason, clip_state.restarts))
        else:
            value = outcome.value
            if isinstance(value, ClipDone):
                yield self._ended(clip_state, self._done(clip_state, value, outcome.where))
            else:
                self._ready.extendleft(
                    (clip_state, following) for following in reversed(self._next(clip_state, outcome, task))
                )

    def _next(self, clip_state: ClipState, outcome: Outcome, task: Task) -> list[Task]:
        """The tasks that follow from one."""
        value = outcome.value
        if isinstance(value, ClipDivided):
            following = list(clip_state.divided(value))
            if not clip_state.known_segments and clip_state.lessening.tries == 0:
                self._line("clip", clip_state, sha256=value.sha256, readout=value.readout,
                           segments=len(clip_state.segments), frames=len(value.table))  # fmt: skip
            return following
        if isinstance(value, SegmentDone):
            assert isinstance(task, SegmentTask)
            self.manifest.write("segment", clip=clip_state.clip.key, tries=task.lessening.tries, **value.line)
            return list(clip_state.segment_done(task.segment.number))
        if isinstance(value, NotBetter):
            lessening = value.lessening
            self.manifest.write("lessened", clip=clip_state.clip.key, lessening=lessening_for_json(lessening))
            self.on_note(f"{clip_state.clip.source}: {lessening.why}")
            return list(clip_state.lessened(lessening))
        if isinstance(value, LeadTooShort):
            return list(clip_state.again(value))
        assert isinstance(value, Undividable)
        self.on_note(f"{clip_state.clip.source} is corrected in one piece: {value.reason}")
        return [clip_state.first_task(value.reason)]

    def _done(self, clip_state: ClipState, value: ClipDone, where: str) -> BatchResult:
        clip = clip_state.clip
        self._line("done", clip_state, restarts=clip_state.restarts, where=where, **value.figures)
        state: Literal["copied", "done"] = "copied" if value.figures["copied"] else "done"
        return BatchResult(clip.source, clip.output, state, figures=value.figures, restarts=clip_state.restarts)

    def _failure(self, clip: Clip, state: FileState, reason: str, restarts: int = 0) -> BatchResult:
        self.manifest.write(
            "failed", clip=clip.key, source=clip.source, output=clip.output, size=state.size, version=state.version,
            fingerprint=self._fingerprint, reason=reason, restarts=restarts,
        )  # fmt: skip
        return BatchResult(clip.source, clip.output, "failed", reason, restarts=restarts)

    def _ended(self, clip_state: ClipState, result: BatchResult) -> BatchResult:
        """Forget a clip; its other tasks are no longer waited for."""
        del self._active[clip_state.clip.key]
        self._ready = deque(each for each in self._ready if each[0] is not clip_state)
        self._set_aside = deque(each for each in self._set_aside if each[0] is not clip_state)
        self._bytes_done += clip_state.state.size
        remove_folder(clip_state.folder)
        return result

    def _line(self, kind: str, clip_state: ClipState, **more: Any) -> None:
        clip, state = clip_state.clip, clip_state.state
        content = {"source": clip.source, "output": clip.output, "size": state.size, "version": state.version}
        self.manifest.write(kind, clip=clip.key, fingerprint=self._fingerprint, **{**content, **more})

    # --- progress ---

    def _report(self) -> None:
        if self.progress is None:
            return
        passed = time.monotonic() - self._started
        frames = self.executor.frames
        divided = [each for each in self._active.values() if each.segments]
        partly = sum(each.state.size * len(each.done) / len(each.segments) for each in divided)
        begun = self._finished + len(self._active)
        seen = self._bytes_done + self._bytes_kept + sum(each.state.size for each in self._active.values())
        # Clips that have not been looked at are taken to be as large as the others.
        total = seen * len(self.clips) / max(1, begun)
        worked, left = self._bytes_done + partly, total - self._bytes_kept - self._bytes_done - partly
        self.progress(
            BatchProgress(
                len(self.clips),
                self._finished,
                self._failed,
                sum(len(each.segments) for each in divided),
                sum(len(each.done) for each in divided),
                frames,
                frames / max(passed, 1e-3),
                passed,
                passed * left / worked if worked else None,
            )
        )
