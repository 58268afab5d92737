"""The words that options take, the same in the library and in the commands. Nothing here imports torch."""

from __future__ import annotations

import re
from typing import Literal

from qrsc.files.documents import shortened
from qrsc.files.limits import MOST_PIXELS

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
VideoBorder = Literal["fill", "crop", "crop-only", "repeat", "transparent"]
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

# Files for other programs
ExportFormat = Literal["gyroflow", "stmap", "kalibr", "odm", "gsplat", "npz"]

# Commands and long work
Keep = Literal["rate", "duration"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]


def parse_size(text: str) -> tuple[int, int]:
    """`(height, width)` in pixels from `WIDTHxHEIGHT`."""
    match = re.fullmatch(r"([0-9]{1,9})x([0-9]{1,9})", text)
    width, height = (int(match[1]), int(match[2])) if match is not None else (0, 0)
    if min(width, height) < 1 or width * height > MOST_PIXELS:
        raise ValueError(
            f"a size is WIDTHxHEIGHT, such as 640x480, of at most {MOST_PIXELS // 10**6} million pixels; got "
            f"{shortened(text)}."
        )
    return height, width
