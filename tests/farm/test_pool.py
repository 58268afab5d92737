"""Real processes, which are killed: a worker is replaced, and after the driver its workers end and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qrsc.farm.inputs import Clip
from qrsc.farm.manifest import read_lines
from qrsc.farm.processes import ProcessPool
from qrsc.farm.resources import Share, available_cores, available_memory, divide_machine
from qrsc.farm.settings import Settings
from qrsc.farm.tasks import ClipDone, ClipTask
from qrsc.video.correction_options import CorrectionOptions

from ..videos import facts
from .clips import GAMMA, short_clip

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


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_worker_is_replaced_and_a_second_death_is_told(tmp_path: Path) -> None:
    source = short_clip(tmp_path / "clip.mkv", 10)
    options = CorrectionOptions(gamma=GAMMA, preset="fast", motion="quadratic")
    clip = Clip(str(source), str(tmp_path / "out.mkv"), "out.mkv")
    task = ClipTask(clip=clip, folder=str(tmp_path / "work"), settings=Settings(options))
    pool = ProcessPool([Share((), 1)])
    try:
        pool.submit(1, task)
        os.kill(pool.process_ids[0], signal.SIGKILL)
        [outcome] = next(found for _ in range(1000) if (found := pool.outcomes(0.5)))
        assert isinstance(outcome.value, ClipDone)
        assert (outcome.restarts, pool.restarts, outcome.value.frames) == (1, 1, 10)
        assert len(facts(tmp_path / "out.mkv").times) == 10
        first = pool.process_ids[0]
        pool.submit(2, task)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: not pool.outcomes(0.1) and pool.process_ids[0] != first, "no new process")
        os.kill(pool.process_ids[0], signal.SIGKILL)
        [outcome] = next(found for _ in range(1000) if (found := pool.outcomes(0.5)))
        assert (outcome.died, outcome.restarts, outcome.value) == (True, 2, None)
    finally:
        last = pool.process_ids[0]
        pool.close()
    assert not runs(last)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_killed_driver_loses_what_was_in_flight_alone(tmp_path: Path) -> None:
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
    assert subprocess.run(command, check=True).returncode == 0
    assert len(facts(out / "clip.mkv").times) == 120
    assert sorted(segments()) == list(range(6)), "each segment was corrected once, or was in flight"
    assert len(before) >= 1
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
