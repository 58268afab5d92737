"""Kill `qrsc correct` at random times, without warning, and check what it has left behind.

    python benchmarks/kill_test.py [--times 20] [--seed 0]

A file under the output's name must always be complete: all frames can be decoded.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import torch

from qrsc.media.mp4 import write_video
from qrsc.media.reader import read_video

FRAMES = 150


def started(clip: Path, output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "qrsc.cli", "correct", clip, "-o", output, "--gamma", "0.6", "--fast", "-q"]
    return subprocess.Popen([*map(str, command), "--overwrite"])


def state(output: Path) -> str:
    """`absent`, `complete`, or what is wrong."""
    if not output.exists():
        return "absent"
    try:
        count = sum(1 for _ in read_video(output))
    except ValueError as error:
        return f"BROKEN: {error}"
    return "complete" if count == FRAMES else f"BROKEN: {count} of {FRAMES} frames"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        clip, output = Path(name) / "in.mp4", Path(name) / "out.mp4"
        wide = torch.rand(3, 120, 160 + 3 * FRAMES, generator=torch.Generator().manual_seed(0))
        write_video(clip, (wide[:, :, 3 * k : 3 * k + 160] for k in range(FRAMES)), Fraction(30))
        begun = time.perf_counter()
        started(clip, output).wait()
        whole = time.perf_counter() - begun
        print(f"undisturbed: {whole:.1f} s, {state(output)}")
        output.unlink()
        found = []
        for _ in range(arguments.times):
            process = started(clip, output)
            delay = chance.uniform(0.2, 1.0) * whole
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            found.append(state(output))
            partial = len(list(Path(name).glob(".*partial*")))
            print(
                f"killed after {delay:5.2f} s: {found[-1]}, {partial} unfinished file(s) under other names", flush=True
            )
            for path in Path(name).iterdir():
                if path != clip:
                    path.unlink()
    broken = [each for each in found if each.startswith("BROKEN")]
    print(
        f"{len(found)} kills: {found.count('absent')} absent, {found.count('complete')} complete, {len(broken)} broken"
    )
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
