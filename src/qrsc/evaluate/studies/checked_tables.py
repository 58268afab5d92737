"""Tables from TOML and JSON files whose errors name the file and the place in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from qrsc.files.documents import read_json, read_toml, shortened

Kind = TypeVar("Kind")

_WORDS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


_MOST = 2**53  # of a number; up to here a float holds every integer


class ManifestError(ValueError):
    """An invalid manifest; the message names the file, the place in it and what was expected."""


def read_table(path: Path) -> Table:
    """The content of a `.toml` or `.json` file."""
    if not path.is_file():
        raise ManifestError(f"there is no manifest {path}.")
    if path.suffix not in (".toml", ".json"):
        raise ManifestError(f"{path} is no manifest: a .toml or a .json file was expected.")
    try:
        values = read_json(path) if path.suffix == ".json" else read_toml(path)
    except ValueError as error:
        raise ManifestError(str(error)) from error
    if not isinstance(values, dict):
        raise ManifestError(f"{path} must hold a table at its top, not {type(values).__name__}.")
    return Table(values, str(path))


class Table:
    """A table whose entries are taken out one by one; entries that are left over are mistakes in the file.

    Args:
        values: by key.
        where: the file, and the table's place in it.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.where = where
        self._left = dict(values)
        self._known: list[str] = []

    def take(self, key: str, kind: type[Kind]) -> Kind | None:
        """An entry of a type; None if it is missing.

        An integer is accepted as a number; true, false, NaN, infinity and integers over 2^53 are not.
        """
        self._known.append(key)
        if key not in self._left:
            return None
        value: Any = self._left.pop(key)
        if kind is float and type(value) is int and abs(value) <= _MOST:
            value = float(value)
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if not fits or (isinstance(value, (int, float)) and not abs(value) <= _MOST):
            raise self.error(f"{key} must be {_WORDS[kind]}, got {shortened(value)}")
        checked: Kind = value
        return checked

    def choose(self, key: str, choices: tuple[Kind, ...]) -> Kind | None:
        """One of several words; None if it is missing."""
        value = self.take(key, str)
        if value is None:
            return None
        for choice in choices:
            if choice == value:
                return choice
        raise self.error(f"{key} must be one of {', '.join(map(str, choices))}, got {shortened(value)}")

    def words(self, key: str) -> tuple[str, ...] | None:
        """A list of words; None if it is missing."""
        values = self.take(key, list)
        if values is None:
            return None
        if not all(isinstance(value, str) for value in values):
            raise self.error(f"{key} must be a list of words, got {shortened(values)}")
        return tuple(values)

    def tables(self, key: str) -> dict[str, Table]:
        """The tables of a table, by name."""
        found = {}
        for name, values in (self.take(key, dict) or {}).items():
            if not isinstance(values, dict):
                raise self.error(f"{key}.{name} must be a table, got {shortened(values)}")
            found[name] = Table(values, f"{self.where}, {key}.{name}")
        return found

    def end(self) -> None:
        """Raise if entries are left over."""
        if self._left:
            unknown = ", ".join(key[:80] for key in sorted(self._left)[:8])
            raise self.error(f"unknown key {unknown}; known are {', '.join(sorted(self._known))}")

    def error(self, problem: str) -> ManifestError:
        """The error to raise for a problem."""
        return ManifestError(f"{self.where}: {problem}.")
