"""The readout of a clip, looked for in a thread from the moment that the clip is there, and a first estimate of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from pathlib import Path

from qrsc.backend.progress import CancelToken, Progress, ProgressCallback, require_not_cancelled
from qrsc.calibrate.decision import NEGLIGIBLE_PX, ChosenReadout
from qrsc.media.probe import clip_info
from qrsc.video.readout import ReadoutOptions, choose_readout

POLL = 0.1  # seconds between two looks at a cancel token


class ReadoutAhead:
    """The readout of a clip, found as `qrsc correct` finds it if none is given.

    Its first estimate is there in about half of the time: the other half goes into testing it, and most estimates stay
    as they are. The test waits while somebody works with the first estimate.

    Args:
        source: the clip.
    """

    def __init__(self, source: Path) -> None:
        self.source = source
        self.notes: list[str] = []  # of the final readout
        self._progress: ProgressCallback | None = None
        self._early: Future[ChosenReadout] = Future()
        self._final: Future[ChosenReadout] = Future()
        self._stopped = threading.Event()
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        threading.Thread(target=self._find, name="qrsc-readout", daemon=True).start()

    def _find(self) -> None:
        try:
            found = choose_readout(
                self.source,
                clip_info(self.source),
                ReadoutOptions(),
                say=self.notes.append,
                progress=self._tell,
                cancel=self._stopped,
                early=self._take_early,
            )
        except BaseException as error:  # of any kind: whoever asks for the readout handles it
            self._final.set_exception(error)
        else:
            self._final.set_result(found)

    def _take_early(self, chosen: ChosenReadout) -> None:
        self._early.set_result(chosen)
        self._may_go_on.wait()
        require_not_cancelled(self._stopped)

    def _tell(self, now: Progress) -> None:
        told = self._progress
        if told is not None:
            told(now)

    def stop(self) -> None:
        """Nobody will ask any more."""
        self._stopped.set()
        self._may_go_on.set()

    @property
    def tested(self) -> bool:
        """Whether the final readout is there."""
        return self._final.done()

    @contextmanager
    def first(self, progress: ProgressCallback | None, cancel: CancelToken | None) -> Iterator[ChosenReadout]:
        """The final readout if it is there already, else the first estimate, which is not tested meanwhile."""
        self._progress = progress
        self._may_go_on.clear()
        try:
            self._wait(cancel, self._early, self._final)
            self._progress = None  # what is told from now on is how far the correction is
            yield (self._final if self._final.done() else self._early).result()
        finally:
            self._may_go_on.set()

    def final(self, cancel: CancelToken | None) -> ChosenReadout:
        """The readout, tested."""
        self._wait(cancel, self._final)
        return self._final.result()

    def _wait(self, cancel: CancelToken | None, *awaited: Future[ChosenReadout]) -> None:
        while not wait(awaited, POLL, FIRST_COMPLETED).done:
            require_not_cancelled(cancel)


def same_picture(one: ChosenReadout, other: ChosenReadout) -> bool:
    """Whether corrections with two readouts of a clip differ by less than half a pixel, even where it is fastest."""
    if (one.nothing_to_correct, one.readout.scan) != (other.nothing_to_correct, other.readout.scan):
        return one.nothing_to_correct and other.nothing_to_correct
    fastest = 0.0 if other.found is None else other.found.fastest
    # The first and the last row lie half a readout from the middle one.
    return 0.5 * fastest * abs(one.readout.gamma - other.readout.gamma) < NEGLIGIBLE_PX
