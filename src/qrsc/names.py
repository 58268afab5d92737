"""The words that options take, the same in the library and in the commands. Nothing here imports torch."""

from __future__ import annotations

import re
from typing import Literal

# The camera and the instant
Scan = Literal["top-down", "bottom-up", "left-right", "right-left"]
Instant = Literal["first", "middle", "last"]

# The correction
MotionName = Literal["linear", "quadratic", "cubic", "path"]
FusionName = Literal["none", "mean", "coherent", "rsa2", "rsa2-lite"]
FusionNetworkName = Literal["rsa2", "rsa2-lite"]
WarpMethod = Literal["invert", "splat", "negate"]
Interpolation = Literal["bilinear", "bicubic"]
Border = Literal["fill", "repeat"]
VideoBorder = Literal["fill", "crop", "repeat", "transparent"]
Unsure = Literal["linear", "input"]
PresetName = Literal["fast", "default", "best"]
# How frames are aligned for a fusion that is trained or studied. `none` leaves them as they came, with zero fields: an
# ablation without correction.
AlignmentMotion = Literal["path", "quadratic", "linear", "none"]

# Data sets and simulated clips
LayoutName = Literal["carla", "fastec", "bsrsc", "plain", "sim"]
OutputLayout = Literal["carla", "fastec", "bsrsc", "plain", "sim", "video"]
Split = Literal["train", "val", "test"]
Mixing = Literal["nearest", "linear"]

# Commands and long work
Keep = Literal["rate", "duration"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]


def parse_size(text: str) -> tuple[int, int]:
    """`(height, width)` in pixels from `WIDTHxHEIGHT`."""
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None or min(int(match[1]), int(match[2])) < 1:
        raise ValueError(f"a size is WIDTHxHEIGHT, such as 640x480; got {text!r}.")
    return int(match[2]), int(match[1])
