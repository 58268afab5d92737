"""Inputs by name, and storage that is not on this machine: in memory, and on a server of S3 where one can be had."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import qrsc
from qrsc.farm import batch as batches
from qrsc.farm.inputs import find_clips
from qrsc.farm.storage import below, fetch, put, state_of

from ..videos import facts
from .clips import GAMMA, Inline, kinds, short_clip

OPTIONS: dict[str, Any] = {"gamma": GAMMA, "preset": "fast", "motion": "quadratic", "segment": 20}


@pytest.fixture(scope="module")
def footage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("footage")
    short_clip(folder / "one.mkv", 8)
    short_clip(folder / "more" / "long.mp4", 40, 2, options={"crf": "8", "g": "20"})
    return folder


def relatives(inputs: list[Any], folder: str = "out") -> list[str]:
    return [clip.relative for clip in find_clips(inputs, folder)]


def test_files_folders_patterns_and_lists(tmp_path: Path) -> None:
    for name in ("a.mp4", "b/c.mov", "b/d.MPG", "b/notes.txt", ".hidden/e.mp4", "b/.f.mp4"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    assert relatives([tmp_path]) == ["a.mp4", "b/c.mov", "b/d.mkv"]
    assert relatives([tmp_path / "b" / "c.mov", tmp_path / "a.mp4"]) == ["c.mov", "a.mp4"]
    assert relatives([f"{tmp_path}/**/*.mov"]) == ["b/c.mov"]
    listed = tmp_path / "list.txt"
    listed.write_text(f"# clips\na.mp4\n\n{tmp_path}/b/*.mov\n")
    assert relatives([listed]) == ["a.mp4", "c.mov"]
    with pytest.raises(FileNotFoundError, match="there is no file or folder"):
        find_clips([tmp_path / "none.mp4"], "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="there is no video in"):
        find_clips([tmp_path / "empty"], "out")
    (tmp_path / "empty" / "0001.png").write_bytes(b"x")
    with pytest.raises(FileNotFoundError, match="one clip, for qrsc correct"):
        find_clips([tmp_path / "empty"], "out")
    listed.write_text("a.mp4\nb/none.mov\n")
    with pytest.raises(FileNotFoundError, match=r"line 2 of .*list.txt: there is no file or folder .*none.mov"):
        find_clips([listed], "out")
    with pytest.raises(ValueError, match="no clip was given"):
        find_clips([], "out")
    (tmp_path / "b" / "a.mp4").write_bytes(b"y")
    with pytest.raises(ValueError, match="would both become"):
        find_clips([tmp_path / "a.mp4", tmp_path / "b" / "a.mp4"], "out")
    with pytest.raises(ValueError, match="would be itself"):
        find_clips([tmp_path], str(tmp_path))


@pytest.fixture
def in_memory() -> Iterator[str]:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield "memory://bucket"
    files.store.clear()


@pytest.fixture(scope="module")
def on_s3() -> Iterator[str]:
    """A bucket on a server of S3 on this machine."""
    pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in keys.items():
            patch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem().mkdir("bucket")
        yield "s3://bucket"
    server.stop()


def store(folder: Path, remote: str, scratch: Path) -> None:
    for path in folder.rglob("*.m*"):
        copy = scratch / path.name
        copy.write_bytes(path.read_bytes())
        put(copy, below(remote, "in", *path.relative_to(folder).parts))


@pytest.mark.parametrize("kind", ["in_memory", "on_s3"])
def test_a_batch_from_and_to_an_object_store(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, kind: str
) -> None:
    remote: str = request.getfixturevalue(kind)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store(footage, remote, tmp_path)
    executor = Inline(tmp_path / "scratch", slots=1)
    monkeypatch.setattr(batches, "_executor", lambda *given: executor)
    results = list(qrsc.batch(f"{remote}/in", f"{remote}/out", **OPTIONS))
    assert {(r.output, r.state) for r in results} == {
        (f"{remote}/out/one.mkv", "done"), (f"{remote}/out/more/long.mp4", "done"),
    }  # fmt: skip
    assert sorted(kinds(executor.done)) == ["clip", "clip", "join", "segment", "segment"]
    copy = fetch(f"{remote}/out/more/long.mp4", tmp_path / "look")
    assert len(facts(copy).times) == 40
    for name in ("manifest.jsonl", "report.json", "report.html"):
        assert state_of(f"{remote}/out/{name}") is not None
    # Another machine, which has nothing but the store, knows what is done.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert [r.state for r in qrsc.batch(f"{remote}/in", f"{remote}/out", **OPTIONS)] == ["kept", "kept"]
    assert find_clips([f"{remote}/in/**/*.mp4"], "out")[0].relative == "more/long.mp4"
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fetch(f"{remote}/in/none.mp4", tmp_path / "look")


def test_storage_that_is_not_installed_says_what_to_install() -> None:
    with pytest.raises(ValueError, match="cannot be opened"):
        state_of("nosuchstore://bucket/clip.mp4")
    assert not os.path.exists("nosuchstore:")
