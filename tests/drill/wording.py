"""Damage to text, JSON and YAML: lines, cells, numbers and trees with something else in their place."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import yaml
from damage import Trick

NUMBERS = (
    "1e400", "-1e400", "nan", "inf", "-inf", "1e9", "1000000000", "9223372036854775807", "9223372036854775808",
    "-9223372036854775809", "1" * 400, "0x1F", "1_000", "1,5", "٣", "-0.0", "5e-324", "1e308", "3.4e39", "--1", "1e",
    ".", "+",
    "2147483648", "99999999999999999999", "00012", "1e-400", "½", "²",
)  # fmt: skip
TEXTS = (
    "", " ", "\x00", "\x1b[31mred\x1b[0m", "a" * 70_000, "\ud7ff\ue000", "\u202eevil", "=cmd|' /C calc'!A0", "NULL",
    "None",
    "true", "../../../etc/passwd", "é" * 300, "$\\badmacro$", "_hidden", "[[[[", "{{{{", "\r\n", "\t", ",", ";", '"',
    "'",
    "2024-02-30", "0000-00-00", "9999-12-31T23:59:60", "12:00", "1;2", "\ufeff", "%d%s%n", "<b>", "&amp;", "&xxe;",
    "!!python/object:x",
    "\u0000\u0001", "𝔘𝔫𝔦", "a\u0301", "-", "--", "#", "//", "\\", "id", "label", "source",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 1.5, -0.0, 1e308, float("nan"), float("inf"), 10**9, 10**18, 2**63, -(2**70),
    10**400, "", "a",
    "a" * 50_000, "\x00", "\x1b[2J", "nan", "1e9", [], {}, [[]], [None], [1, "a"], {"": 0}, {"a": {"b": []}},
    [0] * 3000, "0" * 5000,
    "numeric", "categorical", "drop", "id", "label", "../../x", "💥", ["a"] * 3, {"name": "x"}, [[1, 2], [3]],
)  # fmt: skip


def absurd_number(draw: random.Random, content: bytes, other: bytes) -> bytes:
    places = list(re.finditer(rb"-?\d+(?:\.\d+)?", content))
    if not places:
        return content
    place = draw.choice(places)
    return content[: place.start()] + draw.choice(NUMBERS).encode() + content[place.end() :]


def hostile_cell(draw: random.Random, content: bytes, other: bytes) -> bytes:
    places = list(re.finditer(rb"[^,;\t\n\r<>\"]+", content))
    if not places:
        return content
    place = draw.choice(places)
    return content[: place.start()] + draw.choice(TEXTS).encode() + content[place.end() :]


def hostile_heading(draw: random.Random, content: bytes, other: bytes) -> bytes:
    first, mark, rest = content.partition(b"\n")
    return hostile_cell(draw, first, other) + mark + rest


def _lines(change: Callable[[random.Random, list[bytes]], object]) -> Callable[[random.Random, bytes, bytes], bytes]:
    def play(draw: random.Random, content: bytes, other: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        if lines:
            change(draw, lines)
        return b"".join(lines)

    return play


def _one_twice(draw: random.Random, lines: list[bytes]) -> None:
    lines.insert(draw.randrange(len(lines)), draw.choice(lines))


def _one_missing(draw: random.Random, lines: list[bytes]) -> None:
    del lines[draw.randrange(len(lines))]


def _two_swapped(draw: random.Random, lines: list[bytes]) -> None:
    a, b = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]


def _most_missing(draw: random.Random, lines: list[bytes]) -> None:
    del lines[draw.randrange(len(lines)) :]


def _one_emptied(draw: random.Random, lines: list[bytes]) -> None:
    lines[draw.randrange(len(lines))] = b"\n"


def _cells_added(draw: random.Random, lines: list[bytes]) -> None:
    place = draw.randrange(len(lines))
    lines[place] = lines[place].rstrip(b"\r\n") + draw.choice([b",", b",1,2", b"\t9", b" x"]) + b"\n"


def another_encoding(draw: random.Random, content: bytes, other: bytes) -> bytes:
    encoding = draw.choice(["utf-16", "utf-32", "utf-8-sig", "latin-1", "cp1252", "utf-7", "utf-16-le"])
    return content.decode("utf-8", "replace").encode(encoding, "replace")


def another_punctuation(draw: random.Random, content: bytes, other: bytes) -> bytes:
    old, new = draw.choice(
        [(b",", b";"), (b",", b"\t"), (b"\n", b"\r"), (b"\n", b"\r\n"), (b'"', b"'"), (b"\t", b","), (b".", b",")]
    )
    return content.replace(old, new, draw.choice([1, -1]))


def deep(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """Brackets without end, in place of everything or of one piece."""
    times = draw.choice([50, 1000, 20_000])
    nested = draw.choice(
        [b"[" * times + b"]" * times, b'{"a":' * times + b"1" + b"}" * times, b"- " * times, b"(" * times]
    )
    place = draw.randrange(len(content) + 1)
    return draw.choice([nested, content[:place] + nested + content[place:]])


TEXT = (
    Trick("absurd_number", absurd_number, told=False),
    Trick("absurd_number", absurd_number, told=False),
    Trick("hostile_cell", hostile_cell, told=False),
    Trick("hostile_cell", hostile_cell, told=False),
    Trick("hostile_heading", hostile_heading, told=False),
    Trick("line twice", _lines(_one_twice), told=False),
    Trick("line missing", _lines(_one_missing), told=False),
    Trick("lines swapped", _lines(_two_swapped), told=False),
    Trick("lines missing", _lines(_most_missing), told=False),
    Trick("line emptied", _lines(_one_emptied), told=False),
    Trick("cells added", _lines(_cells_added), told=False),
    Trick("another_encoding", another_encoding, told=False),
    Trick("another_punctuation", another_punctuation, told=False),
)
"""Damage to a table of text."""


def disturb(draw: random.Random, tree: Any) -> Any:
    """Return a tree of mappings, lists and scalars in which one place holds something else."""
    places: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in children:
            places.append((node, key))
            visit(child)

    root = [tree]
    visit(root)
    parent, key = draw.choice(places[1:] or places) if draw.random() < 0.95 else places[0]
    change = draw.randrange(6)
    if change <= 2:
        parent[key] = draw.choice(VALUES)
    elif change == 3:
        del parent[key]
    elif change == 4:
        parent[key] = draw.choice([[parent[key]], {"a": parent[key]}, str(parent[key]), [parent[key]] * 3])
    elif isinstance(parent, dict):
        parent[draw.choice(["", "x", None, 3, "epoch ", "__class__", "ünï"])] = parent.pop(key)
    else:
        parent.append(draw.choice(VALUES))
    return root[0] if root else None


def json_tree(draw: random.Random, content: bytes, other: bytes) -> bytes:
    tree = json.loads(content)
    for _ in range(draw.randint(1, 2)):
        tree = disturb(draw, tree)
    return json.dumps(tree, default=str).encode()


def yaml_tree(draw: random.Random, content: bytes, other: bytes) -> bytes:
    tree = yaml.safe_load(content)
    for _ in range(draw.randint(1, 2)):
        tree = disturb(draw, tree)
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True).encode()


def yaml_words(draw: random.Random, content: bytes, other: bytes) -> bytes:
    """A scalar in the place of one that means something of its own to YAML."""
    words = [
        "!!int ''", "!!float x", "!!binary x", "!!timestamp x", "!!python/object/apply:os.system ['true']", "&a [*a]",
        "*nowhere",
        "!!set {a, a}", "!!omap x", "{[a]: b}", "? [a]\n: b", "<<: [1]", "2024-99-99", "0o9", "0x", "1:99:99",
        "!<x> y", "%YAML 9.9",
        "\t", "- -", "'", '"\\x"', "|", ">", "@a", "`", "1e5", "yes", "~", "{<<: {a: 1}}", "!!null x", "!!bool maybe",
        "=", "!!merge x",
    ]  # fmt: skip
    lines = content.decode("utf-8", "replace").splitlines()
    if not lines:
        return draw.choice(words).encode()
    place = draw.randrange(len(lines))
    head, colon, _ = lines[place].partition(":")
    lines[place] = f"{head}{colon} {draw.choice(words)}"
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def json_line(draw: random.Random, content: bytes, other: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    place = draw.randrange(len(lines))
    lines[place] = json_tree(draw, lines[place], other) + b"\n"
    return b"".join(lines)


JSON = (
    Trick("json_tree", json_tree, told=False),
    Trick("json_tree", json_tree, told=False),
    Trick("absurd_number", absurd_number, told=False),
    Trick("deep", deep, told=False),
)
YAML = (
    Trick("yaml_tree", yaml_tree, told=False),
    Trick("yaml_tree", yaml_tree, told=False),
    Trick("yaml_words", yaml_words, told=False),
    Trick("absurd_number", absurd_number, told=False),
    Trick("deep", deep, told=False),
)
JSON_LINES = (
    Trick("json_line", json_line, told=False),
    Trick("line twice", _lines(_one_twice)),
    Trick("line missing", _lines(_one_missing)),
    Trick("lines swapped", _lines(_two_swapped)),
    Trick("line emptied", _lines(_one_emptied)),
    Trick("deep", deep, told=False),
)
