"""`make fuzz`: damaged files, faults and kills in numbers, with figures at the end.

    python -m tests.fuzz damaged [--cases 2000] [--seed 0] [--size 320x240] [--jobs 2] [--keep FOLDER]
    python -m tests.fuzz seeds
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic

SEEDS = Path(__file__).parent / "seeds"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("what", choices=("damaged", "seeds", "faults"))
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", default="64x48", help="of the frames, as WxH")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a folder for the files that fail")
    parser.add_argument("--verbose", action="store_true", help="print how every case ended")
    given = parser.parse_args()
    from .trial import import_everything

    import_everything()
    with tempfile.TemporaryDirectory(prefix="qrsc-fuzz-") as name:
        sys.exit(1 if damaged(given, Path(name)) else 0)


def damaged(given: argparse.Namespace, root: Path) -> int:
    from .damaged import cases, file_trial, trial_of, written_bases
    from .faults import fault_trial, faults
    from .forked import run_forked
    from .trial import Trial

    width, height = map(int, given.size.split("x"))
    scratch = root / "scratch"
    scratch.mkdir()

    def trials() -> Iterator[Trial]:
        if given.what == "seeds":
            for path in sorted(SEEDS.iterdir()):
                yield file_trial(path.name, path.read_bytes(), path.suffix, root / path.name)
            return
        bases = written_bases(root / "bases", (height, width), scratch)
        if given.what == "faults":
            base = bases["mp4"]
            for number, fault in enumerate(faults()):
                yield fault_trial(fault, base.read_bytes(), base.suffix, root / str(number))
            return
        for case in cases(given.cases, given.seed):
            yield trial_of(case, bases, root / str(case.number))

    def works() -> Iterator[tuple[Trial, Callable[[], int]]]:
        for trial in trials():
            yield trial, trial.run

    codes: Counter[int] = Counter()
    complaints = 0
    peak = slowest = 0.0
    started = monotonic()
    for trial, ended in run_forked(works(), scratch, jobs=given.jobs):
        codes[ended.code] += 1
        peak, slowest = max(peak, ended.peak_bytes), max(slowest, ended.seconds)
        wrong = trial.complaints(ended)
        if given.verbose:
            print(f"{trial.name}: {ended.code} {ended.errors.strip()!r}", flush=True)
        if wrong:
            complaints += 1
            print(f"{trial.name} -> {trial.outputs}: {'; '.join(wrong)}", flush=True)
            if given.keep is not None:
                given.keep.mkdir(parents=True, exist_ok=True)
                kept = given.keep / (trial.name.replace("/", "-").split(" ")[0] + trial.source.suffix)
                kept.write_bytes(trial.content or b"")
                kept.with_suffix(".log").write_text(f"{trial.arguments}\n{wrong}\n{ended.errors}\n{ended.output}")
        shutil.rmtree(trial.folder)
    total = sum(codes.values())
    print(
        f"{total} files in {monotonic() - started:.0f} s: exit codes {dict(sorted(codes.items()))}, "
        f"{complaints} with complaints; slowest {slowest:.1f} s, peak memory {peak / 2**20:.0f} MB"
    )
    return complaints


main()
