"""A pool of rendered samples on the training device, into which new ones are rendered continuously."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from types import TracebackType
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from qrsc.backend.cuda_graphs import unrecorded
from qrsc.learn.pool.tensor_batch import TensorBatch
from qrsc.simulate.output.sets import require_free_seed

Batch = TypeVar("Batch", bound=TensorBatch)
AnyPool = TypeVar("AnyPool", bound="Pool[Any]")


class Pool(Generic[Batch]):
    """Batches of samples, drawn at random from a pool into which new samples are rendered.

    A sample is drawn `uses` times on average before it is replaced, each time with another augmentation. A subclass
    says how samples are stored and augmented. On a CUDA device a separate thread renders on its own stream: rendering
    synchronises with the device many times per batch, and training would have to wait for it. On other devices samples
    are rendered between batches, and the same seed gives the same batches.

    Args:
        render: takes a generator (on the CPU) and returns new samples, on any device.
        capacity: how many samples are kept. It should be many times the number that `render` returns.
        device: where the samples are kept and the batches come from.
        uses: how often a sample is drawn on average.
        seed: of everything random here; under 2**30, so that it never gives a scene of the fixed test sets.

    Attributes:
        kind_field: the field of the samples, `[B]` of integers, that holds the kind of each; None if all are of kind 0.
    """

    kind_field: ClassVar[str | None] = None

    def __init__(
        self,
        render: Callable[[torch.Generator], Batch],
        *,
        capacity: int,
        device: torch.device | str,
        uses: float = 2.0,
        seed: int = 0,
    ) -> None:
        if capacity < 1 or uses <= 0:
            raise ValueError(f"capacity must be at least 1 and uses over 0; got {capacity} and {uses}.")
        self.device = torch.device(device)
        self.capacity = capacity
        self.uses = uses
        self.rendered = 0
        self.drawn = 0
        self._render = render
        self._rendering = torch.Generator().manual_seed(require_free_seed(2 * seed))
        self._drawing = torch.Generator(self.device).manual_seed(2 * seed + 1)
        self._store: dict[str, Tensor] = {}
        self._kinds = torch.zeros(capacity, dtype=torch.int64)
        self._changed = threading.Condition()
        self._closing = False
        self._paused = False
        self._busy = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._written: torch.cuda.Event | None = None
        self._read: torch.cuda.Event | None = None

    def __enter__(self: AnyPool) -> AnyPool:
        if self.device.type == "cuda":
            self._thread = threading.Thread(target=self._render_until_closed, name="render", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def packed(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Rendered tensors by field name, in the form in which they are stored."""
        raise NotImplementedError

    def augmented(self, drawn: dict[str, Tensor], generator: torch.Generator) -> Batch:
        """A batch from stored tensors by field name, augmented at random; the generator is on the pool's device."""
        raise NotImplementedError

    def draw(self, count: int, kind: int = 0) -> Batch:
        """A batch of `count` samples, augmented.

        Args:
            kind: of the samples, in the field `kind_field`; kind 0 is drawn while the pool has none of it.
        """
        self._wait_for_samples(count)
        with self._changed:
            candidates = self._of_kind(kind)
            if len(candidates) == 0:
                candidates = self._of_kind(0)
            chosen = torch.randint(len(candidates), (count,), generator=self._drawing, device=self.device)
            # All of them are candidates where there is one kind; the copy would wait for the steps before this one.
            index = chosen if self.kind_field is None else candidates.to(self.device)[chosen]
            if self._written is not None:
                torch.cuda.current_stream(self.device).wait_event(self._written)
            drawn = {name: values.index_select(0, index) for name, values in self._store.items()}
            if self.device.type == "cuda":
                self._read = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's stubs
                self._read.record(torch.cuda.current_stream(self.device))
            self.drawn += count
            self._changed.notify_all()
        return self.augmented(drawn, self._drawing)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Render nothing inside the block, which begins when what is being rendered is done.

        A thread that renders can make the recording of a CUDA graph in another one fail: some kernels are loaded, and
        some chosen, by waiting for the whole device.
        """
        with self._changed:
            self._paused = True
            self._changed.wait_for(lambda: not self._busy)
            if self._written is not None:
                self._written.synchronize()
        try:
            yield
        finally:
            with self._changed:
                self._paused = False
                self._changed.notify_all()

    def _of_kind(self, kind: int) -> Tensor:
        """The slots of all samples of a kind, on the CPU."""
        return (self._kinds[: min(self.rendered, self.capacity)] == kind).nonzero()[:, 0]

    def _wait_for_samples(self, count: int) -> None:
        """Return once there are enough samples to draw from; renders them here if there is no thread for it."""
        if self._thread is None:
            while self.rendered < count or self.rendered * self.uses < self.drawn + count or len(self._of_kind(0)) == 0:
                self._add(self._render(self._rendering))
            return
        with self._changed:
            # A few batches before the first step: the network would overfit to a pool of one batch.
            enough = min(4 * count, self.capacity)
            self._changed.wait_for(
                lambda: (self.rendered >= enough and len(self._of_kind(0)) > 0) or self._failure is not None
            )
            if self._failure is not None:
                raise RuntimeError("rendering of training samples failed; the cause is above.") from self._failure

    def _render_until_closed(self) -> None:
        try:
            if self.device.type != "cuda":
                self._render_what_is_wanted()
                return
            stream = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]  # torch's stubs
            with torch.cuda.stream(stream), unrecorded():
                self._render_what_is_wanted()
        except BaseException as error:
            with self._changed:
                self._failure, self._busy = error, False
                self._changed.notify_all()

    def _render_what_is_wanted(self) -> None:
        while self._told_to_render():
            self._add(self._render(self._rendering))
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _told_to_render(self) -> bool:
        """Wait until samples are wanted; False when the pool is closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closing
                    or (
                        not self._paused
                        and (
                            self.rendered < max(1, self.capacity // 4)
                            or self.rendered * self.uses < self.drawn
                            or len(self._of_kind(0)) == 0
                        )
                    )
                )
            )
            self._busy = not self._closing
            return self._busy

    def _add(self, samples: Batch) -> None:
        """Replace the oldest samples by new ones."""
        values = {field.name: getattr(samples, field.name).to(self.device) for field in fields(samples)}
        values = self.packed(values)
        with self._changed:
            if not self._store:
                self._store = {
                    name: value.new_zeros((self.capacity, *value.shape[1:])) for name, value in values.items()
                }
            if self._read is not None:
                torch.cuda.current_stream(self.device).wait_event(self._read)
            slots = (self.rendered + torch.arange(len(samples))).remainder(self.capacity)
            if self.kind_field is not None:
                self._kinds[slots] = values[self.kind_field].to("cpu")
            slots = slots.to(self.device)
            for name, value in values.items():
                self._store[name].index_copy_(0, slots, value)
            if self.device.type == "cuda":
                self._written = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's stubs
                self._written.record(torch.cuda.current_stream(self.device))
            self.rendered += len(samples)
            self._changed.notify_all()
