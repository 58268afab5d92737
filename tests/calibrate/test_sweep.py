from __future__ import annotations

from pathlib import Path

import torch

from qrsc.calibrate.grey_frames import open_clip
from qrsc.calibrate.sweep import corrected_at
from qrsc.media.reader import read_video
from qrsc.pipeline import Corrector
from qrsc.timing import Readout

from ..videos import Recipe, make_video, seen, texture


def test_one_frame_is_corrected_at_each_gamma_with_flow_that_is_found_once(tmp_path: Path) -> None:
    path = make_video(tmp_path / "in.mp4", Recipe([seen(texture(0), time / 2) for time in range(3)]))
    as_it_is, half, most = corrected_at(open_clip(path), [0.0, 0.4, 0.8], "top-down")
    window = torch.stack(list(read_video(path)))  # three frames are all there is to choose from
    assert torch.equal(as_it_is, window[1])
    for gamma, picture in ((0.4, half), (0.8, most)):
        alone = list(Corrector(Readout(gamma), fusion="none", frames=3, flow="dis").stream(window))[1].frame
        assert torch.equal(picture, alone)
