"""A cluster of two nodes on this machine, one of which is taken away while it works. Needs Ray."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import qrsc
from qrsc.farm.ray_cluster import imported_ray

from ..videos import facts
from .clips import GAMMA, short_clip

OPTIONS: dict[str, Any] = {"gamma": GAMMA, "preset": "fast", "motion": "quadratic", "codec": "ffv1", "segment": 30}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    # The second node is found to be gone after a second instead of half a minute.
    quick = {"health_check_period_ms": 300, "health_check_failure_threshold": 3, "health_check_initial_delay_ms": 0}
    two = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "_system_config": quick})
    two.add_node(num_cpus=1)
    yield two
    two.shutdown()


def test_clips_are_corrected_on_two_nodes_and_on_one_that_is_left(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qrsc.farm.ray_cluster.STUCK", 5.0)
    for seed in (1, 2):
        short_clip(tmp_path / "in" / f"{seed}.mkv", 10, seed)
    source = short_clip(tmp_path / "in" / "long.mkv", 120, options={"crf": "8", "g": "30"})
    (tmp_path / "in" / "broken.mp4").write_bytes(b"nothing")
    second = next(node for node in cluster.list_all_nodes() if node is not cluster.head_node)
    taken = threading.Event()

    def take_away() -> None:
        manifest = tmp_path / "out" / "manifest.jsonl"
        while not manifest.exists() or '"segment"' not in manifest.read_text():
            time.sleep(0.1)
        cluster.remove_node(second, allow_graceful=False)
        taken.set()

    threading.Thread(target=take_away, daemon=True).start()
    results = list(qrsc.batch(tmp_path / "in", tmp_path / "out", ray=cluster.address, workers=2, threads=1, **OPTIONS))
    assert taken.is_set()
    assert {Path(r.source).name: r.state for r in results} == {
        "1.mkv": "done", "2.mkv": "done", "long.mkv": "done", "broken.mp4": "failed",
    }  # fmt: skip
    assert facts(tmp_path / "out" / "long.mkv").times == facts(source).times


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'qrsc\[cluster\]'"):
        imported_ray()
