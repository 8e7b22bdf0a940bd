"""YAML within bounds: a file of a few lines must not become billions of values, nor run anything."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from fossil.errors import SettingError

_LARGEST_FILE = 2**20  # bytes
_DEEPEST = 20  # levels of nesting, of which a study has five
_MOST_NODES = 200_000  # keys and values
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """YAML within bounds: aliases can stand for billions of values, nesting can have no end, keys can be twice."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.depth, self.nodes = 0, 0
        self.sizes: dict[int, int] = {}  # nodes below a node that is complete, itself included
        self.checked: set[int] = set()  # mappings whose keys are known to differ

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Count nodes as they will be when every alias is written out."""
        line, is_alias, before = self._line(), self.check_event(yaml.AliasEvent), self.nodes
        self.depth += 1
        if self.depth > _DEEPEST:
            raise yaml.YAMLError(f"more than {_DEEPEST} levels in line {line}")
        node: Any = super().compose_node(parent, index)
        self.depth -= 1
        if is_alias and id(node) not in self.sizes:
            raise yaml.YAMLError(f"an alias of what it is part of in line {line}")
        self.nodes += self.sizes[id(node)] if is_alias else 1
        self.sizes.setdefault(id(node), self.nodes - before)
        if self.nodes > _MOST_NODES:
            raise yaml.YAMLError(f"more than {_MOST_NODES:,} values by line {line}, every alias written out")
        return node

    def _line(self) -> int:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        return int(event.start_mark.line) + 1

    def flatten_mapping(self, node: Any) -> None:
        """Refuse a key that is there twice, of which YAML would take the last without a word.

        That is before `<<` brings in the keys of another mapping, which those that are written here stand above.
        """
        if id(node) not in self.checked:
            self.checked.add(id(node))
            keys = ["<<" if key.tag == _MERGE else self.construct_object(key, deep=True) for key, _ in node.value]
            counts = Counter(key for key in keys if isinstance(key, Hashable))  # YAML itself refuses the others
            twice = [str(key) for key, count in counts.items() if count > 1]
            if twice:
                line = node.start_mark.line + 1
                raise yaml.YAMLError(f"the key {twice[0]!r} is there twice, in line {line} or below")
        super().flatten_mapping(node)


# YAML 1.1 reads 1e-3 as a text; people write it as a number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def read_yaml(file: Path) -> Any:
    """Return what a file holds: plain mappings, lists and values.

    Raises:
        SettingError: it cannot be read, is no YAML, or is out of bounds.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise SettingError(
            f"{file} cannot be read: {error.strerror or error}.",
            remedy="Name a study file, such as studies/table2.yaml.",
        ) from error
    if len(content) > _LARGEST_FILE:
        raise SettingError(f"{file} has {len(content):,} bytes.", remedy="A study file has a megabyte at most.")
    try:
        return yaml.load(content.decode("utf-8"), _Loader)  # a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        told = " ".join(str(error).split())
        raise SettingError(f"{file} is no YAML that can be read: {told}.", remedy="Correct that line.") from error
