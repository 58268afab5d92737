"""Arrays from files, whose shapes are known and checked before their values are read; never a pickle."""

from __future__ import annotations

import ast
import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from qrsc.files.limits import MOST_ARRAY_BYTES

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 10_000  # numpy's own limit
_KINDS = "biuf"  # bool, whole numbers and floats
_MOST_DEFLATED = 1032  # bytes that one byte of a deflated stream can stand for
_CHUNK = 1 << 18
# What reading a damaged archive raises, by experiment and by the source of zipfile.
_DAMAGE: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    OverflowError,
    LookupError,
)


@dataclass(frozen=True)
class StoredArray:
    """An array on disk: its shape is known, its values are not read yet.

    Attributes:
        where: the file, and the name in it, for messages.
        shape: of the array.
        dtype: of its values: bool, whole numbers or floats.
        fortran: the first index changes fastest; otherwise the last one.
        start: position of the first value, in bytes.
        open_file: the file, positioned anywhere.
    """

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    start: int
    open_file: Callable[[], AbstractContextManager[IO[bytes]]]

    @property
    def nbytes(self) -> int:
        """The size of its values."""
        return math.prod(self.shape) * self.dtype.itemsize

    def item(self, index: int) -> StoredArray:
        """The array at an index of the first dimension, in the order of `in_c_order`."""
        part = replace(self, shape=self.shape[1:])
        return replace(part, start=self.start + index * part.nbytes)

    def in_c_order(self) -> StoredArray:
        """The same with the last index changing fastest; an array that is stored otherwise is kept when it is read."""
        if not self.fortran:
            return self

        @cache
        def content() -> IO[bytes]:
            return io.BytesIO(self.read().tobytes())

        return replace(self, fortran=False, start=0, open_file=lambda: nullcontext(content()))

    def read(self) -> npt.NDArray[Any]:
        """The values.

        Raises:
            ValueError: the array is empty or has over `MOST_ARRAY_BYTES`, or the file is damaged.
        """
        if self.nbytes == 0:
            raise ValueError(f"{self.where} is empty: it has the shape {self.shape}.")
        if self.nbytes > MOST_ARRAY_BYTES:
            raise ValueError(
                f"{self.where} has the shape {self.shape}, which takes {self.nbytes / 2**30:.1f} GB of memory; at most "
                f"{MOST_ARRAY_BYTES >> 30} GB are read at once."
            )
        with self.open_file() as file:
            try:
                # Only where it is needed: after a seek, newer versions of zipfile no longer compare the checksum.
                if file.tell() != self.start:
                    file.seek(self.start)
                content = file.read(self.nbytes)
            except _DAMAGE as error:
                raise ValueError(f"{self.where} is damaged: {_told(error)}. Write it again.") from error
        if len(content) != self.nbytes:
            raise ValueError(f"{self.where} is truncated: {len(content)} of {self.nbytes} bytes are there.")
        order: Any = "F" if self.fortran else "C"
        return np.frombuffer(bytearray(content), self.dtype).reshape(self.shape, order=order)


