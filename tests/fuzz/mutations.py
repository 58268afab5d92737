"""Damage to video files, of the kinds that disks, networks and other programs do, and of kinds that need intent.

Every mutation takes the content of a file and a source of chance, and returns other content. The same content and the
same state of chance give the same result.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random

from .structure import TS_PACKET, Format, Part, format_of, is_transport_stream

Mutation = Callable[[bytes, Random], bytes]

# Numbers at which programs fail: ends of ranges, signs, and sizes that would not fit into memory.
_EXTREMES = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00FFFFFF)
# Boxes of an MP4 file that are tables: header of 4 bytes, count, entries; or single numbers.
_TABLES = frozenset(b"stts stsz ctts stco co64 stsc elst stss stsd mvhd tkhd mdhd hdlr avcC hvcC colr pasp".split())


# --- without knowledge of the format ---


def truncate(content: bytes, chance: Random) -> bytes:
    """The end is missing: often much, sometimes a few bytes."""
    if chance.random() < 0.2:
        return content[: -chance.randint(1, min(64, len(content)))]
    return content[: chance.randrange(len(content))]


def flip_bits(content: bytes, chance: Random) -> bytes:
    out = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 4, 8, 32, 128))):
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def zero_range(content: bytes, chance: Random) -> bytes:
    start, end = _range(content, chance)
    return content[:start] + bytes(end - start) + content[end:]


def randomise_range(content: bytes, chance: Random) -> bytes:
    start, end = _range(content, chance)
    return content[:start] + chance.randbytes(end - start) + content[end:]


def duplicate_range(content: bytes, chance: Random) -> bytes:
    start, end = _range(content, chance)
    return content[:end] + content[start:end] + content[end:]


def remove_range(content: bytes, chance: Random) -> bytes:
    start, end = _range(content, chance)
    return content[:start] + content[end:]


def swap_ranges(content: bytes, chance: Random) -> bytes:
    a, b, c, d = sorted(chance.randrange(len(content) + 1) for _ in range(4))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def insert_bytes(content: bytes, chance: Random) -> bytes:
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.randbytes(chance.choice((1, 3, 188, 1000))) + content[at:]


def append_itself(content: bytes, chance: Random) -> bytes:
    """Two recordings joined, or one and the beginning of another."""
    return content + content[: chance.choice((len(content), chance.randrange(len(content))))]


PLAIN: tuple[Mutation, ...] = (
    truncate,
    flip_bits,
    zero_range,
    randomise_range,
    duplicate_range,
    remove_range,
    swap_ranges,
    insert_bytes,
    append_itself,
)


def _range(content: bytes, chance: Random) -> tuple[int, int]:
    start = chance.randrange(len(content))
    longest = max(1, len(content) - start)
    return start, start + min(longest, chance.choice((1, 4, 16, 64, 512, 4096, longest)))


# --- with knowledge of the parts ---


def change_size(content: bytes, chance: Random) -> bytes:
    """A part states another size than it has."""
    known, part = _part(content, chance, lambda each: each.size_at[1] > 0)
    at, length = part.size_at
    size, head = part.end - part.content, part.content - part.start
    wrong = chance.choice((size - 1, size + 1, size // 2, 2 * size, size + 4096, *_EXTREMES))
    return content[:at] + known.stored_size(wrong, head, length) + content[at + length :]


def change_kind(content: bytes, chance: Random) -> bytes:
    """A part is taken for one of another kind, known or unknown."""
    known, part = _part(content, chance)
    at = content.find(part.kind, part.start, part.content)
    if at < 0:
        raise ValueError("the kind is not stored")
    same = [each.kind for each in known.parts(content) if len(each.kind) == len(part.kind)]
    other = chance.choice((chance.choice(same), chance.randbytes(len(part.kind))))
    return content[:at] + other + content[at + len(part.kind) :]


def remove_part(content: bytes, chance: Random) -> bytes:
    known, part = _part(content, chance)
    return _replaced(content, known, part, b"", chance)


def duplicate_part(content: bytes, chance: Random) -> bytes:
    known, part = _part(content, chance)
    times = chance.choice((2, 2, 3, 20))
    return _replaced(content, known, part, content[part.start : part.end] * times, chance)


def swap_parts(content: bytes, chance: Random) -> bytes:
    """Two parts on one level change places."""
    known, part = _part(content, chance)
    beside = [each for each in known.parts(content) if each.parents == part.parents and each.start != part.start]
    if not beside:
        raise ValueError("there is no other")
    a, b = sorted((part, chance.choice(beside)), key=lambda each: each.start)
    return (
        content[: a.start]
        + content[b.start : b.end]
        + content[a.end : b.start]
        + content[a.start : a.end]
        + content[b.end :]
    )


def change_number(content: bytes, chance: Random) -> bytes:
    """A number in a part becomes an extreme, or another by a little: counts, sizes, times, offsets, identifiers."""
    _, part = _part(content, chance, _holds_numbers)
    length = min(chance.choice((1, 2, 4, 4, 4, 8)), part.end - part.content)
    aligned = range(part.content, part.end - length + 1, length)
    first = aligned[: chance.choice((4, 16, len(aligned)))]  # headers and counts come first
    at = chance.choice(first)
    order = "little" if content[:4] == b"RIFF" else "big"
    before = int.from_bytes(content[at : at + length], order)  # type: ignore[arg-type]  # one of its two values
    wanted = chance.choice((before - 1, before + 1, 2 * before, before // 2, -before, *_EXTREMES))
    after = (wanted % (1 << (8 * length))).to_bytes(length, order)  # type: ignore[arg-type]  # as above
    return content[:at] + after + content[at + length :]


def swap_entries(content: bytes, chance: Random) -> bytes:
    """Two 4-byte entries of a table change places."""
    _, part = _part(content, chance, _holds_numbers)
    places = range(part.content, part.end - 3, 4)
    if len(places) < 2:
        raise ValueError("there is one entry only")
    a, b = sorted(chance.sample(places, 2))
    return content[:a] + content[b : b + 4] + content[a + 4 : b] + content[a : a + 4] + content[b + 4 :]


def empty_part(content: bytes, chance: Random) -> bytes:
    """A part without content, its size stated as it is."""
    known, part = _part(content, chance)
    at, length = part.size_at
    bare = content[part.start : part.content]
    if length:
        offset, head = at - part.start, part.content - part.start
        bare = bare[:offset] + known.stored_size(0, head, length) + bare[offset + length :]
    return _replaced(content, known, part, bare, chance)


def damage_content(content: bytes, chance: Random) -> bytes:
    """Plain damage inside one part, which keeps its size: coded pictures, mostly."""
    _, part = _part(content, chance, lambda each: not each.holds_parts and each.end > each.content)
    inside = content[part.content : part.end]
    damage = chance.choice((flip_bits, zero_range, randomise_range))
    return content[: part.content] + damage(inside, chance) + content[part.end :]


STRUCTURED: tuple[Mutation, ...] = (
    change_size,
    change_kind,
    remove_part,
    duplicate_part,
    swap_parts,
    change_number,
    change_number,
    swap_entries,
    empty_part,
    damage_content,
)


def _holds_numbers(part: Part) -> bool:
    return not part.holds_parts and part.end - part.content >= 1


def _part(content: bytes, chance: Random, wanted: Callable[[Part], bool] = lambda part: True) -> tuple[Format, Part]:
    """A part of a file, by chance; tables of an MP4 file are preferred to its other boxes."""
    known = format_of(content)
    parts = [] if known is None else [part for part in known.parts(content) if wanted(part)]
    if known is None or not parts:
        raise ValueError("the file has no such parts")
    tables = [part for part in parts if part.kind in _TABLES]
    # By kind first: blocks of sound would otherwise be nearly all that is ever damaged.
    among: Sequence[Part] = tables if tables and chance.random() < 0.5 else parts
    kind = chance.choice(sorted({part.kind for part in among}))
    return known, chance.choice([part for part in among if part.kind == kind])


def _replaced(content: bytes, known: Format, part: Part, by: bytes, chance: Random) -> bytes:
    """Replace a part; half of the time the sizes of those that it lies in follow, so that readers reach deeper."""
    out = bytearray(content[: part.start] + by + content[part.end :])
    grown = len(by) - (part.end - part.start)
    if chance.random() < 0.5:
        for parent in part.parents:
            at, length = parent.size_at
            # A RIFF list counts its own type, which lies before its first chunk.
            inside, head = parent.end - (at + length) if content[:4] == b"RIFF" else parent.end - parent.content, 8
            out[at : at + length] = known.stored_size(inside + grown, head, length)
    return bytes(out)


# --- transport streams ---


def change_stream_packet(content: bytes, chance: Random) -> bytes:
    """A packet of a transport stream with another identifier, counter, or flags."""
    if not is_transport_stream(content):
        raise ValueError("no transport stream")
    at = TS_PACKET * chance.randrange(max(1, len(content) // TS_PACKET))
    out = bytearray(content)
    for offset in chance.sample((1, 2, 3, 4, 5), chance.choice((1, 2))):
        if at + offset < len(out):
            out[at + offset] = chance.choice((0, 0xFF, chance.randrange(256)))
    return bytes(out)


def change_stamps(content: bytes, chance: Random) -> bytes:
    """Timestamps in the headers of PES packets: other, equal, or going back."""
    places = [at for at in range(len(content) - 14) if content[at : at + 3] == b"\0\0\1" and content[at + 3] >= 0xBD]
    if not places or not (is_transport_stream(content) or content[:4] == b"\0\0\1\xba"):
        raise ValueError("no PES packets")
    out = bytearray(content)
    for at in chance.sample(places, min(len(places), chance.choice((1, 2, 8)))):
        out[at + 9 : at + 14] = chance.choice((bytes(5), b"\xff" * 5, struct.pack(">BI", 0x21, chance.getrandbits(32))))
    return bytes(out)


STREAMED: tuple[Mutation, ...] = (change_stream_packet, change_stamps)


def mutated(content: bytes, chance: Random) -> tuple[bytes, str]:
    """A damaged file, and the names of what was done to it: one thing mostly, three at most."""
    done: list[str] = []
    wanted = chance.choice((1, 1, 1, 2, 3))
    while len(done) < wanted:
        group = chance.choice((PLAIN, STRUCTURED, STRUCTURED, STREAMED))
        mutation = chance.choice(group)
        try:
            content = mutation(content, chance)
        except ValueError:  # it does not apply to this file
            continue
        done.append(mutation.__name__)
        if not content:
            break
    return content, "+".join(done)
