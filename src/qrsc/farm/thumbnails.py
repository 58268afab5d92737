"""A small picture of a clip before and after, for the report."""

from __future__ import annotations

import base64
from pathlib import Path

import torch
from torch import Tensor

from qrsc.image.resize import resized_picture
from qrsc.media.image_folder import encode_frame
from qrsc.media.probe import opened, pyav, video_stream

WIDTH = 200  # pixels of each of the two


def thumbnail_of(source: Path, output: Path) -> str:
    """Before and after side by side, a frame from the middle, as a JPEG in a data URL; empty if none can be read."""
    before, after = (_middle_frame(path) for path in (source, output))
    if before is None or after is None:
        return ""
    small = [resized_picture(each[None], _small(each))[0] for each in (before, after)]
    height = min(each.shape[-2] for each in small)
    pair = torch.cat([each[:, :height] for each in small], -1)
    return "data:image/jpeg;base64," + base64.b64encode(encode_frame("pair.jpg", pair)).decode("ascii")


def _small(frame: Tensor) -> tuple[int, int]:
    height, width = frame.shape[-2:]
    return max(1, round(height * WIDTH / width)), WIDTH


def _middle_frame(path: Path) -> Tensor | None:
    """A frame `[3, H, W]` from the middle of a video: the first that can be decoded from a key frame there."""
    if path.is_dir():
        return None
    try:
        with opened(path) as container:
            if container.duration:
                container.seek((container.start_time or 0) + container.duration // 2)
            for frame in container.decode(video_stream(container, path)):
                pixels = torch.from_numpy(frame.to_ndarray(format="rgb24"))
                return pixels.permute(2, 0, 1).float() / 255.0
    except (OSError, ValueError, pyav().FFmpegError):  # a report without a picture is better than none
        return None
    return None
