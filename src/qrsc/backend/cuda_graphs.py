"""Work on a CUDA device recorded once and replayed: the processor launches one graph in place of hundreds of kernels.

RSA^2-Net at 640 x 480 is 8 ms of kernels on an H200, and takes the processor 17 ms to launch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

# Kept; they share the memory that they work in. The frames of a clip need six: whole windows, and one at each end, in
# two steps.
MOST_GRAPHS = 12
Function = Callable[..., Tensor]
_thread = threading.local()


@contextmanager
def unrecorded() -> Iterator[None]:
    """Nothing new is recorded by this thread meanwhile.

    While one thread records, no other may wait for the whole device (`torch.cuda.synchronize`), as `torch.compile` does
    where it tries out kernels: both would fail.
    """
    before = getattr(_thread, "unrecorded", False)
    _thread.unrecorded = True
    try:
        yield
    finally:
        _thread.unrecorded = before


class Graphs:
    """Recorded calls of functions of tensors, one for each set of shapes.

    The first call with new shapes is an ordinary one, which also warms up; the second is recorded. Shapes beyond the
    first `most` ones are never recorded, so that many sizes in turn do not push each other out. See also `unrecorded`.
    """

    def __init__(self, most: int = MOST_GRAPHS) -> None:
        self.most = most
        self._kept: dict[Hashable, _Call] = {}
        self._pool: Any = None

    @torch.no_grad()
    def __call__(self, function: Function, key: Hashable, *inputs: Tensor) -> Tensor:
        """What the function makes of the inputs, without gradients.

        Args:
            function: of as many tensors; its work must not depend on their values, nor read them on the processor.
            key: everything else that the result depends on, where the tensors lie that it uses included.
            inputs: on one CUDA device.
        """
        full = (key, inputs[0].device, *((tuple(value.shape), value.dtype) for value in inputs))
        # What is made in inference mode could not be written to outside of it.
        with torch.inference_mode(False):
            if full not in self._kept:
                if len(self._kept) >= self.most:
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
                    return function(*call.inputs)
                self._pool = torch.cuda.graph_pool_handle() if self._pool is None else self._pool
                call.replay, call.result = record(function, call.inputs, self._pool)
            call.replay()
            assert call.result is not None
            return call.result.clone()

    def clear(self) -> None:
        """Forget all that is recorded."""
        self._kept.clear()
        self._pool = None


class _Call:
    """Where the graph of one call reads its inputs and leaves its result."""

    def __init__(self, inputs: tuple[Tensor, ...]) -> None:
        self.inputs = [torch.empty_like(value, memory_format=torch.contiguous_format) for value in inputs]
        self.warm = False
        self.replay: Callable[[], None] | None = None
        self.result: Tensor | None = None


def record(function: Function, inputs: list[Tensor], pool: Any) -> tuple[Callable[[], None], Tensor]:
    """A graph of the function: how to run it again, and where its result then is."""
    graph = torch.cuda.CUDAGraph()
    # Other threads, which may be reading frames, are not to disturb it.
    with torch.cuda.device(inputs[0].device), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        result = function(*inputs)
    return graph.replay, result
