"""The clips of one server, what is being done with them, and what the page is told about it."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qrsc.web.lane import Lane, Task
from qrsc.web.settings import Settings

MOST_CLIPS = 20
# Files of a task that the page may ask for, beside those that its result names.
_PICTURES = ("thumb.jpg", "first.jpg", *(f"still-{number:02d}.jpg" for number in range(11)))
_SHOWN = {
    "width",
    "height",
    "fps",
    "frames",
    "seconds",
    "codec",
    "camera",
    "file_readout_ms",
    "stabilisation",
    "device",
}


@dataclass
class Clip:
    """A clip that was uploaded.

    Attributes:
        name: what the user calls it.
        path: where it lies, under a name of the server's.
        folder: for everything that is made of it.
        key: by which requests name it; cannot be guessed.
        tasks: the newest of each kind.
    """

    name: str
    path: Path
    folder: Path
    key: str
    tasks: dict[str, Task] = field(default_factory=dict)

    @property
    def info(self) -> dict[str, Any]:
        """What it is; empty while that is not known."""
        look = self.tasks.get("look")
        return (look.result or {}) if look is not None else {}

    def file(self, kind: str, name: str) -> Path | None:
        """A file that the page may have: only names that the server itself made are looked up."""
        task = self.tasks.get(kind)
        if task is None:
            return None
        known = {picture: task.folder / picture for picture in _PICTURES}
        if task.result is not None and kind in ("preview", "run"):
            for which in ("before", "after"):
                shown = task.result[which]  # browsers play some clips as they are
                known[which] = self.path if shown == self.path.name else task.folder / shown
            if kind == "run":
                known |= {"video": task.folder / task.result["file"], "json": task.folder / "result.json"}
                if task.result["compare"] is not None:
                    known["compare"] = task.folder / "compare.mp4"
        path = known.get(name)
        return path if path is not None and path.is_file() else None

    def download_name(self, name: str) -> str | None:
        """The name under which a file is saved; None for files that are only shown."""
        task = self.tasks.get("run")
        result = {} if task is None else task.result or {}
        if name == "json":
            return f"{Path(self.name).stem}-result.json"
        saved = {"video": result.get("output"), "compare": result.get("compare")}
        return saved.get(name)


class Shelf:
    """All clips, and the two lanes of tasks: one for what is quick, one for runs.

    A preview is ready in seconds while another clip is being corrected, because it does not wait for it.

    Args:
        folder: private to this server.

    Attributes:
        version: counts changes.
        ending: the server is about to end, and streams of events with it.
        slowness: how many times as long as estimated runs took on this machine; None before the first.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clips: dict[str, Clip] = {}
        self.version = 0
        self.ending = False
        self.slowness: float | None = None
        self.quick, self.runs = Lane(self._task_changed), Lane(self._task_changed)
        self._change = asyncio.Event()
        self._serving: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Start to work."""
        self._serving = [asyncio.create_task(lane.serve()) for lane in (self.quick, self.runs)]

    async def close(self) -> None:
        """Stop to work, in the middle of whatever it is."""
        for serving in self._serving:
            serving.cancel()
        for lane in (self.quick, self.runs):
            await lane.close()

    def end_streams(self) -> None:
        """Let go of the pages that listen."""
        self.ending = True
        self._changed()

    async def next_change(self, seen: int) -> None:
        """Wait until there is something that a page with this version has not seen."""
        while self.version == seen:
            await self._change.wait()

    def new_place(self) -> tuple[str, Path]:
        """A key for a clip and a folder for it.

        Raises:
            ValueError: there are too many clips.
        """
        if len(self.clips) >= MOST_CLIPS:
            raise ValueError(f"there are {MOST_CLIPS} clips here already. Remove one first, then add this one again.")
        key = secrets.token_hex(12)
        folder = self.folder / key
        folder.mkdir(mode=0o700)
        return key, folder

    def add(self, key: str, folder: Path, path: Path, name: str) -> Clip:
        """Take a clip that has been uploaded, and look at it."""
        clip = self.clips[key] = Clip(name, path, folder, key)
        self.start(clip, "look")
        return clip

    def start(self, clip: Clip, kind: Any, **given: Any) -> Task:
        """Queue a task; an earlier one of its kind is cancelled, and what it made removed."""
        self.cancel(clip, kind)
        before = clip.tasks.get(kind)
        task = Task(kind, clip.path, clip.name, clip.folder, given)
        task.folder = clip.folder / f"{kind}-{task.number}"
        task.folder.mkdir()
        clip.tasks[kind] = task
        if before is not None:
            shutil.rmtree(before.folder, ignore_errors=True)
        if kind == "run":
            self.quick.rest()  # a run looks for the readout itself
        self._lane(task).put(task)
        return task

    def cancel(self, clip: Clip, kind: str) -> None:
        """Stop a task, if there is one that has not ended."""
        task = clip.tasks.get(kind)
        if task is not None and not task.ended:
            self._lane(task).cancel(task)

    def remove(self, clip: Clip) -> None:
        """Forget a clip and everything made of it."""
        del self.clips[clip.key]
        for kind in clip.tasks:
            self.cancel(clip, kind)
        shutil.rmtree(clip.folder, ignore_errors=True)
        self._changed()

    def state(self) -> dict[str, Any]:
        """Everything that the page shows, as values that JSON can hold."""
        return {
            "version": self.version,
            "slowness": self.slowness or 1.0,
            "measured": self.slowness is not None,
            "clips": [self._clip_state(clip) for clip in self.clips.values()],
        }

    def _clip_state(self, clip: Clip) -> dict[str, Any]:
        info = clip.info
        return {
            "key": clip.key,
            "name": clip.name,
            "info": {name: info[name] for name in sorted(_SHOWN & set(info))},
            "frame_seconds": [info.get("frame_seconds"), info.get("frame_seconds_denoised")],
            "tasks": {kind: self._task_state(task) for kind, task in clip.tasks.items()},
        }

    def _task_state(self, task: Task) -> dict[str, Any]:
        return {
            "number": task.number,
            "state": task.state,
            "place": self._lane(task).place(task),
            "progress": task.progress,
            "frame": task.frame,
            "results": 0 if task.result is None else task.results,
            "notes": task.notes[-20:],
            "error": task.error,
            "settings": task.given.get("settings"),
        }

    def _lane(self, task: Task) -> Lane:
        return self.runs if task.kind == "run" else self.quick

    def _task_changed(self, task: Task) -> None:
        if task.ended and task.state != "done":
            shutil.rmtree(task.folder, ignore_errors=True)  # with what a killed process left half written
        if task.state == "done" and task.kind == "run":
            self._learn_speed(task)
        self._changed()

    def _learn_speed(self, task: Task) -> None:
        """Compare the time that the frames of a run took, after its readout was found, with the estimate."""
        clip = next((clip for clip in self.clips.values() if clip.tasks.get("run") is task), None)
        took = task.progress
        if clip is None or took.get("stage") not in ("correcting", "slowing down"):
            return
        settings = Settings.of(task.given["settings"])
        each = clip.info["frame_seconds_denoised" if settings.denoise else "frame_seconds"][settings.preset]
        self.slowness = took["seconds"] / (each * took["done"])

    def _changed(self) -> None:
        self.version += 1
        self._change.set()
        self._change = asyncio.Event()
