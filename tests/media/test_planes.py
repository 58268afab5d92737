from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest
import torch

from qrsc.media.errors import MediaError
from qrsc.media.planes import Colours, alpha_of, frame_of, layout_of, planar, plane_of, reformatted, rgb_of

FORMATS = [
    "yuv420p", "yuvj420p", "yuv422p", "yuv444p", "yuv440p", "yuv411p", "yuv410p", "yuv420p10le", "yuv422p10le",
    "yuv444p12le", "yuv420p16le", "gray", "gray10le", "gray16le", "gbrp", "gbrp10le", "gbrap", "yuva420p",
    "yuva444p10le",
]  # fmt: skip
COLOURS = [Colours(), Colours(1, 1, 1, 1), Colours(9, 9, 16, 2), Colours(6, 6, 6, 2)]


def noise(name: str, height: int, width: int) -> Any:
    layout = layout_of(name)
    frame: Any = av.VideoFrame(width, height, layout.name)
    rng = np.random.default_rng(0)
    for index in range(layout.planes):
        plane = plane_of(frame, index)
        plane[:] = rng.integers(0, 2**layout.bits, plane.shape)
    return frame


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [(48, 64), (47, 63), (1, 1)])
def test_every_sample_survives_the_way_there_and_back(name: str, size: tuple[int, int]) -> None:
    frame = noise(name, *size)
    layout = layout_of(name)
    for colours in COLOURS:
        back = frame_of(rgb_of(frame, colours), layout, colours, alpha_of(frame))
        for index in range(layout.planes):
            np.testing.assert_array_equal(plane_of(back, index), plane_of(frame, index))


@pytest.mark.parametrize(
    ("name", "same"),
    [
        ("nv12", "yuv420p"), ("p010le", "yuv420p10le"), ("yuyv422", "yuv422p"), ("rgb24", "gbrp"), ("bgra", "gbrap"),
        ("rgb48le", "gbrp16le"), ("yuv420p10be", "yuv420p10le"), ("pal8", "gbrp"), ("rgb565le", "gbrp"),
    ],
)  # fmt: skip
def test_interleaved_formats_have_a_planar_twin(name: str, same: str) -> None:
    assert layout_of(name).name == same
    if name in ("pal8", "rgb565le"):
        return
    frame = noise(same, 32, 48)
    there = reformatted(frame, format=name)
    for index in range(layout_of(same).planes):
        np.testing.assert_array_equal(plane_of(planar(there), index), plane_of(frame, index))


def test_no_thread_of_a_conversion_loses_samples() -> None:
    frame = noise("yuv420p10le", 32, 48)
    there = reformatted(frame, format="p010le")
    for _ in range(500):  # with threads of FFmpeg's own choice, 1 in 100 lost chroma
        np.testing.assert_array_equal(plane_of(planar(there), 1), plane_of(frame, 1))


def test_formats_without_whole_numbers_are_refused() -> None:
    with pytest.raises(MediaError, match="gbrpf32le hold floats"):
        layout_of("gbrpf32le")


@pytest.mark.parametrize(
    ("colours", "name", "samples", "colour"),
    [
        (Colours(1, 1, 1, 1), "yuv444p", (63, 102, 240), (1.0, 0.0, 0.0)),  # BT.709 red, limited range
        (Colours(6, 6, 6, 1), "yuv444p", (81, 90, 240), (1.0, 0.0, 0.0)),  # BT.601
        (Colours(6, 6, 6, 2), "yuv444p", (76, 85, 255), (1.0, 0.0, 0.0)),  # as in JPEG
        (Colours(9, 9, 16, 1), "yuv444p10le", (940, 512, 512), (1.0, 1.0, 1.0)),  # white in 10 bits
        (Colours(), "yuv444p", (81, 90, 240), (1.0, 0.0, 0.0)),  # no tags, few rows: BT.601
        (Colours(1, 1, 1, 1), "yuv444p", (16, 128, 128), (0.0, 0.0, 0.0)),
    ],
)
def test_colours_are_those_of_the_standards(
    colours: Colours, name: str, samples: tuple[int, int, int], colour: tuple[float, float, float]
) -> None:
    frame: Any = av.VideoFrame(4, 4, name)
    for index, value in enumerate(samples):
        plane_of(frame, index)[:] = value
    found = rgb_of(frame, colours)[:, 0, 0]
    torch.testing.assert_close(found, torch.tensor(colour), rtol=0.0, atol=0.006)
    back = frame_of(torch.tensor(colour).reshape(3, 1, 1).expand(3, 4, 4), layout_of(name), colours)
    for index, value in enumerate(samples):
        assert abs(int(plane_of(back, index)[0, 0]) - value) <= 1


def test_beyond_white_is_kept() -> None:
    frame: Any = av.VideoFrame(4, 4, "yuv420p")
    for index, value in enumerate((250, 128, 128)):
        plane_of(frame, index)[:] = value
    rgb = rgb_of(frame, Colours(1, 1, 1, 1))
    assert float(rgb.max()) > 1.06
    assert plane_of(frame_of(rgb, layout_of("yuv420p"), Colours(1, 1, 1, 1)), 0)[0, 0] == 250


def test_a_new_picture_keeps_the_side_data_of_the_old_one() -> None:
    frame = noise("yuv420p", 32, 32)
    black = frame_of(torch.zeros(3, 32, 32), layout_of("yuv420p"), Colours(1, 1, 1, 1), like=frame)
    assert black is frame
    assert int(plane_of(black, 0).max()) == 16
    other = frame_of(torch.zeros(3, 32, 30), layout_of("yuv420p"), Colours(1, 1, 1, 1), like=frame)
    assert other is not frame
