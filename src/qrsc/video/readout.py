"""From options to what they mean: the readout, the instant, the device, the preset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.calibrate.calibrate_clip import MOST_FRAMES
from qrsc.calibrate.decision import ChosenReadout, readout_for_clip
from qrsc.fusion import FusionName
from qrsc.media.orientation import IDENTITY, degrees, mirrored, stored_direction
from qrsc.media.probe import ClipInfo
from qrsc.names import PresetName
from qrsc.timing import Instant, Readout, Scan

Say = Callable[[str], None]

# Which way (right, down) each scan runs over the picture.
_TOWARDS: dict[Scan, tuple[int, int]] = {
    "top-down": (0, 1),
    "bottom-up": (0, -1),
    "left-right": (1, 0),
    "right-left": (-1, 0),
}
# Flow on more pixels than full HD has is found at a reduced size, unless --scale says otherwise.
FLOW_PIXELS = 1920 * 1200


@dataclass(frozen=True)
class ReadoutOptions:
    """How the readout was given; at most one of the first four."""

    gamma: float | None = None
    readout_ms: float | None = None
    percent: float | None = None
    camera: str | None = None
    fps: float | None = None
    scan: Scan | None = None


def choose_readout(
    source: Path,
    info: ClipInfo | None,
    options: ReadoutOptions,
    *,
    say: Say = lambda _: None,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> ChosenReadout:
    """The readout of a clip's stored frames, from the one option that gives it, or found in the clip.

    Args:
        source: the clip.
        info: of a video; None for a folder.
        options: what the user said.
        say: hears what was assumed or found.
        progress, cancel: for finding it, which takes a while.
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
    found = not given or options.camera is not None
    # What the clip itself shows needs no assumption about its scan.
    scan = choose_scan(options.scan, info, (lambda _: None) if found and options.scan is None else say)
    fps = options.fps if options.fps is not None or info is None else info.fps
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
    chosen = readout_for_clip(source, camera=options.camera, scan=scan, fps=fps, advance=stage.advance)
    say(chosen.message)
    if chosen.nothing_to_correct:
        return replace(chosen, readout=Readout(0.0, chosen.readout.scan))
    return chosen


def choose_scan(shown: Scan | None, info: ClipInfo | None, say: Say = lambda _: None) -> Scan | None:
    """The scan of the stored frames, from the scan of the picture as people see it; None if nobody said.

    Frames of a clip with a rotation tag are stored as the sensor read them, and the tag turns them for display.
    """
    if info is None:
        return shown
    turned = degrees(info.matrix)
    tag = f"a rotation tag of {turned}°" + (" and a mirror" if mirrored(info.matrix) else "")
    if shown is not None:
        stored = stored_direction(_TOWARDS[shown], info.matrix)
        scan = next(name for name, direction in _TOWARDS.items() if direction == stored)
        if scan != shown:
            say(f"the clip has {tag}: {shown} as you see the picture is {scan} in its stored frames")
        return scan
    if info.matrix != IDENTITY:
        if turned or mirrored(info.matrix):
            say(f"the clip has {tag}: its stored frames are taken for sensor order, read top-down")
    elif info.size[0] > info.size[1]:
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


@dataclass(frozen=True)
class Preset:
    """What `--fast`, `--best` or neither stand for; options given beside them come first."""

    fusion: FusionName | None = None
    flow: str | None = None
    field_scale: float = 0.5


def choose_preset(name: PresetName) -> Preset:
    """`fast`: flow by a search, the mean of three frames, fields at a quarter of the size. `best`: flow and fields at
    full size, and a search behind the flow network on any device."""
    # DIS searches at half size itself, and motion is smooth: on all samples with a truth, fields of half and of quarter
    # size come within 0.05 dB of full ones (Fastec-RS 28.65, 28.66, 28.64; BS-RSC 33.67, 33.67, 33.67).
    if name == "fast":
        return Preset(fusion="mean", flow="dis", field_scale=0.25)
    return Preset(flow="raft-rs-full+dis", field_scale=1.0) if name == "best" else Preset()


def choose_threads(device: torch.device) -> int | None:
    """How many threads an operation of `--fast` gets: half of them on a processor; None leaves it to the libraries.

    Finding flow and correcting go on at the same time. While each has all cores, threads of one wait for those of the
    other: with half of them, a frame of 640x480 takes 14 to 19 % less on two cores.
    """
    return max(1, torch.get_num_threads() // 2) if device.type == "cpu" else None


def choose_scale(scale: float | None, size: tuple[int, int]) -> float:
    """The size at which flow is found: full up to full HD, then 1/2, 1/3, ... of it, unless one is given."""
    if scale is not None:
        return scale
    divisor = 1
    while size[0] * size[1] > FLOW_PIXELS * divisor**2:
        divisor += 1
    return 1.0 / divisor
