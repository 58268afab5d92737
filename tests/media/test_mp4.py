from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import av
import pytest
import torch
from torch import Tensor

from qrsc.media.errors import MediaError
from qrsc.media.mp4 import write_video
from qrsc.media.reader import read_video

COLOURS = torch.tensor(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0], [0.5, 0.5, 0.5], [1, 1, 0], [0.2, 0.7, 0.9]]
)


def colour_bars(height: int, width: int) -> Tensor:
    """Eight bars `[3, H, W]`."""
    return COLOURS[torch.arange(width) * 8 // width].T[:, None, :].expand(3, height, width)


def test_colours_count_rate_and_format_survive(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    bars = colour_bars(96, 256)
    assert write_video(path, [bars] * 7, 29.97) == 7
    frames = list(read_video(path))
    assert len(frames) == 7
    assert frames[0].shape == (3, 96, 256)
    assert frames[0].dtype == torch.float32
    middles = torch.arange(16, 256, 32)
    # Measured 0.010; colours of BT.601 under the tag of BT.709 give 0.157.
    assert (frames[3] - bars)[:, 48, middles].abs().max() <= 3 / 255
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.average_rate == Fraction(2997, 100)
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert stream.codec_context.colorspace == 1


def test_order_of_frames(tmp_path: Path) -> None:
    levels = [0.1, 0.9, 0.4, 0.6, 0.2]
    write_video(tmp_path / "a.mp4", (torch.full((3, 32, 32), level) for level in levels), 25)
    read = [frame.mean().item() for frame in read_video(tmp_path / "a.mp4")]
    assert read == pytest.approx(levels, abs=0.02)


def test_odd_size_is_padded_with_the_last_row_and_column(tmp_path: Path) -> None:
    frame = torch.zeros(3, 33, 47)
    frame[:, -1], frame[:, :, -1] = 1.0, 1.0
    write_video(tmp_path / "a.mp4", [frame], 25, quality=1)
    [read] = read_video(tmp_path / "a.mp4")
    assert read.shape == (3, 34, 48)
    assert read[:, 33, :].min() > 0.9
    assert read[:, :, 47].min() > 0.9
    assert read[:, :31, :45].max() < 0.1


def test_failure_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    def frames() -> object:
        yield torch.zeros(3, 16, 16)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_video(tmp_path / "a.mp4", frames(), 25)  # type: ignore[arg-type]  # wrong on purpose
    assert list(tmp_path.iterdir()) == []


def test_unusable_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match=r"end in \.mp4"):
        write_video(tmp_path / "a.avi", [torch.zeros(3, 16, 16)], 25)
    with pytest.raises(MediaError, match="at least one"):
        write_video(tmp_path / "a.mp4", [], 25)
    with pytest.raises(MediaError, match="frame 1 is 16x18 and the first is 16x16"):
        write_video(tmp_path / "a.mp4", [torch.zeros(3, 16, 16), torch.zeros(3, 18, 16)], 25)
    for fps in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(MediaError, match="frame rate"):
            write_video(tmp_path / "a.mp4", [torch.zeros(3, 16, 16)], fps)
    with pytest.raises(ValueError, match=r"\[3, H, W\]"):
        write_video(tmp_path / "a.mp4", [torch.zeros(1, 16, 16)], 25)
    assert list(tmp_path.iterdir()) == []


def test_unreadable_video_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.mp4"):
        next(read_video(tmp_path / "nowhere.mp4"))
    (tmp_path / "a.mp4").write_bytes(b"no video")
    with pytest.raises(MediaError, match=r"a\.mp4 cannot be read as a video"):
        next(read_video(tmp_path / "a.mp4"))


def test_missing_pyav_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ModuleNotFoundError, match="pip install av"):
        write_video(tmp_path / "a.mp4", [torch.zeros(3, 16, 16)], 25)
