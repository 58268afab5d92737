"""Miniature data sets that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from qrsc.simulate.clips import render_clip
from qrsc.simulate.demo_scene import demo_scene
from qrsc.simulate.writers import write_sequence
from qrsc.timing import Readout

SIZE = (72, 96)


@pytest.fixture(scope="session")
def sim_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two simulated sequences of 4 frames with all their truth: one scene, read in two ways."""
    root = tmp_path_factory.mktemp("data") / "mini"
    scene = demo_scene(SIZE, 4, 0)
    for number, readout in enumerate((Readout(0.8), Readout(0.6))):
        clip = render_clip(scene, readout, 4, truth=["flows", "fields"])
        write_sequence(root / f"{number:04d}", "sim", clip, readout)
    return root
