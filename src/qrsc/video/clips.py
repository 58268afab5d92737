"""Clips as commands see them: a video file or a folder of images, to read from and to write to.

Convention
    Frames are corrected as they are stored; a rotation tag stays a tag. Output appears under its name when it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from qrsc.media.atomic import atomic_file, atomic_folder
from qrsc.media.codecs import Encoding, is_video_name
from qrsc.media.image_folder import StoredFrame, list_frames, read_frame, read_frames, write_frame
from qrsc.media.outputs import require_writable
from qrsc.media.planes import rgb_of
from qrsc.media.probe import ClipInfo, opened, probe
from qrsc.media.reader import DecodedFrame, read_clip
from qrsc.media.tracks import tracks_to_copy
from qrsc.media.writer import VideoWriter, open_writer
from qrsc.pipeline import Seconds

# Names that mean a file to everybody, though none that is written here.
_OTHER_MEDIA = (".mpg", ".mpeg", ".wmv", ".flv", ".gif", ".3gp", ".ogv", ".png", ".jpg", ".jpeg", ".tif", ".tiff")


@dataclass(frozen=True)
class SourceFrame:
    """A frame to correct, `[3, H, W]`, when it started, and what it was before."""

    frame: Tensor
    time: float
    origin: StoredFrame | DecodedFrame


@dataclass(frozen=True)
class Picture:
    """A frame to write.

    Attributes:
        frame: `[3, H, W]`; None for the origin as it is.
        origin: the frame in whose place it stands.
        opaque: `[1, H, W]` bool, for output with transparency; None is opaque.
    """

    frame: Tensor | None
    origin: StoredFrame | DecodedFrame
    opaque: Tensor | None = None


class Source(Protocol):
    """A clip to read."""

    @property
    def size(self) -> tuple[int, int]: ...
    @property
    def frames(self) -> int | None: ...
    @property
    def info(self) -> ClipInfo | None: ...
    def items(self) -> Iterator[Any]:
        """`SourceFrame`s in order, and packets of other tracks, which are none."""
        ...


class Target(Protocol):
    """A clip being written."""

    def take(self, item: Any) -> None:
        """Writes a `Picture`, or copies a packet."""
        ...


# --- reading ---


@dataclass(frozen=True)
class FolderSource:
    """The images of a folder."""

    paths: list[Path]
    device: torch.device
    seconds: Seconds
    size: tuple[int, int]
    info: None = None

    @property
    def frames(self) -> int:
        return len(self.paths)

    def items(self) -> Iterator[SourceFrame]:
        frames = read_frames(self.paths, device=self.device)
        for index in range(len(self.paths)):
            with self.seconds.of("decode"):
                stored = next(frames)
            yield SourceFrame(stored.frame, float(index), stored)


@dataclass(frozen=True)
class VideoSource:
    """A video file, open."""

    container: Any
    info: ClipInfo
    device: torch.device
    seconds: Seconds
    copied: list[Any]
    start: float | None
    end: float | None

    @property
    def size(self) -> tuple[int, int]:
        return self.info.size

    @property
    def frames(self) -> int | None:
        if self.info.frames is None or (self.start is None and self.end is None):
            return self.info.frames
        last = self.info.frames if self.end is None else min(self.info.frames, round(self.end * self.info.fps))
        return max(0, last - round((self.start or 0.0) * self.info.fps))

    def items(self) -> Iterator[Any]:
        items = read_clip(self.container, self.info, self.copied, start=self.start, end=self.end)
        while True:
            with self.seconds.of("decode"):
                item: Any = next(items, None)
                if isinstance(item, DecodedFrame):
                    frame = rgb_of(item.frame, self.info.colours).to(self.device)
                    item = SourceFrame(frame, item.time, item)
            if item is None:
                return
            yield item


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
) -> Iterator[tuple[FolderSource | VideoSource, list[str]]]:
    """Opens a clip; with it, descriptions of the tracks that the file format `container` cannot take over."""
    if info is None:
        paths = list_frames(source)
        if start is not None or end is not None:
            raise ValueError("--start and --end are seconds of a video; leave files out of a folder instead.")
        yield FolderSource(paths, device, seconds, clip_size(source, None)), []
        return
    with opened(source) as opened_container:
        copied, left_out = tracks_to_copy(opened_container, source, container) if container is not None else ([], [])
        yield VideoSource(opened_container, info, device, seconds, copied, start, end), left_out


def clip_info(source: Path) -> ClipInfo | None:
    """What a video is, or None for a folder of images."""
    if not source.exists():
        raise FileNotFoundError(f"there is no file or folder {source}.")
    return None if source.is_dir() else probe(source)


def clip_size(source: Path, info: ClipInfo | None) -> tuple[int, int]:
    """`(H, W)` of a clip's frames."""
    if info is not None:
        return info.size
    height, width = read_frame(list_frames(source)[0]).frame.shape[-2:]
    return height, width


