"""Which device computes."""

from __future__ import annotations

import torch


def choose_device(name: str) -> torch.device:
    """The device by name; `auto` takes the accelerator that torch sees, or the processor."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(device for device, present in available.items() if present))
    if name not in available:
        raise ValueError(f"unknown device {name!r}; choose one of auto, {', '.join(available)}.")
    if not available[name]:
        raise ValueError(f"torch sees no {name} device here; use --device auto or --device cpu.")
    return torch.device(name)