class ArrayArchive:
    """The arrays of an `.npz` file. It stays open until it is closed, or no longer referred to.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not a readable archive.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}.")
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
        except _DAMAGE as error:
            raise ValueError(
                f"{path} cannot be read as an .npz archive: {_told(error)}. Write it with np.savez."
            ) from error
        names = (each.filename for each in self._archive.infolist())
        self.names = tuple(name.removesuffix(".npy") for name in names if name.endswith(".npy"))

    def __enter__(self) -> ArrayArchive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._archive.close()

    def array(self, name: str, *, in_parts: bool = False) -> StoredArray:
        """An array by its name, one of `names`.

        Args:
            in_parts: it will be read in parts; its checksum is compared before the first one.

        Raises:
            ValueError: it is damaged, holds Python objects, or cannot have the size that it claims.
        """
        where = f"{name} in {self.path}"
        try:
            entry = self._archive.getinfo(f"{name}.npy")
            if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("it is encrypted, or compressed in a way that numpy does not use")
            if entry.file_size > _MOST_DEFLATED * entry.compress_size:
                raise ValueError(f"{entry.compress_size} bytes cannot hold the {entry.file_size} that it claims")
            file = self._archive.open(entry)
            header = _read_header(file, entry.file_size)
        except _DAMAGE as error:
            raise ValueError(f"{where} cannot be read: {_told(error)}. Write it with np.savez.") from error

        @cache
        def verified() -> IO[bytes]:
            if in_parts:
                self._verify(entry, where)
            return file

        return StoredArray(where, *header, open_file=lambda: nullcontext(verified()))

    def _verify(self, entry: zipfile.ZipInfo, where: str) -> None:
        """Compare the checksum of an array; reads it piece by piece, and keeps nothing."""
        try:
            with self._archive.open(entry) as file:
                while file.read(_CHUNK):
                    pass
        except _DAMAGE as error:
            raise ValueError(f"{where} is damaged: {_told(error)}. Write it again.") from error


def npy_array(path: Path) -> StoredArray:
    """The array of an `.npy` file.

    Raises:
        OSError: it is missing or cannot be opened.
        ValueError: it is damaged, holds Python objects, or has not the size that it claims.
    """
    with path.open("rb") as file:
        try:
            header = _read_header(file, os.fstat(file.fileno()).st_size)
        except ValueError as error:
            raise ValueError(f"{path} cannot be read as an .npy file: {error}. Write it with np.save.") from error
    return raw_array(path, *header)


def raw_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], fortran: bool, start: int) -> StoredArray:
    """The array at a position of a file, which is opened when its values are asked for."""
    return StoredArray(str(path), shape, dtype, fortran, start, lambda: path.open("rb"))


def _told(error: Exception) -> str:
    """The error in words; zipfile shows the whole file name, which can be 64 kB of damage."""
    return str(error)[:160] or type(error).__name__


_Header = tuple[tuple[int, ...], np.dtype[Any], bool, int]  # shape, dtype, order and start of the values


def _read_header(file: IO[bytes], size: int) -> _Header:
    """Read the header of an `.npy` file of a size in bytes; the file is positioned behind it afterwards."""
    start = file.read(len(_MAGIC) + 2)
    if not start.startswith(_MAGIC) or len(start) != len(_MAGIC) + 2:
        raise ValueError("it does not start like an .npy file")
    layout = "<H" if start[-2] == 1 else "<I"
    (length,) = struct.unpack(layout, file.read(struct.calcsize(layout)).ljust(struct.calcsize(layout), b"\0"))
    if not 0 < length <= _LONGEST_HEADER:
        raise ValueError(f"its header has {length} bytes, of at most {_LONGEST_HEADER}")
    shape, dtype, fortran = _parsed(file.read(length))
    header = shape, dtype, fortran, len(start) + struct.calcsize(layout) + length
    claimed = header[-1] + math.prod(shape) * dtype.itemsize
    if claimed != size:
        raise ValueError(f"the shape {shape} takes {claimed} bytes, and {size} are there")
    return header


def _parsed(text: bytes) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Shape, dtype and order from the text of a header."""
    try:
        values = ast.literal_eval(text.decode("utf-8").strip())
        shape, described, fortran = values["shape"], values["descr"], values["fortran_order"]
        dtype = np.dtype(described) if isinstance(described, str) else None
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise ValueError("its header is damaged") from error
    if dtype is None or dtype.kind not in _KINDS:
        raise ValueError(f"it holds {str(described)[:40]}, not numbers")
    whole = isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape)
    if not whole or len(shape) > 8 or not isinstance(fortran, bool):
        raise ValueError(f"its header is damaged: the shape is {str(shape)[:40]}")
    return shape, dtype, fortran
