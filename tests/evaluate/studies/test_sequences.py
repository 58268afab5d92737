"""Data sets of a study: made, found, and cut to size."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from qrsc.evaluate.studies import sequences
from qrsc.evaluate.studies.entries import DataEntry
from qrsc.evaluate.studies.sequences import sequences_of, to_render
from qrsc.media.image_folder import read_frame
from qrsc.simulate.output import sets
from qrsc.simulate.paint.library import texture_library
from qrsc.timing import Readout


def test_a_fixed_set_in_another_size_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QRSC_CACHE", str(tmp_path))
    textures = texture_library(torch.Generator().manual_seed(0), variety=1, resolution=16)
    monkeypatch.setattr(sets, "set_textures", lambda: textures)
    entry = DataEntry("sim-easy", scenes=1, size=(30, 40))
    steps: list[str] = []
    [sequence] = sequences_of(entry, advance=steps.append)
    assert len(steps) == to_render(entry) == 1
    assert len(sequence.frames) == 7
    assert read_frame(sequence.frames[0].files["rolling"]).frame.shape == (3, 30, 40)
    assert sequence.folder == tmp_path / "sim-easy-v1-40x30" / "0000"
    monkeypatch.delattr(sets, "render_clip")
    assert sequences_of(entry) == [sequence]


def test_a_fixed_set_in_its_own_size_is_the_simulators(sim_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def prepared(name: str, scenes: int, **more: object) -> Path:
        asked.append((name, scenes))
        return sim_set  # which holds two scenes

    monkeypatch.setattr(sequences, "prepare_set", prepared)
    assert len(sequences_of(DataEntry("sim-shake", scenes=1))) == 1
    assert len(sequences_of(DataEntry("sim-shake", size=(480, 640)))) == 2
    assert asked == [("sim-shake", 1), ("sim-shake", 20)]


def test_a_set_on_disk(sim_set: Path) -> None:
    entry = DataEntry("mini", sim_set, readout=Readout(0.3))
    assert [sequence.readout.gamma for sequence in sequences_of(entry)] == [0.3, 0.3]
    assert to_render(entry) == 0
    assert [sequence.name for sequence in sequences_of(DataEntry("mini", sim_set, scenes=1))] == ["0000"]
