"""Kills of workers, drivers and Ray nodes during a batch, at random times, and an account of what was done again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.farm.clips import GAMMA, short_clip

CLIPS, FRAMES, SEGMENT, WORKERS = 16, 200, 25, 2
COMMAND = [sys.executable, "-m", "qrsc", "batch", "--segment", str(SEGMENT), "--workers", str(WORKERS), "--threads",
           "1", "--codec", "ffv1", "--motion", "quadratic", "--fast", "--gamma", str(GAMMA), "--quiet"]  # fmt: skip


class Marks:
    """Watches a batch's folder, and keeps the marks of all segments that processes have begun.

    Marks lie there until a clip is joined; `segments_begun` of the manifest tells whether one was missed.

    Attributes:
        begun: processes that began each segment, by clip and segment.
    """

    def __init__(self, out: Path) -> None:
        self._work, self._over = out / ".qrsc-batch", threading.Event()
        self._names: set[str] = set()
        self.begun: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    @property
    def count(self) -> int:
        return len(self._names)

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            for parent, _, names in os.walk(self._work):
                for name in names:
                    if name.endswith(".begun") and f"{parent}/{name}" not in self._names:
                        self._names.add(f"{parent}/{name}")
                        stem, process = name.removesuffix(".begun").split(".")
                        self.begun[parent, stem].append(int(process.split("-")[0]))

    def close(self) -> None:
        self._over.set()
        self._thread.join()


def children(process: int, title: str = "") -> list[int]:
    """Child processes whose command line contains a title."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process and title in (path / "cmdline").read_text():
                found.append(int(path.name))
        except OSError:  # it has ended
            continue
    return found


class OneMachine:
    """A batch on the processes of this machine."""

    kinds = ("worker", "driver")
    options: tuple[str, ...] = ()

    def workers(self, driver: int) -> list[int]:
        return children(driver, "qrsc.farm.worker")

    def close(self) -> None:
        pass


class TwoNodes:
    """A batch on a Ray cluster: a head without cores, and two nodes of one core each."""

    kinds = ("worker", "driver", "node")

    def __init__(self, chance: random.Random) -> None:
        from ray.cluster_utils import Cluster

        self._chance = chance
        self._memory = 100 << 20  # bytes, which is more than Ray asks for at least
        quick = {"health_check_period_ms": 300, "health_check_failure_threshold": 3, "health_check_initial_delay_ms": 0}
        head = {"num_cpus": 0, "object_store_memory": self._memory, "_system_config": quick}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = [self._add() for _ in range(2)]
        self.options = ("--ray", self._cluster.address)

    def _add(self) -> Any:
        return self._cluster.add_node(num_cpus=1, object_store_memory=self._memory)

    @staticmethod
    def _of(node: Any) -> list[int]:
        return [each for raylet in node.all_processes["raylet"] for each in children(raylet.process.pid, "ray::Actor")]

    def workers(self, driver: int) -> list[int]:
        return [each for node in self._nodes for each in self._of(node)]

    def kill_node(self) -> list[int]:
        """Kill the processes of a node, and let another one join; returns the workers that were on it."""
        node = self._nodes.pop(self._chance.randrange(len(self._nodes)))
        lost = self._of(node)
        self._cluster.remove_node(node, allow_graceful=False)
        self._nodes.append(self._add())
        return lost

    def close(self) -> None:
        self._cluster.shutdown()


def strike(kind: str, place: Any, driver: subprocess.Popen[bytes], chance: random.Random) -> set[int] | None:
    """Kill something; returns the workers that end with it, or None if there was nothing of that kind."""
    workers = place.workers(driver.pid)
    if kind == "node":
        return set(place.kill_node())
    if kind == "driver":
        driver.kill()
        driver.wait()
        return set(workers)
    if not workers:
        return None
    victim = chance.choice(workers)
    os.kill(victim, signal.SIGKILL)
    return {victim}


