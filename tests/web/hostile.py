"""Requests that no page of ours makes, of many kinds."""

from __future__ import annotations

import random
from collections.abc import Iterator

HOSTS = (
    "evil.example", "evil.example:{port}", "localhost.evil.example:{port}", "127.0.0.1.evil.example", "127.0.0.1",
    "127.0.0.1:1", "[::1", "user@127.0.0.1:{port}", "127.0.0.1:{port}/x", "10.0.0.7:{port}", "0x7f000001:{port}", "",
)  # fmt: skip
ORIGINS = (
    "http://evil.example", "https://evil.example:{port}", "null", "http://127.0.0.1", "http://127.0.0.1:1",
    "http://127.0.0.1:{port}.evil.example", "file://", "http://[", "javascript:alert(1)",
)  # fmt: skip
NAMES = (
    "../lock", "..%2flock", "%2e%2e/%2e%2e/etc/passwd", "..\\lock", "....//lock", "/etc/passwd", "%00",
    "first.jpg%00.mp4", "source.mp4", "result.json", "%c0%ae%c0%ae/", "thumb.jpg/..", "~root", "con", "a" * 4000, "file:///etc/passwd",
)  # fmt: skip
RANGES = (
    "bytes=0-0,1-1,2-2", "bytes=" + ",".join("0-" for _ in range(2000)), "bytes=-99999999999999999999",
    "bytes=99999999999999999999-", "bytes=5-1", "bytes=abc", "lines=0-1", "bytes=--1", "bytes=",
    "bytes=0-0" + "0" * 500,
)  # fmt: skip
BODIES = (
    b"", b"{", b"[]", b"null", b'"x"', b"1e999", b"[" * 20000, b'{"gamma": NaN}', b'{"gamma": "0.5"}', b'{"gamma": 2}',
    b'{"slow": 1e9}', b'{"preset": "../best"}', b'{"camera": 7}', b'{"__class__": 1}', b'{"scan": ["top-down"]}',
    b"\xff\xfe\x00", b'{"start": -1}', b'{"readout": "camera"}', b"x" * 100_000, b'{"denoise": 1}',
)  # fmt: skip
METHODS = ("PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "DELETE", "BREW")
MALFORMED = (
    b"", b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /clips HTTP/1.1\r\nHost: {own}\r\nX-Qrsc: 1\r\nContent-Length: -5\r\n\r\n",
    b"POST /clips HTTP/1.1\r\nHost: {own}\r\nX-Qrsc: 1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
    b"POST /clips HTTP/1.1\r\nHost: {own}\r\nX-Qrsc: 1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /clips HTTP/1.1\r\nHost: {own}\r\nX-Qrsc: 1\r\nContent-Length: 100\r\n\r\nshort",
    b"GET / HTTP/1.1\r\nHost: {own}\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {own}\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: {own}\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {own}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\n\r\n",
)  # fmt: skip


def request(
    port: int, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b"", host: str | None = None
) -> bytes:
    """The bytes of a request."""
    given = {"Host": f"127.0.0.1:{port}" if host is None else host, "Connection": "close"} | (headers or {})
    if body:
        given["Content-Length"] = str(len(body))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def hostile_requests(port: int, key: str, numbers: dict[str, int], count: int, seed: int = 0) -> Iterator[bytes]:
    """So many requests, each kind in turn, with every value of it before any is repeated.

    Args:
        port: of the server.
        key, numbers: of a clip and its tasks: what an attacker does not know, but might.
        count: of requests.
        seed: of the order within each kind.
    """
    own = {"X-Qrsc": "1"}
    file = f"/clips/{key}/run/{numbers['run']}"
    kinds = [
        [request(port, "GET", "/events", host=host.format(port=port)) for host in HOSTS],
        [request(port, "POST", "/clips", own | {"Origin": origin.format(port=port)}, b"data") for origin in ORIGINS],
        [request(port, "POST", f"/clips/{key}/run", {}, b"{}"),
         request(port, "DELETE", f"/clips/{key}", {"Content-Type": "text/plain"}),
         request(port, "POST", "/clips", own | {"Sec-Fetch-Site": "cross-site"}, b"data"),
         request(port, "GET", f"{file}/video", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"})],
        [request(port, "GET", f"{place}/{name}") for name in NAMES
         for place in (file, "/static", f"/clips/{key}", "/clips", "")],
        [request(port, "GET", f"{file}/video", {"Range": asked}) for asked in RANGES],
        [request(port, "POST", f"/clips/{key}/preview", own, body) for body in BODIES],
        [request(port, "POST", "/clips", own | {"X-Name": name.replace("\\", "%5c")}, b"no video") for name in NAMES],
        [request(port, method, path, own) for method in METHODS for path in ("/", "/clips", f"/clips/{key}x")],
        [bytes(each).replace(b"{own}", f"127.0.0.1:{port}".encode()) for each in MALFORMED],
    ]  # fmt: skip
    generator = random.Random(seed)
    for kind in kinds:
        generator.shuffle(kind)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield kind[number // len(kinds) % len(kind)]
