"""Flow files that are damaged, or claim more than they hold: refused by name, and without taking memory."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from qrsc.flow import load_flow
from qrsc.flow.precomputed import PrecomputedFlow

SIZE = (24, 32)
FRAME = torch.zeros(1, 3, *SIZE)
GOOD = np.random.default_rng(0).normal(size=(2, 2, *SIZE)).astype(np.float32)


def changed(path: Path, change: Callable[[bytes], bytes]) -> None:
    np.savez_compressed(path, forward=GOOD, backward=GOOD)
    path.write_bytes(change(path.read_bytes()))


def save_array(path: Path, array: np.ndarray) -> None:
    """An `.npy` file under the name of an archive."""
    with path.open("wb") as file:
        np.save(file, array)


CLIPS: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "cannot be read as an .npz archive"),
    "text": (lambda path: path.write_text("no archive"), "cannot be read as an .npz archive"),
    "truncated": (lambda path: changed(path, lambda content: content[: len(content) // 2]), "cannot be read as"),
    "an array": (lambda path: save_array(path, GOOD), "cannot be read as an .npz archive"),
    "damaged": (
        lambda path: changed(path, lambda content: content[:3000] + bytes(64) + content[3064:]),
        "forward in .*flows.npz is damaged",
    ),
    "other names": (lambda path: np.savez(path, a=GOOD), "must hold forward and backward; it holds a"),
    "objects": (
        lambda path: np.savez(path, forward=np.array([None]), backward=GOOD),
        "forward in .*flows.npz cannot be read: it holds .*, not numbers",
    ),
    "no pairs": (lambda path: np.savez(path, forward=GOOD[:0], backward=GOOD[:0]), "holds flows for 0 pairs"),
    "one number": (lambda path: np.savez(path, forward=1.0, backward=1.0), r"must hold .* as \[T - 1, 2, H, W\]"),
    "lengths": (lambda path: np.savez(path, forward=GOOD, backward=GOOD[:1]), r"must hold .* as \[T - 1, 2, H, W\]"),
    "size": (lambda path: np.savez(path, forward=GOOD[..., 1:], backward=GOOD[..., 1:]), r"the frames need \(2, 24,"),
    "complex": (lambda path: np.savez(path, forward=GOOD + 1j, backward=GOOD), "not numbers"),
    "nan": (lambda path: np.savez(path, forward=GOOD * np.nan, backward=GOOD), "not finite"),
    "overflow": (lambda path: np.savez(path, forward=np.full(GOOD.shape, 1e300), backward=GOOD), "not finite"),
}  # fmt: skip


@pytest.mark.parametrize(("write", "message"), CLIPS.values(), ids=CLIPS)
def test_a_hostile_clip_of_flows(write: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "flows.npz"
    write(path)
    with pytest.raises(ValueError, match=message) as caught:
        load_flow(str(path))(FRAME, FRAME)
    assert "flows.npz" in str(caught.value)


def flo(width: int, height: int, mark: float = 202021.25) -> bytes:
    values: bytes = GOOD[0].tobytes()
    return struct.pack("<fii", mark, width, height) + values


PAIRS: dict[str, tuple[str, bytes, str]] = {
    "empty npy": ("npy", b"", "cannot be read as an .npy file"),
    "text npy": ("npy", b"no array", "cannot be read as an .npy file"),
    "empty flo": ("flo", b"", "not a complete .flo file"),
    "short flo": ("flo", b"PIEH", "not a complete .flo file"),
    "mark": ("flo", flo(32, 24, 1.0), "not a complete .flo file"),
    "negative": ("flo", flo(-32, -24), "not a complete .flo file"),
    "no pixels": ("flo", flo(0, 24)[:12], "not a complete .flo file"),
    "claims more": ("flo", flo(2**31 - 1, 2**31 - 1), "not a complete .flo file"),
    "claims less": ("flo", flo(16, 24), "not a complete .flo file"),
}


@pytest.mark.parametrize(("suffix", "content", "message"), PAIRS.values(), ids=PAIRS)
def test_a_hostile_pair_of_flow_files(suffix: str, content: bytes, message: str, tmp_path: Path) -> None:
    for word in ("forward", "backward"):
        (tmp_path / f"0_{word}.{suffix}").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        load_flow(str(tmp_path))(FRAME, FRAME)
    assert f"0_forward.{suffix}" in str(caught.value)


def test_an_archive_of_one_pair_in_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "0.npz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"0\.npz cannot be read as an \.npz archive"):
        load_flow(str(tmp_path))(FRAME, FRAME)


def test_a_long_clip_is_read_pair_by_pair(tmp_path: Path) -> None:
    flows = np.zeros((2000, 2, *SIZE), np.float32)
    flows[:2] = GOOD
    flows[-1] = 1.0
    np.savez(tmp_path / "flows.npz", forward=flows, backward=flows)
    tracemalloc.start()
    found = PrecomputedFlow(tmp_path / "flows.npz")
    pairs = [found(FRAME, FRAME) for _ in range(2)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20  # of 2 x 12 MB; 0.33 measured
    assert np.array_equal(torch.cat([pair.backward for pair in pairs]), GOOD)
    assert len(found) == 2000
    assert float(found.pair(1999, FRAME, FRAME).forward.min()) == 1.0


def test_arrays_in_fortran_order(tmp_path: Path) -> None:
    np.savez(tmp_path / "flows.npz", forward=np.asfortranarray(GOOD), backward=GOOD)
    found = PrecomputedFlow(tmp_path / "flows.npz")
    for number in (1, 0):
        np.testing.assert_array_equal(found.pair(number, FRAME, FRAME).forward[0], GOOD[number])
