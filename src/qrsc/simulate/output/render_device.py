"""The device that scenes are rendered on."""

from __future__ import annotations

import torch

from qrsc.backend.device import choose_device


def render_device(device: torch.device | str = "auto") -> torch.device:
    """Check a device by name; `auto` is CUDA if torch sees it, else the CPU.

    Raises:
        ValueError: torch does not see the device, or it has no double precision, in which motion is computed.
    """
    if str(device).startswith("mps"):
        raise ValueError("scenes move in double precision, which mps devices lack; use --device cpu.")
    if isinstance(device, torch.device):
        return device
    return choose_device(device if device != "auto" or torch.cuda.is_available() else "cpu")
