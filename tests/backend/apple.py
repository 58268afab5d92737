"""A device that computes as the CPU does and has the limits of Apple's MPS, for machines without one.

Its tensors say that they are on `mps`; every operator goes through `AppleLimits`, which refuses what MPS refuses in
some of the versions of PyTorch that the package supports: double precision, operands on the CPU, adaptive pooling to
sizes that do not divide the input's, sampling that is bicubic or repeats edges, resizing without aliasing, solvers, and
64-bit integers reduced by index.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

_WIDE = (torch.float64, torch.complex128)
_MISSING = ("aten::_upsample_bilinear2d_aa", "aten::_linalg_solve_ex", "aten::linalg_solve_ex", "aten::linalg_inv_ex")
_MOVE = ("aten::copy_", "aten::to")  # between devices
_BILINEAR, _ZEROS = 0, 0  # in the arguments of `grid_sampler_2d`


class AppleTensor(torch.Tensor):
    """Wraps a tensor on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> AppleTensor:
        if held.dtype in _WIDE:
            raise TypeError(
                "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64."
            )
        made: AppleTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device("cpu"),  # to PyTorch's own code, which has no guards for a device that is not there
        )
        made.held = held
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("mps")

    def tolist(self) -> Any:
        return self.held.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() first.")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        with AppleLimits():  # type: ignore[no-untyped-call]
            return func(*args, **(kwargs or {}))


class AppleLimits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs operators of `AppleTensor` on what they hold."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0]
        if name == "aten::_has_compatible_shallow_copy_type":
            return False  # so that modules that are moved get new parameters
        flat, _ = tree_flatten((args, kwargs or {}))
        given = [each for each in flat if isinstance(each, Tensor)]
        devices = [each for each in flat if isinstance(each, torch.device)]
        here = any(isinstance(each, AppleTensor) for each in given)
        if devices:
            here = devices[0].type == "mps"
        elif here and name not in _MOVE and any(not isinstance(each, AppleTensor) and each.ndim for each in given):
            raise RuntimeError(f"{name}: expected all tensors to be on the same device, found mps and cpu.")
        if here:
            _refuse(name, args)
        result = func(*tree_map(_held, args), **tree_map(_held, kwargs or {}))
        if name.endswith("_") and not name.endswith("__"):  # in place
            return args[0]
        return tree_map(_wrapped, result) if here else result


class AppleMoves(TorchFunctionMode):
    """Moves tensors between the CPU and the device, which to PyTorch's own code are one."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cpu:
            return args[0].held.clone() if isinstance(args[0], AppleTensor) else args[0]
        if func is torch.Tensor.new_tensor:
            kwargs = {"device": args[0].device, "dtype": args[0].dtype} | kwargs
            return torch.tensor(*args[1:], **kwargs)
        if func is not torch.Tensor.to:
            return func(*args, **kwargs)
        value, wanted = args[0], list(args[1:]) + [kwargs.pop(name) for name in ("device", "other") if name in kwargs]
        device, rest = value.device, list[Any]()
        for each in wanted:
            if isinstance(each, (str, torch.device)):
                device = torch.device(each)
            elif isinstance(each, Tensor):
                device = each.device
                rest.append(each.dtype)
            elif isinstance(each, torch.dtype):
                rest.append(each)
        moved: Any = _held(value)
        moved = func(moved, *rest, **kwargs) if rest or kwargs else moved
        return AppleTensor(moved) if device.type == "mps" else moved


def _refuse(name: str, args: Any) -> None:
    if name in ("aten::grid_sampler", "aten::grid_sampler_2d") and tuple(args[2:4]) != (_BILINEAR, _ZEROS):
        raise RuntimeError("MPS: Unsupported interpolation or padding mode")
    pools = name in ("aten::adaptive_avg_pool2d", "aten::_adaptive_avg_pool2d")
    if pools and any(side % wanted for side, wanted in zip(args[0].shape[-2:], args[1], strict=True)):
        raise RuntimeError("Adaptive pool MPS: input sizes must be divisible by output sizes.")
    if name in _MISSING:
        raise NotImplementedError(f"The operator '{name}' is not currently implemented for the MPS device.")
    if "scatter_reduce" in name and args[0].dtype == torch.int64:
        raise RuntimeError("MPS: scatter_reduce of 64-bit integers is not supported.")


def _held(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.held if isinstance(value, AppleTensor) else value


def _wrapped(value: Any) -> Any:
    return AppleTensor(value) if isinstance(value, Tensor) else value


@contextmanager
def apple_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """In this context there is a device `mps` with its limits."""
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with AppleMoves(), AppleLimits():  # type: ignore[no-untyped-call]
            yield torch.device("mps")
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
