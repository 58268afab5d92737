"""Who does the tasks of a batch: one interface for a pool of processes on this machine and for a cluster."""

from __future__ import annotations

from typing import Protocol

from qrsc.farm.tasks import Outcome, Task

# A task whose worker ends is given to another one; if that ends as well, the task is to blame.
MOST_TRIES = 2
ENDED = "its worker was ended, perhaps because memory ran out"


class Executor(Protocol):
    """Does tasks, as many at a time as it has slots."""

    @property
    def slots(self) -> int:
        """How many tasks are done at a time; it may change."""
        ...

    @property
    def frames(self) -> int:
        """How many frames have been corrected so far, those of unfinished tasks included."""
        ...

    def submit(self, number: int, task: Task) -> None:
        """Begin with a task; no more than there are slots."""
        ...

    def outcomes(self, seconds: float) -> list[Outcome]:
        """What became of tasks, once there is something to tell or the time is over."""
        ...

    def close(self) -> None:
        """End all workers; what they have not finished is gone."""
        ...
