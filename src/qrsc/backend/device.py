"""Which device computes."""

from __future__ import annotations

import torch
from torch import Tensor


def may_decide(*values: Tensor) -> bool:
    """Whether Python may look at values to choose a shorter way: not on a GPU, whose work would have to be waited for,
    and which records only what does not depend on values; nor while compiling."""
    return not torch.compiler.is_compiling() and all(each.device.type == "cpu" for each in values)


def computes_in_half_precision(device: torch.device) -> bool:
    """Whether networks run in bfloat16 on a device: on an NVIDIA GPU, and on a processor with instructions for it.

    On a processor without them bfloat16 is converted back and forth, and slower than float32.
    """
    if device.type == "cpu":
        known = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
        return any(supported() for supported in known if supported is not None)
    return device.type == "cuda"


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
