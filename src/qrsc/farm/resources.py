"""How many workers a machine has room for: by its cores, its memory and its GPUs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from qrsc.backend.device import choose_device
from qrsc.names import DeviceName

# Bytes that a worker needs. The default preset took 0.57 GB for frames of 640x480 and 10 GB for 7680x4320; between
# these, 4K takes about 3 GB.
WORKER_BYTES = 3 << 30
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Share:
    """What one worker may use of a machine.

    Attributes:
        cores: by number; empty for all of them.
        threads: of each operation.
        gpu: by number; None for none.
    """

    cores: tuple[int, ...]
    threads: int
    gpu: int | None = None

    @property
    def core_names(self) -> str:
        return ",".join(map(str, self.cores))

    @property
    def environment(self) -> dict[str, str]:
        """Variables that libraries read when they are loaded."""
        variables = {"OMP_NUM_THREADS": str(self.threads), "OMP_WAIT_POLICY": "PASSIVE"}
        if self.gpu is not None:
            variables["CUDA_VISIBLE_DEVICES"] = str(self.gpu)
        return variables


def divide_machine(workers: int | None = None, threads: int | None = None, device: DeviceName = "auto") -> list[Share]:
    """The share of each worker.

    Args:
        workers: how many; None for one per GPU, or as many as cores and memory allow.
        threads: of each; None for all cores between them.
        device: that corrects.

    Raises:
        ValueError: a number is below 1.
    """
    for name, given in (("workers", workers), ("threads", threads)):
        if given is not None and given < 1:
            raise ValueError(f"{name} are 1 or more; got {given!r}.")
    cores = available_cores()
    gpus = gpu_count(device)
    if workers is None:
        by_cores = max(1, len(cores) // (threads or 1))
        workers = gpus or max(1, min(by_cores, available_memory() // WORKER_BYTES))
    each = threads or max(1, len(cores) // workers)
    pinned = workers * each <= len(cores)
    return [
        Share(
            tuple(cores[number * each : (number + 1) * each]) if pinned else (),
            each,
            number % gpus if gpus else None,
        )
        for number in range(workers)
    ]


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def available_memory() -> int:
    """Bytes of memory that are free for this process, by the machine and by its container; generous if unknown."""
    limits = [1 << 50]
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                limits.append(int(line.split()[1]) << 10)
        limits.append(int((_CGROUP / "memory.max").read_text()) - int((_CGROUP / "memory.current").read_text()))
    except (OSError, ValueError):  # another system, or no limit
        pass
    return max(0, min(limits))


def gpu_count(device: DeviceName) -> int:
    """How many CUDA devices are to be used."""
    import torch

    return torch.cuda.device_count() if choose_device(device).type == "cuda" else 0
