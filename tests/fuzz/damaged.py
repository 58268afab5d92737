"""Damaged videos: which file is damaged how, and what the command is asked to make of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from .bases import BASES, write_base
from .forked import run_forked
from .mutations import mutated
from .trial import DOCUMENTED, UNVERIFIED, Trial

SUFFIXES = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".ts", "")
# Now and then other work than the plain correction.
EXTRAS: Sequence[tuple[str, ...]] = (
    *((),) * 12,
    ("--border", "crop"),
    ("--start", "0.1"),
    ("--end", "0.15"),
    ("--compare",),
    ("--scan", "left-right"),
)
PLAIN_OPTIONS = ("--gamma", "0.5", "--fast", "--progress", "json")


@dataclass(frozen=True)
class Damage:
    """A case of damage; the same numbers and the same base give the same file and the same command line."""

    base: str
    seed: int
    number: int

    @property
    def name(self) -> str:
        return f"{self.base}/{self.seed}/{self.number}"


def cases(count: int, seed: int) -> Iterator[Damage]:
    """So many cases, one base after the other."""
    for number in range(count):
        yield Damage(BASES[number % len(BASES)], seed, number)


def written_bases(folder: Path, size: tuple[int, int], scratch: Path, names: Sequence[str] = BASES) -> dict[str, Path]:
    """Write the files to be damaged, in processes of their own: encoders start threads."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}

    def writing(name: str) -> Callable[[], int]:
        return lambda: _written(folder, name, size)

    for name, ended in run_forked(((name, writing(name)) for name in names), scratch):
        if ended.code != 0:
            raise RuntimeError(f"{name} cannot be written: {ended.errors}")
        found[name] = next(folder.glob(f"{name}.*"))
    return found


def _written(folder: Path, name: str, size: tuple[int, int]) -> int:
    write_base(folder, name, size)
    return 0


def trial_of(case: Damage, bases: dict[str, Path], folder: Path) -> Trial:
    """Damage a file and say what to do with it."""
    chance = Random(case.name)
    base = bases[case.base]
    content, done = mutated(base.read_bytes(), chance)
    suffix = chance.choice((base.suffix if base.suffix in SUFFIXES else ".mkv", chance.choice(SUFFIXES)))
    extra = chance.choice(EXTRAS)
    trial = file_trial(f"{case.name} {done}", content, base.suffix, folder, suffix, extra)
    # FFmpeg writes some damaged tracks so that it cannot read them back, which the verification sees.
    return replace(trial, codes=DOCUMENTED | {UNVERIFIED})


def file_trial(
    name: str, content: bytes, suffix: str, folder: Path, to: str | None = None, extra: tuple[str, ...] = ()
) -> Trial:
    """A trial of a file with this content and suffix, to be written with the suffix `to`."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    source = folder / f"in{suffix}"
    source.write_bytes(content)
    output = "out" + (to if to is not None else suffix if suffix in SUFFIXES else ".mkv")
    outputs = [output]
    if extra == ("--compare",):
        outputs.append("both.mp4")
        extra = ("--compare", str(folder / "both.mp4"))
    arguments = ("correct", str(source), "-o", str(folder / output), *PLAIN_OPTIONS, *extra)
    return Trial(name, folder, source, content, arguments, tuple(outputs))
