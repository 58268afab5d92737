"""Whether the readouts found in real clips and their pieces agree, forward, reversed in time, flipped and turned.

    python benchmarks/calibration_real.py DIR [--seconds 3 4 5] [--clips NAME ...] [--cache DIR]

DIR holds the clips; folders in it are clips of images if they hold any. Every clip and its pieces of so many seconds
are calibrated in five forms. Reversed in time, flipped or turned by a half, the scan runs the other way: played
backwards, the row that was read last comes first. Turned by a quarter, it runs along the other axis. Nothing else may
change: the scan has to be right or open in all, and a readout that is determined has to lie within the intervals of all
others of its clip, open ones included. A global shutter counts as 0, and its interval reaches as far to either side:
what it says is "at most". The scans of known clips are in `SCANS`; those of other clips are compared with the first one
found. With a cache, the motions of the cells are kept there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from qrsc.calibrate.calibrate_clip import PIECE, piece_starts
from qrsc.calibrate.cell_motions import ClipMotions, clip_motions
from qrsc.calibrate.cells import Grey
from qrsc.calibrate.estimate import Calibration, estimate_readout
from qrsc.calibrate.grey_frames import ClipSource, open_clip
from qrsc.calibrate.self_test import checked_readout, combined
from qrsc.media.errors import MediaError
from qrsc.timing import Readout, Scan

SCANS: dict[str, Scan] = {"handheld.avi": "top-down", "dog": "top-down", "bottom_up.mp4": "bottom-up"}
IMAGES_PER_SECOND = 30.0  # for a folder, which has no rate

# What is done to the frames of a clip, and where a scan in the original comes to lie.
FORMS: dict[str, tuple[Callable[[list[Grey]], list[Grey]], Callable[[Readout], Readout]]] = {
    "forward": (lambda frames: frames, lambda readout: readout),
    "reversed": (lambda frames: frames[::-1], lambda readout: readout.rotated(2)),
    "flipped": (
        lambda frames: [np.ascontiguousarray(frame[::-1]) for frame in frames],
        lambda readout: readout.flipped_vertically(),
    ),
    "turned": (
        lambda frames: [np.ascontiguousarray(np.rot90(frame)) for frame in frames],
        lambda readout: readout.rotated(1),
    ),
    "upside down": (
        lambda frames: [np.ascontiguousarray(frame[::-1, ::-1]) for frame in frames],
        lambda readout: readout.rotated(2),
    ),
}
Result = tuple[str, tuple[int, int], Calibration]  # form, range of frames, what was found


def pieces(frames: int, fps: float, seconds: list[float]) -> list[tuple[int, int]]:
    """The whole clip, then its pieces, as ranges of frames."""
    ranges = [(0, frames)]
    for length in (round(part * fps) for part in seconds):
        if length < frames:
            ranges += [(start, start + length) for start in range(0, frames - length + 1, length)]
    return ranges


def motions_of(clip: ClipSource, cache: Path | None) -> dict[str, ClipMotions]:
    """The motions of all forms of a clip, from the cache if it has them."""
    paths = {} if cache is None else {form: cache / f"{clip.path.name} {form}.npz" for form in FORMS}
    frames = list(clip.grey_frames()) if not paths or not all(path.exists() for path in paths.values()) else []
    found = {}
    for form, (changed, _) in FORMS.items():
        size = (clip.size[1], clip.size[0]) if form == "turned" else clip.size
        if frames:
            found[form] = clip_motions(changed(frames), size)
            if cache is not None:
                cache.mkdir(parents=True, exist_ok=True)
                motions = found[form]
                np.savez(paths[form], place=motions.position, shift=motions.shift, weight=motions.weight)
        else:
            stored = np.load(paths[form])
            found[form] = ClipMotions(stored["place"], stored["shift"], stored["weight"], size)
    return found


def readout_of(motions: ClipMotions) -> Calibration:
    """The readout as `calibrate_clip` finds it, from several places of a long clip."""
    first_frames = piece_starts(motions.pairs + 1)
    if len(first_frames) == 1:
        return checked_readout(motions)
    return combined([estimate_readout(motions.part(first, first + PIECE - 1)) for first in first_frames])


def calibrated(clip: ClipSource, seconds: list[float], cache: Path | None) -> list[Result]:
    """All forms of all pieces of a clip."""
    results = []
    for form, motions in motions_of(clip, cache).items():
        frames = motions.pairs + 1
        for first, last in pieces(frames, clip.fps or IMAGES_PER_SECOND, seconds):
            # A piece of the reversed clip is the same piece of the recording.
            start, end = (frames - last, frames - first) if form == "reversed" else (first, last)
            found = readout_of(motions.part(start, end - 1))
            results.append((form, (first, last), found))
            word = "determined" if found.determined else "open"
            print(
                f"{clip.path.name:20s} {form:11s} {first:4d}-{last:4d}  {found.gamma:.3f} ({found.least:.3f} to "
                f"{found.high:.3f}) {found.scan:10s} {word:10s}  {found.reason[:50]}",
                flush=True,
            )
    return results


def signed(form: str, found: Calibration, original: Scan) -> tuple[float, float, float]:
    """Gamma and the ends of its interval along the scan of the original; negative against it."""
    if found.is_global:
        return 0.0, -found.high, found.high
    if FORMS[form][1](Readout(0.5, original)).scan == found.scan:
        return found.gamma, found.least, found.high
    return -found.gamma, -found.high, -found.least


def faults(name: str, results: list[Result]) -> tuple[list[str], list[str], int]:
    """Wrong scans, determined values outside another's interval, and how many were determined."""
    sure = [(form, part, found) for form, part, found in results if found.determined]
    rolling = [entry for entry in sure if not entry[2].is_global]
    original = SCANS.get(name, "top-down")
    if name not in SCANS and rolling:
        form, _, found = rolling[0]
        original = next(
            scan
            for scan in ("top-down", "bottom-up", "left-right", "right-left")
            if FORMS[form][1](Readout(0.5, scan)).scan == found.scan
        )
    wrong = [
        f"{name} {form} {part}: {found.scan}"
        for form, part, found in rolling
        if FORMS[form][1](Readout(0.5, original)).scan != found.scan
    ]
    outside = []
    for form, part, found in sure:
        gamma = signed(form, found, original)[0]
        for other_form, place, other in results:
            _, low, high = signed(other_form, other, original)
            if not low <= gamma <= high:
                outside.append(
                    f"{name} {form} {part}: {gamma:.3f} not in {low:.3f}..{high:.3f} of {other_form} {place}"
                )
    return wrong, outside, len(sure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, nargs="*", default=[3.0, 4.0, 5.0], help="lengths of the pieces")
    parser.add_argument("--clips", nargs="*", help="only these")
    parser.add_argument("--cache", type=Path, help="folder to keep motions in")
    options = parser.parse_args()
    totals = [0, 0, 0, 0]
    for path in sorted([*options.folder.iterdir(), *options.folder.glob("*/*.mp4")]):
        if options.clips and path.name not in options.clips:
            continue
        try:
            clip = open_clip(path)
        except (MediaError, ValueError, FileNotFoundError) as error:
            print(f"{path.name}: passed over, {error}")
            continue
        results = calibrated(clip, options.seconds, options.cache)
        wrong, outside, sure = faults(path.name, results)
        print(
            "\n".join([*wrong, *outside]) or f"{path.name}: {sure} of {len(results)} determined, no fault", flush=True
        )
        totals = [
            total + more for total, more in zip(totals, (len(results), sure, len(wrong), len(outside)), strict=True)
        ]
    print("{} pieces, {} determined; {} wrong scans, {} values outside the interval of another".format(*totals))


if __name__ == "__main__":
    main()
