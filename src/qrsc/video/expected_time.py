"""How long a correction will take, before it starts."""

from __future__ import annotations

import torch

from qrsc.names import PresetName

# Seconds for a million pixels: on two CPU cores from frames of 640x480, on one H200 from frames of 1920x1080.
SECONDS_PER_MEGAPIXEL: dict[str, dict[PresetName, float]] = {
    "cpu": {"fast": 0.23, "default": 1.3, "best": 4.0},
    "cuda": {"fast": 0.03, "default": 0.073, "best": 0.15},
}
DENOISED = 0.6  # of the default on a CPU: fusion without a network
_CORES = 2  # that the figures for a CPU were measured on


def estimated_seconds(
    frames: int,
    size: tuple[int, int],
    preset: PresetName,
    *,
    denoise: bool = False,
    factor: int = 1,
    device: str = "cpu",
    measured: float = 1.0,
) -> float:
    """Seconds that a correction will take, roughly: machines differ, and so do clips.

    Args:
        frames: of the clip.
        size: `(H, W)` of its frames.
        preset: of `correct_video`.
        denoise: as for `correct_video`.
        factor: of slow motion; 1 for none.
        device: `cpu` or `cuda`; other accelerators are taken for neither, and count as a CPU.
        measured: how many times as long as estimated earlier runs took on this machine.
    """
    table = SECONDS_PER_MEGAPIXEL.get(device, SECONDS_PER_MEGAPIXEL["cpu"])
    seconds = table[preset] * size[0] * size[1] / 1e6 * frames * factor
    if denoise and preset != "fast":
        seconds *= DENOISED
    if device != "cuda":
        seconds *= _CORES / max(1, torch.get_num_threads())
    return seconds * measured
