"""OpenCV's Dense Inverse Search: precise on small motion, quick on a CPU, started from the dominant shift if large."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.flow.protocol import FlowPair, check_pair
from qrsc.image.colour import grey

Preset = Literal["ultrafast", "fast", "medium"]

PRESETS: tuple[Preset, ...] = get_args(Preset)
MIN_SIDE = 64  # pixels; OpenCV's coarsest scale needs at least one whole patch

# Shifts beyond this part of the frame's width are out of the search's own reach on real footage. Where the dominant
# shift is larger, a second search starts from it and is kept if it explains the frame clearly better: mean PSNR on
# BS-RSC samples (shifts up to 160 of 1024 pixels) 27.6 -> 33.1 dB; Carla-RS and Fastec-RS (shifts up to 8 %) unchanged.
LARGE_SHIFT = 0.06
CLEARLY_BETTER = 0.95
SHIFT_SCALE = 4  # the dominant shift is found on a picture this much smaller

Grey = npt.NDArray[np.uint8]
Flow = npt.NDArray[np.float32]  # [H, W, 2]


class DisFlow:
    """Both flows of frame pairs by `cv2.DISOpticalFlow`, on the CPU whatever device the frames are on.

    The search sees 8-bit grey values; frames are not rescaled by their own brightness. Frames with a side under 64
    pixels are extended by their edges for the search.
    """

    def __init__(self, preset: Preset = "medium") -> None:
        if preset not in PRESETS:
            raise ValueError(f"unknown DIS preset {preset!r}; choose one of {', '.join(PRESETS)}.")
        self.preset = preset

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        check_pair(first, second)
        height, width = first.shape[-2:]
        flows = np.empty((2, len(first), 2, height, width), np.float32)
        for number, (a, b) in enumerate(zip(grey_pictures(first), grey_pictures(second), strict=True)):
            for target, flow in zip(flows[:, number], _both_ways(self.preset, a, b), strict=True):
                target[:] = flow[:height, :width].transpose(2, 0, 1)
        forward, backward = torch.from_numpy(flows).to(first)
        return FlowPair(forward, backward)


def grey_pictures(frames: Tensor) -> Grey:
    """8-bit grey pictures, `[B, H, W]`, each side at least `MIN_SIDE`."""
    pictures = grey(frames.detach().cpu().float())
    height, width = pictures.shape[-2:]
    right, bottom = max(0, MIN_SIDE - width), max(0, MIN_SIDE - height)
    if right or bottom:
        pictures = F.pad(pictures, (0, right, 0, bottom), mode="replicate")
    return np.ascontiguousarray((pictures[:, 0] * 255.0).round().clamp(0, 255).to(torch.uint8).numpy())


def _dominant_shift(first: Grey, second: Grey) -> Flow:
    """The one translation (dx, dy) that best takes the first picture to the second, by phase correlation: `[2]`."""
    import cv2

    height, width = first.shape
    size = (width // SHIFT_SCALE, height // SHIFT_SCALE)
    small = [cv2.resize(grey, size, interpolation=cv2.INTER_AREA).astype(np.float32) for grey in (first, second)]
    shift, _ = cv2.phaseCorrelate(small[0], small[1], cv2.createHanningWindow(size, cv2.CV_32F))
    return np.asarray(shift, dtype=np.float32) * SHIFT_SCALE


def search(preset: Preset, first: Grey, second: Grey, start: Flow | None = None) -> Flow:
    """Flow `[H, W, 2]` between two grey pictures, started from a flow if one is given."""
    import cv2

    # A new search each time: OpenCV's would start from the last start again when none is given.
    fresh: Any = cv2.DISOpticalFlow.create(getattr(cv2, f"DISOPTICAL_FLOW_PRESET_{preset.upper()}"))
    flow: Flow = fresh.calc(first, second, None if start is None else np.array(start, dtype=np.float32, order="C"))
    return flow


def _both_ways(preset: Preset, first: Grey, second: Grey) -> tuple[Flow, Flow]:
    """The flows there and back; at the same time if OpenCV has no more than one thread for a search."""
    import cv2

    shift = _dominant_shift(first, second)
    if cv2.getNumThreads() > 1:
        return _found(preset, first, second, shift), _found(preset, second, first, -shift)
    with ThreadPoolExecutor(1) as another:
        back = another.submit(_found, preset, second, first, -shift)
        return _found(preset, first, second, shift), back.result()


def _found(preset: Preset, first: Grey, second: Grey, shift: Flow) -> Flow:
    """The flow of a search of its own, or of one that starts from the dominant shift if that is clearly better."""
    flow = search(preset, first, second)
    if not np.hypot(*shift) > LARGE_SHIFT * first.shape[1]:
        return flow
    started = search(preset, first, second, np.broadcast_to(shift, flow.shape))
    better = _unexplained(first, second, started) < CLEARLY_BETTER * _unexplained(first, second, flow)
    return started if better else flow


def _unexplained(first: Grey, second: Grey, flow: Flow) -> float:
    """Mean absolute difference, in grey levels, that is left after following a flow."""
    import cv2

    followed = cv2.remap(second, *landing(flow), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return float(np.mean(cv2.absdiff(first, followed)))


def landing(flow: Flow) -> tuple[Flow, Flow]:
    """Where a flow `[h, w, 2]` leads from each pixel: x and y, `[h, w]` each."""
    height, width = flow.shape[:2]
    columns: Flow = np.arange(width, dtype=np.float32)
    rows: Flow = np.arange(height, dtype=np.float32)[:, None]
    return flow[..., 0] + columns, flow[..., 1] + rows
