"""Figures of finished sequences, a line of JSON each, so that a run that was cut off goes on from there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qrsc import __version__
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.run.scores import FrameScore, score_from_dict

RECORD_FILE = "sequences.jsonl"


class Record:
    """What a folder keeps; without a folder, what has been added since.

    Args:
        folder: made when the first figures are added.
    """

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / RECORD_FILE
        self._found: dict[str, list[FrameScore]] = {}
        if self._path is not None and self._path.is_file():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the last line of a run that was cut off in the middle of it
                self._found[entry["key"]] = [score_from_dict(values) for values in entry["scores"]]

    def scores(self, key: str) -> list[FrameScore] | None:
        """The figures that are known by a key, or None."""
        return self._found.get(key)

    def add(self, key: str, scores: list[FrameScore]) -> None:
        """Keep figures."""
        self._found[key] = scores
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            entry = json.dumps({"key": key, "scores": [score.as_dict() for score in scores]})
            # Started on a line of its own: a run that was cut off may have left half a line.
            file.write("\n" * (file.tell() > 0) + entry)


def record_key(sequence: SequenceFiles, asked: Sequence[Any]) -> str:
    """What the figures of a sequence depend on, as far as this program can know, with what was asked for."""
    told = [
        __version__,
        str(sequence.folder.resolve()),
        [(frame.number, sorted(frame.files)) for frame in sequence.frames],
        repr(sequence.readout),
        *asked,
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
