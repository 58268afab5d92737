"""Real processes, which are killed: a worker is replaced, and after the driver its workers end and nothing is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import qrsc
from qrsc.farm.manifest import read_lines
from qrsc.farm.processes import ProcessPool
from qrsc.farm.resources import Share, available_cores, available_memory, divide_machine
from qrsc.farm.tasks import Outcome

from ..videos import facts
from .clips import GAMMA, Inline, kinds, short_clip

PATIENCE = 120.0  # seconds; a process takes five to start on a busy machine


def wait_for(happened: Callable[[], object], what: str) -> None:
    started = time.monotonic()
    while not happened():
        assert time.monotonic() - started < PATIENCE, what
        time.sleep(0.05)


def runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


# A worker that starts at once: it answers with its task, fails at "bad", and waits for its end at "wait".
LIGHT = """
import os, pickle, sys, time
def answer(kind, content):
    pickle.dump((kind, content), sys.stdout.buffer)
    sys.stdout.buffer.flush()
if sys.argv[1] != "7":
    answer("ready", os.getpid())
while True:
    try:
        number, task = pickle.load(sys.stdin.buffer) if sys.argv[1] != "7" else sys.exit(1)
    except EOFError:
        break
    if task == "wait":
        answer("frames", 3)
        time.sleep(600)
    answer("failed" if task == "bad" else "memory" if task == "large" else "done", (number, task))
"""


def light_pool(monkeypatch: pytest.MonkeyPatch, *cores: tuple[int, ...]) -> Any:
    monkeypatch.setattr("qrsc.farm.processes.WORKER", (sys.executable, "-S", "-c", LIGHT))
    return ProcessPool([Share(each, 1) for each in cores])


def gathered(pool: ProcessPool, count: int) -> list[Outcome]:
    """So many outcomes, in the order of the tasks."""
    found: list[Outcome] = []
    while len(found) < count:
        found += pool.outcomes(5.0)
    return sorted(found, key=lambda outcome: outcome.number)


def test_a_killed_worker_is_replaced_and_a_second_death_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = light_pool(monkeypatch, (), ())
    try:
        pool.submit(1, "one")
        pool.submit(2, "bad")
        found = gathered(pool, 2)
        assert [(each.value, each.error, each.died) for each in found] == [("one", "", False), (None, "bad", False)]
        pool.submit(3, "large")
        assert gathered(pool, 1)[0].died
        pool.submit(4, "wait")
        for deaths in (1, 2):
            wait_for(lambda: not pool.outcomes(0.05) and pool.frames == 3, "the task did not begin")
            busy = next(process for process in pool._processes if process.task is not None)
            busy.popen.kill()
            wait_for(lambda: pool.restarts == deaths or pool.outcomes(0.05), "the death was not noticed")  # noqa: B023
        assert pool.restarts == 2
        pool.submit(5, "after")
        assert str(gathered(pool, 1)[0].value) == "after"
    finally:
        last = pool.process_ids
        pool.close()
    assert not any(runs(process) for process in last)


def test_workers_that_never_start_end_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = light_pool(monkeypatch, (7,))
    try:
        with pytest.raises(OSError, match="end before they have begun"):
            gathered(pool, 1)
    finally:
        pool.close()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_driver_loses_what_was_in_flight_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = short_clip(tmp_path / "clip.mkv", 120, options={"crf": "8", "g": "20"})
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "qrsc", "batch", str(source), "-o", str(out), "--fast", "--motion", "quadratic",
        "--gamma", str(GAMMA), "--segment", "20", "--workers", "1", "--quiet",
    ]  # fmt: skip
    driver = subprocess.Popen(command)

    def segments() -> list[int]:
        return [each["number"] for each in read_lines(out / "manifest.jsonl") if each["kind"] == "segment"]

    wait_for(segments, "no segment was corrected")
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    wait_for(lambda: not any(runs(int(child)) for child in children), "a worker outlived its driver")
    before = segments()
    assert not list(out.glob("*.mkv"))
    executor = Inline(tmp_path / "scratch")
    monkeypatch.setattr("qrsc.farm.batch._executor", lambda *given: executor)
    options: dict[str, Any] = {"gamma": GAMMA, "preset": "fast", "motion": "quadratic", "segment": 20}
    [result] = qrsc.batch(source, out, **options)
    assert len(facts(Path(result.output)).times) == 120
    assert sorted(segments()) == list(range(6)), "each segment was corrected once, or was in flight"
    assert kinds(executor.done).count("segment") == 6 - len(before)
    assert result.figures["segments_begun"] - 6 in (0, 1), "one worker had one segment in flight"
    assert not (out / ".qrsc-batch").exists()


def test_a_machine_is_divided_by_cores_memory_and_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qrsc.farm.resources.available_cores", lambda: list(range(8)))
    monkeypatch.setattr("qrsc.farm.resources.gpu_count", lambda device: 0)
    monkeypatch.setattr("qrsc.farm.resources.available_memory", lambda: 13 << 30)
    assert [share.cores for share in divide_machine()] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert [share.cores for share in divide_machine(2, 1)] == [(0,), (1,)]
    assert [share.cores for share in divide_machine(16)] == [()] * 16
    assert len(divide_machine(threads=4)) == 2
    monkeypatch.setattr("qrsc.farm.resources.gpu_count", lambda device: 2)
    assert [share.environment["CUDA_VISIBLE_DEVICES"] for share in divide_machine()] == ["0", "1"]
    with pytest.raises(ValueError, match="workers are 1 or more"):
        divide_machine(0)


def test_what_there_is() -> None:
    assert available_cores()
    assert available_memory() > 0
