"""Damaged files of every kind that is no video: whatever they hold, only the documented exceptions are raised."""

from __future__ import annotations

import resource
import warnings
from pathlib import Path

import pytest

from .mutations import KINDS, Kind, mutated

CASES = 40  # of each kind
MOST_MEMORY = 500  # MB that all cases of a kind together may add to the peak; the largest, 134 million pixels, is 400


def refusal(kind: Kind, path: Path, seed: int) -> str | None:
    """The message of the exception that a file is refused with; None if it is read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kind.read(path)
        except (ValueError, OSError) as error:
            return str(error)
        except Exception as error:
            raise AssertionError(f"seed {seed} of {kind.name}: {type(error).__name__}: {error}") from error
    return None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_damaged_files_raise_what_commands_show_in_one_line(kind: Kind, tmp_path: Path) -> None:
    path = tmp_path / kind.name
    kind.write(path)
    kind.read(path)
    valid = path.read_bytes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for seed in range(CASES):
        damaged = mutated(valid, seed)
        path.write_bytes(kind.repair(damaged) if seed % 2 else damaged)
        message = refusal(kind, path, seed)
        refused += message is not None
        assert message is None or 0 < len(message) < 2000, f"seed {seed}: {message}"
    assert refused > CASES // 10, "hardly any of the damaged files was noticed: is the mutator at work?"
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert added < MOST_MEMORY, f"{added:.0f} MB"
