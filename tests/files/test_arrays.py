"""Arrays on disk: read as they were written, and refused before anything is allocated where they are not whole."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qrsc.files import arrays
from qrsc.files.arrays import ArrayArchive, npy_array, raw_array


def npy_bytes(array: np.ndarray, *, pickled: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=pickled)
    return file.getvalue()


def npy_header(text: str, values: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + values


def write_archive(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("forward.npy", content)


def patched(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "|b1", "<i2", "|u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_is_read_as_numpy_reads_it(dtype: str, order: str, tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 2, (3, 2, 4, 5)).astype(dtype)
    values = np.asfortranarray(values) if order == "F" else values
    np.save(tmp_path / "a.npy", values)
    np.savez_compressed(tmp_path / "a.npz", forward=values)
    with ArrayArchive(tmp_path / "a.npz") as archive:
        assert archive.names == ("forward",)
        for stored in (npy_array(tmp_path / "a.npy"), archive.array("forward", in_parts=True)):
            assert (stored.shape, stored.dtype) == (values.shape, values.dtype)
            np.testing.assert_array_equal(stored.read(), values)
            for index in (1, 2, 0):
                np.testing.assert_array_equal(stored.in_c_order().item(index).read(), values[index])


HEADERS = {
    "empty": (b"", "does not start like an .npy file"),
    "magic alone": (b"\x93NUMPY", "does not start like an .npy file"),
    "other content": (b"PK\x03\x04 and so on", "does not start like an .npy file"),
    "no header": (b"\x93NUMPY\x01\x00", "its header has 0 bytes"),
    "long header": (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1), "its header has 4294967295 bytes"),
    "objects": (npy_bytes(np.array([{}, None]), pickled=True), "not numbers"),
    "structures": (npy_bytes(np.zeros(2, [("a", "f4")])), "not numbers"),
    "texts": (npy_bytes(np.array(["a"])), "not numbers"),
    "truncated": (npy_bytes(np.zeros((2, 3)))[:-1], "takes 176 bytes, and 175 are there"),
    "more": (npy_bytes(np.zeros((2, 3))) + b"x", "takes 176 bytes, and 177 are there"),
    "huge": (npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (100000, 2, 100000, 100000)}"), "takes"),
    "negative": (npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}"), "damaged"),
    "true": (npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (True, 2)}"), "damaged"),
    "list": (npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': [1, 2]}"), "damaged"),
    "order": (npy_header("{'descr': '<f4', 'fortran_order': 'no', 'shape': (1,)}", bytes(4)), "damaged"),
    "dtype": (npy_header("{'descr': 'no such', 'fortran_order': False, 'shape': (1,)}"), "its header is damaged"),
    "missing key": (npy_header("{'descr': '<f4'}"), "its header is damaged"),
    "code": (npy_header("__import__('os').getcwd()"), "its header is damaged"),
    "nested": (npy_header("(" * 5000), "its header is damaged"),
    "signs": (npy_header("-" * 9000 + "1"), "its header is damaged"),
}


@pytest.mark.parametrize(("content", "message"), HEADERS.values(), ids=HEADERS)
def test_a_damaged_array_is_refused_by_name(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        npy_array(tmp_path / "a.npy")
    assert "a.npy" in str(caught.value)
    write_archive(tmp_path / "a.npz", content)
    with ArrayArchive(tmp_path / "a.npz") as archive, pytest.raises(ValueError, match=message) as caught:
        archive.array("forward")
    assert "forward in " in str(caught.value)
    assert "a.npz" in str(caught.value)


def lie_about_size(path: Path) -> None:
    """Claim 2^31 - 1 bytes in the directory of an archive, of an array that matches the claim."""
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': (2147483000,)}"
    content = npy_header(text.ljust(2**31 - 1 - 2147483000 - 10))
    write_archive(path, content, zipfile.ZIP_STORED)
    patched(path, struct.pack("<II", len(content), len(content)), struct.pack("<II", len(content), 2**31 - 1))


def damage_values(path: Path) -> None:
    write_archive(path, npy_bytes(np.full(9, 7.25)), zipfile.ZIP_STORED)
    patched(path, struct.pack("<d", 7.25), struct.pack("<d", 7.5))


def truncate(path: Path) -> None:
    write_archive(path, npy_bytes(np.ones(999)))
    path.write_bytes(path.read_bytes()[:-30])


ARCHIVES: dict[str, tuple[Callable[[Path], object], str]] = {
    "empty": (lambda path: path.write_bytes(b""), "cannot be read as an .npz archive"),
    "an array": (lambda path: path.write_bytes(npy_bytes(np.zeros(3))), "cannot be read as an .npz archive"),
    "truncated": (truncate, "cannot be read as an .npz archive"),
    "claims more": (lie_about_size, "cannot hold the 2147483647 that it claims"),
    "bzip2": (lambda path: write_archive(path, npy_bytes(np.ones(9)), zipfile.ZIP_BZIP2), "numpy does not use"),
    "damaged values": (damage_values, "Bad CRC-32"),
}


@pytest.mark.parametrize(("write", "message"), ARCHIVES.values(), ids=ARCHIVES)
def test_a_damaged_archive_is_refused_by_name(write: Callable[[Path], object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    write(path)
    with pytest.raises(ValueError, match=message) as caught, ArrayArchive(path) as archive:
        archive.array("forward", in_parts=True).item(0).read()
    assert "a.npz" in str(caught.value)


def test_a_large_array_is_refused_before_memory_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MOST_ARRAY_BYTES", 1 << 20)
    write_archive(tmp_path / "bomb.npz", npy_bytes(np.zeros((128, 1 << 20), np.uint8)))
    assert (tmp_path / "bomb.npz").stat().st_size < 150_000
    tracemalloc.start()
    with ArrayArchive(tmp_path / "bomb.npz") as archive:
        stored = archive.array("forward", in_parts=True)
        with pytest.raises(
            ValueError, match=r"forward in .*bomb.npz has the shape \(128, 1048576\), which takes 0.1 GB"
        ):
            stored.read()
        assert not stored.item(127).read().any()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 48 << 20  # of 128 MB; 32 of them are zipfile's, which skips 16 MB at a time


def test_an_empty_array_is_refused_when_it_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((0, 2)))
    with pytest.raises(ValueError, match=r"a.npy is empty: it has the shape \(0, 2\)"):
        npy_array(tmp_path / "a.npy").read()


def test_a_raw_array_that_ends_early(tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(bytes(10))
    with pytest.raises(ValueError, match=r"a.raw is truncated: 8 of 16 bytes are there"):
        raw_array(tmp_path / "a.raw", (4,), np.dtype("<f4"), False, 2).read()


def test_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.npz"):
        ArrayArchive(tmp_path / "absent.npz")
    with pytest.raises(FileNotFoundError, match=r"absent\.npy"):
        npy_array(tmp_path / "absent.npy")
