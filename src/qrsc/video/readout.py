"""From options to what they mean: the readout, the instant, the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.calibrate.calibrate_clip import MOST_FRAMES
from qrsc.calibrate.decision import ChosenReadout, readout_for_clip
from qrsc.calibrate.grey_frames import open_clip
from qrsc.calibrate.recorded import recorded_figures, stabilisation_warning
from qrsc.calibrate.shown_scan import stored_scan, turning
from qrsc.media.orientation import IDENTITY
from qrsc.media.probe import ClipInfo
from qrsc.timing import Instant, Readout, Scan

Say = Callable[[str], None]


@dataclass(frozen=True)
class ReadoutOptions:
    """How the readout was given; at most one of the first four."""

    gamma: float | None = None
    readout_ms: float | None = None
    percent: float | None = None
    camera: str | None = None
    fps: float | None = None
    scan: Scan | None = None

    @property
    def is_order(self) -> bool:
        """Whether a readout was given as a figure. A camera is a name, whose readout may be of another mode."""
        return any(given is not None for given in (self.gamma, self.readout_ms, self.percent))


def choose_readout(
    source: Path,
    info: ClipInfo | None,
    options: ReadoutOptions,
    *,
    say: Say = lambda _: None,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
    early: Callable[[ChosenReadout], None] | None = None,
) -> ChosenReadout:
    """The readout of a clip's stored frames, from the one option that gives it, or found in the clip.

    Args:
        source: the clip.
        info: of a video; None for a folder.
        options: what the user said.
        say: hears what was assumed or found.
        progress, cancel: for finding it, which takes a while.
        early: gets what would be chosen by a first estimate of the clip, before that has been tested.
    """
    given = {
        name: value
        for name, value in (
            ("--gamma", options.gamma),
            ("--percent", options.percent),
            ("--readout", options.readout_ms),
            ("--camera", options.camera),
        )
        if value is not None
    }
    if len(given) > 1:
        raise ValueError(
            f"give the readout once, as --gamma, --percent, --readout or --camera; got {' and '.join(given)}."
        )
    if options.gamma is not None and not 0.0 <= options.gamma <= 1.0:
        raise ValueError(
            f"--gamma is the readout time as a fraction of the frame interval, from 0 to 1; got {options.gamma:g}. "
            "--readout takes milliseconds, and --percent per cent of the frame interval."
        )
    found = not given or options.camera is not None
    # What the clip itself shows needs no assumption about its scan.
    scan = choose_scan(options.scan, info, (lambda _: None) if found and options.scan is None else say)
    fps = options.fps if options.fps is not None or info is None else info.fps
    if given and options.gamma != 0.0 and info is not None:
        recorded = recorded_figures(open_clip(source, fps, info))
        if recorded.stabilisation:
            say(f"{stabilisation_warning(recorded)} It is corrected all the same, since you gave a readout")
    if options.gamma is not None:
        return ChosenReadout(Readout.from_ratio(options.gamma, scan or "top-down"), "given as a ratio")
    if options.percent is not None:
        return ChosenReadout(Readout.from_percent(options.percent, scan or "top-down"), "given in per cent")
    if options.readout_ms is not None:
        if fps is None:
            raise ValueError("a folder of images has no frame rate: --readout (in milliseconds) needs --fps.")
        given_ms = Readout.from_milliseconds(options.readout_ms, fps, scan or "top-down")
        return ChosenReadout(given_ms, "given in milliseconds")
    stage = Stage("calibrating", MOST_FRAMES, progress, cancel)
    tell = None if early is None else (lambda chosen: early(_usable(chosen)))
    chosen = readout_for_clip(
        source, camera=options.camera, scan=scan, fps=fps, info=info, advance=stage.advance, early=tell
    )
    say(chosen.message)
    return _usable(chosen)


def _usable(chosen: ChosenReadout) -> ChosenReadout:
    """A choice whose readout is 0 where nothing is to be corrected."""
    return replace(chosen, readout=Readout(0.0, chosen.readout.scan)) if chosen.nothing_to_correct else chosen


def choose_scan(shown: Scan | None, info: ClipInfo | None, say: Say = lambda _: None) -> Scan | None:
    """The scan of the stored frames, from the scan of the picture as displayed; None if it was not given.

    Frames of a clip with a rotation tag are stored as the sensor read them, and the tag turns them for display.
    """
    if info is None:
        return shown
    turned = turning(info.matrix)
    if shown is not None:
        scan = stored_scan(shown, info.matrix)
        if turned:
            say(f"the clip has a rotation tag: {shown} as seen is {scan} in its stored frames, {turned} for display")
        return scan
    if turned:
        say(f"the clip has a rotation tag: its stored frames, {turned} for display, are taken to be read top-down")
    elif info.matrix == IDENTITY and info.size[0] > info.size[1]:
        say(
            "a portrait clip without a rotation tag was probably turned in the pixels, and then it is read sideways: "
            "if the result is no better, try --scan left-right or --scan right-left"
        )
    return None


def choose_tau(readout: Readout, tau: float | None, at: Instant | None) -> float | None:
    """The target time from `--tau` or `--at`; None is the middle row."""
    if tau is not None and at is not None:
        raise ValueError("give the target instant once: --tau (a time) or --at (a row).")
    return readout.instant(at) if at is not None else tau
