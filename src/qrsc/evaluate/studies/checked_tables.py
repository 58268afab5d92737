"""Tables from TOML and JSON files whose errors name the file and the place in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

Kind = TypeVar("Kind")

_WORDS: dict[type, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


class ManifestError(ValueError):
    """An invalid manifest; the message names the file, the place in it and what was expected."""


def read_table(path: Path) -> Table:
    """The content of a `.toml` or `.json` file."""
    if not path.is_file():
        raise ManifestError(f"there is no manifest {path}.")
    if path.suffix not in (".toml", ".json"):
        raise ManifestError(f"{path} is no manifest: a .toml or a .json file was expected.")
    text = path.read_text(encoding="utf-8")
    try:
        values = json.loads(text) if path.suffix == ".json" else _toml(path, text)
    except ValueError as error:  # both parsers raise subclasses of it
        if isinstance(error, ManifestError):
            raise
        raise ManifestError(f"{path} cannot be read: {error}.") from error
    if not isinstance(values, dict):
        raise ManifestError(f"{path} must hold a table at its top, not {type(values).__name__}.")
    return Table(values, str(path))


def _toml(path: Path, text: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError as error:
            raise ManifestError(
                f"{path} is TOML, which Python reads from 3.11 on; write it as JSON, or: pip install tomli"
            ) from error
    return tomllib.loads(text)


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
        """An entry of a type; None if it is missing. An integer is accepted as a number, true and false are not."""
        self._known.append(key)
        if key not in self._left:
            return None
        value: Any = self._left.pop(key)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(f"{key} must be {_WORDS[kind]}, got {value!r}")
        return value

    def choose(self, key: str, choices: tuple[Kind, ...]) -> Kind | None:
        """One of several words; None if it is missing."""
        value = self.take(key, str)
        if value is None:
            return None
        for choice in choices:
            if choice == value:
                return choice
        raise self.error(f"{key} must be one of {', '.join(map(str, choices))}, got {value!r}")

    def words(self, key: str) -> tuple[str, ...] | None:
        """A list of words; None if it is missing."""
        values = self.take(key, list)
        if values is None:
            return None
        if not all(isinstance(value, str) for value in values):
            raise self.error(f"{key} must be a list of words, got {values!r}")
        return tuple(values)

    def tables(self, key: str) -> dict[str, Table]:
        """The tables of a table, by name."""
        found = {}
        for name, values in (self.take(key, dict) or {}).items():
            if not isinstance(values, dict):
                raise self.error(f"{key}.{name} must be a table, got {values!r}")
            found[name] = Table(values, f"{self.where}, {key}.{name}")
        return found

    def end(self) -> None:
        """Raise if entries are left over."""
        if self._left:
            unknown = ", ".join(sorted(self._left))
            raise self.error(f"unknown key {unknown}; known are {', '.join(sorted(self._known))}")

    def error(self, problem: str) -> ManifestError:
        """The error to raise for a problem."""
        return ManifestError(f"{self.where}: {problem}.")
