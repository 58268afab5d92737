"""What correcting and slow motion do before the first frame: check the output, find the readout, choose the encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from qrsc.backend.device import choose_device
from qrsc.backend.progress import CancelToken, ProgressCallback
from qrsc.calibrate.decision import ChosenReadout
from qrsc.calibrate.shown_scan import as_shown, shown_scan
from qrsc.media.changes import encoding_changes, metadata_left_out
from qrsc.media.codecs import Encoding, choose_encoding, is_video_name
from qrsc.media.orientation import IDENTITY
from qrsc.media.probe import ClipInfo, clip_info
from qrsc.media.reader import ReadReport
from qrsc.pipeline import Corrected
from qrsc.video.clip_plan import ClipPlan
from qrsc.video.readout import ReadoutOptions, choose_readout
from qrsc.video.result import Tally, VideoResult
from qrsc.video.result_check import CheckedResult
from qrsc.video.target import require_output
from qrsc.video.verifier import Verifier


@dataclass(frozen=True)
class EncodingOptions:
    """How the output is to be encoded; None is as the input was. See `qrsc.media.codecs.choose_encoding`."""

    codec: str | None = None
    crf: float | None = None
    pixel_format: str | None = None
    preset: str | None = None
    quick: bool = False
    alpha: bool = False

    @property
    def differ(self) -> bool:
        """Whether the output is to be encoded in another way than the input."""
        return self.alpha or any(each is not None for each in (self.codec, self.crf, self.pixel_format, self.preset))


@dataclass(frozen=True)
class ClipJob:
    """A clip that is ready to be worked on.

    Attributes:
        source, output: video files or folders of images.
        compare: a second video with before and after side by side, or None.
        info: of the source; None for a folder.
        encoding: of the output; None for a folder.
        asked: how it was asked to be encoded.
        device: where frames are corrected.
        chosen: the readout, and where it comes from.
        ordered: the correction is to be made as it was asked for, however it looks.
        fps: of a video made from a folder.
        start, end: the part of a video, in seconds.
        overwrite: replace files that exist.
        tally: gathers what is noticed and counted.
        verifier: checks the output before it gets its name.
        progress, cancel: of the whole job.
    """

    source: Path
    output: Path
    compare: Path | None
    info: ClipInfo | None
    encoding: Encoding | None
    asked: EncodingOptions
    device: torch.device
    chosen: ChosenReadout
    ordered: bool
    fps: float | None
    start: float | None
    end: float | None
    overwrite: bool
    tally: Tally
    verifier: Verifier
    progress: ProgressCallback | None
    cancel: CancelToken | None

    def note_left_out(self, tracks: tuple[str, ...]) -> None:
        """Say which tracks the output cannot hold."""
        for track in tracks:
            self.tally.note(f"left out: {track}, which {self.output.suffix} files cannot hold")

    def note_changes(self) -> None:
        """Say what the encoder changes."""
        if self.info is not None and self.encoding is not None:
            asked = self.asked.codec is not None
            for line in encoding_changes(self.info, self.encoding, self.output.suffix, asked=asked):
                self.tally.note(line)

    def result(
        self,
        spent: Mapping[str, float],
        left_out: tuple[str, ...],
        report: ReadReport,
        *,
        slowed: bool = False,
        copied: bool = False,
        checked: CheckedResult | None = None,
        strength: float = 1.0,
    ) -> VideoResult:
        """What became of the clip, once all of it is written.

        Args:
            spent: seconds by kind of work.
            left_out: tracks that the output cannot hold.
            report: what was met while reading.
            slowed: it lasts longer now.
            copied: it was copied, byte for byte.
            checked: whether it is less distorted now.
            strength: of the correction.
        """
        for message in report.messages(self.source, self.tally.frames):
            self.tally.warn(message)
        self._note_metadata(slowed=slowed, copied=copied)
        return self._told(
            left_out=left_out,
            damaged=report.damaged,
            mended_timestamps=report.clock.mended,
            truncated=report.truncated,
            verified=self.verifier.summary,
            seconds_by_work=dict(spent),
            copied=copied,
            checked=checked,
            strength=strength,
        )

    def planned(self, plan: ClipPlan, strength: float = 1.0) -> VideoResult:
        """What would become of the clip; nothing was written."""
        return self._told(seconds_by_work={}, plan=plan, strength=strength)

    def _note_metadata(self, *, slowed: bool, copied: bool) -> None:
        """Say which texts and chapters the output has not."""
        if self.info is not None and self.encoding is not None and not copied:
            same_times = self.start is None and self.end is None and not slowed
            try:
                lines = metadata_left_out(self.source, self.output, chapters=same_times)
            except (OSError, ValueError) as error:  # the output is there, and stays
                lines = [f"texts and chapters were not compared with the input: {error}"]
            for line in lines:
                self.tally.note(line)

    def _told(self, **known: Any) -> VideoResult:
        matrix = IDENTITY if self.info is None else self.info.matrix
        found = self.chosen.found
        return self.tally.result(
            output=self.output,
            compare=self.compare,
            readout=self.chosen.readout,
            readout_from=self.chosen.message,
            scan=shown_scan(self.chosen.readout.scan, matrix),
            calibration=None if found is None else as_shown(found, matrix),
            **known,
        )


def choose_end(start: float | None, end: float | None, duration: float | None) -> float | None:
    """The end of a part of a video in seconds, from its end or its duration."""
    if duration is None:
        return end
    if end is not None:
        raise ValueError("give one of --end and --duration.")
    if not duration > 0.0:
        raise ValueError(f"--duration is a time in seconds, over 0; got {duration!r}.")
    return round((start or 0.0) + duration, 9)  # 0.1 + 0.2 is 0.3, and not a little more


def _require_part(source: Path, info: ClipInfo | None, start: float | None, end: float | None) -> None:
    """Refuse a part of a video that holds nothing, as far as the header tells."""
    if start is not None and end is not None and end <= start:
        raise ValueError(f"--end must come after --start; got {end:g} s and {start:g} s.")
    if start is None or info is None or info.frames is None or not (info.even and info.counted):
        return
    seconds = info.frames * info.interval
    if start > seconds + info.interval:
        until = "the end" if end is None else f"{end:g} s"
        raise ValueError(f"{source} has no frame from {start:g} s to {until}: it lasts {seconds:.3g} s.")


def prepare_clip(
    source: str | Path,
    output: str | Path,
    given: ReadoutOptions,
    encoding: EncodingOptions,
    *,
    compare: str | Path | None = None,
    start: float | None = None,
    end: float | None = None,
    device: str = "auto",
    overwrite: bool = False,
    verify: bool | None = False,
    progressive: bool = False,
    always: bool = False,
    chosen: ChosenReadout | None = None,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
    on_note: Callable[[str], None] | None = None,
    on_frame: Callable[[Corrected], None] | None = None,
) -> ClipJob:
    """Check everything that can be checked before the work starts, and find the readout if none is given.

    A readout that was `chosen` before is not looked for again.
    """
    source, output = Path(source), Path(output)
    compare = None if compare is None else Path(compare)
    require_output(source, output, beside={"--compare": compare}, overwrite=overwrite)
    chosen_device = choose_device(device)
    tally = Tally(on_note, on_frame)
    info = clip_info(source, progressive=progressive)
    _require_part(source, info, start, end)
    encoder = None
    if is_video_name(output):
        if info is None and given.fps is None:
            raise ValueError("a folder of images has no frame rate: give that of the video as --fps.")
        encoder = choose_encoding(output, info, **vars(encoding))
    if chosen is None:
        chosen = choose_readout(source, info, given, say=tally.note, progress=progress, cancel=cancel)
    return ClipJob(
        source,
        output,
        compare,
        info,
        encoder,
        encoding,
        chosen_device,
        chosen,
        given.is_order or always,
        given.fps,
        start,
        end,
        overwrite,
        tally,
        Verifier(verify, None if info is None else source, start is None and end is None),
        progress,
        cancel,
    )
