"""Correction of a whole clip in one call."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.pipeline.corrector import Corrector
from qrsc.timing import Readout

Clip = TypeVar("Clip", Tensor, npt.NDArray[Any])


def correct(frames: Clip, readout: Readout | float, *, tau: float | None = None, **options: Any) -> Clip:
    """Correct a clip given as one array or tensor.

    Args:
        frames: a torch tensor `[T, 3, H, W]` of floats in [0, 1], or a numpy array `[T, H, W, 3]` of uint8, uint16 or
            floats in [0, 1]; RGB.
        readout: a `Readout`, or gamma alone for a camera that reads from the top.
        tau: the instant; None is the middle row.
        **options: as for `Corrector`.

    Returns:
        The same kind, shape and dtype.
    """
    corrector = Corrector(readout if isinstance(readout, Readout) else Readout(readout), tau=tau, **options)
    if isinstance(frames, Tensor):
        return corrector(frames)
    if frames.ndim != 4 or frames.shape[-1] != 3:
        raise ValueError(f"a clip is an array [T, H, W, 3]; got {frames.shape}.")
    scale = float(np.iinfo(frames.dtype).max) if np.issubdtype(frames.dtype, np.unsignedinteger) else 1.0
    if scale == 1.0 and not np.issubdtype(frames.dtype, np.floating):
        raise ValueError(f"frames must be uint8, uint16 or floats in [0, 1]; got {frames.dtype}.")
    precision = np.float64 if frames.dtype == np.float64 else np.float32
    tensor = torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2), dtype=precision)) / scale
    result = corrector(tensor) * scale
    result = result.round() if scale != 1.0 else result
    return np.ascontiguousarray(result.numpy().transpose(0, 2, 3, 1), dtype=frames.dtype)
