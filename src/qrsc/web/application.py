"""The routes: what the page asks for and what it is answered."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from qrsc import __version__
from qrsc.calibrate.camera_table import find_modes
from qrsc.web.safety import refused
from qrsc.web.settings import MOST_SLOW, PREVIEW_SECONDS, Settings
from qrsc.web.shelf import MOST_CLIPS, Clip, Shelf
from qrsc.web.stored_file import StoredFile
from qrsc.web.uploads import UploadError, clip_name, receive, stored_name

STATIC = {"style.css": "text/css", "icon.svg": "image/svg+xml"} | dict.fromkeys(
    ("app.js", "clips.js", "controls.js", "player.js", "findings.js", "server.js"), "text/javascript"
)
LONGEST_BODY = 16 << 10  # bytes of settings
LONGEST_RANGE = 64  # characters of a `Range` header
MOST_UPLOADS = 4  # at the same time
MOST_CAMERAS = 30  # that a search lists
HEARTBEAT = 15.0  # seconds after which a silent stream of events says that it is there
REST = 0.15  # seconds between two events
KEPT = "private, max-age=3600"  # by the browser: files do not change, but for the newest picture
NEWEST = "thumb.jpg"  # of the pictures of a task
_MOVIES = {".mp4": "video/mp4", ".m4v": "video/mp4", ".mov": "video/mp4", ".webm": "video/webm"}


class Pages:
    """The page, and the one that asks for the token."""

    def __init__(self, limit: int) -> None:
        root = files("qrsc.web")
        names = ("page.html", "token.html")
        sources = {name: root.joinpath("templates", name).read_text(encoding="utf-8") for name in names}
        self._templates = jinja2.Environment(loader=jinja2.DictLoader(sources), autoescape=True)
        self._limit = limit

    def page(self) -> Response:
        given = {"version": __version__, "limit_gb": f"{self._limit / 1e9:g}", "most_clips": MOST_CLIPS,
                 "most_slow": MOST_SLOW, "preview_seconds": f"{PREVIEW_SECONDS:g}"}  # fmt: skip
        return HTMLResponse(self._templates.get_template("page.html").render(given))

    def ask(self, wrong: bool) -> Response:
        html = self._templates.get_template("token.html").render(wrong=wrong)
        return HTMLResponse(html, status_code=403 if wrong else 401)


class Application:
    """The routes around a shelf of clips.

    Args:
        folder: private to this server; removed when it ends.
        limit: bytes of the largest clip.
        pages: the page.
        started, ended: called when the server is ready, and when it has stopped.
    """

    def __init__(
        self, folder: Path, limit: int, pages: Pages, started: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self.shelf = Shelf(folder)
        self._limit, self._pages = limit, pages
        self._started, self._ended = started, ended
        self._uploads = 0

    def routes(self) -> Starlette:
        clip = "/clips/{key}"
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/health", self._health),
                Route("/static/{name}", self._static),
                Route("/events", self._events),
                Route("/cameras", self._cameras),
                Route("/clips", self._upload, methods=["POST"]),
                Route(clip, self._remove, methods=["DELETE"]),
                Route(f"{clip}/{{kind}}", self._start, methods=["POST"]),
                Route(f"{clip}/{{kind}}/cancel", self._cancel, methods=["POST"]),
                Route(f"{clip}/{{kind}}/{{number:int}}/result", self._result),
                Route(f"{clip}/{{kind}}/{{number:int}}/{{name}}", self._file),
            ],
            lifespan=self._lifespan,
            exception_handlers={
                HTTPException: _say_why,
                UploadError: _say_upload,
                ValueError: _say_bad_request,
                ClientDisconnect: _say_gone,
                Exception: _say_fault,
            },
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        try:
            await self.shelf.open()
            self._started()
            yield
        finally:
            await self.shelf.close()
            self._ended()

    async def _page(self, request: Request) -> Response:
        await self.shelf.quick.start()  # it takes a second or two, and a clip is about to come
        return self._pages.page()

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def _static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404)
        content = files("qrsc.web").joinpath("static", name).read_bytes()
        return Response(content, media_type=STATIC[name])

    async def _cameras(self, request: Request) -> Response:
        query = request.query_params.get("query", "")[:80]
        names: dict[str, list[float]] = {}
        for mode in find_modes(query):
            names.setdefault(mode.name, []).append(mode.readout_ms)
        found = [
            {"name": name, "least": min(times), "most": max(times)}
            for name, times in list(names.items())[:MOST_CAMERAS]
        ]
        return JSONResponse({"cameras": found, "more": max(0, len(names) - MOST_CAMERAS)})

    async def _events(self, request: Request) -> Response:
        return StreamingResponse(self._changes(request), media_type="text/event-stream")

    async def _changes(self, request: Request) -> AsyncIterator[str]:
        """The state whenever it has changed, until the browser is gone."""
        while not self.shelf.ending and not await request.is_disconnected():
            seen = self.shelf.version
            yield f"data: {json.dumps(self.shelf.state())}\n\n"
            await asyncio.sleep(REST)
            try:
                await asyncio.wait_for(self.shelf.next_change(seen), HEARTBEAT)
            except asyncio.TimeoutError:
                yield ": still here\n\n"

    async def _upload(self, request: Request) -> Response:
        if self._uploads >= MOST_UPLOADS:
            raise UploadError(503, f"{MOST_UPLOADS} clips are being added already. Wait for one of them.")
        name = clip_name(request.headers.get("x-name", ""))
        announced = _length(request)
        key, folder = self.shelf.new_place()
        path = folder / stored_name(name)
        self._uploads += 1
        try:
            await receive(request.stream(), path, announced=announced, most=self._limit)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            self._uploads -= 1
        clip = self.shelf.add(key, folder, path, name)
        return JSONResponse({"key": clip.key}, status_code=201)

    async def _remove(self, request: Request) -> Response:
        self.shelf.remove(self._clip(request))
        return JSONResponse({"ok": True})

    async def _start(self, request: Request) -> Response:
        clip, kind = self._clip(request), request.path_params["kind"]
        if kind not in ("stills", "preview", "run"):
            raise HTTPException(404)
        if not clip.info:
            raise ValueError("the clip is still being read. Try again in a moment.")
        settings = await _settings(request)
        if kind == "stills":
            task = self.shelf.start(clip, kind, scan=settings.scan)
        else:
            task = self.shelf.start(clip, kind, settings=vars(settings))
        return JSONResponse({"number": task.number}, status_code=202)

    async def _cancel(self, request: Request) -> Response:
        self.shelf.cancel(self._clip(request), request.path_params["kind"])
        return JSONResponse({"ok": True})

    async def _result(self, request: Request) -> Response:
        task = self._clip(request).tasks.get(request.path_params["kind"])
        if task is None or task.number != request.path_params["number"] or task.result is None:
            raise HTTPException(404)
        return JSONResponse(task.result)

    async def _file(self, request: Request) -> Response:
        clip, kind, name = self._clip(request), request.path_params["kind"], request.path_params["name"]
        task = clip.tasks.get(kind)
        path = clip.file(kind, name)
        if task is None or task.number != request.path_params["number"] or path is None:
            return _gone(name)
        asked = request.headers.get("range", "")
        if len(asked) > LONGEST_RANGE or "," in asked:
            return refused(416, "one range of bytes is given at a time.")
        saved = clip.download_name(name) if kind == "run" else None
        if saved is not None:
            return StoredFile(path, media_type="application/octet-stream", filename=saved)
        if path.suffix == ".jpg":  # small: read at once, before it goes
            return await _picture(path, name)
        kept = {"cache-control": KEPT}
        return StoredFile(path, media_type=_MOVIES.get(path.suffix, "image/jpeg"), headers=kept)

    def _clip(self, request: Request) -> Clip:
        clip = self.shelf.clips.get(request.path_params["key"])
        if clip is None:
            raise HTTPException(404, "this clip is not here any more. Add it again.")
        return clip


async def _picture(path: Path, name: str) -> Response:
    try:
        content = await run_in_threadpool(path.read_bytes)
    except FileNotFoundError:
        return _gone(name)
    kept = {"cache-control": "no-store" if name == NEWEST else KEPT}
    return Response(content, media_type="image/jpeg", headers=kept)


def _gone(name: str) -> Response:
    """The answer where a file is not there: the newest picture may go with its task after the page was told of it."""
    if name == NEWEST:
        return Response(status_code=204)
    raise HTTPException(404)


def _length(request: Request) -> int | None:
    said = request.headers.get("content-length")
    return int(said) if said is not None and said.isdecimal() else None


async def _settings(request: Request) -> Settings:
    """The settings in the body of a request."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LONGEST_BODY:
            raise UploadError(413, "these settings are too long.")
    try:
        given = json.loads(bytes(body) or b"{}")
    except (ValueError, RecursionError):
        raise ValueError("settings are sent as JSON; this is none.") from None
    return Settings.of(given)


_SENTENCES = {404: "there is nothing here.", 405: "this cannot be done here."}


async def _say_why(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = _SENTENCES.get(error.status_code, "the request was refused.")
    return refused(error.status_code, known if error.detail in ("Not Found", "Method Not Allowed") else error.detail)


async def _say_upload(request: Request, error: Exception) -> Response:
    assert isinstance(error, UploadError)
    answer = refused(error.status, str(error))
    answer.headers["connection"] = "close"  # the rest of the body is not read
    return answer


async def _say_bad_request(request: Request, error: Exception) -> Response:
    return refused(400, str(error))


async def _say_gone(request: Request, error: Exception) -> Response:
    return refused(400, "the browser went away.")


async def _say_fault(request: Request, error: Exception) -> Response:
    return refused(500, "a fault of the program; the terminal shows where. Please report it.")
