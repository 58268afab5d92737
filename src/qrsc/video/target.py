"""Clips to write: a video file or a folder of images. Output appears under its name when it is complete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from qrsc.media.atomic import atomic_file, atomic_folder
from qrsc.media.codecs import Encoding, is_video_name
from qrsc.media.image_folder import StoredFrame, write_frame
from qrsc.media.outputs import require_writable
from qrsc.media.planes import alpha_of, rgb_of
from qrsc.media.reader import DecodedFrame
from qrsc.media.writer import VideoWriter, open_writer
from qrsc.pipeline import Seconds
from qrsc.video.source import Source, VideoSource
from qrsc.video.verifier import Verifier

# Suffixes that everybody takes for a file, though none that is written here.
_OTHER_MEDIA = (".mpg", ".mpeg", ".wmv", ".flv", ".gif", ".3gp", ".ogv", ".png", ".jpg", ".jpeg", ".tif", ".tiff")


@dataclass(frozen=True)
class Picture:
    """A frame to write.

    Attributes:
        frame: `[3, H, W]`; None for the origin as it is.
        origin: the frame in whose place it stands.
        alpha: `[1, H, W]` in [0, 1], for output with transparency; None for that of the origin.
    """

    frame: Tensor | None
    origin: StoredFrame | DecodedFrame
    alpha: Tensor | None = None


class Target(Protocol):
    """A clip being written."""

    def take(self, item: Any) -> None:
        """Writes a `Picture`, or copies a packet."""
        ...


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
            if item.alpha is not None:
                like = replace(like, channels=4, alpha=item.alpha.float().cpu())
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
        alpha = stored_alpha(origin)
        channels = 3 if alpha is None else 4
        return name, StoredFrame(Path(name), frame, 8 if origin.bits == 8 else 16, channels, alpha), frame


class VideoTarget:
    """A video being written."""

    def __init__(self, writer: VideoWriter, seconds: Seconds, bits: int) -> None:
        self._writer, self._seconds = writer, seconds
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
                self._writer.write(item.frame, item.origin.frame, _samples(item.alpha, self._bits))
        self._count += 1


def _samples(alpha: Tensor | None, bits: int) -> Any:
    """Samples `[H, W]` of an alpha plane."""
    if alpha is None:
        return None
    return (alpha[0].cpu().numpy() * (2**bits - 1)).round().astype(np.uint8 if bits == 8 else np.uint16)


def stored_alpha(origin: StoredFrame | DecodedFrame) -> Tensor | None:
    """The alpha of a frame as it was stored, `[1, H, W]` in [0, 1]; None if it has none."""
    if isinstance(origin, StoredFrame):
        return origin.alpha
    samples = alpha_of(origin.frame)
    if samples is None:
        return None
    return torch.from_numpy(samples.astype(np.float32))[None].div(2**origin.bits - 1)


@contextmanager
def open_target(
    output: Path,
    source: Source,
    *,
    size: tuple[int, int],
    seconds: Seconds,
    encoding: Encoding | None,
    fps: float | None,
    overwrite: bool,
    verifier: Verifier | None = None,
) -> Iterator[Target]:
    """Open an output: a video if there is an encoding, else a folder. Videos are verified before they are named."""
    if encoding is None:
        with atomic_folder(output, overwrite=overwrite) as work:
            yield FolderTarget(work, seconds)
        return
    rate = None if fps is None else Fraction(fps).limit_denominator(1001)
    with open_video(output, source, encoding, size=size, rate=rate, overwrite=overwrite, verifier=verifier) as writer:
        yield VideoTarget(writer, seconds, encoding.layout.bits)


@contextmanager
def open_video(
    output: Path,
    source: Source,
    encoding: Encoding,
    *,
    size: tuple[int, int],
    rate: Fraction | None = None,
    overwrite: bool,
    verifier: Verifier | None = None,
) -> Iterator[VideoWriter]:
    """Open a video that takes over everything from its source but the frames; it is verified before it is named."""
    info = source.info
    with atomic_file(output, overwrite=overwrite) as work:
        with open_writer(
            work,
            encoding,
            size,
            info=info,
            source=source.container if isinstance(source, VideoSource) else None,
            copied=source.copied if isinstance(source, VideoSource) else None,
            rate=rate if info is None else None,
            chapters=isinstance(source, VideoSource) and source.start is None and source.end is None,
        ) as writer:
            yield writer
        if verifier is not None:
            verifier.check(work, output, writer.record, encoding.container)


def require_output(source: Path, output: Path, *, beside: Mapping[str, Path | None], overwrite: bool) -> None:
    """Refuse outputs that would destroy something (see `require_writable`), or that are no clip by their names.

    Args:
        source: the clip.
        output: what is written.
        beside: further videos, by the name of their option; None if not asked for.
        overwrite: existing files may be replaced.
    """
    require_writable({"the output": output, **beside}, inputs=[source], overwrite=overwrite)
    if is_video_name(output):
        if output.is_dir():
            raise IsADirectoryError(f"{output} is a folder; the name of a video file was expected.")
    elif output.suffix.lower() in _OTHER_MEDIA:
        raise ValueError(
            f"{output.name} is neither a folder nor the name of a video that can be written; "
            "let it end in .mp4, .mov, .mkv, .webm, .avi or .ts, or in no dot for a folder of PNG files."
        )
    for option, path in beside.items():
        if path is not None and not is_video_name(path):
            raise ValueError(f"{option} writes a video; let {path.name} end in .mp4 or the like.")
