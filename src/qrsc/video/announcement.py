"""How long a run will take and how large its output will be, said before it has taken long."""

from __future__ import annotations

from dataclasses import dataclass

from qrsc.backend.progress import Progress
from qrsc.names import PresetName
from qrsc.video.clip_job import ClipJob
from qrsc.video.clip_plan import LONG_RUN, QUICKER, in_bytes, in_words
from qrsc.video.edges import Edges
from qrsc.video.expected_time import estimated_seconds
from qrsc.video.planning import estimated_bytes

WARMED_UP, SLOWLY = 10, 3  # frames after which the time that is left can be told, and where each takes long
WAITED = 15.0  # seconds after which that is told
ANNOUNCED = 30.0  # seconds that a run has to take for its time and size to be told in advance


@dataclass
class Announcement:
    """What is said in advance about one run.

    Args:
        job: the clip.
        edges: of the output.
        preset: of the correction.
        denoise: noise is removed, too.
        factor: of slow motion.
    """

    job: ClipJob
    edges: Edges
    preset: PresetName
    denoise: bool = False
    factor: int = 1
    _measured: bool = False
    _recommended: bool = False

    def guess(self, frames: int | None, size: tuple[int, int]) -> None:
        """Before the first of so many frames `(H, W)`: say that they are likely to take long, if they are."""
        if frames is None or self.preset == "fast":
            return
        seconds = estimated_seconds(
            frames, size, self.preset, denoise=self.denoise, factor=self.factor, device=self.job.device.type
        )
        if seconds > LONG_RUN:
            self._recommended = True
            self.job.tally.note(f"by its size this will take {in_words(seconds)}, at a guess; {QUICKER}")

    def measure(self, progress: Progress) -> None:
        """After each frame of the output: say once how long all will take and how large they will be."""
        done, left = progress.done, progress.seconds_left
        known = done >= WARMED_UP or (done >= SLOWLY and progress.seconds > WAITED)
        if self._measured or not known:
            return
        self._measured = True
        if left is None or left < ANNOUNCED:
            return
        try:
            length = estimated_bytes(self.job, self.edges, progress.total)
        except (OSError, ValueError):  # the run itself goes on, and says what is wrong if it cannot
            length = None
        each, size = progress.seconds / done, in_bytes(length)
        recommended = left > LONG_RUN and self.preset != "fast" and not self._recommended
        self.job.tally.note(
            f"this will take {in_words(left)}, at {each:.1f} s a frame, and the output be {size}"
            f"{f'; {QUICKER}' if recommended else ''}"
        )
