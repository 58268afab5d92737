"""Clips of a shaking camera, whole and with what makes them hard to divide, and an executor without processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from torch import Tensor

from qrsc.farm.tasks import Outcome, Task
from qrsc.farm.work import Desk, OutOfMemoryError, perform
from qrsc.warp import sample

from ..videos import Recipe, make_video, texture

GAMMA = 0.8
HEIGHT, WIDTH = 48, 64
_MS = Fraction(1, 1000)


def shaken(count: int, seed: int = 1) -> list[Tensor]:
    """Frames `[3, 48, 64]` of a texture, read row by row by a camera that shakes."""
    picture = texture(seed, HEIGHT, 200)
    frames = []
    for number in range(count):
        rows = (number + GAMMA * torch.arange(HEIGHT) / HEIGHT).numpy()
        moved = 5.0 * np.sin(0.35 * rows + seed) + 2.0 * np.sin(1.3 * rows)
        x = torch.arange(WIDTH) + 60.0 + torch.from_numpy(moved.astype(np.float32))[:, None]
        y = torch.arange(HEIGHT, dtype=torch.float32)[:, None].expand(-1, WIDTH)
        frames.append(sample(picture, torch.stack([x, y])).image)
    return frames


def uneven_stamps(count: int) -> list[int]:
    """Timestamps of a variable rate, with frames missing here and there."""
    random = np.random.default_rng(0)
    steps = 3000 + random.integers(-200, 200, count) + 3000 * (random.random(count) < 0.04)
    return [int(stamp) for stamp in np.cumsum(steps)]


def short_clip(path: Path, count: int = 14, seed: int = 1, **recipe: Any) -> Path:
    """A short clip with sound."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return make_video(path, Recipe(shaken(count, seed), sound=1, **recipe))


def hard_clip(path: Path, count: int = 84) -> Path:
    """Variable rate, B-frames, a scene cut, and a still picture that lasts for 14 frames."""
    frames = [*shaken(count * 6 // 10, 1), *shaken(count, 7)[count * 6 // 10 :]]
    frames[count // 3 : count // 3 + 14] = [frames[count // 3]] * 14
    chapters = [{"id": 1, "start": 0, "end": 900, "time_base": _MS, "metadata": {"title": "one"}}]
    options = {"crf": "8", "bf": "3", "g": "28"}
    recipe = Recipe(frames, stamps=uneven_stamps(count), options=options, sound=2, chapters=chapters)
    return make_video(path, recipe)


def with_edit_list(source: Path, path: Path, skipped: int) -> Path:
    """The same clip with an edit list: the first frames are stored, and not shown."""
    with av.open(str(source)) as old, av.open(str(path), "w") as new:
        kept = [*old.streams.video, *old.streams.audio]
        streams: dict[int, Any] = {s.index: new.add_stream_from_template(s, opaque=True) for s in kept}
        stamps = sorted(packet.pts for packet in old.demux(video=0) if packet.size and packet.pts is not None)
        late = stamps[skipped] * Fraction(old.streams.video[0].time_base or 1)
        old.seek(0)
        for packet in old.demux(kept):
            if packet.size and packet.pts is not None and packet.dts is not None:
                ticks = round(late / packet.time_base)
                packet.pts, packet.dts = packet.pts - ticks, packet.dts - ticks
                packet.stream = streams[packet.stream.index]
                new.mux(packet)
    return path


Hook = Callable[[int, Task], Outcome | None]


class Inline:
    """Does tasks at once, in this process.

    Args:
        scratch: a folder.
        hook: called before each task; what it returns is the outcome.
    """

    def __init__(self, scratch: Path, hook: Hook | None = None, slots: int = 2) -> None:
        self._scratch, self._hook = scratch, hook
        self.slots, self.frames = slots, 0
        self.done: list[Task] = []
        self._waiting: list[tuple[int, Task]] = []

    def submit(self, number: int, task: Task) -> None:
        assert len(self._waiting) < self.slots
        self._waiting.append((number, task))

    def outcomes(self, seconds: float) -> list[Outcome]:
        waiting, self._waiting = self._waiting, []
        return [self._outcome(number, task) for number, task in reversed(waiting)]

    def _outcome(self, number: int, task: Task) -> Outcome:
        found = self._hook(number, task) if self._hook is not None else None
        if found is not None:
            return found
        self.done.append(task)
        try:
            return Outcome(number, perform(task, Desk(self._scratch)))
        except OutOfMemoryError as error:
            return Outcome(number, error=str(error), died=True)
        except (ValueError, OSError) as error:
            return Outcome(number, error=str(error))

    def close(self) -> None:
        pass


def kinds(tasks: Sequence[Task]) -> list[str]:
    """What was done, in order."""
    return [type(task).__name__.removesuffix("Task").lower() for task in tasks]
