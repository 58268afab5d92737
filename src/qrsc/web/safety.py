"""Who may talk to the server: its own page, under its own name, and with its token if the network can reach it.

A page on another site can make a browser send requests here, and a name that is pointed at this machine after its page
was loaded (DNS rebinding) makes them look like our own. The first is seen by `Origin` and `Sec-Fetch-Site`, the second
by `Host`: an address is never such a name, and names must be known ones.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import Callable
from http.cookies import SimpleCookie
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OWN_HEADER = "x-qrsc"  # on everything that changes something: no other site can set it without asking first
_READING = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(24)


class Guard:
    """Lets requests through to an application that come from its own page.

    Args:
        app: the application.
        port: that it listens to.
        host: the address that the user asked for; None is this machine alone.
        token: that every request has to bring, in a cookie; None without one.
        ask: makes the page that asks for the token; told whether a wrong one was given.
    """

    def __init__(
        self, app: ASGIApp, port: int, host: str | None, token: str | None, ask: Callable[[bool], Response]
    ) -> None:
        self._app, self._port, self._token, self._ask = app, port, token, ask
        self._cookie = f"qrsc-{port}"
        self._local = host is None
        self._names = {"localhost"}
        if host is not None:
            self._names |= {host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        answer = self._refusal(scope["method"], scope["path"], headers) or self._entrance(scope, headers)
        app: ASGIApp = self._app if answer is None else answer

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    own.setdefault(name, value)
            await send(message)

        await app(scope, receive, send_safely)

    def _refusal(self, method: str, path: str, headers: Headers) -> Response | None:
        """What is answered to a request that comes from elsewhere; None if it does not."""
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._is_own(host):
            return refused(421, "this server does not go by that name. Open it by the address that it printed.")
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != host.lower():
            return refused(403, "requests from other sites are not answered.")
        opens_page = method in _READING and path == "/" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none") and not opens_page:
            return refused(403, "requests from other sites are not answered.")
        if method not in _READING and OWN_HEADER not in headers:
            return refused(403, f"changes come from the page alone; the header {OWN_HEADER} is missing.")
        return None

    def _is_own(self, host: str) -> bool:
        """Whether a `Host` is an address, or a name of this machine; without `--host`, with the port, and local."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return False
        if not name or parts.netloc != host or parts.username is not None:
            return False
        if self._local and port != self._port:
            return False
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return address.is_loopback or not self._local

    def _entrance(self, scope: Scope, headers: Headers) -> Response | None:
        """What is answered to those without the token; None for those who may enter."""
        if self._token is None or scope["path"] in ("/health", "/static/style.css"):
            return None
        cookie = SimpleCookie()
        try:
            cookie.load(headers.get("cookie", ""))
        except Exception:  # a cookie that cannot be read opens no door
            cookie.clear()
        if self._cookie in cookie and self._is_token(cookie[self._cookie].value):
            return None
        if scope["path"] != "/":
            return refused(401, "the token is missing. Open the address that `qrsc web` printed.")
        given = QueryParams(scope["query_string"]).get("token")
        if given is None or not self._is_token(given):
            return self._ask(given is not None)
        entered = RedirectResponse("/", status_code=303)
        entered.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return entered

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())


def refused(status: int, why: str) -> Response:
    """An answer that says in a sentence why there is no other."""
    return JSONResponse({"error": why}, status_code=status)
