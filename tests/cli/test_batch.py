"""`qrsc batch`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from qrsc.cli.app import app

from ..farm.clips import GAMMA, Inline, short_clip


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: object) -> tuple[int, str, str]:
    executor = Inline(tmp_path / "scratch")
    monkeypatch.setattr("qrsc.farm.batch._executor", lambda *given: executor)
    fixed = ["-o", str(tmp_path / "out"), "--fast", "--motion", "quadratic", "--gamma", str(GAMMA)]
    result = CliRunner().invoke(app, ["batch", *map(str, arguments), *fixed])
    return result.exit_code, result.stdout, result.stderr


def test_what_is_printed_and_how_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = short_clip(tmp_path / "in" / "clip.mkv", 6)
    code, said, _ = run(monkeypatch, tmp_path, source)
    assert (code, said) == (0, f"done: {tmp_path}/out/clip.mkv: 6 frames\n")
    (tmp_path / "in" / "broken.mp4").write_bytes(b"nothing")
    code, said, warned = run(monkeypatch, tmp_path, tmp_path / "in")
    assert code == 6
    assert said == f"kept: {tmp_path}/out/clip.mkv: done in an earlier run\n"
    assert "broken.mp4 cannot be read as a video" in warned
    assert "1 clip failed" in warned
    code, said, _ = run(monkeypatch, tmp_path, tmp_path / "in", "--retry-failed", "--progress", "json")
    lines = [json.loads(line) for line in said.splitlines()]
    assert code == 6
    assert {line["state"] for line in lines if line["event"] == "clip"} == {"kept", "failed"}
    assert any(line["event"] == "progress" and line["clips"] == 2 for line in lines)


def test_bad_requests_end_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, said = run(monkeypatch, tmp_path, tmp_path / "none.mp4")
    assert (code, said.count("\n")) == (2, 1)
    assert "there is no file or folder" in said
    source = short_clip(tmp_path / "in" / "clip.mkv", 3)
    code, _, said = run(monkeypatch, tmp_path, source, "--segment", 5)
    assert (code, "20 frames or more" in said) == (2, True)


@pytest.mark.parametrize(
    ("words", "ray"),
    [([], False), (["--ray"], True), (["--ray", "head:6379"], "head:6379"), (["--ray=ray://head:1"], "ray://head:1")],
)
def test_a_cluster_with_and_without_an_address(
    words: list[str], ray: str | bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def refuse(given: object, *others: object) -> None:
        asked.append(given)
        raise ValueError("no cluster here")

    monkeypatch.setattr("qrsc.farm.batch._executor", refuse)
    (tmp_path / "clip.mkv").write_bytes(b"nothing")
    result = CliRunner().invoke(app, ["batch", *words, str(tmp_path / "clip.mkv"), "-o", str(tmp_path / "out")])
    assert (result.exit_code, asked) == (2, [ray])
