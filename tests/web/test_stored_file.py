"""Files that are removed between the question and the answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.responses import Response

from qrsc.web.application import _picture
from qrsc.web.stored_file import StoredFile

SCOPE = {"type": "http", "method": "GET", "path": "/", "headers": []}


def answers(response: Response, remove: Path | None = None, after: int = 0) -> list[dict[str, Any]]:
    """What is sent for a response; a file is removed before the message of this number."""
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)
        if remove is not None and len(sent) == after:
            remove.unlink()

    async def receive() -> Any:
        await asyncio.Event().wait()  # the client stays

    asyncio.run(response(SCOPE, receive, send))
    return sent


def test_a_file_is_sent_whole(tmp_path: Path) -> None:
    path = tmp_path / "thumb.jpg"
    path.write_bytes(b"picture")
    start, *rest = answers(StoredFile(path, media_type="image/jpeg"))
    assert start["status"] == 200
    assert b"".join(each["body"] for each in rest) == b"picture"


def test_a_file_that_went_before_its_answer_is_said_to_be_gone(tmp_path: Path) -> None:
    start, body, *_ = answers(StoredFile(tmp_path / "after.mp4"))
    assert start["status"] == 404
    assert b"not here any more" in body["body"]


@pytest.mark.parametrize(("name", "status"), [("thumb.jpg", 204), ("first.jpg", 404)])
def test_a_picture_that_goes_while_it_is_asked_for_is_gone(tmp_path: Path, name: str, status: int) -> None:
    async def asked() -> int:
        try:
            return (await _picture(tmp_path / name, name)).status_code
        except HTTPException as error:
            return error.status_code

    assert asyncio.run(asked()) == status


def test_a_file_that_goes_within_its_answer_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "after.mp4"
    path.write_bytes(b"film")
    sent = answers(StoredFile(path), remove=path, after=1)
    assert [each["type"] for each in sent] == ["http.response.start"]


def test_other_errors_are_not_hidden(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="not a file"):
        answers(StoredFile(tmp_path))
