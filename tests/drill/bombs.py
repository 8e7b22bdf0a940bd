"""Small files that become large: 3 GiB of a pattern in a megabyte or three."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from containers import packed

_BLOCK = 2**26  # bytes
BOMB = 48 * _BLOCK  # 3 GiB


def _blocks(pattern: bytes) -> tuple[bytes, int]:
    """Return a block of a repeated pattern as a piece of a deflate stream that can be repeated, and its size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    plain = pattern * (_BLOCK // len(pattern))
    return packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH), len(plain)


_LAST = b"\x03\x00"  # an empty last block


def gzip_bomb(head: bytes, pattern: bytes) -> bytes:
    """Return a gzip file of a head and 3 GiB of a pattern."""
    piece, size = _blocks(pattern)
    times = BOMB // size
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    start = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum, plain = zlib.crc32(head), pattern * (size // len(pattern))
    for _ in range(times):
        checksum = zlib.crc32(plain, checksum)
    end = struct.pack("<II", checksum, (len(head) + times * size) % 2**32)
    return b"\x1f\x8b\x08\x00" + bytes(4) + b"\x00\xff" + start + piece * times + _LAST + end


def zip_bomb(parts: dict[str, bytes], name: str, head: bytes) -> bytes:
    """Return a ZIP file of some parts, and a last one of a head and 3 GiB of zeros."""
    inner = gzip_bomb(head, bytes(1024))
    stream, checksum = inner[10:-8], struct.unpack("<I", inner[-8:-4])[0]
    content = packed(list(parts.items()))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        start, count = archive.start_dir, len(archive.filelist)
    directory = content[start : content.rindex(b"PK\x05\x06")]
    named = name.encode()
    sizes = struct.pack("<III", checksum, len(stream), BOMB + len(head))
    local = (
        b"PK\x03\x04"
        + struct.pack("<HHHHH", 20, 0, 8, 0, 33)
        + sizes
        + struct.pack("<HH", len(named), 0)
        + named
        + stream
    )
    central = b"PK\x01\x02" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 33) + sizes
    central += struct.pack("<HHHHHII", len(named), 0, 0, 0, 0, 0, start) + named
    listed = directory + central
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count + 1, count + 1, len(listed), start + len(local), 0)
    return content[:start] + local + listed + end


def npy(shape: str, kind: str = "|u1") -> bytes:
    """Return the head of an array of such a shape and type, without its content."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head
