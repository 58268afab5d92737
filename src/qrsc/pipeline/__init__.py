"""Frames in, corrected frames out: flow, motion, warp and fusion over a sliding window of a clip."""

from __future__ import annotations

from qrsc.names import Border, MotionName, PresetName, Unsure
from qrsc.pipeline.align import MOTION_ORDERS, REGULARISATION
from qrsc.pipeline.corrected import Corrected, Seconds, TimedFrame
from qrsc.pipeline.corrector import BORDERS, UNSURE, WINDOWS, Corrector
from qrsc.pipeline.presets import PRESETS, Preset
from qrsc.pipeline.resolve import Resolved
from qrsc.pipeline.whole_clip import correct

__all__ = [
    "BORDERS",
    "MOTION_ORDERS",
    "PRESETS",
    "REGULARISATION",
    "UNSURE",
    "WINDOWS",
    "Border",
    "Corrected",
    "Corrector",
    "MotionName",
    "Preset",
    "PresetName",
    "Resolved",
    "Seconds",
    "TimedFrame",
    "Unsure",
    "correct",
]
