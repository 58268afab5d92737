"""Workers on a Ray cluster: actors, each with its share of cores or a GPU, that Ray starts again where they end."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qrsc.farm.executor import ENDED, MOST_TRIES
from qrsc.farm.tasks import Outcome, Task
from qrsc.names import DeviceName

ASKED = 2.0  # seconds after which an actor is asked again how many frames it has done
STUCK = 30.0  # seconds without an answer after which an actor is given up: there is no room to start it again
START = 300.0  # seconds in which the first actor has to start
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
            self._frames = 0
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
        """How many frames of its task it has corrected."""
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
        ConnectionError: there is no cluster at the address, or no room on it.
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
        # Ray starts an actor again that ended, here or on another node, and gives it its task once more.
        self._actor = ray.remote(Actor).options(
            **needs, max_restarts=-1, max_task_retries=MOST_TRIES - 1, max_concurrency=2
        )  # a second thread, for `frames`
        self._threads = each
        self._starting: dict[Any, Any] = {}  # actors, by the question whether they are there
        self._free: list[Any] = []
        self._queued: deque[tuple[int, Task]] = deque()
        self._under_way: dict[Any, _Begun] = {}
        self._frames_done = 0
        for _ in range(count):
            self._start()
        self._take_in(START)
        if not self._free:
            self.close()
            raise ConnectionError(
                f"no worker could be started in {START:.0f} s: each needs {needs}, and the cluster has {resources}."
            )

    @property
    def slots(self) -> int:
        return max(1, len(self._free) + len(self._under_way))

    @property
    def frames(self) -> int:
        return self._frames_done + sum(begun.frames for begun in self._under_way.values())

    def submit(self, number: int, task: Task) -> None:
        self._queued.append((number, task))
        self._begin()

    def outcomes(self, seconds: float) -> list[Outcome]:
        self._take_in(0.0)
        self._look()
        self._begin()
        if not self._under_way:
            time.sleep(seconds)
            return []
        ready, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=seconds)
        found = []
        for reference in ready:
            begun = self._under_way.pop(reference)
            self._free.append(begun.actor)
            try:
                outcome: Outcome = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                reason = f"{ENDED} ({type(error).__name__})"
                outcome = Outcome(begun.number, error=reason, died=True, restarts=MOST_TRIES, where="the cluster")
            self._frames_done += begun.frames
            found.append(outcome)
        return found

    def _start(self) -> None:
        actor = self._actor.remote(self._threads)
        self._starting[actor.frames.remote()] = actor

    def _take_in(self, seconds: float) -> None:
        """Count on the actors that have started; those that the cluster has no room for may come later."""
        if self._starting:
            ready, _ = self._ray.wait(list(self._starting), num_returns=1, timeout=seconds)
            self._free += [self._starting.pop(reference) for reference in ready]

    def _begin(self) -> None:
        while self._queued and self._free:
            number, task = self._queued.popleft()
            actor = self._free.pop()
            self._under_way[actor.perform.remote(number, task)] = _Begun(number, task, actor)

    def _look(self) -> None:
        """Ask the actors how many frames they have done. One that does not answer is lost, perhaps with its node.

        Its task goes to another one, and a new actor is asked for in its place.
        """
        for reference, begun in list(self._under_way.items()):
            if begun.asked is None:
                if time.monotonic() - begun.heard > ASKED:
                    begun.asked = begun.actor.frames.remote()
                continue
            ready, _ = self._ray.wait([begun.asked], timeout=0)
            if ready:
                begun.asked = None
                with suppress(self._ray.exceptions.RayError):  # it is being started again
                    begun.frames = self._ray.get(ready[0])
                    begun.heard = time.monotonic()
            if time.monotonic() - begun.heard > STUCK:
                del self._under_way[reference]
                self._ray.kill(begun.actor)
                self._start()
                self._queued.appendleft((begun.number, begun.task))

    def close(self) -> None:
        if not self._ray.is_initialized():
            return
        for actor in (*self._free, *self._starting.values(), *(begun.actor for begun in self._under_way.values())):
            self._ray.kill(actor)
        self._free, self._starting, self._under_way = [], {}, {}
        if self._started:
            self._ray.shutdown()


@dataclass
class _Begun:
    """A task that an actor has begun; `asked` is a question to it that has no answer yet, `heard` when one came."""

    number: int
    task: Task
    actor: Any
    frames: int = 0
    asked: Any = None
    heard: float = field(default_factory=time.monotonic)


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
