"""Rolling shutter from high-rate footage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
import torch
from torch import Tensor

from qrsc.backend.progress import Cancelled, Progress
from qrsc.media.image_folder import write_frame
from qrsc.media.mp4 import write_video
from qrsc.simulate.output.from_video import (
    MIXINGS,
    Mixing,
    RateTooLowError,
    Source,
    measure_steps,
    open_source,
    rolling_from_video,
    simulate_footage,
)
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.timing import SCANS, Readout, Scan

from ..scenes import SIZE, layered_scene

PER_FRAME = 20  # source frames per frame interval
FPS = 25.0


@pytest.fixture(scope="module")
def footage() -> Tensor:
    """`[N, 3, H, W]`: a little more than two frame intervals."""
    scene = layered_scene()
    return torch.cat([render_gs(scene, number / PER_FRAME) for number in range(2 * PER_FRAME + 1)])


def decibels(first: Tensor, second: Tensor) -> float:
    return float(-10.0 * torch.log10((first - second).square().mean()))


@pytest.mark.parametrize("scan", SCANS)
def test_rows_come_from_their_times(footage: Tensor, scan: Scan) -> None:
    readout = Readout(0.8, scan)
    source = open_source(footage, FPS * PER_FRAME)
    nearest, linear = (list(rolling_from_video(source, FPS, readout, mixing=mixing)) for mixing in MIXINGS)
    assert [frame.number for frame in linear] == [frame.number for frame in nearest] == [0, 1]
    for rough, smooth in zip(nearest, linear, strict=True):
        exact = render_rs(layered_scene(), readout, smooth.number)[0]
        # Measured 48 and 60 dB at least; the global-shutter frame at the middle row is at 26 to 30.
        assert decibels(smooth.pictures["rolling"], exact) > 55
        assert decibels(rough.pictures["rolling"], exact) > 44
        assert decibels(smooth.pictures["middle"], exact) < 32


@pytest.mark.parametrize("mixing", MIXINGS)
def test_truth_is_the_source_frame_of_its_instant(footage: Tensor, mixing: Mixing) -> None:
    source = open_source(footage, FPS * PER_FRAME)
    for frame in rolling_from_video(source, FPS, Readout(0.8), mixing=mixing):
        start = frame.number * PER_FRAME
        assert torch.equal(frame.pictures["first"], footage[start])
        assert torch.equal(frame.pictures["middle"], footage[start + round(0.4 * PER_FRAME)])


def test_linear_mixing_is_exact_for_linear_change() -> None:
    # Brightness that grows with time: every row is as bright as its time, whatever the ratio of the rates.
    footage = (torch.arange(12) * 0.05).reshape(-1, 1, 1, 1).expand(-1, 3, 10, 4)
    readout = Readout(0.9)
    frames = list(rolling_from_video(open_source(footage, 100.0), 30.0, readout, largest_step=None))
    assert [frame.number for frame in frames] == [0, 1, 2]
    for frame in frames:
        times = frame.number + readout.row_times(10, 4)
        assert torch.allclose(frame.pictures["rolling"], (times * 0.05 * 100 / 30).expand(3, 10, 4), atol=1e-6)


def test_gamma_zero_gives_the_source_frames(footage: Tensor) -> None:
    frames = list(rolling_from_video(open_source(footage, FPS * PER_FRAME), FPS, Readout(0.0)))
    assert len(frames) == 3
    for frame in frames:
        assert torch.equal(frame.pictures["rolling"], footage[frame.number * PER_FRAME])


def test_too_low_a_rate_is_refused_with_one_that_would_do(footage: Tensor) -> None:
    readout = Readout(0.8)
    source = open_source(footage[::5], FPS * PER_FRAME / 5)
    steps = measure_steps(source, FPS, readout)
    assert steps.per_readout == pytest.approx(3.2)
    # The disc moves fastest, by 9 to 16 px a frame, the background by 7 and more; a quarter of that for each step.
    assert 1.5 < steps.pixels < 5.0
    with pytest.raises(RateTooLowError, match=r"only 3.2 of them.*moves by (\S+) px.*About \d+ frames") as caught:
        rolling_from_video(source, FPS, readout)
    rate = float(str(caught.value).split("About ")[1].split()[0])
    assert rate == pytest.approx(source.rate * steps.pixels, abs=1.0)
    assert len(list(rolling_from_video(source, FPS, readout, largest_step=steps.pixels + 0.1))) == 2
    assert len(list(rolling_from_video(source, FPS, readout, largest_step=None))) == 2


def test_only_the_frames_in_use_are_held(footage: Tensor) -> None:
    handed = 0

    def frames() -> Iterator[Tensor]:
        nonlocal handed
        for frame in footage:
            handed += 1
            yield frame

    clip = rolling_from_video(Source(frames, FPS * PER_FRAME, "a stream"), FPS, Readout(0.5), largest_step=None)
    next(clip)
    assert handed <= PER_FRAME // 2 + 1


def test_folder_and_video(tmp_path: Path, footage: Tensor) -> None:
    part = footage[:: PER_FRAME // 4]
    folder = tmp_path / "frames"
    folder.mkdir()
    for number, frame in enumerate(part):
        write_frame(folder / f"{number}.png", frame)
    write_video(tmp_path / "clip.mp4", part, 100)
    exact = list(rolling_from_video(open_source(part, 100.0), FPS, Readout(1.0), largest_step=None))
    for path, least in ((folder, 55), (tmp_path / "clip.mp4", 32)):
        frames = list(rolling_from_video(open_source(path, 100.0), FPS, Readout(1.0), largest_step=None))
        assert len(frames) == len(exact) == 2
        assert decibels(frames[1].pictures["rolling"], exact[1].pictures["rolling"]) > least
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_source(tmp_path / "nowhere", 100.0)


def test_refusals(footage: Tensor) -> None:
    source = open_source(footage, 240.0)
    with pytest.raises(ValueError, match="at most that of its source, 240; got 300"):
        rolling_from_video(source, 300.0, Readout(0.5))
    with pytest.raises(ValueError, match="has 41 frames; the first rolling-shutter frame alone needs 96"):
        list(rolling_from_video(source, 2.0, Readout(0.8), largest_step=None))
    with pytest.raises(ValueError, match=r"got a tensor of shape \(3, 96, 128\)"):
        open_source(footage[0], 240.0)
    with pytest.raises(ValueError, match="positive number of frames per second"):
        open_source(footage, 0.0)
    assert footage.shape[-2:] == SIZE


@pytest.fixture
def footage_folder(tmp_path: Path, footage: Tensor) -> Path:
    folder = tmp_path / "footage"
    folder.mkdir()
    for number, frame in enumerate(footage[::4]):
        write_frame(folder / f"{number}.png", frame)
    return folder


def test_progress_counts_the_footage_and_then_the_clip(tmp_path: Path, footage_folder: Path) -> None:
    heard: list[tuple[str, int]] = []
    count = simulate_footage(
        footage_folder,
        tmp_path / "clip",
        FPS * PER_FRAME / 4,
        fps=FPS,
        largest_step=9.0,
        progress=lambda now: heard.append((now.stage, now.done)),
    )
    assert count == 2
    assert heard == [
        *(("measuring motion", done) for done in range(1, 12)),
        *(("assembling", done) for done in (1, 2)),
    ]


def test_a_cancelled_clip_leaves_nothing(tmp_path: Path, footage_folder: Path) -> None:
    cancel = Event()

    def stop_at_first_frame(now: Progress) -> None:
        if now.stage == "assembling":
            cancel.set()

    with pytest.raises(Cancelled):
        simulate_footage(
            footage_folder,
            tmp_path / "clip",
            FPS * PER_FRAME / 4,
            fps=FPS,
            largest_step=9.0,
            progress=stop_at_first_frame,
            cancel=cancel,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["footage"]


def test_the_footage_is_never_touched(footage_folder: Path) -> None:
    names = sorted(path.name for path in footage_folder.iterdir())
    for output in (footage_folder, footage_folder / "clip"):
        with pytest.raises(ValueError, match=r"the original is never touched|lies inside the other"):
            simulate_footage(footage_folder, output, 100.0, fps=FPS, overwrite=True)
    assert sorted(path.name for path in footage_folder.iterdir()) == names
