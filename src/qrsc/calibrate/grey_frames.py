"""A clip as input of the calibration: grey frames of moderate size, its frame rate, and the camera that it names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.calibrate.cells import Grey
from qrsc.calibrate.exif import image_camera
from qrsc.flow.dis import MIN_SIDE
from qrsc.media.image_folder import list_frames, read_frame, read_frames
from qrsc.media.orientation import IDENTITY, Matrix
from qrsc.media.probe import ClipInfo, opened, probe
from qrsc.media.reader import DecodedFrame, ReadReport, pixels_of, read_clip, read_video

# Frames are downsampled to this length of their longer side for the flow: it is faster, and relative to the frame no
# less precise.
LONGEST = 640
_MAKER_KEYS = ("com.apple.quicktime.make", "make", "com.android.manufacturer", "manufacturer")
_MODEL_KEYS = ("com.apple.quicktime.model", "model", "com.android.model", "camera_model_name")


@dataclass(frozen=True)
class ClipSource:
    """A clip on disk.

    Attributes:
        path: a video, or a folder of images.
        size: `(height, width)` of its frames as stored.
        fps: frames per second; None for a folder.
        camera: maker and model as the file says, or an empty string.
        info: of a video, if it has been probed.
        metadata: of a video, keys in lower case.
        met: what was met while its frames were read.
    """

    path: Path
    size: tuple[int, int]
    fps: float | None
    camera: str
    info: ClipInfo | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    met: ReadReport = field(default_factory=ReadReport, compare=False)

    @property
    def matrix(self) -> Matrix:
        """How the frames are turned for display."""
        return IDENTITY if self.info is None else self.info.matrix

    @property
    def turned_in_pixels(self) -> bool:
        """Whether the frames were probably turned before they were stored: portrait, without a rotation tag."""
        return self.info is not None and self.matrix == IDENTITY and self.size[0] > self.size[1]

    def frames(self) -> Iterator[Tensor]:
        """The frames `[3, H, W]`, RGB in [0, 1], as stored."""
        if self.path.is_dir():
            return (stored.frame for stored in read_frames(list_frames(self.path)))
        return read_video(self.path, info=self.info)

    @property
    def frame_count(self) -> int | None:
        """How many frames there are; None if that is not known."""
        if self.path.is_dir():
            return len(list_frames(self.path))
        return None if self.info is None else self.info.frames

    def timed_frames(
        self, first: int = 0, most: int | None = None, advance: Callable[[], None] | None = None
    ) -> Iterator[tuple[Grey, float]]:
        """Frames in grey, `[h, w]`, downsampled if they are large, and when each starts, in frame intervals.

        Args:
            first: number of the first one, to the nearest frame if some are missing.
            most: how many.
            advance: called for every frame.
        """
        scale = LONGEST / max(self.size)
        size = [max(1, round(side * scale)) for side in self.size] if scale < 1.0 else None
        for pixels, time in islice(self._timed_pixels(first), most):
            if advance is not None:
                advance()
            yield _grey(pixels, size), time

    def grey_frames(self, most: int | None = None) -> Iterator[Grey]:
        """The first frames in grey, `[h, w]`, downsampled if they are large."""
        return (frame for frame, _ in self.timed_frames(most=most))

    def _timed_pixels(self, first: int) -> Iterator[tuple[npt.NDArray[np.uint8] | npt.NDArray[np.float32], float]]:
        """The frames `[H, W, 3]`, in 8 bits or in [0, 1], and when each starts; not a number after a jump in time."""
        if self.path.is_dir():
            for number, stored in enumerate(read_frames(list_frames(self.path)[first:])):
                yield np.ascontiguousarray(stored.frame.permute(1, 2, 0).numpy()), float(number)
            return
        info = probe(self.path) if self.info is None else self.info
        start = first * info.interval if first else None
        with opened(self.path) as container:
            for item in read_clip(container, info, [], start=start, report=self.met):
                if isinstance(item, DecodedFrame):
                    yield pixels_of(item), math.nan if item.restarts else item.time


def _grey(pixels: npt.NDArray[np.uint8] | npt.NDArray[np.float32], size: list[int] | None) -> Grey:
    """A frame `[H, W, 3]` in grey, `[h, w]`, resized if a size is given and padded to at least `MIN_SIDE` a side."""
    import cv2

    grey = torch.from_numpy(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY))
    if grey.dtype != torch.uint8:
        grey = 255.0 * grey
    if size is not None:
        grey = F.interpolate(grey[None, None].float(), size=size, mode="area")[0, 0]
    picture = grey.numpy() if grey.dtype == torch.uint8 else grey.clamp(0.0, 255.0).round().byte().numpy()
    missing = [(0, max(0, MIN_SIDE - side)) for side in picture.shape]
    return np.pad(picture, missing, mode="edge") if any(after for _, after in missing) else picture


def open_clip(path: Path, fps: float | None = None, info: ClipInfo | None = None) -> ClipSource:
    """A video or a folder of images; a given frame rate comes before that of the file.

    `info` is that of a video which has been probed before.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder {path}.")
    if path.is_dir():
        first = list_frames(path)[0]
        height, width = read_frame(first).frame.shape[-2:]
        return ClipSource(path, (height, width), fps, full_name(*image_camera(first)))
    info = probe(path) if info is None else info
    metadata = _metadata(path)
    return ClipSource(path, info.size, info.fps if fps is None else fps, _named_camera(metadata), info, metadata)


def _metadata(path: Path) -> dict[str, str]:
    """The metadata of a video and its streams, keys in lower case."""
    with opened(path) as container:
        said = {key.casefold(): value for key, value in container.metadata.items()}
        for stream in container.streams.video:
            said = {key.casefold(): value for key, value in stream.metadata.items()} | said
    return said


def _named_camera(metadata: Mapping[str, str]) -> str:
    """Maker and model in the metadata of a video, as phones and some cameras write them."""
    maker = next((metadata[key] for key in _MAKER_KEYS if key in metadata), "")
    return full_name(maker, next((metadata[key] for key in _MODEL_KEYS if key in metadata), ""))


def full_name(maker: str, model: str) -> str:
    """Maker and model, the maker once; empty without a model."""
    return (model if model.casefold().startswith(maker.casefold()) else f"{maker} {model}").strip() if model else ""
