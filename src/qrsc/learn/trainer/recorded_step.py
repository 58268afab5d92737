"""Parts of a training step that a GPU is given with a single launch, from forward pass to optimiser.

A small network is a few hundred kernels forward and back, which take the CPU longer to launch than the GPU to compute.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from qrsc.backend.cuda_graphs import record

WARM_UP = 3  # calls before the recorded one: libraries choose their kernels, the optimiser makes its moments


class GraphMemory:
    """Working memory that the graphs of steps share which are always called one after the other.

    Args:
        recorded: there will be graphs, which need a GPU.
    """

    def __init__(self, *, recorded: bool) -> None:
        self._recorded = recorded
        self.pool: Any = None
        self.renew()

    def renew(self) -> None:
        """Leave the memory to the graphs that have it, and take other memory for those to come."""
        if self._recorded:
            self.pool = torch.cuda.graph_pool_handle()


class RecordedStep:
    """A function that is called again and again, recorded as a CUDA graph and replayed.

    Its first calls are launched kernel by kernel; the next one is recorded, which is no call, and replayed from then
    on. So the function must read everything that changes from tensors that stay where they are, write its results to
    such tensors, and never wait for the device. Without recording it is called every time: the twin, with the same
    results.

    Args:
        function: of no arguments; returns a tensor.
        device: that it works on.
        recorded: record it, which needs a GPU.
        memory: that it shares with other steps.

    Attributes:
        fallback: why the function is not recorded although it should be; None if it is, or will be.
    """

    def __init__(
        self, function: Callable[[], Tensor], device: torch.device, *, recorded: bool, memory: GraphMemory
    ) -> None:
        self.fallback: str | None = None
        self._function, self._device, self._recorded, self._memory = function, device, recorded, memory
        self._calls = 0
        self._replay: Callable[[], None] | None = None
        self._result: Tensor | None = None

    def __call__(self) -> Tensor:
        """The result of the function; the next call may overwrite it."""
        if not self._recorded or self.fallback is not None:
            return self._function()
        if self._calls < WARM_UP:
            self._calls += 1
            return self._warmed_up()
        if self._replay is None or self._result is None:
            try:
                self._record()
            except RuntimeError as error:  # so are all errors of CUDA
                self._memory.renew()  # what a recording that failed had cannot be used again
                self.fallback = f"no CUDA graph: {_first_line(error)}"
                return self._function()
        assert self._replay is not None  # by `_record`
        assert self._result is not None
        self._replay()
        return self._result

    def _record(self) -> None:
        anchor = torch.empty((), device=self._device)  # says on which device
        if self._device.type != "cuda":
            self._replay, result = record(lambda _: self._function(), [anchor], self._memory.pool)
        else:
            # A recording that fails may leave its own stream behind as the current one.
            with torch.cuda.stream(torch.cuda.current_stream(self._device)):
                self._replay, result = record(lambda _: self._function(), [anchor], self._memory.pool)
        assert isinstance(result, Tensor)  # as the function gives one
        self._result = result

    def _warmed_up(self) -> Tensor:
        """Call the function on a stream of its own: what the default stream is used for cannot be recorded later."""
        if self._device.type != "cuda":
            return self._function()
        before = torch.cuda.current_stream(self._device)
        beside = _beside(self._device)
        beside.wait_stream(before)
        with torch.cuda.stream(beside):
            result = self._function()
        before.wait_stream(beside)
        return result


def _first_line(error: BaseException) -> str:
    """What went wrong first: the end of a recording that failed is an error, too."""
    first = error.__context__ or error
    return (str(first).strip() or type(first).__name__).splitlines()[0]


@lru_cache(maxsize=8)
def _beside(device: torch.device) -> torch.cuda.Stream:
    """One stream for all steps that warm up: PyTorch keeps the memory that each stream has used for that stream."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's stubs