# --- writing ---


class FolderTarget:
    """A folder of images being filled."""

    def __init__(self, folder: Path, seconds: Seconds) -> None:
        self._folder, self._seconds = folder, seconds
        self._count = 0

    def take(self, item: Any) -> None:
        if not isinstance(item, Picture):
            return
        with self._seconds.of("encode"):
            name, like, frame = self._described(item)
            if item.opaque is not None:
                like = replace(like, channels=4, alpha=item.opaque.float().cpu())
                if not name.lower().endswith((".png", ".tif", ".tiff", ".webp")):
                    raise ValueError(f"{name}: this format has no transparency; let the input frames be PNG or TIFF.")
            write_frame(self._folder / name, frame, like=like)
        self._count += 1

    def _described(self, item: Picture) -> tuple[str, StoredFrame, Tensor]:
        origin = item.origin
        if isinstance(origin, StoredFrame):
            return origin.path.name, origin, origin.frame if item.frame is None else item.frame
        name = f"{self._count:06d}.png"
        frame = rgb_of(origin.frame, origin.colours) if item.frame is None else item.frame
        return name, StoredFrame(Path(name), frame, 8 if origin.bits == 8 else 16, 3, None), frame


class VideoTarget:
    """A video being written."""

    def __init__(self, writer: VideoWriter, seconds: Seconds, rate: Fraction | None, bits: int) -> None:
        self._writer, self._seconds = writer, seconds
        self._rate = rate
        self._bits = bits
        self._count = 0

    def take(self, item: Any) -> None:
        if not isinstance(item, Picture):
            self._writer.copy(item)
            return
        with self._seconds.of("encode"):
            if isinstance(item.origin, StoredFrame):
                self._writer.write_at(item.origin.frame if item.frame is None else item.frame, self._count, 1)
            else:
                self._writer.write(item.frame, item.origin.frame, _alpha(item.opaque, self._bits))
        self._count += 1


def _alpha(opaque: Tensor | None, bits: int) -> Any:
    if opaque is None:
        return None
    return (opaque[0].cpu().numpy() * (2**bits - 1)).astype(np.uint8 if bits == 8 else np.uint16)


@contextmanager
def open_target(
    output: Path,
    source: FolderSource | VideoSource,
    *,
    size: tuple[int, int],
    seconds: Seconds,
    encoding: Encoding | None,
    fps: float | None,
    overwrite: bool,
) -> Iterator[Target]:
    """Opens an output: a video if there is an encoding, else a folder."""
    if encoding is None:
        with atomic_folder(output, overwrite=overwrite) as work:
            yield FolderTarget(work, seconds)
        return
    with ExitStack() as stack:
        work = stack.enter_context(atomic_file(output, overwrite=overwrite))
        info = source.info
        rate = None if fps is None else Fraction(fps).limit_denominator(1001)
        writer = stack.enter_context(
            open_writer(
                work,
                encoding,
                size,
                info=info,
                source=source.container if isinstance(source, VideoSource) else None,
                copied=source.copied if isinstance(source, VideoSource) else None,
                rate=rate if info is None else None,
                chapters=isinstance(source, VideoSource) and source.start is None and source.end is None,
            )
        )
        yield VideoTarget(writer, seconds, rate, encoding.layout.bits)


def require_output(source: Path, output: Path, *, compare: Path | None = None, overwrite: bool) -> None:
    """Refuse outputs that would destroy something (see `require_writable`), or that are no clip by their names."""
    require_writable({"the output": output, "--compare": compare}, inputs=[source], overwrite=overwrite)
    if is_video_name(output):
        if output.is_dir():
            raise IsADirectoryError(f"{output} is a folder; the name of a video file was expected.")
    elif output.suffix.lower() in _OTHER_MEDIA:
        raise ValueError(
            f"{output.name} is neither a folder nor the name of a video that can be written; "
            "let it end in .mp4, .mov, .mkv, .webm, .avi or .ts, or in no dot for a folder of PNG files."
        )
    if compare is not None and not is_video_name(compare):
        raise ValueError(f"--compare writes a video; let {compare.name} end in .mp4 or the like.")
