"""Where the time of a training step goes."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import torch


class StepClock:
    """Measures the parts of the first steps, and keeps quiet afterwards.

    On a GPU times are the device's, with the gaps in which it waits for the CPU, beside the CPU's own; nothing is
    waited for until the last of the steps. Call `start`, `lap` after each part, and `finish`.

    Args:
        device: that trains.
        skip: steps that are not measured: those in which kernels are chosen and recorded.
        steps: that are measured.
    """

    def __init__(self, device: torch.device, *, skip: int, steps: int = 50) -> None:
        self._device, self._skip, self._steps = device, skip, steps
        self._taken = 0
        self._marks: list[list[tuple[str, Any, float]]] = []

    def start(self) -> None:
        """A step begins."""
        if self._measuring:
            self._marks.append([])
            self.lap("")

    def lap(self, name: str) -> None:
        """A part of the step is over, or on its way to the device."""
        if not self._measuring:
            return
        event = None
        if self._device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's stubs
            event.record(torch.cuda.current_stream(self._device))
        self._marks[-1].append((name, event, time.perf_counter()))

    def finish(self) -> str | None:
        """The step is over. After the last one that is measured a line about all of them, else None."""
        self._taken += 1
        if self._taken != self._skip + self._steps:
            return None
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        device: dict[str, float] = {}
        host: dict[str, float] = {}
        for step in self._marks:
            for (_, begun, started), (name, ended, stopped) in pairwise(step):
                host[name] = host.get(name, 0.0) + 1000.0 * (stopped - started)
                if begun is not None:
                    device[name] = device.get(name, 0.0) + begun.elapsed_time(ended)
        self._marks.clear()
        parts = [
            f"{name} {device[name] / self._steps:.1f} ({spent / self._steps:.1f})"
            if name in device
            else f"{name} {spent / self._steps:.1f}"
            for name, spent in host.items()
        ]
        told = "ms of the GPU (and of the CPU)" if device else "ms"
        return f"{told} in each of {self._steps} steps: {', '.join(parts)}"

    @property
    def _measuring(self) -> bool:
        return self._skip <= self._taken < self._skip + self._steps
