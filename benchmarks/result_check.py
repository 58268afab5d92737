"""Whether a correction ever leaves a real clip more distorted than it came, and whether wrong readouts are noticed.

    python benchmarks/result_check.py DIR [--seconds 3] [--pieces 2] [--longest 384] [--clips NAME ...] [--wrong]

DIR holds the clips; folders in it are clips of images if they hold any. Pieces of every clip, in four forms (forward,
reversed in time, flipped, turned by a quarter), are corrected as `qrsc correct --fast` does it, without any readout
given. Then points are followed anew in the pictures of the input and of the output: nothing that the correction knew of
is used. A result is worse if the picture bends more from frame to frame than before, by more than one standard error
and `TOLERANCE` pixels. With `--wrong`, the clips are corrected with readouts that are wrong on purpose, given by hand,
and the warnings are counted.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np

import qrsc
from qrsc.calibrate.grey_frames import ClipSource, open_clip
from qrsc.media.errors import MediaError
from qrsc.media.image_folder import list_frames, read_frames
from qrsc.timing import Readout, Scan
from qrsc.video.frame_distortion import bending, seen_frame
from qrsc.video.result_check import SHORTEST, crossed, unsteady

RATE = 30.0  # frames per second of a folder
TOLERANCE = 0.02  # pixels
FORMS = ("forward", "reversed", "flipped", "turned")
# What was found in the whole clips: readouts that are made wrong.
KNOWN = {"handheld.avi": Readout(0.29), "dog": Readout(0.65), "bottom_up.mp4": Readout(0.33, "bottom-up")}
OPPOSITE: dict[Scan, Scan] = {"top-down": "bottom-up", "bottom-up": "top-down"}


def write_piece(frames: list[np.ndarray], form: str, folder: Path) -> None:
    """Write frames `[H, W, 3]` as images, in one of the forms."""
    folder.mkdir(parents=True)
    for number, frame in enumerate(frames[::-1] if form == "reversed" else frames):
        shown = frame[::-1] if form == "flipped" else np.rot90(frame) if form == "turned" else frame
        cv2.imwrite(str(folder / f"{number:05d}.png"), np.ascontiguousarray(shown[..., ::-1]))


def read_piece(clip: ClipSource, first: int, count: int, longest: int) -> list[np.ndarray]:
    """Frames `[H, W, 3]` of 8 bits."""
    found = []
    for number, frame in enumerate(clip.frames()):
        if number >= first + count:
            break
        if number < first:
            continue
        picture = (frame.permute(1, 2, 0).numpy() * 255.0).round().clip(0, 255).astype(np.uint8)
        shrink = min(1.0, longest / max(picture.shape))
        size = (2 * round(picture.shape[1] * shrink / 2), 2 * round(picture.shape[0] * shrink / 2))
        found.append(cv2.resize(picture, size, interpolation=cv2.INTER_AREA) if shrink < 1.0 else picture)
    return found


def bent(folder: Path) -> list[np.ndarray | None]:
    """How the picture of each pair of frames bends `[2, 6]`; None where it cannot be followed."""
    seen = [seen_frame(stored.frame, None) for stored in read_frames(list_frames(folder))]
    found = (bending(first, second) for first, second in pairwise(seen))
    return [None if each is None else each.before for each in found]


def compared(before: Path, after: Path) -> tuple[float, float, float]:
    """Mean squared bending before and after, and the standard error of their difference, in squared pixels."""
    runs: list[list[tuple[np.ndarray, np.ndarray]]] = [[]]
    for old, new in zip(bent(before), bent(after), strict=True):
        if old is None or new is None:
            runs.append([])
        else:
            runs[-1].append((old, new))
    kept = [np.array(run) for run in runs if len(run) >= SHORTEST]  # [P, 2, 2, 6] each
    if not kept:
        return 0.0, 0.0, 0.0
    energy = [np.concatenate([crossed(*[unsteady(run[:, each])] * 2) for run in kept]) for each in (0, 1)]
    gain = energy[0] - energy[1]
    blocks = np.array([part.mean() for part in np.array_split(gain, max(3, len(gain) // 5))])
    return float(energy[0].mean()), float(energy[1].mean()), float(blocks.std(ddof=1) / len(blocks) ** 0.5)


def try_found(clip: ClipSource, seconds: float, pieces: int, longest: int, work: Path) -> tuple[int, int]:
    """Correct pieces of a clip with what is found in them; how many results there are, and how many are worse."""
    total = clip.frame_count or 0
    count = min(total, round(seconds * (clip.fps or RATE)))
    starts = [round(number * (total - count) / max(1, pieces - 1)) for number in range(pieces)]
    tried = worse = 0
    for first in dict.fromkeys(starts):
        frames = read_piece(clip, first, count, longest)
        for form in FORMS:
            source, output = work / f"{first}-{form}", work / f"{first}-{form}-out"
            write_piece(frames, form, source)
            result = qrsc.correct_video(source, output, preset="fast", fps=clip.fps or RATE)
            before, after, error = (0.0, 0.0, 0.0) if result.copied else compared(source, output)
            root = [max(0.0, each) ** 0.5 for each in (before, after)]
            bad = after > before + error and root[1] > root[0] + TOLERANCE
            tried, worse = tried + 1, worse + bad
            told = "copied" if result.copied else f"{root[0]:.3f} -> {root[1]:.3f} px{'  WORSE' if bad else ''}"
            check = result.checked
            own = "" if check is None else f"  own check {check.verdict} {check.before_px:.3f} -> {check.after_px:.3f}"
            print(
                f"{clip.path.name:18s} {first:4d} {form:9s} gamma {result.readout.gamma:.3f} {result.readout.scan:10s} "
                f"strength {result.strength:.2f}  {told}{own}",
                flush=True,
            )
    return tried, worse


def try_wrong(clip: ClipSource, seconds: float, longest: int, work: Path) -> tuple[int, int]:
    """Correct a clip with wrong readouts; how many there are, and how many are warned of."""
    right = KNOWN.get(clip.path.name, Readout(0.0))
    other = OPPOSITE[right.scan]
    strong = right.gamma or 0.5
    readouts = [Readout(strong, other), Readout(1.0, right.scan), Readout(1.0, other)]
    source = work / "source"
    write_piece(read_piece(clip, 0, round(seconds * (clip.fps or RATE)), longest), "forward", source)
    caught = 0
    for number, readout in enumerate(readouts):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            result = qrsc.correct_video(
                source, work / f"{number}", preset="fast", gamma=readout.gamma, scan=readout.scan, fps=RATE
            )
        said = [str(each.message) for each in heard if "looks w" in str(each.message)]
        said += [note for note in result.notes if "too strong" in note]
        caught += bool(said)
        words = said[0] if said else "NOT NOTICED"
        print(f"{clip.path.name:18s} gamma {readout.gamma:.2f} {readout.scan:10s} {words}", flush=True)
    return len(readouts), caught


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of the pieces")
    parser.add_argument("--pieces", type=int, default=2, help="of each clip, spread over it")
    parser.add_argument("--longest", type=int, default=384, help="pixels of the longer side; larger frames are reduced")
    parser.add_argument("--clips", nargs="*", help="only these")
    parser.add_argument("--wrong", action="store_true", help="readouts that are wrong on purpose")
    options = parser.parse_args()
    tried = counted = 0
    for path in sorted([*options.folder.iterdir(), *options.folder.glob("*/*.mp4")]):
        if options.clips and path.name not in options.clips:
            continue
        try:
            clip = open_clip(path)
        except (MediaError, ValueError, FileNotFoundError) as error:
            print(f"{path.name}: passed over, {error}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            if options.wrong:
                found = try_wrong(clip, options.seconds, options.longest, Path(folder))
            else:
                found = try_found(clip, options.seconds, options.pieces, options.longest, Path(folder))
        tried, counted = tried + found[0], counted + found[1]
    print(f"{tried} tried, {counted} {'noticed' if options.wrong else 'worse than before'}")


if __name__ == "__main__":
    main()
