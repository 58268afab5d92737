"""Requests from elsewhere, of hostile kinds, and processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .clips import GAMMA, moving_clip
from .hostile import hostile_requests, request
from .serving import OWN, Server, serving, start, task_of

RUN: dict[str, Any] = {"readout": "gamma", "gamma": GAMMA, "preset": "fast"}


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, clip: Path) -> Any:
    """A server of its own with a clip that has been corrected, and the clip's key."""
    with serving(tmp_path_factory.mktemp("attacked") / "inner") as server:
        key = server.upload(clip)
        server.send("POST", f"/clips/{key}/run", **RUN)
        server.wait(lambda state: task_of(state, key, "run")["state"] == "done")
        yield server, key


def test_hostile_requests_reach_nothing_and_break_nothing(done: tuple[Server, str]) -> None:
    server, key = done
    tasks = next(clip for clip in server.state()["clips"] if clip["key"] == key)["tasks"]
    secret = server.folder.parent / "secret.txt"
    secret.write_text("a secret outside")
    lock = (server.private / "lock").stat()
    outside = files_below(server.folder.parent) - files_below(server.private)
    numbers = {kind: task["number"] for kind, task in tasks.items()}
    for bad in hostile_requests(server.port, key, numbers, 200):
        answer = server.raw(bad)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"Traceback" not in answer, bad[:200]
        assert b"secret" not in answer
        assert b"root:" not in answer
        status = int(head.split()[1]) if head else 0
        # No answer, a refusal, or one of the few things that are nobody's harm.
        assert status in range(400, 508) or status in (0, 206) or harmless(bad, status), (bad[:300], head, body[:300])
        assert status != 500, bad[:200]
    assert files_below(server.folder.parent) - files_below(server.private) == outside
    assert (server.private / "lock").stat() == lock
    assert server.ask("GET", "/health")[0] == 200
    assert server.process.poll() is None
    for clip in server.state()["clips"]:  # what was taken as a clip has a name that is only a name
        assert not set("/\\\0") & set(clip["name"])


def harmless(bad: bytes, status: int) -> bool:
    """Requests that look odd but are answered: nothing in the body, a clip that is no video, an ignored range."""
    line = bad.partition(b"\r\n")[0]
    if status == 201:
        return line.startswith(b"POST /clips ") and b"evil" not in bad
    if status == 202:
        return line.startswith(b"POST") and bad.endswith(b"\r\n\r\n")  # empty settings are the defaults
    return status == 200 and (b"Range: " in bad or line in (b"GET // HTTP/1.1", b"GET / HTTP/1.1"))


def test_only_the_page_itself_is_answered(done: tuple[Server, str]) -> None:
    server, key = done

    def status(method: str, path: str, headers: dict[str, str], host: str | None = None) -> int:
        return int(server.raw(request(server.port, method, path, headers, host=host)).split()[1])

    assert status("GET", "/", {}, "evil.example") == 421
    assert status("GET", "/", {}, f"localhost:{server.port}") == 200
    assert status("GET", "/", {}, f"localhost:{server.port + 1}") == 421
    assert status("POST", f"/clips/{key}/cancel", {}) == 403
    assert status("DELETE", f"/clips/{key}", {**OWN, "Origin": "http://evil.example"}) == 403
    own = f"http://127.0.0.1:{server.port}"
    assert status("POST", f"/clips/{key}/preview/cancel", {**OWN, "Origin": own}) == 200
    # Another site may link to the page, and not do anything else.
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert status("GET", "/", linked) == 200
    assert status("GET", "/cameras", linked) == 403
    _, page, headers = server.ask("GET", "/")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert b"http://" not in page.replace(b"http://www.w3.org/2000/svg", b"")
    assert b"https://" not in page


