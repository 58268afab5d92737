from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from qrsc.web import uploads
from qrsc.web.uploads import UploadError, clip_name, receive, stored_name


async def pieces(parts: Sequence[bytes], pause: float = 0.0) -> AsyncIterator[bytes]:
    for part in parts:
        await asyncio.sleep(pause)
        yield part


def received(
    folder: Path, parts: Sequence[bytes], *, announced: int | None = None, pause: float = 0.0, patience: float = 5.0
) -> int:
    """What an upload with a limit of 1000 bytes comes to."""
    target = folder / "source.mp4"
    return asyncio.run(receive(pieces(parts, pause), target, announced=announced, most=1000, patience=patience))


def test_an_upload_is_there_when_all_of_it_has_come(tmp_path: Path) -> None:
    assert received(tmp_path, [b"ab", b"cde"], announced=5) == 5
    assert (tmp_path / "source.mp4").read_bytes() == b"abcde"
    assert [path.name for path in tmp_path.iterdir()] == ["source.mp4"]


@pytest.mark.parametrize(
    ("parts", "more", "status", "message"),
    [
        ([b"x" * 600, b"x" * 600], {}, 413, "larger than 1e-06 GB"),
        ([], {"announced": 2000}, 413, "larger than"),
        ([], {}, 400, "the file is empty"),
        ([b"abc"], {"announced": 5}, 400, "only 3 of 5 bytes arrived"),
        ([b"a", b"b"], {"pause": 0.3, "patience": 0.05}, 408, "stopped"),
        ([b"a"] * 5, {"pause": 0.05, "patience": 0.1}, 408, "too slow"),
    ],
)
def test_an_upload_that_is_refused_leaves_nothing(
    tmp_path: Path, parts: list[bytes], more: dict[str, Any], status: int, message: str
) -> None:
    with pytest.raises(UploadError, match=message) as refused:
        received(tmp_path, parts, **more)
    assert refused.value.status == status
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_named_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "SPARE", 1 << 60)
    with pytest.raises(UploadError, match=r"the disk has room for 0\.0 GB more.*--folder") as refused:
        received(tmp_path, [b"abc"])
    assert refused.value.status == 507


@pytest.mark.parametrize(
    ("given", "name", "stored"),
    [
        ("clip.MOV", "clip.MOV", "source.mov"),
        ("..%2F..%2Fetc%2Fpasswd", "passwd", "source.video"),
        ("C:%5Cvideos%5Ca%20b.mkv", "a b.mkv", "source.mkv"),
        ("%F0%9F%8E%A5.mp4", "🎥.mp4", "source.mp4"),
        ("a%00%0d%0ab.mp4", "ab.mp4", "source.mp4"),
        ("..", "clip", "source.video"),
        ("x" * 300 + ".mp4", "x" * 116 + ".mp4", "source.mp4"),
        ("run.sh", "run.sh", "source.video"),
    ],
)
def test_names_are_only_names(given: str, name: str, stored: str) -> None:
    assert clip_name(given) == name
    assert stored_name(name) == stored
