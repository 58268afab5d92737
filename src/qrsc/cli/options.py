"""The words that options take, shared by the commands: those of `qrsc.names`, and a few of the commands' own."""

from __future__ import annotations

from typing import Literal

from qrsc.names import (
    ExportFormat,
    Instant,
    Mixing,
    MotionName,
    OutputLayout,
    Scan,
    Split,
    Unsure,
    VideoBorder,
    WarpMethod,
)

ExportFormatOption = ExportFormat
ScanOption = Scan
SoughtScanOption = Literal[Scan, "any"]
InstantOption = Instant
MotionOption = MotionName
WarpOption = WarpMethod
BorderOption = VideoBorder
UnsureOption = Unsure
ProgressOption = Literal["auto", "bar", "json", "none"]
KeepOption = Literal["rate", "duration"]
DeviceOption = Literal["auto", "cpu", "cuda", "mps"]
LayoutOption = OutputLayout
StyleOption = Literal["mixed", "driving", "walking", "panning", "drone", "hand shake", "zoom", "roll"]
SetOption = Literal["sim-easy", "sim-shake", "sim-drive", "sim-occlusion", "sim-nonlinear"]
MixingOption = Mixing
DataLayoutOption = Literal["carla", "fastec", "bsrsc", "acc", "plain", "sim"]
EvaluateLayoutOption = Literal["carla", "fastec", "bsrsc", "acc", "plain", "sim", "all"]
TruthOption = Literal["first", "middle", "both"]
SplitOption = Split
