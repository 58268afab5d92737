"""A small picture of a clip before and after, for the report."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.image.resize import resized_picture
from qrsc.media.image_folder import encode_frame
from qrsc.media.orientation import IDENTITY, Matrix, upright
from qrsc.media.probe import opened, pyav, video_stream

WIDTH = 200  # pixels of each of the two
SECOND = 1_000_000  # of a container, in its unit of time
SLACK = 0.002  # seconds by which formats round timestamps


def thumbnail_of(source: Path, output: Path, matrix: Matrix = IDENTITY) -> str:
    """Before and after side by side, one frame from the middle, as a JPEG in a data URL; empty if none can be read.

    Args:
        source, output: the videos.
        matrix: how both are turned for display.
    """
    before = _frame_from(source, None, matrix)
    after = None if before is None else _frame_from(output, before[1], matrix)
    if before is None or after is None:
        return ""
    small = [resized_picture(each[None], _small(each))[0] for each, _ in (before, after)]
    height = min(each.shape[-2] for each in small)
    pair = torch.cat([each[:, :height] for each in small], -1)
    return "data:image/jpeg;base64," + base64.b64encode(encode_frame("pair.jpg", pair)).decode("ascii")


def _small(frame: Tensor) -> tuple[int, int]:
    height, width = frame.shape[-2:]
    return max(1, round(height * WIDTH / width)), WIDTH


def _frame_from(path: Path, start: float | None, matrix: Matrix) -> tuple[Tensor, float] | None:
    """The first frame `[3, H, W]` of a video from a time on, upright, and its time in seconds.

    Args:
        path: the video.
        start: the time; None for the middle of the video.
        matrix: how it is turned for display.
    """
    if path.is_dir():
        return None
    try:
        with opened(path) as container:
            if start is None:
                start = ((container.start_time or 0) + (container.duration or 0) / 2) / SECOND
            # Key frames of two files lie at different times, so that the way to the frame is decoded.
            container.seek(max(0, int((start - SLACK) * SECOND)))
            for frame in container.decode(video_stream(container, path)):
                if frame.time is not None and frame.time >= start - SLACK:
                    stored: npt.NDArray[np.uint8] = frame.to_ndarray(format="rgb24").astype(np.uint8, copy=False)
                    pixels = torch.from_numpy(upright(stored, matrix))
                    return pixels.permute(2, 0, 1).float() / 255.0, frame.time
    except (OSError, ValueError, pyav().FFmpegError):  # a report without a picture is better than none
        return None
    return None
