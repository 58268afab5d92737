"""The words that options take, in the library and in the commands alike. Nothing here imports torch."""

from __future__ import annotations

from typing import Literal

Scan = Literal["top-down", "bottom-up", "left-right", "right-left"]
Instant = Literal["first", "middle", "last"]
PresetName = Literal["fast", "default", "best"]
VideoBorder = Literal["fill", "crop", "repeat", "transparent"]
Keep = Literal["rate", "duration"]
DeviceName = Literal["auto", "cpu", "cuda", "mps"]
