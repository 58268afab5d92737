"""Text, JSON and TOML: whatever a file holds, the error names it in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from qrsc.files.documents import parse_json, read_json, read_text, read_toml, shortened
from qrsc.files.limits import DEEPEST_NESTING, MOST_TEXT_BYTES

HOSTILE = {
    "empty.json": (b"", "cannot be read as JSON"),
    "binary.json": (bytes(range(256)), "is not a text file in UTF-8"),
    "cut.json": (b'{"a": [1, 2', "cannot be read as JSON"),
    "lists.json": (b"[" * 100_000, "nested more than 64 levels deep"),
    "tables.json": (b'{"a":' * 200 + b"1" + b"}" * 200, "nested more than 64 levels deep"),
    "digits.json": (b"9" * 10_000, "cannot be read as JSON"),
    "long.json": (b" " * (MOST_TEXT_BYTES + 1), "at most 16 MB are read"),
    "binary.toml": (b"\xff\xfe", "is not a text file in UTF-8"),
    "cut.toml": (b"[rows", "cannot be read as TOML"),
    "lists.toml": (b"a = " + b"[" * 100_000, "nested more than 64 levels deep"),
    "tables.toml": (b"a" + b".a" * 500 + b" = 1", "nested more than 64 levels deep"),
    "digits.toml": (b"a = " + b"9" * 10_000, "cannot be read as TOML"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_document_is_refused_by_name(name: str, tmp_path: Path) -> None:
    content, message = HOSTILE[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        (read_json if name.endswith(".json") else read_toml)(tmp_path / name)
    assert name in str(caught.value)
    assert len(str(caught.value)) < 400


def test_documents_within_the_limits(tmp_path: Path) -> None:
    deep = "[" * DEEPEST_NESTING + "]" * DEEPEST_NESTING
    assert shortened(parse_json(deep, "here")) == deep[:76] + " ..."
    (tmp_path / "a.toml").write_text("a = { b = [1, 2.5, 'ä'] }", encoding="utf-8")
    assert read_toml(tmp_path / "a.toml") == {"a": {"b": [1, 2.5, "ä"]}}
    assert read_text(tmp_path / "a.toml").startswith("a = ")
    with pytest.raises(FileNotFoundError, match=r"absent\.json"):
        read_json(tmp_path / "absent.json")
