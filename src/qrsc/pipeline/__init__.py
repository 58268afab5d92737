"""Frames in, corrected frames out: flow, motion, warp and fusion over a sliding window of a clip."""

from __future__ import annotations

from qrsc.pipeline.corrected import Corrected, Seconds, TimedFrame
from qrsc.pipeline.corrector import (
    BORDERS,
    MOTION_ORDERS,
    REGULARISATION,
    UNSURE,
    WINDOWS,
    Border,
    Corrector,
    MotionName,
    Unsure,
)
from qrsc.pipeline.whole_clip import correct

__all__ = [
    "BORDERS",
    "MOTION_ORDERS",
    "REGULARISATION",
    "UNSURE",
    "WINDOWS",
    "Border",
    "Corrected",
    "Corrector",
    "MotionName",
    "Seconds",
    "TimedFrame",
    "Unsure",
    "correct",
]
