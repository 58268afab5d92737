"""Check a data set for missing, unreadable and mismatched files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.data.dataset import index_data
from qrsc.data.layouts import Kind, SequenceFiles, Split
from qrsc.media.errors import MediaError
from qrsc.media.image_folder import read_frame
from qrsc.media.image_header import image_size


@dataclass(frozen=True)
class SequenceReport:
    """The result of checking one sequence.

    Attributes:
        name: of the sequence.
        gamma: readout ratio.
        frames: number of rolling-shutter frames.
        kinds: number of files of each other kind.
        gaps: runs of missing frame numbers between the first frame and the last.
        sizes: `WIDTHxHEIGHT` of all files; more than one is a problem.
        problems: in words; empty if there are none.
    """

    name: str
    gamma: float
    frames: int
    kinds: dict[Kind, int]
    gaps: tuple[range, ...]
    sizes: tuple[str, ...]
    problems: tuple[str, ...]


def check_sequence(
    sequence: SequenceFiles, *, thorough: bool = False, advance: Callable[[], None] = lambda: None
) -> SequenceReport:
    """Check every file of a sequence.

    Args:
        sequence: from an index.
        thorough: decode every file; otherwise only the headers of PNG files are read.
        advance: called once for each frame.
    """
    kinds: Counter[Kind] = Counter()
    sizes: Counter[str] = Counter()
    problems = []
    for frame in sequence.frames:
        for kind, path in frame.files.items():
            if kind != "rolling":
                kinds[kind] += 1
            try:
                sizes[_size(path, thorough)] += 1
            except (MediaError, OSError) as error:
                problems.append(str(error))
        advance()
    if len(sizes) > 1:
        problems.append("more than one size: " + ", ".join(f"{count} of {size}" for size, count in sizes.most_common()))
    if not kinds:
        problems.append("no ground truth for any frame")
    return SequenceReport(
        sequence.name,
        sequence.readout.gamma,
        len(sequence.frames),
        dict(kinds),
        sequence.gaps,
        tuple(sizes),
        tuple(problems),
    )


def check_data(
    root: Path,
    layout: str,
    *,
    split: Split | None = None,
    list_file: Path | None = None,
    thorough: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> list[SequenceReport]:
    """Check every sequence of a data set.

    Args:
        root, layout, split, list_file: as for `index_data`.
        thorough: decode every file; otherwise only the headers of PNG files are read.
        progress: called for every frame.
        cancel: stops the check within one frame.
    """
    sequences = index_data(root, layout, split=split, list_file=list_file)
    stage = Stage("checking", sum(len(sequence.frames) for sequence in sequences), progress, cancel)
    return [check_sequence(sequence, thorough=thorough, advance=stage.advance) for sequence in sequences]


def report_lines(reports: Sequence[SequenceReport]) -> list[str]:
    """A line for each sequence, followed by its problems, and a summary."""
    width = max(len(report.name) for report in reports)
    lines = []
    for report in reports:
        kinds = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in report.kinds.items()) or "no truth"
        gaps = f", missing {_shortened(report.gaps)}" if report.gaps else ""
        lines.append(
            f"{report.name:{width}s}  {report.frames:3d} frames, {kinds}; {' and '.join(report.sizes) or 'no size'}, "
            f"gamma {report.gamma:g}{gaps}"
        )
        lines += [f"{'':{width}s}  ! {problem}" for problem in report.problems]
    frames = sum(report.frames for report in reports)
    gaps_in_all = sum(_missing(report.gaps) for report in reports)
    sizes = sorted({size for report in reports for size in report.sizes})
    wrong = sum(bool(report.problems) for report in reports)
    lines.append(
        f"{_amount(len(reports), 'sequence')}, {_amount(frames, 'frame')}, {gaps_in_all} missing, "
        f"{' and '.join(sizes)}; " + (f"{_amount(wrong, 'sequence')} with problems" if wrong else "no problems")
    )
    return lines


def _size(path: Path, thorough: bool) -> str:
    if not thorough and path.suffix.lower() == ".png":
        height, width = image_size(path)
    else:
        height, width = read_frame(path).frame.shape[-2:]
    return f"{width}x{height}"


def _shortened(gaps: Sequence[range]) -> str:
    numbers = list(islice(chain.from_iterable(gaps), 8))
    more = _missing(gaps) - len(numbers)
    return ", ".join(map(str, numbers)) + (f" and {more} more" if more else "")


def _missing(gaps: Sequence[range]) -> int:
    """How many numbers are missing; `len` of a range fails beyond 64 bits."""
    return sum(gap.stop - gap.start for gap in gaps)


def _amount(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"
