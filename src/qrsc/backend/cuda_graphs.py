"""CUDA graphs: the kernels of a function are recorded once and replayed with a single launch.

RSA^2-Net at 640 x 480 is 8 ms of kernels on an H200, and takes the CPU 17 ms to launch one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

# Graphs that are kept; they share their working memory. A clip needs six: for whole windows and for those at each end
# of the clip, two steps each.
MOST_GRAPHS = 12
Function = Callable[..., Tensor]
_thread = threading.local()


@contextmanager
def unrecorded() -> Iterator[None]:
    """Record no new graphs in this thread inside the block.

    While one thread records, no other may synchronise the whole device (`torch.cuda.synchronize`), as `torch.compile`
    does when it benchmarks kernels: both would fail.
    """
    before = getattr(_thread, "unrecorded", False)
    _thread.unrecorded = True
    try:
        yield
    finally:
        _thread.unrecorded = before


class Graphs:
    """Recorded calls of functions of tensors, one for each key and set of shapes.

    The first call with new shapes runs without a graph, which also warms up; the second is recorded. Beyond the first
    `most` sets of shapes none is recorded, so that many sizes in turn do not evict each other. See also `unrecorded`.

    Attributes:
        fallback: why the latest call could not use a graph; None if it did, or was the first with its shapes.
    """

    def __init__(self, most: int = MOST_GRAPHS) -> None:
        self.most = most
        self.fallback: str | None = None
        self._kept: dict[Hashable, _Call] = {}
        self._pool: Any = None

    @torch.no_grad()
    def __call__(self, function: Function, key: Hashable, *inputs: Tensor) -> Tensor:
        """Call the function on the inputs, without gradients.

        Args:
            function: of these tensors; its control flow must not depend on their values, nor read them on the CPU.
            key: everything else that the result depends on, including the addresses of other tensors that it uses.
            inputs: on one CUDA device.
        """
        full = (key, inputs[0].device, *((tuple(value.shape), value.dtype) for value in inputs))
        self.fallback = None
        # Tensors created in inference mode could not be written to outside of it.
        with torch.inference_mode(False):
            if full not in self._kept:
                if len(self._kept) >= self.most:
                    self.fallback = f"no CUDA graph for these shapes: the {self.most} that are kept are in use"
                    return function(*inputs)
                self._kept[full] = _Call(inputs)
            call = self._kept[full]
            for own, given in zip(call.inputs, inputs, strict=True):
                own.copy_(given)
            if not call.warm:
                call.warm = True
                return function(*call.inputs)
            if call.replay is None:
                if getattr(_thread, "unrecorded", False):
                    self.fallback = "no CUDA graph: this thread must not record one now"
                    return function(*call.inputs)
                self._pool = torch.cuda.graph_pool_handle() if self._pool is None else self._pool
                call.replay, call.result = record(function, call.inputs, self._pool)
            call.replay()
            assert call.result is not None
            return call.result.clone()

    def clear(self) -> None:
        """Drop all recorded graphs."""
        self._kept.clear()
        self._pool = None


class _Call:
    """The tensors that the graph of one call reads and writes."""

    def __init__(self, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = [torch.empty_like(value, memory_format=torch.contiguous_format) for value in inputs]
        self.warm = False
        self.replay: Callable[[], None] | None = None
        self.result: Tensor | None = None


def record(function: Function, inputs: list[Tensor], pool: Any) -> tuple[Callable[[], None], Tensor]:
    """Record a graph of the function: returns what replays it, and the tensor that then holds the result."""
    graph = torch.cuda.CUDAGraph()
    # Calls of other threads, which may be reading frames, must not invalidate the recording.
    with torch.cuda.device(inputs[0].device), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        result = function(*inputs)
    return graph.replay, result
