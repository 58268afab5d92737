"""CUDA graphs: the kernels of a function are recorded once and replayed with a single launch.

RSA^2-Net at 640 x 480 is 8 ms of kernels on an H200, and takes the CPU 17 ms to launch one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

# Graphs that are kept; they share their working memory. A clip needs six: for whole windows and for those at each end
# of the clip, two steps each.
MOST_GRAPHS = 12
Result = TypeVar("Result", Tensor, tuple[Tensor, ...])
Function = Callable[..., Result]
_thread = threading.local()
_recording = threading.Lock()  # a recording begins with waiting for the whole device, which would break another one
# PyTorch keeps on asking graphs whose recording failed which memory is theirs.
_failed: list[torch.cuda.CUDAGraph] = []


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
    def __call__(self, function: Function[Result], key: Hashable, *inputs: Tensor | float) -> Result:
        """Call the function on the inputs, without gradients.

        Args:
            function: of these inputs, to a tensor or a tuple of tensors; its control flow must not depend on their
                values, nor read them on the CPU. It is kept, with all that it holds.
            key: everything else that the result depends on, including the addresses of other tensors that it uses.
            inputs: tensors on one CUDA device, of which one is the first; or numbers that change from call to call,
                which the function gets as tensors `[]` in float64.
        """
        leading = inputs[0]
        assert isinstance(leading, Tensor)  # by the description
        full = (key, leading.device, *(_kind(value) for value in inputs))
        self.fallback = None
        # Tensors created in inference mode could not be written to outside of it.
        with torch.inference_mode(False):
            if full not in self._kept:
                if len(self._kept) >= self.most:
                    self.fallback = f"no CUDA graph for these shapes: the {self.most} that are kept are in use"
                    return function(*(_on(leading.device, value) for value in inputs))
                self._kept[full] = _Call(inputs, leading.device)
            call = self._kept[full]
            call.fill(inputs)
            # A result is copied, since it may be an input as it is.
            result: Any
            if not call.warm:
                call.warm = True
                result = _copied(function(*call.inputs))
            elif call.replay is None and getattr(_thread, "unrecorded", False):
                self.fallback = "no CUDA graph: this thread must not record one now"
                result = _copied(function(*call.inputs))
            else:
                if call.replay is None:
                    self._pool = torch.cuda.graph_pool_handle() if self._pool is None else self._pool
                    call.function = function
                    call.replay, call.result = record(function, call.inputs, self._pool)
                call.replay()
                result = _copied(call.result)
            return result  # type: ignore[no-any-return]  # a tensor if the function gives one, else a tuple

    def clear(self) -> None:
        """Drop all recorded graphs."""
        self._kept.clear()
        self._pool = None


class _Call:
    """The tensors that the graph of one call reads and writes."""

    def __init__(self, inputs: tuple[Tensor | float, ...], device: torch.device) -> None:
        self.inputs = [
            torch.empty_like(value)  # in the same layout, which convolutions may prefer
            if isinstance(value, Tensor)
            else torch.zeros((), dtype=torch.float64, device=device)
            for value in inputs
        ]
        self.warm = False
        self.function: Function[Any] | None = None
        self.replay: Callable[[], None] | None = None
        self.result: Tensor | tuple[Tensor, ...] | None = None

    def fill(self, inputs: tuple[Tensor | float, ...]) -> None:
        """Copy the inputs of a call."""
        pairs = [(own, given) for own, given in zip(self.inputs, inputs, strict=True) if isinstance(given, Tensor)]
        _copy(*(list(side) for side in zip(*pairs, strict=True)))
        for own, given in zip(self.inputs, inputs, strict=True):
            if not isinstance(given, Tensor):
                own.fill_(given)  # a number in a launch: unlike the copy of a tensor, nothing is waited for


def _copied(result: Tensor | tuple[Tensor, ...] | None) -> Tensor | tuple[Tensor, ...]:
    assert result is not None  # by the recording
    if isinstance(result, Tensor):
        return result.clone()
    copies = tuple(torch.empty_like(each) for each in result)
    _copy(list(copies), list(result))
    return copies


def _kind(value: Tensor | float) -> Hashable:
    return (tuple(value.shape), value.dtype) if isinstance(value, Tensor) else "number"


def _on(device: torch.device, value: Tensor | float) -> Tensor:
    return value if isinstance(value, Tensor) else torch.full((), value, dtype=torch.float64, device=device)


def _copy(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Copy tensors in few launches: those of one dtype together."""
    for dtype in {each.dtype for each in targets}:
        chosen = [pair for pair in zip(targets, sources, strict=True) if pair[0].dtype == dtype]
        torch._foreach_copy_([own for own, _ in chosen], [given for _, given in chosen])


def record(
    function: Function[Result], inputs: list[Tensor], pool: Any
) -> tuple[Callable[[], None], Tensor | tuple[Tensor, ...]]:
    """Record a graph of the function: returns what replays it, and the tensors that then hold the result.

    One recording waits for another. After one that failed its pool cannot be used again.
    """
    graph = torch.cuda.CUDAGraph()
    # Calls of other threads, which may be reading frames, must not invalidate the recording.
    recording = torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local")
    try:
        with _recording, torch.cuda.device(inputs[0].device), recording:
            result = function(*inputs)
    except BaseException:
        _failed.append(graph)
        raise
    return graph.replay, result
