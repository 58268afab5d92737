"""When our Triton kernels are used in place of PyTorch's operators, and why they are not.

Convention
    A kernel has a slow twin, which is also what runs on a CPU, where a gradient is needed, and under `torch.compile`.
    A kernel that fails where it could be used is given up for the rest of the process, and `given_up` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TypeVar

import torch
from torch import Tensor

TRITON = find_spec("triton") is not None
Result = TypeVar("Result")
_off = False
_failed: dict[str, str] = {}


@contextmanager
def without_kernels() -> Iterator[None]:
    """Use the slow twins inside the block, in all threads: for tests and comparisons."""
    global _off
    before, _off = _off, True
    try:
        yield
    finally:
        _off = before


def usable(*tensors: Tensor) -> bool:
    """Whether kernels can take these tensors: on a CUDA device, without gradients and outside of `torch.compile`."""
    if _off or not TRITON or not tensors[0].is_cuda or torch.compiler.is_compiling():
        return False
    return not (torch.is_grad_enabled() and any(each.requires_grad for each in tensors))


def by_kernel(name: str, kernel: Callable[[], Result], twin: Callable[[], Result], *tensors: Tensor) -> Result:
    """Compute by a kernel if it can take these tensors, else by its twin.

    Args:
        name: what is computed, for the message.
        tensors: the inputs, as for `usable`.
    """
    if name not in _failed and usable(*tensors):
        try:
            return kernel()
        except Exception as error:  # of any kind: compilers fail in many ways
            told = str(error).strip().splitlines() or [type(error).__name__]
            _failed[name] = f"no kernel for {name}: {told[-1][:200]}"
    return twin()


def given_up() -> str | None:
    """Which kernels failed in this process, and how; None if none did."""
    return "; ".join(_failed.values()) or None
