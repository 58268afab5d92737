"""Presets of speed and quality, the same for `Corrector` and for the commands."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from qrsc.names import FusionName, PresetName

# Flow on more pixels than full HD has is found at a reduced size, unless a scale is given.
FLOW_PIXELS = 1920 * 1200


@dataclass(frozen=True)
class Preset:
    """What a name of a preset stands for; arguments given besides it win.

    Attributes:
        name: of the preset.
        fusion: by name; None is the default.
        flow: by name; None is the default for the device.
        field_scale: the size at which motion is solved and inverted, relative to the frames.
        halves_threads: on a CPU, each operation gets half of the threads; see `choose_threads`.
    """

    name: PresetName
    fusion: FusionName | None = None
    flow: str | None = None
    field_scale: float = 0.5
    halves_threads: bool = False


# DIS searches at half size itself, and motion is smooth: on all samples with a truth, fields of half and of quarter
# size come within 0.05 dB of full ones (Fastec-RS 28.65, 28.66, 28.64; BS-RSC 33.67, 33.67, 33.67).
PRESETS: dict[PresetName, Preset] = {
    # Flow by DIS, the mean of three frames, fields at a quarter of the size.
    "fast": Preset("fast", fusion="mean", flow="dis", field_scale=0.25, halves_threads=True),
    # What suits the device, fields at half size.
    "default": Preset("default"),
    # The flow network at full size, refined by DIS on any device; fields at full size.
    "best": Preset("best", flow="raft-rs-full+dis", field_scale=1.0),
}


def get_preset(name: str) -> Preset:
    """A preset by name."""
    for known, preset in PRESETS.items():
        if known == name:
            return preset
    raise ValueError(f"unknown preset {name!r}; choose one of {', '.join(PRESETS)}.")


def choose_threads(device: torch.device) -> int | None:
    """How many threads an operation of the preset `fast` gets: half of them on a CPU, elsewhere None for no limit.

    Flow is found and frames are corrected at the same time. If each has all cores, threads of one wait for those of
    the other: with half of them, a frame of 640x480 takes 14 to 19 % less on two cores.
    """
    return max(1, torch.get_num_threads() // 2) if device.type == "cpu" else None


def choose_scale(scale: float | None, size: tuple[int, int]) -> float:
    """The scale at which flow is found for frames `(H, W)`, if none is given: 1 up to full HD, then 1/2, 1/3, ..."""
    if scale is not None:
        return scale
    divisor = 1
    while size[0] * size[1] > FLOW_PIXELS * divisor**2:
        divisor += 1
    return 1.0 / divisor
