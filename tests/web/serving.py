"""A server as users start it, in a process of its own, and plain requests to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

PATIENCE = 120.0  # seconds for anything: the machine may be busy
OWN = {"X-Qrsc": "1"}


@dataclass
class Server:
    """A running `qrsc web`.

    Attributes:
        process: of the server.
        address: that it printed.
        folder: in which its private folder is.
        private: the folder of this server.
        errors: what it wrote to stderr.
    """

    process: subprocess.Popen[str]
    address: str
    folder: Path
    private: Path
    errors: Path

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def workers(self) -> list[int]:
        """The processes that do the work."""
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True)
        return [int(word) for word in listed.stdout.split()]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Meanwhile no work goes on: a run cannot end before what is to happen during it has happened."""
        workers = self.workers
        for worker in workers:
            os.kill(worker, signal.SIGSTOP)
        try:
            yield
        finally:
            for worker in workers:
                os.kill(worker, signal.SIGCONT)

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.address).query).get("token", [""])[0]

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        given = OWN if headers is None else headers
        try:
            connection.request(method, path, body, dict(given))
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def send(self, method: str, path: str, **body: Any) -> Any:
        """The JSON of an answer that must be a success."""
        status, content, _ = self.ask(method, path, json.dumps(body))
        assert status in (200, 201, 202), content
        return json.loads(content)

    def upload(self, path: Path, name: str | None = None) -> str:
        """The key of a clip that is added and has been read."""
        status, content, _ = self.ask("POST", "/clips", path.read_bytes(), {**OWN, "X-Name": name or path.name})
        assert status == 201, content
        key: str = json.loads(content)["key"]
        self.wait(lambda state: task_of(state, key, "look")["state"] in ("done", "failed"))
        return key

    def state(self) -> dict[str, Any]:
        """The newest state, from the stream of events."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", "/events")
            line = connection.getresponse().readline()
            state: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
            return state
        finally:
            connection.close()

    def wait(self, until: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The first state that fulfils a condition."""
        end = time.monotonic() + PATIENCE
        while not until(state := self.state()):
            assert time.monotonic() < end, state
            time.sleep(0.1)
        return state

    def raw(self, request: bytes) -> bytes:
        """What is answered to bytes; empty if the connection is just closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            try:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while len(answer) < 1 << 20 and (piece := connection.recv(65536)):
                    answer += piece
            except ConnectionError:
                return b""
            return answer


def task_of(state: dict[str, Any], key: str, kind: str) -> dict[str, Any]:
    """What a state says about a task of a clip; `none` if there is none."""
    clip = next(clip for clip in state["clips"] if clip["key"] == key)
    task: dict[str, Any] = clip["tasks"].get(kind, {"state": "none"})
    return task


@contextmanager
def serving(folder: Path, *options: str, threads: str = "1") -> Iterator[Server]:
    """A server whose private folder is made in `folder`."""
    folder.mkdir(exist_ok=True)
    errors = folder / f"stderr-{time.monotonic_ns()}.txt"
    with errors.open("w") as written:
        server = start(folder, written, options, threads)
        try:
            yield server
        finally:
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(PATIENCE)
    assert "Traceback" not in errors.read_text(), errors.read_text()


def start(folder: Path, errors: IO[str], options: tuple[str, ...] = (), threads: str = "1") -> Server:
    """Start a server; the caller ends it.

    Tests run beside each other, on small tensors: each operation gets one thread.
    """
    before = set(folder.glob("qrsc-web-*"))
    command = [sys.executable, "-m", "qrsc", "web", "--no-browser", "--folder", str(folder), *options]
    environment = os.environ | {"OMP_NUM_THREADS": threads, "OMP_WAIT_POLICY": "PASSIVE"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("the page is at http://"), (line, Path(errors.name).read_text())
    (private,) = set(folder.glob("qrsc-web-*")) - before
    return Server(process, line.split()[4], folder, private, Path(errors.name))