def disturbed(command: list[str], out: Path, place: Any, plan: list[str], chance: random.Random) -> None:
    """Run a batch, kill what the plan says, run it again whenever its driver has ended, and print the account."""
    marks, killed, lost, runs = Marks(out), Counter[str](), list[set[int]](), 0
    driver: subprocess.Popen[bytes] | None = None
    try:
        while plan:
            if driver is None or driver.poll() is not None:
                if driver is not None and driver.returncode >= 0:
                    raise RuntimeError(
                        f"the batch ended ({driver.returncode}) with kills left: {plan}; give it more clips"
                    )
                driver, runs = subprocess.Popen(command), runs + 1
            before = marks.count
            while driver.poll() is None and marks.count == before:  # something has been begun since the last kill
                time.sleep(0.02)
            time.sleep(chance.uniform(0.0, 1.5))
            ended = strike(plan[0], place, driver, chance) if driver.poll() is None else None
            if ended is not None:
                killed[plan.pop(0)] += 1
                lost.append(ended)
                print(f"{sum(killed.values())}: {ended}", file=sys.stderr, flush=True)
        code = driver.wait() if driver is not None else 0
        if code != 0:
            code, runs = subprocess.run(command).returncode, runs + 1
    finally:
        if driver is not None and driver.poll() is None:
            driver.kill()
        marks.close()
    account(out, marks, killed, lost, runs, code)


def account(out: Path, marks: Marks, killed: Counter[str], lost: list[set[int]], runs: int, code: int) -> None:
    """Print which segments were done again, and whether each of them was in the hands of a worker that was lost."""
    lines = [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]
    done = [line for line in lines if line["kind"] == "done"]
    told, seen = sum(line["segments_begun"] for line in done), sum(map(len, marks.begun.values()))
    again = [process for processes in marks.begun.values() for process in processes[:-1]]
    gone = set().union(*lost)
    by_kind = Counter(process in gone for process in again)
    most = max(Counter(again).values(), default=0)
    print(
        f"kills: {dict(killed)} in {runs} runs, which ended {sum(map(len, lost))} workers; "
        f"exit code of the last run: {code}\n"
        f"{len(done)} clips done of {CLIPS}, {sum(line['kind'] == 'failed' for line in lines)} failed; "
        f"{len(marks.begun)} segments begun {seen} times (the manifest says {told}); "
        f"segments written to the manifest: {sum(line['kind'] == 'segment' for line in lines)}\n"
        f"done again: {len(again)}, of which {by_kind[True]} had been begun by a worker that was killed and "
        f"{by_kind[False]} had not; at most {most} for one worker",
        flush=True,
    )


def kill_batches(folder: Path, frames_of: Any, *, ray: bool, each: int, seed: int = 0) -> None:
    """Kill so many of each kind in random order, and compare the results with a batch that was left alone."""
    chance = random.Random(seed)
    for number in range(CLIPS):
        short_clip(folder / "in" / f"{number:02d}.mkv", FRAMES, number, options={"crf": "8", "g": str(SEGMENT)})
    command = [*COMMAND, str(folder / "in"), "-o"]
    subprocess.run([*command, str(folder / "left")], check=True)
    place = TwoNodes(chance) if ray else OneMachine()
    try:
        plan = [kind for kind in place.kinds for _ in range(each)]
        chance.shuffle(plan)
        disturbed([*command, str(folder / "out"), *place.options], folder / "out", place, plan, chance)
    finally:
        place.close()
    names = [f"{number:02d}.mkv" for number in range(CLIPS)]
    same = sum(
        (folder / "out" / name).exists() and frames_of(folder / "out" / name) == frames_of(folder / "left" / name)
        for name in names
    )
    kept = {path.relative_to(folder / "out").as_posix() for path in (folder / "out").rglob("*") if path.is_file()}
    beside = sorted(kept - {*names, "manifest.jsonl", "report.json", "report.html"})
    print(f"{same} of {CLIPS} results equal, frame by frame and bit by bit; files beside them: {beside}", flush=True)
