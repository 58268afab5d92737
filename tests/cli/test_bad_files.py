"""Bad files given to commands: one line that names the file, the documented exit code, and nothing written."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.fusion.lite.network import LiteNetwork, LiteOptions
from qrsc.media.image_folder import write_frame

SIZE = (48, 64)
LITE = LiteOptions(widths=(4, 4, 4), depths=(1, 1, 1), polish=4, polishes=1)


def huge_png() -> bytes:
    """Whole, and of 100,000x100,000 pixels by its header."""
    made = b"\x89PNG\r\n\x1a\n"
    header = (100_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
    for kind, body in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(99))), (b"IEND", b"")):
        made += len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
    return made


HUGE_PNG = huge_png()
OBJECTS = np.array([{}])


def write_clip(folder: Path) -> Path:
    folder.mkdir()
    for number in range(3):
        write_frame(folder / f"{number}.png", torch.rand(3, *SIZE, generator=torch.Generator().manual_seed(number)))
    return folder


def write_weights(path: Path, **changes: object) -> None:
    notes = {"kind": "rsa2-lite", "options": json.dumps(asdict(LITE) | changes)}
    save_file(LiteNetwork(LITE).state_dict(), path, metadata=notes)


def write_fp8(path: Path) -> None:
    notes = {"kind": "rsa2-lite", "options": json.dumps(asdict(LITE))}
    tensors = {name: value.to(torch.float8_e5m2) for name, value in LiteNetwork(LITE).state_dict().items()}
    save_file(tensors, path, metadata=notes)


# By the name of the file and what it is: the option of `qrsc correct` that it is given to, and how it is written.
GIVEN: dict[tuple[str, str], tuple[str, Callable[[Path], object]]] = {
    ("empty.npz", "empty"): ("--flow", lambda path: path.write_bytes(b"")),
    ("array.npz", "an array"): ("--flow", lambda path: path.write_bytes(b"\x93NUMPY\x01\x00" + bytes(99))),
    ("objects.npz", "objects"): ("--flow", lambda path: np.savez(path, forward=OBJECTS, backward=OBJECTS)),
    ("small.npz", "another size"): ("--flow", lambda path: np.savez(path, forward=np.ones((2, 2, 4, 4)),
                                                                    backward=np.ones((2, 2, 4, 4)))),
    ("bomb.npz", "a bomb"): ("--flow", lambda path: np.savez_compressed(path, forward=np.zeros((1, 2, 999, 999)),
                                                                        backward=np.zeros((1, 2, 999, 999)))),
    ("empty.safetensors", "empty flow"): ("--flow", lambda path: path.write_bytes(b"")),
    ("steps.safetensors", "steps"): ("--flow", lambda path: save_file({}, path, metadata={"size": '{"steps": [1]}'})),
    ("text.safetensors", "text"): ("--fusion", lambda path: path.write_text("no weights")),
    ("layers.safetensors", "layers"): ("--fusion", lambda path: write_weights(path, depths=[10**7] * 3)),
    ("negative.safetensors", "negative"): ("--fusion", lambda path: write_weights(path, widths=[-4] * 3)),
    ("large.safetensors", "large"): ("--fusion", lambda path: write_weights(path, widths=[1024] * 3)),
    ("fp8.safetensors", "fp8"): ("--fusion", write_fp8),
}  # fmt: skip


def require_one_line(arguments: list[str], name: str, code: int = 2) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert "Aborted" not in result.output
    errors = [line for line in result.output.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, result.output
    assert name in errors[0]


@pytest.mark.parametrize(("name", "what"), GIVEN, ids=[what for _, what in GIVEN])
def test_correct_with_a_bad_flow_or_network(name: str, what: str, tmp_path: Path) -> None:
    option, write = GIVEN[name, what]
    write(tmp_path / name)
    clip = write_clip(tmp_path / "clip")
    arguments = ["correct", str(clip), "-o", str(tmp_path / "out"), "--gamma", "0.8", "--quiet", "--fast"]
    require_one_line([*arguments, option, str(tmp_path / name)], name)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["clip", name])


@pytest.mark.parametrize("content", [b"", b"no picture", HUGE_PNG], ids=["empty", "text", "huge"])
@pytest.mark.parametrize("number", [0, 2])
def test_correct_with_a_bad_picture(content: bytes, number: int, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip")
    (clip / f"{number}.png").write_bytes(content)
    arguments = ["correct", str(clip), "-o", str(tmp_path / "out"), "--gamma", "0.8", "--quiet", "--fast"]
    require_one_line(arguments, f"{number}.png")
    assert [path.name for path in tmp_path.iterdir()] == ["clip"]


@pytest.mark.parametrize("command", ["slowmo", "calibrate"])
def test_other_commands_with_a_bad_picture(command: str, tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip")
    (clip / "0.png").write_bytes(HUGE_PNG)
    given = {"slowmo": ["-o", str(tmp_path / "out"), "--gamma", "0.8", "--factor", "2"], "calibrate": []}
    require_one_line([command, str(clip), *given[command]], "0.png")


def test_textures_with_a_bad_picture(tmp_path: Path) -> None:
    textures = write_clip(tmp_path / "textures")
    (textures / "1.png").write_bytes(HUGE_PNG)
    arguments = ["simulate", "scenes", str(tmp_path / "out"), "--scenes", "1", "--frames", "1", "--size", "32x32"]
    require_one_line([*arguments, "--textures", str(textures)], "1.png")


@pytest.mark.parametrize("size", ["0x0", "100000x100000", "99999999999x1", "-3x4"])
def test_sizes_that_cannot_be_rendered(size: str, tmp_path: Path) -> None:
    require_one_line(["simulate", "scenes", str(tmp_path / "out"), "--size", size], size)


MANIFESTS = {
    "deep.toml": "a = " + "[" * 5000,
    "deep.json": "[" * 5000,
    "size.toml": '[sets.sim-easy]\nsize = "0x0"\n[rows.a]\nmethod = "qrs"',
    "layers.toml": "[sets.sim-easy]\n[rows.a]\nnetwork = { depths = [10000000, 1, 1, 1] }",
    "gamma.toml": '[sets.x]\nroot = "."\nlayout = "sim"\ngamma = 1e999\n[rows.a]\nmethod = "qrs"',
    "binary.toml": "\x00\x01",
}


@pytest.mark.parametrize("command", ["ablate", "generalise"])
@pytest.mark.parametrize("name", MANIFESTS)
def test_studies_with_a_bad_manifest(command: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(MANIFESTS[name])
    require_one_line([command, str(tmp_path / name)], name)


def test_a_data_set_with_a_bad_picture_and_a_large_number(tmp_path: Path) -> None:
    for part in ("RS", "GS"):
        (tmp_path / part).mkdir()
        for name in ("00000", "00001", "9999999999"):
            write_frame(tmp_path / part / f"{name}.png", torch.zeros(3, 8, 8))
    (tmp_path / "GS" / "00001.png").write_bytes(HUGE_PNG)
    result = CliRunner().invoke(app, ["data", "check", str(tmp_path), "--layout", "bsrsc", "--quiet"])
    assert result.exit_code == 1, result.output
    assert "00001.png claims to have 100000x100000 pixels" in result.output
    assert "1 sequence, 3 frames, 9999999997 missing, 8x8; 1 sequence with problems" in result.output


def test_a_hostile_list_and_a_hostile_clip_file(tmp_path: Path) -> None:
    write_clip(tmp_path / "RS")
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe")
    arguments = ["data", "check", str(tmp_path), "--layout"]
    require_one_line([*arguments, "acc", "--list", str(tmp_path / "list.txt")], "list.txt")
    (tmp_path / "clip.json").write_text("[" * 5000)
    require_one_line([*arguments, "plain"], "clip.json")
    require_one_line(["evaluate", str(tmp_path), "--layout", "plain"], "clip.json")
