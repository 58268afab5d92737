"""Frames as they are handed in: tensors or arrays, with or without times; checked, and made finite."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.image.pyramid_fill import fill_from_neighbours
from qrsc.pipeline.corrected import TimedFrame

PlainFrame = Tensor | npt.NDArray[Any]
InputFrame = PlainFrame | TimedFrame

# Values of frames in [0, 1] may overshoot, and HDR may go a little beyond; what exceeds this is on another scale.
# Samples of a video can stand for values outside RGB: from -1.15 to 2.17 with limited range and the matrix of BT.2020.
LOWEST, HIGHEST = -1.25, 4.0
MENDED = "pixels that are not finite were filled from their surroundings"


class ReadyFrame(NamedTuple):
    """A frame that can be worked on.

    Attributes:
        frame: `[3, H, W]`, finite.
        time: at which it starts, in frame intervals.
        restarts: the time since the previous frame is unknown.
        limits: of the values of its results: [0, 1], or those of a frame that goes beyond.
        mended: pixels of it were not finite, and were filled.
    """

    frame: Tensor
    time: float
    restarts: bool
    limits: tuple[float, float]
    mended: bool


def ready_frames(frames: Iterable[InputFrame]) -> Iterator[ReadyFrame]:
    """Check frames; those without a time are one frame interval apart.

    Raises:
        ValueError: a frame is of another shape, kind, range or size than it should be; the message says which.
    """
    size: torch.Size | None = None
    for index, given in enumerate(frames):
        plain, time, restarts = given if isinstance(given, TimedFrame) else (given, float(index), False)
        frame = plain if isinstance(plain, Tensor) else frame_from_array(plain, index)
        _check_shape(frame, index, size)
        size = frame.shape
        limits = _limits(frame)
        mended = not np.isfinite(limits).all()
        if mended:
            frame = _finite(frame, index)
            limits = _limits(frame)
        _check_range(limits, index)
        yield ReadyFrame(frame, time, restarts, (min(0.0, limits[0]), max(1.0, limits[1])), mended)


def frame_from_array(array: npt.NDArray[Any], index: int) -> Tensor:
    """A tensor `[3, H, W]` of an array `[H, W, 3]` of uint8, uint16, or floats in [0, 1]."""
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"frames are tensors [3, H, W] or numpy arrays [H, W, 3]; frame {index} is a {type(array).__name__}."
        )
    if array.ndim != 3 or array.shape[-1] != 3:
        raise ValueError(f"frames given as arrays must be [H, W, 3]; frame {index} is {array.shape}.")
    if array.dtype not in (np.uint8, np.uint16) and not np.issubdtype(array.dtype, np.floating):
        raise ValueError(f"frames must be uint8, uint16 or floats in [0, 1]; frame {index}: got {array.dtype}.")
    precision = np.float64 if array.dtype == np.float64 else np.float32
    values = torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1), dtype=precision))
    return values / array_scale(array.dtype)


def array_from_frame(frame: Tensor, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The array `[H, W, 3]` of a tensor `[3, H, W]`; the reverse of `frame_from_array`."""
    scale = array_scale(np.dtype(dtype))
    values = frame.detach().cpu() * scale
    values = values.round() if scale != 1.0 else values
    return np.ascontiguousarray(values.numpy().transpose(1, 2, 0), dtype=dtype)


def array_scale(dtype: np.dtype[Any]) -> float:
    """The value of white."""
    return float(np.iinfo(dtype).max) if np.issubdtype(dtype, np.integer) else 1.0


def _check_shape(frame: Tensor, index: int, size: torch.Size | None) -> None:
    if frame.ndim != 3 or frame.shape[0] != 3 or not frame.is_floating_point():
        raise ValueError(
            f"frames must be float tensors [3, H, W] in [0, 1]; frame {index} is {tuple(frame.shape)} of {frame.dtype}."
        )
    if size is not None and frame.shape != size:
        raise ValueError(
            f"all frames of a clip must have one size; frame {index} is {tuple(frame.shape[1:])} after "
            f"{tuple(size[1:])}."
        )


def _limits(frame: Tensor) -> tuple[float, float]:
    """Smallest and largest value; NaN if there is one."""
    darkest, brightest = torch.stack(torch.aminmax(frame.detach())).tolist()  # together: a GPU is waited for once
    return darkest, brightest


def _check_range(limits: tuple[float, float], index: int) -> None:
    if limits[0] < LOWEST or limits[1] > HIGHEST:
        raise ValueError(
            f"frames of floats must be in [0, 1]; frame {index} goes from {limits[0]:g} to {limits[1]:g}. Divide it by "
            "the value of white, such as 255, or give integers."
        )


def _finite(frame: Tensor, index: int) -> Tensor:
    """A frame whose NaN and infinite pixels are filled from their surroundings."""
    finite = torch.isfinite(frame).all(dim=0, keepdim=True)  # [1, H, W]
    if not bool(finite.any()):
        raise ValueError(f"no pixel of frame {index} is finite; leave the frame out.")
    known = torch.where(finite, frame, 0.0)[None]
    filled = fill_from_neighbours(known, finite[None].to(frame.dtype))
    return torch.where(finite, frame, filled[0])
