"""`make fuzz`: damaged videos, faults and kills in numbers, with figures at the end.

python -m tests.fuzz [damaged] [seeds] [faults] [kills] [--cases 2000] [--seed 0] [--size 320x240] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from time import monotonic

CAMPAIGNS = ("seeds", "damaged", "faults", "kills")
SMALL = (48, 64)
MANY_KILLS = 100


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Run the campaigns; all of them if none is named."
    )
    parser.add_argument("campaigns", nargs="*", metavar="CAMPAIGN", help=", ".join(CAMPAIGNS))
    parser.add_argument("--cases", type=int, default=2000, help="damaged videos")
    parser.add_argument("--seed", type=int, default=0, help="of the damage, and of the times of kills")
    parser.add_argument("--size", default="{1}x{0}".format(*SMALL), help="of the frames, as WxH")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--keep", type=Path, help="a folder for the files that fail")
    parser.add_argument("--kills", type=int, default=MANY_KILLS)
    parser.add_argument("--verbose", action="store_true", help="say how every case ended")
    given = parser.parse_args()
    unknown = set(given.campaigns) - set(CAMPAIGNS)
    if unknown:
        parser.error(f"unknown campaign {unknown.pop()!r}; choose among {', '.join(CAMPAIGNS)}")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="qrsc-fuzz-") as name:
        for campaign in given.campaigns or CAMPAIGNS:
            root = Path(name) / campaign
            root.mkdir()
            failed += run_kills(given, root) if campaign == "kills" else run_trials(campaign, given, root)
    sys.exit(bool(failed))


def run_trials(campaign: str, given: argparse.Namespace, root: Path) -> int:
    """Run the trials of a campaign in forked processes; how many failed."""
    from .campaigns import damaged_trials, fault_trials, seed_trials
    from .forked import run_forked
    from .trial import import_everything

    import_everything()
    width, height = map(int, given.size.split("x"))
    trials = {
        "seeds": lambda: seed_trials(root),
        "damaged": lambda: damaged_trials(root, given.cases, given.seed, (height, width)),
        "faults": lambda: fault_trials(root),
    }[campaign]()
    codes: Counter[int] = Counter()
    failed, peak, slowest, started = 0, 0, 0.0, monotonic()
    for trial, ended in run_forked(((trial, trial.run) for trial in trials), root, jobs=given.jobs):
        codes[ended.code] += 1
        peak, slowest = max(peak, ended.peak_bytes), max(slowest, ended.seconds)
        wrong = trial.complaints(ended)
        failed += bool(wrong)
        if wrong or given.verbose:
            said = ended.errors.strip().replace("\n", " | ")
            print(f"{trial.name} -> {', '.join(trial.outputs)}: {'; '.join(wrong)} [{ended.code}: {said}]", flush=True)
        if wrong and given.keep is not None and trial.content is not None:
            given.keep.mkdir(parents=True, exist_ok=True)
            named = trial.name.split(" ")[0].replace("/", "-")
            (given.keep / f"{named}{trial.source.suffix}").write_bytes(trial.content)
        shutil.rmtree(trial.folder)
    print(
        f"{campaign}: {codes.total()} runs in {monotonic() - started:.0f} s, {failed} failed; exit codes "
        f"{dict(sorted(codes.items()))}; slowest {slowest:.1f} s, peak memory {peak >> 20} MB",
        flush=True,
    )
    return failed


def run_kills(given: argparse.Namespace, root: Path) -> int:
    """End the command from outside again and again; how many ends were wrong."""
    from .kills import kill_many

    codes: Counter[str] = Counter()
    failed, started, left = 0, monotonic(), 0
    for killed in kill_many(root, given.kills, given.seed, given.jobs):
        codes["faster than the signal" if killed.code is None else str(killed.code)] += 1
        failed += bool(killed.complaints)
        left += bool(killed.left)
        if killed.complaints or given.verbose:
            how = f"{killed.kill.number.name} after {killed.kill.after:.3f} s{' of writing' * killed.kill.writing}"
            print(f"{how}: {'; '.join(killed.complaints)} [{killed.code}, left {killed.left}]", flush=True)
    print(
        f"kills: {codes.total()} in {monotonic() - started:.0f} s, {failed} failed; exit codes {dict(codes)}; "
        f"{left} unfinished files after SIGKILL, under temporary names",
        flush=True,
    )
    return failed


if __name__ == "__main__":
    main()
