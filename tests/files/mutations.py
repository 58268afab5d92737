"""Valid files of every kind that is no video, their readers, and a mutator with a seed of its own for every case."""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from qrsc.calibrate.exif import image_camera
from qrsc.data.acc import read_list
from qrsc.data.layouts import read_clip_file
from qrsc.evaluate.run.record import RECORD_FILE, Record
from qrsc.evaluate.studies.manifest import read_ablation
from qrsc.evaluate.studies.study_training import training_plan
from qrsc.flow.precomputed import PrecomputedFlow
from qrsc.flow.raft_rs.estimator import flow_from_file
from qrsc.flow.raft_rs.network import FlowNetwork, NetworkSize
from qrsc.fusion.lite.network import LiteNetwork, LiteOptions
from qrsc.fusion.networks import fusion_from_file
from qrsc.learn.trainer.state import LIST, TrainingState, load_state, save_state
from qrsc.media.image_folder import read_frame, write_frame
from qrsc.media.image_header import image_size
from qrsc.simulate.output.writers import TRUTH_FILE, TruthWriter, read_truth

SIZE = (24, 32)
SMALL_FLOW = NetworkSize(4, (4, 4, 4), (1, 1, 1), 4, 4, 4, 4, 1, 1, 1, 1, 1)
SMALL_FUSION = LiteOptions(widths=(4, 4, 4), depths=(1, 1, 1), polish=4, polishes=1)
MANIFEST = """
flow = "dis"
[sets.sim-easy]
scenes = 2
size = "64x48"
[rows.full]
network = { taps = 3, widths = [8, 8, 8, 8], heads = [1, 1, 1, 1] }
[rows.none]
motion = "none"
kind = "rsa2-lite"
[training]
steps = 3
minutes = 0.5
crop = "32x32"
size = "64x48"
"""


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: of the file, in a folder of its own.
        write: makes a valid one, with what belongs beside it.
        read: everything that the package does with it.
        repair: makes lengths and checksums of a damaged one right again, so that the damage gets past them.
    """

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]
    repair: Callable[[bytes], bytes] = lambda content: content


def repaired_png(content: bytes) -> bytes:
    """The same chunks with the right checksums."""
    made, place = content[:8], 8
    while place + 12 <= len(content):
        length = min(int.from_bytes(content[place : place + 4], "big"), len(content) - place - 12)
        body = content[place + 4 : place + 8 + length]
        made += length.to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
        place += 12 + length
    return made


def repaired_safetensors(content: bytes) -> bytes:
    """The length of the header is right, if it still ends before the tensors."""
    end = content.rfind(b"}", 0, 20_000)
    return (end - 7).to_bytes(8, "little") + content[8:] if end > 8 else content


def flows(channels_last: bool = False) -> tuple[np.ndarray, np.ndarray]:
    forward, backward = np.random.default_rng(0).normal(size=(2, 2, 2, *SIZE)).astype(np.float32)
    return (forward.transpose(0, 2, 3, 1), backward.transpose(0, 2, 3, 1)) if channels_last else (forward, backward)


def write_npz(path: Path) -> None:
    np.savez(path, forward=flows()[0], backward=flows()[1])


def write_packed_npz(path: Path) -> None:
    np.savez_compressed(path, forward=np.zeros((2, 2, *SIZE)), backward=flows()[1])


def write_npy_pair(path: Path) -> None:
    np.save(path, flows()[0][0])
    np.save(path.with_name("0_backward.npy"), flows()[1][0])


def write_flo_pair(path: Path) -> None:
    head = np.float32(202021.25).tobytes() + np.array([SIZE[1], SIZE[0]], "<i4").tobytes()
    for each, flow in zip((path, path.with_name("0_backward.flo")), flows(channels_last=True), strict=True):
        each.write_bytes(head + flow[0].tobytes())


def read_flows(path: Path) -> None:
    frame = torch.zeros(1, 3, *SIZE)
    found = PrecomputedFlow(path if path.suffix == ".npz" else path.parent)
    for number in range(min(2, len(found))):
        found.pair(number, frame, frame)


def write_flow_weights(path: Path, **notes: str) -> None:
    noted = {"size": json.dumps(asdict(SMALL_FLOW))} | notes
    save_file(FlowNetwork(SMALL_FLOW).state_dict(), path, metadata=noted)


def write_fusion_weights(path: Path, **notes: str) -> None:
    noted = {"kind": "rsa2-lite", "options": json.dumps(asdict(SMALL_FUSION)), "interpolation": "bicubic"} | notes
    save_file(LiteNetwork(SMALL_FUSION).state_dict(), path, metadata=noted)


def write_picture(path: Path) -> None:
    write_frame(path, torch.rand(3, *SIZE, generator=torch.Generator().manual_seed(0)))


def read_picture(path: Path) -> None:
    image_camera(path)
    image_size(path)
    read_frame(path)


def write_state(path: Path) -> None:
    part = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    save_state(path.parent, TrainingState(7, 1.5, part, part, part, part))


def write_truth(path: Path) -> None:
    with TruthWriter(path) as truth:
        truth.add(0, {"flow_next": torch.rand(2, *SIZE), "pose": torch.rand(4, 4, dtype=torch.float64)})


def write_record(path: Path) -> None:
    score = {"set": "a", "sequence": "b", "frame": 1, "at": "middle", "method": "qrs", "figures": {"psnr": 30.0}}
    path.write_text("\n".join(json.dumps({"key": str(key), "scores": [score]}) for key in range(3)))


KINDS = (
    Kind("flows.npz", write_npz, read_flows),
    Kind("packed.npz", write_packed_npz, read_flows),
    Kind("0_forward.npy", write_npy_pair, read_flows),
    Kind("0_forward.flo", write_flo_pair, read_flows),
    Kind("flow.safetensors", write_flow_weights, flow_from_file, repaired_safetensors),
    Kind("fusion.safetensors", write_fusion_weights, fusion_from_file, repaired_safetensors),
    Kind("study.toml", lambda path: path.write_text(MANIFEST), lambda path: training_plan(read_ablation(path))),
    Kind("clip.json", lambda path: path.write_text('{"gamma": 0.6, "scan": "top-down", "offset": 0.0}'),
         lambda path: read_clip_file(path.parent)),
    Kind("list.txt", lambda path: path.write_text("# ACC\ntest/scene_a/00012\ntest/scene_b/00001\n"), read_list),
    Kind(LIST, write_state, lambda path: load_state(path.parent)),
    Kind(TRUTH_FILE, write_truth, lambda path: read_truth(path.parent, "flow_next", 0, SIZE)),
    Kind(RECORD_FILE, write_record, lambda path: Record(path.parent)),
    Kind("0.png", write_picture, read_picture, repaired_png),
    *(Kind(f"0{suffix}", write_picture, read_picture) for suffix in (".jpg", ".tif", ".bmp", ".webp")),
)  # fmt: skip

_FIELDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 100_000, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1)
_WORDS = (
    b"-1",
    b"0",
    b"NaN",
    b"1e999",
    b"9" * 5000,
    b"1000000000",
    b"[]",
    b"{}",
    b'"x"',
    b"null",
    b"true",
    b"[" * 3000,
)


def mutated(content: bytes, seed: int) -> bytes:
    """A damaged copy: cut off, bits flipped, fields and words replaced, parts removed, repeated or of another file."""
    chance = random.Random(seed)
    made = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        # Headers lie at the beginning, those of archives at the end.
        near = chance.choice((64, 512, len(made)))
        place = chance.randrange(min(near, len(made)) or 1)
        if chance.random() < 0.3:
            place = max(0, len(made) - 1 - place)
        change = chance.choice(("cut", "flip", "field", "field", "word", "word", "remove", "repeat", "noise"))
        length = chance.choice((1, 4, 16, 200))
        if change == "cut":
            del made[chance.choice((place, 0, len(made) - 1)) :]
        elif change == "flip" and made:
            made[place % len(made)] ^= 1 << chance.randrange(8)
        elif change == "field":
            size = chance.choice((1, 2, 4, 8))
            order = chance.choice(("little", "big"))
            value = chance.choice(_FIELDS) & ((1 << 8 * size) - 1)
            made[place : place + size] = value.to_bytes(size, order)  # type: ignore[arg-type]  # one of two words
        elif change == "word":
            # In binary files only numbers in a text; the length of what follows is kept where it is possible.
            found = list(re.finditer(rb"-?\d+(?:\.\d+)?|\[[^\]]*\]|true|false", bytes(made[:4096])))
            if found:
                at = chance.choice(found)
                made[at.start() : at.end()] = chance.choice(_WORDS)
        elif change == "remove":
            del made[place : place + length]
        elif change == "repeat":
            made[place:place] = made[place : place + length] * chance.choice((1, 50))
        else:
            made[place : place + length] = chance.randbytes(length)
    return bytes(made)
