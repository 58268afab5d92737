"""OpenCV's Dense Inverse Search: precise for small motion, fast on a CPU; initialised with a large dominant shift."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend.threads import thread_pool
from qrsc.flow.protocol import FlowPair, check_pair
from qrsc.image.colour import luma

Preset = Literal["ultrafast", "fast", "medium"]

PRESETS: tuple[Preset, ...] = get_args(Preset)
MIN_SIDE = 64  # pixels; OpenCV's coarsest scale needs at least one whole patch

# On real footage the search does not find shifts beyond this part of the frame's width. Where the dominant shift is
# larger, a second search is initialised with it, and kept if its residual is clearly smaller: mean PSNR on BS-RSC
# samples (shifts up to 160 of 1024 pixels) 27.6 -> 33.1 dB; Carla-RS and Fastec-RS (shifts up to 8 %) unchanged.
LARGE_SHIFT = 0.06
CLEARLY_BETTER = 0.95
SHIFT_SCALE = 4  # the dominant shift is found in an image reduced by this factor

Luma = npt.NDArray[np.uint8]  # [H, W] or [B, H, W]
Flow = npt.NDArray[np.float32]  # [H, W, 2]


class DisFlow:
    """Forward and backward flow by `cv2.DISOpticalFlow`, on the CPU for frames on any device.

    The search works on 8-bit luma, which is not rescaled to the range of the frame. Frames with a side under 64 pixels
    are padded by replicating their edges.

    Attributes:
        fallback: that the search ran on the CPU, if the frames of the latest call were on another device.
    """

    def __init__(self, preset: Preset = "medium") -> None:
        if preset not in PRESETS:
            raise ValueError(f"unknown DIS preset {preset!r}; choose one of {', '.join(PRESETS)}.")
        self.preset = preset
        self.fallback: str | None = None

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        check_pair(first, second)
        self.fallback = on_cpu(first.device)
        height, width = first.shape[-2:]
        flows = np.empty((2, len(first), 2, height, width), np.float32)
        for number, (a, b) in enumerate(zip(luma_images(first), luma_images(second), strict=True)):
            for target, flow in zip(flows[:, number], _both_ways(self.preset, a, b), strict=True):
                target[:] = flow[:height, :width].transpose(2, 0, 1)
        forward, backward = torch.from_numpy(flows).to(first)
        return FlowPair(forward, backward)


def on_cpu(device: torch.device) -> str | None:
    """The fallback of a search for frames on a device: None on a CPU."""
    return None if device.type == "cpu" else f"the search for flow runs on the CPU, while the frames are on {device}"


def luma_images(frames: Tensor) -> Luma:
    """8-bit luma of frames `[B, 3, H, W]`: `[B, H, W]`, padded to at least `MIN_SIDE` on each side."""
    images = luma(frames.detach().cpu().float())
    height, width = images.shape[-2:]
    right, bottom = max(0, MIN_SIDE - width), max(0, MIN_SIDE - height)
    if right or bottom:
        images = F.pad(images, (0, right, 0, bottom), mode="replicate")
    return np.ascontiguousarray((images[:, 0] * 255.0).round().clamp(0, 255).to(torch.uint8).numpy())


def _dominant_shift(first: Luma, second: Luma) -> Flow:
    """The translation (dx, dy) from the first image to the second by phase correlation: `[2]`."""
    import cv2

    height, width = first.shape
    size = (width // SHIFT_SCALE, height // SHIFT_SCALE)
    small = [cv2.resize(each, size, interpolation=cv2.INTER_AREA).astype(np.float32) for each in (first, second)]
    shift, _ = cv2.phaseCorrelate(small[0], small[1], cv2.createHanningWindow(size, cv2.CV_32F))
    return np.asarray(shift, dtype=np.float32) * SHIFT_SCALE


def search(preset: Preset, first: Luma, second: Luma, start: Flow | None = None) -> Flow:
    """Flow `[H, W, 2]` between two luma images, initialised with a flow if one is given."""
    import cv2

    # A new object for each search: OpenCV's would reuse the last initial flow when none is given.
    fresh: Any = cv2.DISOpticalFlow.create(getattr(cv2, f"DISOPTICAL_FLOW_PRESET_{preset.upper()}"))
    flow: Flow = fresh.calc(first, second, None if start is None else np.array(start, dtype=np.float32, order="C"))
    return flow


def _both_ways(preset: Preset, first: Luma, second: Luma) -> tuple[Flow, Flow]:
    """Forward and backward flow; in parallel if OpenCV uses a single thread for each search."""
    import cv2

    shift = _dominant_shift(first, second)
    if cv2.getNumThreads() > 1:
        return _found(preset, first, second, shift), _found(preset, second, first, -shift)
    with thread_pool(1) as another:
        back = another.submit(_found, preset, second, first, -shift)
        return _found(preset, first, second, shift), back.result()


def _found(preset: Preset, first: Luma, second: Luma, shift: Flow) -> Flow:
    """The flow of a plain search, or of one initialised with the dominant shift if that is clearly better."""
    flow = search(preset, first, second)
    if not np.hypot(*shift) > LARGE_SHIFT * first.shape[1]:
        return flow
    started = search(preset, first, second, np.broadcast_to(shift, flow.shape))
    better = _residual(first, second, started) < CLEARLY_BETTER * _residual(first, second, flow)
    return started if better else flow


def _residual(first: Luma, second: Luma, flow: Flow) -> float:
    """Mean absolute difference, in 8-bit levels, between the first image and the second warped by the flow."""
    import cv2

    warped = cv2.remap(second, *landing(flow), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return float(np.mean(cv2.absdiff(first, warped)))


def landing(flow: Flow) -> tuple[Flow, Flow]:
    """Where each pixel lands along a flow `[h, w, 2]`: x and y, `[h, w]` each."""
    height, width = flow.shape[:2]
    columns: Flow = np.arange(width, dtype=np.float32)
    rows: Flow = np.arange(height, dtype=np.float32)[:, None]
    return flow[..., 0] + columns, flow[..., 1] + rows
