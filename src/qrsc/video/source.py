"""Clips to read: a video file or a folder of images, frame by frame.

Convention
    Frames come as they are stored; a rotation tag stays a tag.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.media.errors import MediaError
from qrsc.media.image_folder import StoredFrame, list_frames, read_frame, read_frames
from qrsc.media.planes import rgb_of
from qrsc.media.probe import ClipInfo, opened, pyav
from qrsc.media.reader import DecodedFrame, ReadReport, read_clip
from qrsc.media.tracks import tracks_to_copy
from qrsc.pipeline import Seconds


@dataclass(frozen=True)
class SourceFrame:
    """A frame to correct.

    Attributes:
        frame: `[3, H, W]`.
        time: at which it starts, in frame intervals.
        origin: the frame as it was stored.
        restarts: the time since the previous frame is unknown.
    """

    frame: Tensor
    time: float
    origin: StoredFrame | DecodedFrame
    restarts: bool = False


@dataclass(frozen=True)
class FolderSource:
    """The images of a folder."""

    paths: list[Path]
    device: torch.device
    seconds: Seconds
    size: tuple[int, int]
    info: None = None
    left_out: tuple[str, ...] = ()
    report: ReadReport = field(default_factory=ReadReport)

    @property
    def frames(self) -> int:
        return len(self.paths)

    def items(self) -> Iterator[SourceFrame]:
        """The frames in order."""
        frames = read_frames(self.paths, device=self.device)
        for index in range(len(self.paths)):
            with self.seconds.of("decode"):
                stored = next(frames)
            yield SourceFrame(stored.frame, float(index), stored)


@dataclass(frozen=True)
class VideoSource:
    """A video file, open.

    Attributes:
        copied: the other tracks whose packets are read, too.
        left_out: descriptions of the tracks that the output cannot hold.
        report: what was met while reading.
    """

    container: Any
    info: ClipInfo
    device: torch.device
    seconds: Seconds
    copied: list[Any]
    start: float | None
    end: float | None
    left_out: tuple[str, ...] = ()
    report: ReadReport = field(default_factory=ReadReport)
    _reading: threading.Lock = field(default_factory=threading.Lock)
    _closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Stop reading: after an error, another thread may still be at it, and would read from a closed file."""
        self._closed.set()
        with self._reading:  # until the frame that is being decoded is done
            pass

    @property
    def size(self) -> tuple[int, int]:
        return self.info.size

    @property
    def frames(self) -> int | None:
        """How many there are, as far as is known."""
        if self.info.frames is None or (self.start is None and self.end is None):
            return self.info.frames
        last = self.info.frames if self.end is None else min(self.info.frames, round(self.end * self.info.fps))
        return max(0, last - round((self.start or 0.0) * self.info.fps))

    def items(self) -> Iterator[Any]:
        """`SourceFrame`s in order, with the packets of the copied tracks between them."""
        items = self._read()
        while True:
            with self.seconds.of("decode"):
                with self._reading:
                    item: Any = None if self._closed.is_set() else self._next(items)
                if isinstance(item, DecodedFrame):
                    frame = rgb_of(item.frame, self.info.colours).to(self.device)
                    item = SourceFrame(frame, item.time, item, item.restarts)
            if item is None:
                return
            yield item

    def _read(self) -> Iterator[Any]:
        return read_clip(self.container, self.info, self.copied, start=self.start, end=self.end, report=self.report)

    def _next(self, items: Iterator[Any]) -> Any:
        """The next item, None at the end. Named here, a failure to read is not taken for one to write."""
        try:
            return next(items, None)
        except pyav().FFmpegError as error:
            raise MediaError(
                f"{self.info.path} cannot be read on: {error.strerror}. Check the disk that it lies on, and try again."
            ) from error


Source = FolderSource | VideoSource


@contextmanager
def open_source(
    source: Path,
    info: ClipInfo | None,
    *,
    device: torch.device,
    seconds: Seconds,
    container: str | None = None,
    start: float | None = None,
    end: float | None = None,
) -> Iterator[Source]:
    """Open a clip, with the tracks beside its video that the file format `container` can hold; None reads none."""
    if info is None:
        paths = list_frames(source)
        if start is not None or end is not None:
            raise ValueError("--start and --end are seconds of a video; leave files out of a folder instead.")
        yield FolderSource(paths, device, seconds, clip_size(source, None))
        return
    with opened(source) as opened_container:
        copied, left_out = tracks_to_copy(opened_container, source, container) if container is not None else ([], [])
        video = VideoSource(opened_container, info, device, seconds, copied, start, end, tuple(left_out))
        try:
            yield video
        finally:
            video.close()


def clip_size(source: Path, info: ClipInfo | None) -> tuple[int, int]:
    """`(H, W)` of a clip's frames."""
    if info is not None:
        return info.size
    height, width = read_frame(list_frames(source)[0]).frame.shape[-2:]
    return height, width
