"""Correction of a whole clip in one call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from torch import Tensor

from qrsc.pipeline.corrector import Corrector
from qrsc.pipeline.input_frames import PlainFrame, array_from_frame, frame_from_array
from qrsc.timing import Readout


@overload
def correct(frames: Tensor, readout: Readout | float, *, tau: float | None = None, **options: Any) -> Tensor: ...
@overload
def correct(
    frames: npt.NDArray[Any], readout: Readout | float, *, tau: float | None = None, **options: Any
) -> npt.NDArray[Any]: ...
@overload
def correct(
    frames: Iterable[PlainFrame], readout: Readout | float, *, tau: float | None = None, **options: Any
) -> list[PlainFrame]: ...
def correct(
    frames: Tensor | npt.NDArray[Any] | Iterable[PlainFrame],
    readout: Readout | float,
    *,
    tau: float | None = None,
    **options: Any,
) -> Tensor | npt.NDArray[Any] | list[PlainFrame]:
    """Correct a clip in memory; `qrsc.correct_video` is for files.

    Args:
        frames: a torch tensor `[T, 3, H, W]` of floats in [0, 1]; a numpy array `[T, H, W, 3]` of uint8, uint16 or
            floats in [0, 1]; or a list or generator of such frames. RGB.
        readout: a `Readout`, or gamma alone for a camera that reads from the top.
        tau: the instant; None is the middle row.
        **options: as for `Corrector`.

    Returns:
        The same kind, shape and dtype; a list for lists and generators.
    """
    if isinstance(frames, (str, Path)):
        raise TypeError(f"correct takes frames in memory; for the file {frames} use qrsc.correct_video.")
    corrector = Corrector(readout if isinstance(readout, Readout) else Readout(readout), tau=tau, **options)
    if isinstance(frames, Tensor):
        return corrector(frames)
    if isinstance(frames, np.ndarray):
        if frames.ndim != 4 or frames.shape[-1] != 3:
            raise ValueError(f"a clip is an array [T, H, W, 3]; got {frames.shape}.")
        if len(frames) == 0:
            raise ValueError("a clip has one frame or more; this array has none.")
        return np.stack([np.asarray(frame) for frame in _corrected(corrector, list(frames))])
    return list(_corrected(corrector, frames))


def _corrected(corrector: Corrector, frames: Iterable[PlainFrame]) -> Iterator[PlainFrame]:
    """Frames one by one, each of the kind that it came as."""
    kinds: list[npt.DTypeLike | None] = []  # None for a tensor

    def tensors() -> Iterator[Tensor]:
        for index, frame in enumerate(frames):
            kinds.append(None if isinstance(frame, Tensor) else getattr(frame, "dtype", None))
            yield frame if isinstance(frame, Tensor) else frame_from_array(frame, index)

    for index, result in enumerate(corrector.stream(tensors())):
        kind = kinds[index]
        yield result.frame if kind is None else array_from_frame(result.frame, kind)
