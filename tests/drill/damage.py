"""Damage to bytes: what disks, cables and cut-off copies do to a file, and what somebody does who wants to see it fail.

Every trick is a function of a random generator, the content, and the content of another file of the same format.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

HOSTILE = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xff" * 9, b"\x1b[2J\x1b]0;x\x07", b"\r", b"\x0b\x0c\x1c\x85",
    b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"%s%n", b"../../", b"$(touch x)", b"\x80\x04.", b'"', b"'" * 3, b"\x7f" * 3,
)  # fmt: skip


@dataclass(frozen=True)
class Trick:
    """One way to damage a file.

    Attributes:
        name: of the trick.
        play: makes the damaged content.
        told: whether a file that carries a checksum or an identity has to be refused, or read as if nothing had
            happened; not so where the file was written anew with another content.
    """

    name: str
    play: Callable[[random.Random, bytes, bytes], bytes]
    told: bool = True


def _flip(draw: random.Random, content: bytes, times: int) -> bytes:
    damaged = bytearray(content)
    for _ in range(times if damaged else 0):
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def _span(draw: random.Random, content: bytes) -> tuple[int, int]:
    """Return the ends of a piece, short ones more often than long ones."""
    start = draw.randrange(len(content) + 1)
    return start, min(len(content), start + int(2 ** draw.uniform(0, 12)))


def untouched(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """No damage at all: the whole file has to be read as ever."""
    return content


def one_bit(draw: random.Random, content: bytes, other: bytes) -> bytes:
    return _flip(draw, content, 1)


def some_bits(draw: random.Random, content: bytes, other: bytes) -> bytes:
    return _flip(draw, content, draw.randint(2, 40))


def other_bytes(draw: random.Random, content: bytes, other: bytes) -> bytes:
    start, stop = _span(draw, content)
    return content[:start] + draw.randbytes(stop - start) + content[stop:]


def zeros(draw: random.Random, content: bytes, other: bytes) -> bytes:
    start, stop = _span(draw, content)
    return content[:start] + bytes(stop - start) + content[stop:]


def cut_off(draw: random.Random, content: bytes, other: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def without_start(draw: random.Random, content: bytes, other: bytes) -> bytes:
    return content[draw.randrange(len(content) + 1) :]


def longer(draw: random.Random, content: bytes, other: bytes) -> bytes:
    return content + draw.choice([bytes(100), draw.randbytes(30), content, b"\n", other])


def piece_twice(draw: random.Random, content: bytes, other: bytes) -> bytes:
    start, stop = _span(draw, content)
    return content[:stop] + content[start:]


def piece_missing(draw: random.Random, content: bytes, other: bytes) -> bytes:
    start, stop = _span(draw, content)
    return content[:start] + content[stop:]


def pieces_swapped(draw: random.Random, content: bytes, other: bytes) -> bytes:
    a, b, c = sorted(draw.randrange(len(content) + 1) for _ in range(3))
    return content[:a] + content[b:c] + content[a:b] + content[c:]


def spliced(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """The first part of this file with the last part of another, as two writers of one file leave it."""
    place = draw.randrange(min(len(content), len(other)) + 1)
    return content[:place] + other[place:]


def hostile_bytes(draw: random.Random, content: bytes, other: bytes) -> bytes:
    place = draw.randrange(len(content) + 1)
    return content[:place] + draw.choice(HOSTILE) + content[place + draw.randrange(2) :]


def something_else(draw: random.Random, content: bytes, other: bytes) -> bytes:
    return draw.choice(
        [
            b"",
            bytes(200),
            draw.randbytes(500),
            b"<!DOCTYPE html><html><body>404</body></html>",
            b"PK\x05\x06" + bytes(18),
        ]
    )


BYTES = tuple(
    Trick(play.__name__, play)
    for play in (
        untouched, one_bit, one_bit, one_bit, some_bits, other_bytes, zeros, cut_off, without_start, longer,
        piece_twice, piece_missing, pieces_swapped, spliced, hostile_bytes, something_else,
    )
)  # fmt: skip
"""Damage below the format; a single bit three times as often as the others."""
