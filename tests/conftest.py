from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from qrsc.simulate.output.writers import write_sequence
from qrsc.simulate.render.clip import render_clip
from qrsc.simulate.scene.demo_scene import demo_scene
from qrsc.timing import Readout

SIM_SIZE = (72, 96)

# Small tensors: more threads cost more than they give, and figures do not depend on the machine's size.
torch.set_num_threads(1)

settings.register_profile("qrsc", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("qrsc")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real samples: Carla-RS, Fastec-RS and BS-RSC as they lie on disk. Skips where there is none."""
    named = os.environ.get("QRSC_REAL")
    if named is not None:
        if not Path(named).is_dir():
            pytest.fail(f"QRSC_REAL names {named}, which is no folder")
        return Path(named)
    beside = Path(__file__).resolve().parents[2] / "shared" / "real"
    if not beside.is_dir():
        pytest.skip("no real samples here: name their folder in the environment variable QRSC_REAL")
    return beside


@pytest.fixture(scope="session", autouse=True)
def _flow_by_a_search() -> Iterator[None]:
    """Where a test asks for no flow, a search finds it, in a tenth of the time that the network takes.

    What `default_flow` says is tested in flow/test_dis.py, and that it is asked in pipeline/test_corrector_flow.py.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qrsc.pipeline.resolve.default_flow", lambda device: "dis")
        patch.setattr("qrsc.flow.default_flow", lambda device: "dis")
        yield


@pytest.fixture
def few_textures(monkeypatch: pytest.MonkeyPatch) -> None:
    """`qrsc train` with a handful of painted textures, and little to score in the end."""
    from qrsc.baselines.training import train
    from qrsc.learn.flow import flow_training
    from qrsc.learn.fusion import fusion_training
    from qrsc.simulate.paint.library import TextureLibrary, texture_library

    def painted(photographs: Path | None, device: object) -> TextureLibrary:
        return texture_library(torch.Generator().manual_seed(0), variety=1, resolution=64)

    for module in (flow_training, fusion_training, train):
        monkeypatch.setattr(module, "training_textures", painted)
    monkeypatch.setattr(flow_training, "HELD_OUT_PAIRS", 4)
    monkeypatch.setattr(fusion_training, "HELD_OUT_SAMPLES", 4)
    monkeypatch.setattr(train, "HELD_OUT_CALLS", 1)


@pytest.fixture(scope="session")
def sim_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two simulated sequences of 4 frames with all their truth: one scene, read in two ways."""
    root = tmp_path_factory.mktemp("data") / "mini"
    scene = demo_scene(SIM_SIZE, 4, 0)
    for number, readout in enumerate((Readout(0.8), Readout(0.6))):
        clip = render_clip(scene, readout, 4, truth=["flows", "fields"])
        write_sequence(root / f"{number:04d}", "sim", clip, readout)
    return root
