"""The mutator knows what files consist of, repeats itself when asked to, and leaves none of its tricks unused."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from .bases import write_base
from .damaged import Damage, trial_of
from .mutations import PLAIN, STREAMED, STRUCTURED, Mutation, mutated
from .structure import format_of

SIZE = (48, 64)


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("bases")
    return {
        name: write_base(folder, name, SIZE).read_bytes() for name in ("mp4", "mkv-ffv1", "avi", "ts", "raw", "gif")
    }


@pytest.mark.parametrize(
    ("name", "kinds", "count"),
    [
        ("mp4", {b"ftyp", b"mdat", b"moov", b"trak", b"stts", b"ctts", b"stsz", b"elst"}, 8),
        ("mkv-ffv1", {bytes.fromhex(each) for each in ("1a45dfa3", "18538067", "1f43b675", "a3", "ae", "b0")}, 6),
        ("avi", {b"RIFF", b"LIST", b"avih", b"strh", b"strf", b"idx1", b"00dc", b"01wb"}, 8),
        ("raw", {b"\x67", b"\x68", b"\x65"}, 3),  # sequence and picture parameters, a picture
    ],
)
def test_the_parts_of_a_file_are_found(bases: dict[str, bytes], name: str, kinds: set[bytes], count: int) -> None:
    content = bases[name]
    known = format_of(content)
    assert known is not None
    parts = known.parts(content)
    assert len(kinds & {part.kind for part in parts}) == count
    for part in parts:
        assert part.start < part.content <= part.end <= len(content)
        at, length = part.size_at
        # What is stored is what the format would store for the size that was found.
        head = part.content - part.start
        size = part.end - (at + length) if name == "avi" else part.end - part.content
        assert content[at : at + length] == known.stored_size(size, head, length)


def test_a_transport_stream_is_packets(bases: dict[str, bytes]) -> None:
    known = format_of(bases["ts"])
    assert known is not None
    assert len(known.parts(bases["ts"])) == len(bases["ts"]) // 188


@pytest.mark.parametrize("mutation", [*PLAIN, *STRUCTURED, *STREAMED])
def test_every_mutation_changes_a_file(bases: dict[str, bytes], mutation: Mutation) -> None:
    content = bases["ts"] if mutation in STREAMED else bases["mp4"]
    changed = [mutation(content, Random(seed)) != content for seed in range(20) if _applies(mutation, content, seed)]
    assert sum(changed) >= 10  # a swap of two equal entries changes nothing


def _applies(mutation: Mutation, content: bytes, seed: int) -> bool:
    try:
        mutation(content, Random(seed))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("name", ["mp4", "mkv-ffv1", "avi", "ts", "raw", "gif"])
def test_the_same_number_gives_the_same_damage(bases: dict[str, bytes], name: str) -> None:
    first = [mutated(bases[name], Random(number)) for number in range(20)]
    assert first == [mutated(bases[name], Random(number)) for number in range(20)]
    assert len({content for content, _ in first}) >= 18


def test_a_case_says_which_command_it_is(tmp_path: Path) -> None:
    found = {"mp4": write_base(tmp_path, "mp4", SIZE)}
    trials = [trial_of(Damage("mp4", 0, 7), found, tmp_path / folder) for folder in ("one", "two")]
    assert trials[0].content == trials[1].content == trials[0].source.read_bytes()
    assert [part.replace("one", "two") for part in trials[0].arguments] == list(trials[1].arguments)
