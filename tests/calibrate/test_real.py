from __future__ import annotations

from pathlib import Path

import pytest

from qrsc.calibrate.cell_motions import clip_motions
from qrsc.calibrate.estimate import Calibration, estimate_readout
from qrsc.calibrate.grey_frames import open_clip


def found_in(real_data: Path, name: str, frames: int) -> Calibration:
    path = real_data / "clips" / name
    if not path.exists():
        pytest.skip(f"the real samples here have no clip {name}")
    clip = open_clip(path)
    return estimate_readout(clip_motions(clip.grey_frames(frames), clip.size))


def test_a_clip_read_upwards_is_recognised(real_data: Path) -> None:
    found = found_in(real_data, "bottom_up.mp4", 120)
    assert (found.determined, found.scan) == (True, "bottom-up")


@pytest.mark.parametrize("frames", [60, 120])
def test_a_global_shutter_is_recognised(real_data: Path, frames: int) -> None:
    found = found_in(real_data, "global_shutter.mp4", frames)
    assert found.is_global, found
