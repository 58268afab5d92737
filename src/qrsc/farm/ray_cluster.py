"""Workers on a Ray cluster: actors, each with its share of cores or a GPU, that Ray starts again where they end."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from qrsc.farm.executor import ENDED, MOST_TRIES
from qrsc.farm.tasks import Outcome, Task
from qrsc.names import DeviceName

LOOKED = 2.0  # seconds between two looks at how many frames the actors have done
THREADS = 2  # of an actor that is not told


class Actor:
    """A worker: holds what it has loaded, and does one task at a time."""

    def __init__(self, threads: int) -> None:
        import cv2
        import torch

        torch.set_num_threads(threads)
        cv2.setNumThreads(threads)
        self._scratch = tempfile.TemporaryDirectory(prefix="qrsc-worker-")
        self._frames = 0
        self._one_at_a_time = threading.Lock()

    def perform(self, number: int, task: Task) -> Outcome:
        """Do a task; only the end of this process is an error to Ray."""
        import ray

        from qrsc.farm.work import Desk, OutOfMemoryError, perform

        where = f"node {ray.get_runtime_context().get_node_id()[:8]}"
        with self._one_at_a_time:
            try:
                value = perform(task, Desk(Path(self._scratch.name), self._advance))
            except OutOfMemoryError as error:
                return Outcome(number, error=str(error), died=True, where=where)
            except (ValueError, OSError) as error:
                return Outcome(number, error=" ".join(str(error).split()), where=where)
            except Exception as error:
                return Outcome(number, error=f"a fault of the program: {type(error).__name__}: {error}", where=where)
        return Outcome(number, value, where=where)

    def frames(self) -> int:
        """How many frames it has corrected."""
        return self._frames

    def _advance(self) -> None:
        self._frames += 1


class RayCluster:
    """Actors on a cluster.

    Args:
        address: of the cluster; None for the one in `RAY_ADDRESS`, the one that runs here, or a new one here.
        workers: actors; None for as many as the cluster has room for.
        threads: cores of each that has no GPU.
        device: that corrects.

    Raises:
        ValueError: Ray is not installed.
        ConnectionError: there is no cluster at the address.
    """

    def __init__(self, address: str | None, workers: int | None, threads: int | None, device: DeviceName) -> None:
        self._ray = ray = imported_ray()
        self._started = not ray.is_initialized()
        if self._started:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0)) if device in ("auto", "cuda") else 0
        each = threads or (THREADS if resources.get("CPU", 1) >= 2 * THREADS else 1)
        count = workers or max(1, gpus or int(resources.get("CPU", 1)) // each)
        needs = {"num_gpus": 1, "num_cpus": 1} if gpus else {"num_gpus": 0, "num_cpus": each}
        # Ray gives a task of an actor that ended to the same actor, started again, here or on another node.
        remote = ray.remote(Actor).options(
            **needs, max_restarts=-1, max_task_retries=MOST_TRIES - 1, max_concurrency=2
        )  # a second thread, for `frames`
        self._free = [remote.remote(each) for _ in range(count)]
        self._count = count
        self._actors = list(self._free)
        self._under_way: dict[Any, tuple[int, Any]] = {}
        self._frames: dict[Any, int] = {}
        self._looks: dict[Any, Any] = {}
        self._looked = 0.0

    @property
    def slots(self) -> int:
        return self._count

    @property
    def frames(self) -> int:
        self._look()
        return sum(self._frames.values())

    def submit(self, number: int, task: Task) -> None:
        actor = self._free.pop()
        self._under_way[actor.perform.remote(number, task)] = (number, actor)

    def outcomes(self, seconds: float) -> list[Outcome]:
        if not self._under_way:
            return []
        ready, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=seconds)
        found = []
        for reference in ready:
            number, actor = self._under_way.pop(reference)
            self._free.append(actor)
            try:
                found.append(self._ray.get(reference))
            except self._ray.exceptions.RayError as error:
                reason = f"{ENDED} ({type(error).__name__})"
                found.append(Outcome(number, error=reason, died=True, restarts=MOST_TRIES, where="the cluster"))
        return found

    def _look(self) -> None:
        """Ask the actors now and then how many frames they have done, and wait for none of them."""
        if time.monotonic() - self._looked < LOOKED:
            return
        self._looked = time.monotonic()
        if self._looks:
            ready, _ = self._ray.wait(list(self._looks), num_returns=len(self._looks), timeout=0)
            for reference in ready:
                actor = self._looks.pop(reference)
                try:
                    self._frames[actor] = self._ray.get(reference)
                except self._ray.exceptions.RayError:  # it is being started again
                    continue
        for actor in self._actors:
            if actor not in self._looks.values():
                self._looks[actor.frames.remote()] = actor

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        if self._started and self._ray.is_initialized():
            self._ray.shutdown()


def imported_ray() -> Any:
    """Ray, with its absence explained."""
    try:
        import ray
    except ImportError as error:
        raise ValueError(
            f"a cluster needs Ray, which cannot be imported ({error}): pip install 'qrsc[cluster]'. Without --ray, "
            "processes on this machine do the work."
        ) from error
    return ray
