"""The words that options take, shared by the commands."""

from __future__ import annotations

from typing import Literal

ScanOption = Literal["top-down", "bottom-up", "left-right", "right-left"]
SoughtScanOption = Literal["top-down", "bottom-up", "left-right", "right-left", "any"]
InstantOption = Literal["first", "middle", "last"]
MotionOption = Literal["linear", "quadratic", "cubic", "path"]
FusionOption = Literal["none", "mean", "coherent", "rsa2", "rsa2-lite"]
WarpOption = Literal["invert", "splat", "negate"]
BorderOption = Literal["fill", "crop", "repeat", "transparent"]
UnsureOption = Literal["linear", "input"]
ProgressOption = Literal["auto", "bar", "json", "none"]
KeepOption = Literal["rate", "duration"]
DeviceOption = Literal["auto", "cpu", "cuda", "mps"]
LayoutOption = Literal["carla", "fastec", "bsrsc", "plain", "sim", "video"]
StyleOption = Literal["mixed", "driving", "walking", "panning", "drone", "hand shake", "zoom", "roll"]
SetOption = Literal["sim-easy", "sim-shake", "sim-drive", "sim-occlusion", "sim-nonlinear"]
MixingOption = Literal["nearest", "linear"]
DataLayoutOption = Literal["carla", "fastec", "bsrsc", "acc", "plain", "sim"]
EvaluateLayoutOption = Literal["carla", "fastec", "bsrsc", "acc", "plain", "sim", "all"]
TruthOption = Literal["first", "middle", "both"]
SplitOption = Literal["train", "val", "test"]
FusionNetworkOption = Literal["rsa2", "rsa2-lite"]
FusedMotionOption = Literal["path", "quadratic", "linear", "none"]
InterpolationOption = Literal["bilinear", "bicubic"]
TrainLayoutOption = Literal["carla", "fastec", "bsrsc", "plain", "sim"]
