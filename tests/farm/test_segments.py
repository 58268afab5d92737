"""Segments: corrected apart and joined, a clip is what one run over all of it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qrsc.media.errors import MediaError
from qrsc.media.frame_ranges import FrameRangeError, FrameTable, list_frames_of, read_range
from qrsc.media.probe import opened, probe
from qrsc.video.checked_run import Lessening, NotBetterError
from qrsc.video.correct import correct_job
from qrsc.video.correction_options import CorrectionOptions
from qrsc.video.join import join_clip
from qrsc.video.result import VideoResult
from qrsc.video.segment import (
    Segment,
    SegmentRecord,
    correct_segment,
    divide,
    frames_to_divide,
    lead_is_enough,
)

from ..videos import facts, planes
from .clips import GAMMA, hard_clip, shaken, short_clip, with_edit_list

LENGTH = 28


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hard_clip(tmp_path_factory.mktemp("hard") / "clip.mp4")


def in_segments(source: Path, output: Path, options: CorrectionOptions) -> tuple[VideoResult, list[Segment]]:
    """Correct a clip in segments of 28 frames; those that were done again are returned, too."""
    job = options.job(source, output)
    table = frames_to_divide(job, LENGTH)
    records: list[SegmentRecord] = []
    again, paths = [], []
    for segment in divide(table, LENGTH):
        path = output.with_name(f"{segment.number}.segment")
        record = correct_segment(job, options, segment, segment.part_of(table), path, strength=1.0)
        while records and not lead_is_enough(records[-1], record):
            segment = segment.longer_lead()
            again.append(segment)
            record = correct_segment(job, options, segment, segment.part_of(table), path, strength=1.0)
        records.append(SegmentRecord.read(path.with_suffix(".json")))
        paths.append(path)
    return join_clip(job, options, table, paths, records, Lessening(1.0)), again


def require_same(first: Path, second: Path) -> None:
    """The same frames bit for bit, timestamps, packets of sound, chapters and tags."""
    assert facts(first) == facts(second)
    for one, other in zip(planes(first), planes(second), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("suffix", "options"),
    [(".mkv", {"codec": "ffv1"}), (".mp4", {"codec": "h264", "crf": 0, "fusion": "none", "motion": "cubic"})],
)
def test_segments_are_what_one_run_writes(hard: Path, tmp_path: Path, suffix: str, options: Any) -> None:
    chosen = CorrectionOptions(gamma=GAMMA, preset="fast", **options)
    whole, joined = tmp_path / f"whole{suffix}", tmp_path / f"joined{suffix}"
    expected = correct_job(chosen.job(hard, whole), chosen)
    result, again = in_segments(hard, joined, chosen)
    require_same(whole, joined)
    for name in ("frames", "unchanged", "cuts", "repeated", "largest_px", "checked", "readout", "fallbacks"):
        assert getattr(result, name) == getattr(expected, name), name
    assert result.mean_px == pytest.approx(expected.mean_px)
    assert expected.repeated == 13
    assert "every picture can be decoded" in result.verified
    # The lead of the third segment begins within the still picture, whose result is that of its first frame.
    assert [segment.number for segment in again] == [2]


def test_an_edit_list_is_kept(hard: Path, tmp_path: Path) -> None:
    source = with_edit_list(hard, tmp_path / "edited.mp4", 12)
    chosen = CorrectionOptions(gamma=GAMMA, preset="fast", motion="quadratic", codec="ffv1")
    whole, joined = tmp_path / "whole.mkv", tmp_path / "joined.mkv"
    assert correct_job(chosen.job(source, whole), chosen).frames == len(shaken(84)) - 12
    in_segments(source, joined, chosen)
    require_same(whole, joined)


def test_a_clip_that_gets_worse_is_noticed_in_its_first_segment(tmp_path: Path) -> None:
    source = short_clip(tmp_path / "clip.mkv", 60)
    options = CorrectionOptions(gamma=GAMMA, scan="bottom-up", preset="fast", motion="quadratic", codec="ffv1")
    job = options.job(source, tmp_path / "out.mkv")
    object.__setattr__(job, "ordered", False)  # as if the readout had been found
    table = frames_to_divide(job, LENGTH)
    first, second = divide(table, LENGTH)
    with pytest.raises(NotBetterError):
        correct_segment(job, options, first, first.part_of(table), tmp_path / "0.segment", strength=1.0)
    assert not list(tmp_path.glob("*.segment"))
    record = correct_segment(job, options, second, second.part_of(table), tmp_path / "1.segment", strength=1.0)
    assert len(record.links) == second.end - second.first
    tally = job.tally
    lessening = Lessening(1.0)
    with pytest.raises(NotBetterError) as raised:
        join_clip(job, options, table, [], [record], lessening)
    assert lessening.after(job, raised.value.checked).strength < 1.0
    assert tally.notes[-1].endswith("--always keeps all of it")


def test_segments_begin_at_key_frames_nearby() -> None:
    stamps = np.arange(1000) * 3000
    keys = np.array([0, 90, 260, 430, 700])
    table = FrameTable(0, stamps, stamps / 3000.0, keys)
    assert [(s.first, s.end) for s in divide(table, 250)] == [(0, 260), (260, 430), (430, 700), (700, 1000)]
    even = FrameTable(0, stamps, stamps / 3000.0, keys[:1])
    assert [s.first for s in divide(even, 250)] == [0, 250, 500, 750]
    with pytest.raises(ValueError, match="2 frames or more"):
        divide(table, 1)


def test_a_range_is_read_as_in_the_whole(hard: Path) -> None:
    info = probe(hard)
    table = list_frames_of(info)
    assert len(table) == 84
    part = table.part(37, 61)
    with opened(hard) as container:
        frames = list(read_range(container, info, part))
    assert [frame.frame.pts for frame in frames] == part.stamps.tolist()
    assert [frame.time for frame in frames] == part.times.tolist()
    other = FrameTable(37, part.stamps + 1, part.times, part.keys)
    with opened(hard) as container, pytest.raises(FrameRangeError, match="frame 37 is not what"):
        list(read_range(container, info, other))


def test_what_cannot_be_divided_says_why(hard: Path, tmp_path: Path) -> None:
    options = CorrectionOptions(gamma=GAMMA, preset="fast", motion="quadratic")
    with pytest.raises(FrameRangeError, match="it is short"):
        frames_to_divide(options.job(hard, tmp_path / "a.mp4"), 60)
    with pytest.raises(FrameRangeError, match="AVI files count frames"):
        frames_to_divide(options.job(hard, tmp_path / "a.avi"), LENGTH)
    (tmp_path / "0.json").write_text('{"links": 3}')
    with pytest.raises(ValueError, match="does not describe a segment"):
        SegmentRecord.read(tmp_path / "0.json")
    job = options.job(hard, tmp_path / "a.mp4")
    table = frames_to_divide(job, LENGTH)
    first = divide(table, LENGTH)[0]
    path = tmp_path / "0.segment"
    record = correct_segment(job, options, first, first.part_of(table), path, strength=1.0)
    with pytest.raises(MediaError, match=r"1 segments hold 28 frames, and 84 were expected"):
        join_clip(job, options, table, [path], [record], Lessening(1.0))
