"""The trials of each campaign, made when there is a process free for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .damaged import cases, file_trial, trial_of, written_bases
from .faults import LARGE, fault_trial, faults
from .trial import Trial

SEEDS = Path(__file__).parent / "seeds"  # every file that ever failed
SMALL_SIZE, LARGE_SIZE = (48, 64), (240, 320)


def seed_trials(root: Path) -> Iterator[Trial]:
    """Every file that ever failed. After an @ stands the suffix of the output, if it is not that of the input."""
    for path in sorted(SEEDS.iterdir()):
        _, found, to = path.stem.partition("@")
        yield file_trial(path.name, path.read_bytes(), path.suffix, root / path.stem, f".{to}" if found else None)


def damaged_trials(root: Path, count: int, seed: int, size: tuple[int, int]) -> Iterator[Trial]:
    """So many damaged videos with frames of a size `(H, W)`."""
    bases = written_bases(root / "bases", size, root)
    for case in cases(count, seed):
        yield trial_of(case, bases, root / str(case.number))


def fault_trials(root: Path) -> Iterator[Trial]:
    """All faults."""
    bases = written_bases(root / "small", SMALL_SIZE, root, ["mp4"])
    bases |= written_bases(root / "large", LARGE_SIZE, root, [LARGE])
    for number, fault in enumerate(faults()):
        base = bases[fault.base]
        yield fault_trial(fault, base.read_bytes(), base.suffix, root / str(number))
