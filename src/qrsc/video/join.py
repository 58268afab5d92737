"""The segments of a clip, joined: checked as a whole, and written with everything else that the clip holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from qrsc.media.frame_ranges import FrameTable
from qrsc.media.reader import read_tracks
from qrsc.media.segments import join_segments
from qrsc.pipeline import Seconds
from qrsc.video.checked_run import CheckedRun, Lessening
from qrsc.video.clip_job import ClipJob
from qrsc.video.correct import note_losses
from qrsc.video.correction_options import CorrectionOptions
from qrsc.video.result import VideoResult
from qrsc.video.segment import SegmentRecord
from qrsc.video.source import VideoSource, open_source
from qrsc.video.target import open_video


def join_clip(
    job: ClipJob,
    options: CorrectionOptions,
    table: FrameTable,
    segments: Sequence[Path],
    records: Sequence[SegmentRecord],
    lessening: Lessening,
) -> VideoResult:
    """Write a clip from its corrected segments: what `correct_job` would have written.

    Args:
        job: the clip.
        options: of the correction.
        table: all of its frames.
        segments, records: in order, all of the same strength; see `correct_segment`.
        lessening: how strongly they were corrected, and why.

    Raises:
        NotBetterError: the result is worse than the input, and may be lessened.
    """
    assert job.info is not None  # see `frames_to_divide`
    assert job.encoding is not None
    edges = options.edges(job.info.size)
    run = CheckedRun(job, job.chosen.readout, lessening.strength, lessens=not job.ordered)
    for record in records:
        run.replay(record.links, job.info.size)
    run.conclude()
    spent: Counter[str] = Counter()
    for record in records:
        job.tally.merge(record.tally, record.seconds)
        job.verifier.allow(record.seconds)
        spent.update(record.spent)
    seconds = Seconds()
    container = job.encoding.container
    with open_source(job.source, job.info, device=job.device, seconds=seconds, container=container) as source:
        assert isinstance(source, VideoSource)
        note_losses(job, source, edges.size)
        video = open_video(
            job.output, source, job.encoding, size=edges.size, overwrite=job.overwrite, verifier=job.verifier
        )
        with seconds.of("join"), video as writer:
            others = read_tracks(source.container, job.info, source.copied, int(table.stamps[-1]), source.report)
            join_segments(writer, segments, table, others, records[-1].last_duration)
    spent.update(seconds.spent)
    return job.result(spent, source.left_out, source.report, checked=run.checked, strength=lessening.strength)
