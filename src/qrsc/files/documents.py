"""Text, JSON and TOML from files, whatever they hold; errors name the file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from qrsc.files.limits import DEEPEST_NESTING, MOST_TEXT_BYTES


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        OSError: it is missing or cannot be opened.
        ValueError: it is over `MOST_TEXT_BYTES`, or not UTF-8.
    """
    with path.open("rb") as file:
        content = file.read(MOST_TEXT_BYTES + 1)
    if len(content) > MOST_TEXT_BYTES:
        raise ValueError(f"{path} is too large for a text file: at most {MOST_TEXT_BYTES >> 20} MB are read.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not a text file in UTF-8: byte {error.start} is {content[error.start]}."
        ) from error


def read_json(path: Path) -> Any:
    """The content of a JSON file; see `parse_json`."""
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text.

    Args:
        where: the file, and the place in it, for the message.

    Raises:
        ValueError: it is not JSON, or nested more deeply than `DEEPEST_NESTING`.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise _too_deep(where) from error
    except ValueError as error:
        raise ValueError(f"{where} cannot be read as JSON: {error}.") from error
    _require_shallow(value, where)
    return value


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file.

    Raises:
        OSError: it is missing or cannot be opened.
        ValueError: it is not TOML, nested more deeply than `DEEPEST_NESTING`, or this Python cannot read TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError as error:
            raise ValueError(
                f"{path} is TOML, which Python reads from 3.11 on; write it as JSON, or: pip install tomli"
            ) from error
    text = read_text(path)
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise _too_deep(str(path)) from error
    except ValueError as error:
        raise ValueError(f"{path} cannot be read as TOML: {error}.") from error
    _require_shallow(values, str(path))
    return values


def shortened(value: object, longest: int = 80) -> str:
    """The value as Python writes it, cut to a length that fits into a message."""
    text = repr(value)
    return text if len(text) <= longest else text[: longest - 4] + " ..."


def _require_shallow(value: Any, where: str) -> None:
    """Raise if tables and lists are nested too deeply: writing such a value into a message would overflow the stack."""
    level = [value]
    for _ in range(DEEPEST_NESTING + 1):
        held = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, (dict, list)))
        level = [inner for each in held for inner in each]
        if not level:
            return
    raise _too_deep(where)


def _too_deep(where: str) -> ValueError:
    return ValueError(f"{where} cannot be read: it is nested more than {DEEPEST_NESTING} levels deep.")
