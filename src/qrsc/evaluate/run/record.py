"""Figures of finished sequences, one line of JSON each, so that an interrupted run continues from there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qrsc import __version__
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.run.scores import FrameScore, score_from_dict
from qrsc.files.documents import parse_json

RECORD_FILE = "sequences.jsonl"


class Record:
    """The figures that a folder keeps; without a folder, those that were added to this object.

    Args:
        folder: made when the first figures are added.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / RECORD_FILE
        self._found: dict[str, list[FrameScore]] = {}
        if self._path is not None and self._path.is_file():
            with self._path.open(encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file, 1):
                    self._add_line(line, f"line {number} of {self._path}")

    def _add_line(self, line: str, where: str) -> None:
        try:
            entry = parse_json(line, where)
        except ValueError:
            return  # the last line of a run that was interrupted while it was written
        try:
            key, scores = entry["key"], [score_from_dict(values) for values in entry["scores"]]
        except (TypeError, LookupError) as error:
            raise ValueError(
                f"{where} holds no figures of a sequence: {error}. Remove the file, or the line."
            ) from error
        self._found[str(key)] = scores

    def scores(self, key: str) -> list[FrameScore] | None:
        """The figures under a key, or None."""
        return self._found.get(key)

    def add(self, key: str, scores: list[FrameScore]) -> None:
        """Keep figures under a key."""
        self._found[key] = scores
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            entry = json.dumps({"key": key, "scores": [score.as_dict() for score in scores]})
            # On a line of its own: an interrupted run may have left half a line.
            file.write("\n" * (file.tell() > 0) + entry)


def record_key(sequence: SequenceFiles, settings: Mapping[str, Any]) -> str:
    """A key that changes with everything that the figures of a sequence are known to depend on.

    Args:
        sequence: its files and its readout (gamma, scan) are part of the key, and so is the version of the package.
        settings: what was asked for, as JSON can hold it. Methods and flows are given by their fingerprints, which
            hold the hashes of their weights.
    """
    told = {
        "version": __version__,
        "folder": str(sequence.folder.resolve()),
        "frames": [(frame.number, sorted(frame.files)) for frame in sequence.frames],
        "readout": repr(sequence.readout),
        "settings": settings,
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
