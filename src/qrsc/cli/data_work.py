"""What `qrsc data check` and `qrsc data acc` do between their options and their lines."""

from __future__ import annotations

from pathlib import Path

from qrsc.cli.progress import progress_bar
from qrsc.data.acc import measure_accelerations, write_list
from qrsc.data.check import check_sequence, report_lines
from qrsc.data.dataset import index_data
from qrsc.data.layouts import SequenceFiles, Split
from qrsc.media.outputs import require_writable
from qrsc.timing import Readout, Scan


def given_readout(gamma: float | None, scan: Scan | None) -> Readout | None:
    """The readout that takes the place of the layout's own, if gamma is given."""
    if gamma is None:
        if scan is not None:
            raise ValueError("--scan takes the place of the data set's own together with --gamma; give both or none.")
        return None
    return Readout(gamma, scan or "top-down")


def check_data(
    root: Path, layout: str, *, split: Split | None, list_file: Path | None, thorough: bool, quiet: bool
) -> tuple[str, bool]:
    """Lines about every sequence, and whether all is well."""
    sequences = index_data(root, layout, split=split, list_file=list_file)
    with progress_bar(quiet) as progress:
        task = progress.add_task("looking", total=_frames(sequences))
        reports = [
            check_sequence(sequence, thorough=thorough, advance=lambda: progress.advance(task))
            for sequence in sequences
        ]
    return "\n".join(report_lines(reports)), not any(report.problems for report in reports)


def choose_acc(
    root: Path, output: Path, *, split: Split | None, gamma: float | None, overwrite: bool, quiet: bool
) -> str:
    """Writes the list of ACC and returns a line that sums it up."""
    require_writable({"--write": output}, overwrite=overwrite)
    sequences = index_data(root, "bsrsc", split=split, readout=given_readout(gamma, None))
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring", total=_frames(sequences))
        accelerations = list(measure_accelerations(sequences, advance=lambda step: progress.advance(task)))
    if not accelerations:
        raise ValueError(
            f"no frame below {root} has both neighbours and a truth, so no acceleration can be measured; sequences of "
            f"at least three frames were looked for, there are {', '.join(s.name for s in sequences[:5])}."
        )
    count = write_list(output, accelerations, sequences[0].readout.gamma)
    largest = max(accelerations, key=lambda each: each.mean)
    return (
        f"{count} of {len(accelerations)} frames in {output}; the largest mean acceleration is {largest.mean:.1f} "
        f"px/frame^2, in {largest.sequence}/{largest.number:05d}"
    )


def _frames(sequences: list[SequenceFiles]) -> int:
    return sum(len(sequence.frames) for sequence in sequences)
