"""Damage to files that hold others: ZIP and NPZ, gzip, safetensors, Parquet and pickles, written anew or forged."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from damage import BYTES, Trick
from wording import TEXTS, disturb

Play = Callable[[random.Random, bytes, bytes], bytes]

# ---------------------------------------------------------------------------------------------- ZIP and NPZ


def members(content: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def packed(parts: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as archive:
        warnings.simplefilter("ignore")  # names given twice
        for name, body in parts:
            archive.writestr(zipfile.ZipInfo(name), body, method)
    return stream.getvalue()


def zip_members(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """Members dropped, given twice, renamed, swapped, taken from another file, or packed in another way."""
    parts, strangers = members(content), members(other)
    place, second = draw.randrange(len(parts)), draw.randrange(len(parts))
    (name, body), change = parts[place], draw.randrange(8)
    if change == 0:
        del parts[place]
    elif change == 1:
        parts.append((name, parts[second][1]))
    elif change == 2:
        parts[place] = (
            draw.choice([*TEXTS[6:12], name.upper(), "../" + name, "/" + name, "a/" + name, name + "/", ""]) or "x",
            body,
        )
    elif change == 3:
        parts[place], parts[second] = (name, parts[second][1]), (parts[second][0], body)
    elif change == 4:
        parts[place] = (name, draw.choice(strangers)[1])
    elif change == 5:
        parts.append(
            (draw.choice(["extra.npy", "x.npy", "y.npy", "readme.txt", "labels.npy"]), draw.choice(strangers)[1])
        )
    elif change == 6:
        parts[place] = (name, draw.choice(BYTES).play(draw, body, draw.choice(strangers)[1]))
    else:
        draw.shuffle(parts)
    return packed(parts, draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))


def zip_headers(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """Fields of a member's header forged: flags (encryption), compression method, sizes, checksum, offset."""
    places = [place for place in range(len(content) - 46) if content[place : place + 4] == b"PK\x01\x02"]
    if not places:
        return content
    damaged, place = bytearray(content), draw.choice(places)
    offset, size = draw.choice([(6, 2), (8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (38, 4), (42, 4)])
    value = draw.choice([0, 1, 8, 9, 12, 14, 99, 0x800, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**31, draw.randrange(2**32)])
    damaged[place + offset : place + offset + size] = (value % 256**size).to_bytes(size, "little")
    return bytes(damaged)


def npy_header(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """The description of one array forged: another dtype or shape than its bytes have."""
    parts = members(content)
    place = draw.randrange(len(parts))
    name, body = parts[place]
    kinds = [
        "<f8",
        "<f4",
        "<i8",
        "<i4",
        "|b1",
        "|O",
        "<U9",
        "<U1000000000",
        "|S0",
        "<M8[ns]",
        "<c16",
        ">f8",
        "|V8",
        "<f2",
        "x",
        "",
        "<i3",
    ]
    shapes = [
        "()", "(0,)", "(1,)", "(3,)", "(10,)", "(1000000000000,)", "(-1,)", "(2, 3)", "(10, 10, 10)",
        "(99999999999999999999,)",
        "(1.5,)", "('a',)", "x", "(" * 300, "(4294967296, 4294967296)", "(0, 1000000000000)",
    ]  # fmt: skip
    order = draw.choice(["False", "True", "7"])
    head = f"{{'descr': {draw.choice(kinds)!r}, 'fortran_order': {order}, 'shape': {draw.choice(shapes)}, }}"
    head = draw.choice(
        [head, head, head, head[:-3], head.replace("descr", "desc"), "[" * 5000, "{}", head + " " * 70_000]
    )
    version, length = draw.choice([(b"\x01\x00", "<H"), (b"\x02\x00", "<I"), (b"\x03\x00", "<I"), (b"\x09\x00", "<H")])
    written = head.encode() + b"\n"
    limit = 256 ** struct.calcsize(length) - 1
    parts[place] = (name, b"\x93NUMPY" + version + struct.pack(length, min(len(written), limit)) + written + body[128:])
    return packed(parts)


def npz_arrays(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """One array replaced by another that is written as it should be."""
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays: dict[str, Any] = {name: stored[name] for name in stored.files}
    name = draw.choice(sorted(arrays))
    arrays[name] = _another(draw, np.array(arrays[name]))
    if arrays[name] is None:
        del arrays[name]
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _another(draw: random.Random, array: Any) -> Any:
    numbers = array.dtype.kind in "iuf"
    extreme = [np.nan, np.inf, 1e38, -1e38] if array.dtype.kind == "f" else [-1, -100, 2**31 - 1, 10**6, 127]
    if array.dtype.kind == "i" and array.dtype.itemsize == 8:
        extreme += [2**62, -(2**63), 10**12]
    options: list[Callable[[], Any]] = [
        lambda: None,
        lambda: array[..., : draw.randrange(array.shape[-1] + 1)] if array.ndim else array.reshape(1),
        lambda: array.reshape(-1)[::-1],
        lambda: array[None],
        lambda: array.T,
        lambda: np.zeros((0, *array.shape[1:]), array.dtype),
        lambda: np.zeros(draw.choice([(0,), (), (1,), (5, 0), (2, 2, 2)]), array.dtype),
        lambda: array.astype(draw.choice(["<f8", "<f2", "|b1", "<i8", "|i1", "<u8", "<U30", "|S30", "<c16"])),
        lambda: array.astype("<U30") if numbers else np.arange(array.size),
        lambda: np.concatenate([array, array]) if array.ndim else array,
        lambda: np.full(array.shape, "2024-01-01", "datetime64[ns]"),
        lambda: np.zeros(array.shape, [("a", "<f4"), ("b", "<i4")]),
        lambda: np.asarray(draw.choice(TEXTS)),
    ]
    if numbers and array.size:
        options += [lambda: _with_one(draw, array, draw.choice(extreme))] * 4
    if array.dtype.kind == "U" and array.ndim:
        options += [lambda: np.resize(array[:1], array.shape), lambda: np.array([draw.choice(TEXTS) for _ in array])]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return draw.choice(options)()
    except (ValueError, TypeError, OverflowError):  # no such array of these
        return np.zeros(3, np.float32)


def _with_one(draw: random.Random, array: Any, value: Any) -> Any:
    changed = array.copy().reshape(-1)
    with np.errstate(all="ignore"):
        changed[draw.randrange(changed.size)] = np.array(value).astype(array.dtype)
    return changed.reshape(array.shape)


ZIP = (*BYTES, Trick("zip_headers", zip_headers, told=False), Trick("zip_members", zip_members, told=False))
NPZ = (
    *ZIP,
    *(Trick("npy_header", npy_header, told=False),) * 3,
    *(Trick("npz_arrays", npz_arrays, told=False),) * 8,
)

# ------------------------------------------------------------------------------------------------------ gzip


def inside_gzip(trick: Trick) -> Trick:
    """Return the trick played on what a gzip file holds, packed again."""
    play: Play = lambda draw, content, other: gzip.compress(  # noqa: E731
        trick.play(draw, gzip.decompress(content), gzip.decompress(other)), mtime=0
    )
    return Trick(f"{trick.name}, packed again", play, told=False)


# ----------------------------------------------------------------------------------------------- safetensors


def safetensors_header(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """Names, dtypes, shapes, places and the description of the tensors changed, with a length that fits."""
    length = int.from_bytes(content[:8], "little")
    head = json.loads(content[8 : 8 + length])
    if "__metadata__" in head and draw.random() < 0.4:
        metadata = head["__metadata__"]
        name = draw.choice(sorted(metadata))
        try:
            metadata[name] = json.dumps(disturb(draw, json.loads(metadata[name])), default=str)
        except ValueError:
            metadata[name] = draw.choice(TEXTS)
    else:
        names = sorted(set(head) - {"__metadata__"})
        first, second = draw.choice(names), draw.choice(names)
        change = draw.randrange(6)
        if change == 0:
            head[first]["dtype"] = draw.choice(["F64", "F32", "F16", "I8", "BOOL", "X", "", 3, "BF16", "U64"])
        elif change == 1:
            head[first]["shape"] = draw.choice(
                [[], [0], [10**12], [-1], [2**40, 2**40], ["a"], [1.5], head[second]["shape"][::-1]]
            )
        elif change == 2:
            head[first]["data_offsets"] = draw.choice(
                [[0, 0], [0, 2**62], [-1, 4], [8, 4], head[second]["data_offsets"]]
            )
        elif change == 3:
            head[draw.choice(["x", "", "method.x", first + "\x00"])] = head.pop(first)
        elif change == 4:
            head[first], head[second] = head[second], head[first]
        else:
            del head[first]
    written = json.dumps(head, default=str).encode()
    return len(written).to_bytes(8, "little") + written + content[8 + length :]


def safetensors_length(draw: random.Random, content: bytes, other: bytes) -> bytes:
    value = draw.choice([0, 1, 7, 2**20, 2**31, 2**62, 2**64 - 1, len(content), len(content) - 8])
    return value.to_bytes(8, "little") + content[8:]


SAFETENSORS = (
    *BYTES,
    *(Trick("safetensors_header", safetensors_header, told=False),) * 6,
    Trick("safetensors_length", safetensors_length, told=False),
)

# --------------------------------------------------------------------------------------------------- Parquet


def parquet_columns(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """One column replaced by another type, renamed, dropped, given twice, or filled with extremes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    place, rows = draw.randrange(table.num_columns), table.num_rows
    name = table.column_names[place]
    makers: list[Callable[[], Any]] = [
        lambda: pa.nulls(rows),
        lambda: pa.array([[1, 2]] * rows),
        lambda: pa.array([{"a": 1}] * rows),
        lambda: pa.array([b"\xff\x00"] * rows),
        lambda: pa.array([draw.choice(TEXTS) for _ in range(rows)]),
        lambda: pa.array([draw.choice([0.0, float("nan"), float("inf"), 1e308]) for _ in range(rows)]),
        lambda: pa.array([draw.choice([-(2**63), 2**63 - 1, 0]) for _ in range(rows)]),
        lambda: pa.array([2**64 - 1] * rows, pa.uint64()),
        lambda: pa.array([2**62] * rows, pa.timestamp("ns")),
        lambda: pa.array([2**62] * rows, pa.timestamp("us")),
        lambda: pa.array([2**30] * rows, pa.date32()),
        lambda: pa.array([1] * rows, pa.duration("s")),
        lambda: pa.array([1] * rows, pa.time64("us")),
        lambda: pa.array([1] * rows).cast(pa.decimal128(38, 10)),
        lambda: pa.array(["a", None] * rows)[:rows].dictionary_encode(),
        lambda: pa.array([True, None] * rows)[:rows],
        lambda: pa.array([[("k", 1)]] * rows, pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([1.5] * rows, pa.float16()) if rows else pa.nulls(0),
    ]
    change = draw.randrange(8)
    if change == 0:
        table = table.drop_columns([name])
    elif change == 1:
        table = table.append_column(name, table.column(place))
    elif change == 2:
        table = table.rename_columns(
            [draw.choice(TEXTS) if i == place else c for i, c in enumerate(table.column_names)]
        )
    elif change == 3:
        table = table.slice(0, draw.randrange(rows + 1))
    else:
        try:
            table = table.set_column(place, name, draw.choice(makers)())
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            table = table.set_column(place, name, pa.nulls(rows))
    stream = io.BytesIO()
    pq.write_table(table, stream, compression=draw.choice(["snappy", "gzip", "zstd", "none", "brotli"]))
    return stream.getvalue()


PARQUET = (*BYTES, *(Trick("parquet_columns", parquet_columns, told=False),) * 8)

# --------------------------------------------------------------------------------------------------- pickles


def pickle_codes(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """Instructions put into a pickle, or in its place: calls, huge numbers and lengths, deep and endless structures."""
    wanted = draw.choice(
        [b"os\nsystem\n", b"builtins\neval\n", b"posix\nsystem\n", b"numpy\nload\n", b"builtins\ngetattr\n"]
    )
    number, length = (
        struct.pack("<I", draw.choice([2**29, 2**31, 2**32 - 1])),
        struct.pack("<Q", draw.choice([2**33, 2**62])),
    )
    codes = [
        b"c" + wanted + b"(S'true'\ntR.", b"\x80\x02c" + wanted + b"(X\x04\x00\x00\x00truetR.", b"Nr" + number + b".",
        b"N" + b"r" + number,
        b"j" + number + b".", b"X" + number + b"a.", b"\x8d" + length + b"a.", b"\x96" + length + b".",
        b"\x8e" + length + b".",
        b"(" * 100_000 + b".", b"]" * 50_000 + b".", b"]\x94h\x00a.", b"Pid\n.", b"\x82\x01.", b"\x84" + number + b".",
        b"I" + b"9" * 5000 + b"\n.",
        b"\x8b" + number + b"\xff.", b"F1e400\n.", b"V\\ud800\n.", b".", b"0.", b"t.", b"s.", b"b.", b"\x80\x09N.",
        b"\x95" + length + b"N.",
        pickle.dumps({1: [2], 2: [1]}, 2), pickle.dumps([[1]], 0), pickle.dumps({"a": "b"}, 4),
        pickle.dumps({1.5: [0], 0: 7}, 2),
        pickle.dumps({0: [10**30], 1: [-5]}, 2), pickle.dumps(None, 1), pickle.dumps({i: [i] for i in range(50)}, 5),
    ]  # fmt: skip
    place = draw.randrange(len(content) + 1)
    code = draw.choice(codes)
    return draw.choice([code, content[:place] + code[:-1] + content[place:], content[:-1] + code])


PICKLE = (*BYTES, *(Trick("pickle_codes", pickle_codes, told=False),) * 8)
