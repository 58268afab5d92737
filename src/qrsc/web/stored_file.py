"""A file as an answer, which may be removed at any moment: its task is run again, or its clip is taken away."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from qrsc.web.safety import refused


class StoredFile(FileResponse):
    """A file of a clip. If it is gone before the answer has begun, that is the answer; later the answer breaks off."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await super().__call__(scope, receive, noted)
        except (FileNotFoundError, RuntimeError):  # which of them depends on when it went
            if Path(self.path).exists():
                raise
            if not begun:
                await refused(404, "this file is not here any more.")(scope, receive, send)
