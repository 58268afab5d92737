"""`qrsc web`: the server, from its socket to its end."""

from __future__ import annotations

import asyncio
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from qrsc.web.application import Application, Pages
from qrsc.web.private_folder import PrivateFolder
from qrsc.web.safety import Guard, new_token

PORT = 8421
LARGEST_HEADERS = 16 << 10  # bytes
MOST_CONNECTIONS = 100
HEADER_PATIENCE = 20.0  # seconds in which a connection has to say what it wants


class PatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, but a connection that never asks for anything is closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(HEADER_PATIENCE, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if getattr(self, "cycle", None) is None:  # no request has come yet
            self.transport.close()


class PageServer(uvicorn.Server):
    """A server that lets go of the pages which listen to it before it ends; uvicorn would wait, and complain."""

    def __init__(self, config: uvicorn.Config, let_go: Callable[[], None]) -> None:
        super().__init__(config)
        self._let_go = let_go

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._let_go()
        await super().shutdown(sockets)


def serve(
    *,
    host: str | None = None,
    port: int | None = None,
    folder: Path | None = None,
    limit_gb: float = 16.0,
    browser: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve the page until the process is told to end.

    Args:
        host: address to listen on; None is this machine alone. With one, a token is asked for.
        port: to listen to; None takes 8421, or any free one.
        folder: where clips and results lie meanwhile; the system's folder for temporary files if None.
        limit_gb: largest clip that is taken, in gigabytes.
        browser: open the page.
        say: is told the address.

    Raises:
        OSError: the address or the port cannot be used.
        ValueError: the limit is not above 0.
    """
    if not limit_gb > 0:
        raise ValueError(f"--limit is a size in gigabytes, over 0; got {limit_gb!r}.")
    listening = _listening(host or "127.0.0.1", port)
    bound = int(listening.getsockname()[1])
    token = None if host is None else new_token()
    private = PrivateFolder(folder)
    address = f"http://{_reachable(host)}:{bound}/" + ("" if token is None else f"?token={token}")

    def started() -> None:
        say(address)
        if browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    limit = round(limit_gb * 1e9)
    pages = Pages(limit)
    made: list[Application] = []
    try:
        # An event loop has to run before a shelf is made, so the application is made by the server.
        def application() -> Guard:
            made.append(Application(private.path, limit, pages, started, private.remove))
            return Guard(made[0].routes(), bound, host, token, pages.ask)

        config = uvicorn.Config(
            application,
            factory=True,
            http=PatientProtocol,
            ws="none",
            lifespan="on",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=LARGEST_HEADERS,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=1,
        )
        PageServer(config, lambda: made[0].shelf.end_streams()).run(sockets=[listening])
    finally:
        private.remove()
        listening.close()


def _listening(address: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, PORT if port is None else port), family=family)
    except OSError as error:
        if port is None:
            return socket.create_server((address, 0), family=family)  # another server has the usual one
        raise OSError(
            f"port {port} of {address} cannot be used: {error.strerror}. Choose another --port, or leave it out."
        ) from error


def _reachable(host: str | None) -> str:
    """The address under which a browser finds the server."""
    if host in ("0.0.0.0", "::", ""):
        return socket.gethostname()
    return f"[{host}]" if host is not None and ":" in host else host or "127.0.0.1"