def test_parts_of_a_file_are_given_one_at_a_time(done: tuple[Server, str]) -> None:
    server, key = done
    number = task_of(server.state(), key, "run")["number"]
    place = f"/clips/{key}/run/{number}/after"
    _, whole, headers = server.ask("GET", place)
    assert headers["content-type"] == "video/mp4"
    status, part, _ = server.ask("GET", place, headers={"Range": "bytes=100-199"})
    assert (status, part) == (206, whole[100:200])
    assert server.ask("GET", place, headers={"Range": "bytes=0-1,5-6"})[0] == 416
    assert server.ask("GET", place, headers={"Range": f"bytes={len(whole)}-"})[0] == 416
    assert server.ask("GET", f"/clips/{key}/run/{number + 1}/after")[0] == 404


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for the network that takes clips of a megabyte."""
    with serving(tmp_path_factory.mktemp("limited"), "--host", "127.0.0.1", "--limit", "0.001") as server:
        yield server


def test_a_network_address_asks_for_a_token(limited: Server) -> None:
    assert len(limited.token) >= 32
    assert limited.ask("GET", "/health")[0] == 200
    assert limited.ask("GET", "/events")[0] == 401
    status, page, _ = limited.ask("GET", "/")
    assert (status, b'name="token"' in page) == (401, True)
    assert limited.ask("GET", "/?token=wrong")[0] == 403
    status, _, headers = limited.ask("GET", f"/?token={limited.token}")
    cookie = headers["set-cookie"]
    assert status == 303
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert limited.ask("GET", "/cameras", headers={"Cookie": cookie.split(";")[0]})[0] == 200
    assert limited.ask("GET", "/cameras", headers={"Cookie": cookie.split(";")[0][:-1]})[0] == 401
    assert limited.raw(request(limited.port, "GET", "/", host="evil.example")).split()[1] == b"421"


def test_uploads_have_limits(limited: Server) -> None:
    own = {**OWN, "X-Name": "large.mp4", "Cookie": f"qrsc-{limited.port}={limited.token}"}
    status, answer, _ = limited.ask("POST", "/clips", bytes(1_100_000), own)
    assert (status, "larger than 0.001 GB" in json.loads(answer)["error"]) == (413, True)
    pieces = (bytes(100_000) for _ in range(20))  # its length is not announced
    status, answer, _ = limited.ask("POST", "/clips", pieces, own)
    assert status == 413
    assert json.loads(limited.ask("POST", "/clips", b"", own)[1])["error"] == "the file is empty. Choose a video."
    assert [path.name for path in limited.private.iterdir()] == ["lock"]


def test_a_kill_leaves_no_half_file_and_the_next_server_cleans_up(done: tuple[Server, str], tmp_path: Path) -> None:
    other, _ = done
    with (tmp_path / "errors.txt").open("w") as errors:
        killed = start(other.folder, errors)
        try:
            key = killed.upload(moving_clip(tmp_path / "long.mp4", 40))
            killed.send("POST", f"/clips/{key}/run", **RUN)
            killed.wait(lambda state: task_of(state, key, "run")["progress"].get("done", 0) > 2)
            workers = killed.workers
            assert len(workers) == 2
        finally:
            killed.process.kill()
            killed.process.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{worker}").exists() for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert killed.private.is_dir()
    assert not [path for path in files_below(killed.private) if path.name.startswith("result")]
    with serving(other.folder) as following:
        listening = socket.create_connection(("127.0.0.1", following.port))
        listening.sendall(request(following.port, "GET", "/events"))  # a page that is open when the server ends
        assert listening.recv(4096)
        assert not killed.private.exists()
        assert set(other.folder.glob("qrsc-web-*")) == {other.private, following.private}
    listening.close()
    assert set(other.folder.glob("*qrsc-web-*")) == {other.private}
    assert other.ask("GET", "/health")[0] == 200


def test_a_worker_that_is_killed_takes_nothing_with_it(done: tuple[Server, str], tmp_path: Path) -> None:
    server, _ = done
    for clip in server.state()["clips"]:
        server.send("DELETE", f"/clips/{clip['key']}")
    key = server.upload(moving_clip(tmp_path / "long.mp4", 40))
    server.send("POST", f"/clips/{key}/run", **RUN)
    server.wait(lambda state: task_of(state, key, "run")["progress"].get("done", 0) > 2)
    for worker in server.workers:
        os.kill(worker, signal.SIGKILL)
    state = server.wait(lambda state: task_of(state, key, "run")["state"] == "failed")
    assert task_of(state, key, "run")["error"].startswith("the process that did the work was ended")
    assert not list(server.private.glob(f"{key}/run-*"))
    server.send("POST", f"/clips/{key}/run", **RUN)
    server.wait(lambda state: task_of(state, key, "run")["state"] == "done")
    for worker in server.workers:
        os.kill(worker, signal.SIGKILL)
    server.send("POST", f"/clips/{key}/stills")  # by one that has just died, with nothing to do
    server.wait(lambda state: task_of(state, key, "stills")["state"] == "done")
    server.send("DELETE", f"/clips/{key}")
    assert not (server.private / key).exists()
