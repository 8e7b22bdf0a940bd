"""Write a page for each file of methods, from its docstring, settings and recipes, and the page that compares them all.

    python docs/make_methods.py

`tests/unit/test_docs.py` fails while the pages and the code differ. FOSSIL's own page is written by hand.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from make_settings import code, settings_table, table

from fossil.methods import registry
from fossil.methods.base import Method
from fossil.methods.registry import Recipe, methods, recipes

FOLDER = Path(__file__).parent / "methods"

Kind = type[Method[Any]]

_BY_HAND = {"fossil"}

_INDEX = """# All methods

{count} methods learn from the same graphs, are trained by the same trainer and are scored under the same protocol.
This page is made by `python docs/make_methods.py`; do not edit it by hand. How to add one:
[a guide](../guides/how-do-i-add-a-method.md).

```bash
fossil methods
fossil embed digits --method dgi --epochs 100 --set width=128 --out runs/dgi
fossil evaluate runs/dgi --features
```

{ideas}
"Labels" says whether training reads labels, "recorded" whether a GPU records a training step once and replays it
([why](../decisions/0020-steps-are-recorded.md)).

## What a step costs

Counted from the code with default settings, in leading terms. N nodes, E directed edges, F features, nnz(X) non-zero
ones, D the widest layer; S subgraphs of K nodes, T iterations of a transport solver, B subgraphs in a batch, M sampled
neighbours, P terms of a polynomial, n training nodes. Memory is beside the features. "Encodings" are passes of the
encoder over the whole graph.

{costs}
The contrasts that take N²·D stream over tiles of the similarities: their limit is time, not memory
([decision 3](../decisions/0003-node-loss-is-streamed-exactly.md)).

Published figures on the methods' pages are those of the FOSSIL paper; where a method's own paper has another one, the
note beside it says so. What was measured here is in [accuracy](../paper/accuracy.md).
"""

# Of methods whose page is written by hand.
_IDEAS = {
    "fossil": "Views of a subgraph should be close in the fused Gromov-Wasserstein distance; a node is contrasted with "
    "all others.",
    "fossil_v2": "The same, but a node is contrasted with the nodes of the sampled subgraphs.",
}

# Encodings, time and memory of a step.
_COSTS = {
    "fossil": ("1, and the generator", "nnz(X)·D + E·D + N·D² + S·T·K³ + N²·D", "N·D + E + S·K·(K + D)"),
    "fossil_v2": ("1, and the generator", "nnz(X)·D + E·D + N·D² + S·T·K³ + (S·K)²·D", "N·D + E + S·K·(K + D)"),
    "bgrl": ("4, two with a gradient", "nnz(X)·D + E·D + N·D²", "N·D + E"),
    "bnll": ("4, two with a gradient", "nnz(X)·D + E·D + N·D²", "N·D + E"),
    "dgi": ("2", "nnz(X)·D + E·D + N·D", "N·D + E"),
    "dssl": ("4, one with a gradient", "nnz(X)·D + E·D + N·M·D²", "N·M·D + E"),
    "grace": ("2", "nnz(X)·D + E·D + N·D² + N²·D", "N·D + E"),
    "gsc": ("1, and the generator", "nnz(X)·D + E·D + N·D² + S·K²·(T + K + D)", "N·D + E + S·K·(K + D)"),
    "gsc_cheb": ("1, and the generator", "P·(nnz(X)·D + E·D + N·D²) + S·K²·(T + K + D)", "P·N·D + E + S·K·(K + D)"),
    "muse": ("4, three with a gradient", "nnz(X)·D + E·D + N·D² + N²·D", "N·D + E"),
    "polygcl": ("2, each through two filters", "nnz(X)·D + P·E·D", "P·N·D + E"),
    "subgcon": ("none; B subgraphs", "min(nnz(X), B·K·F)·D + B·K²·D", "N·K² + (N + B·K)·D"),
    "fs_gcn": ("1", "nnz(X)·D + E·D", "N·D + E"),
    "fs_mlp": ("none; n nodes", "nnz(X)·D of the n nodes", "n·D"),
}


def pages() -> dict[Path, str]:
    """Return every generated page by its path."""
    found = {FOLDER / f"{name}.md": method_page(kinds) for name, kinds in by_module().items() if name not in _BY_HAND}
    return {FOLDER / "index.md": index_page(), **found}


def by_module() -> dict[str, list[Kind]]:
    """Return the methods of each file, FOSSIL's first."""
    found: dict[str, list[Kind]] = {"fossil": []}
    for _, kind in sorted(methods().items()):
        found.setdefault(_module(kind), []).append(kind)
    return found


def index_page() -> str:
    """Return the page that compares all methods."""
    ideas, costs = [], []
    for module, kinds in by_module().items():
        for kind in kinds:
            yes_no = ["yes" if fact else "no" for fact in (kind.needs_labels, kind.capturable)]
            link = f"[{kind.title}]({module}.md)"
            ideas.append([code(kind.name), link, _idea(kind, kinds), kind.paper, *yes_no])
            costs.append([code(kind.name), *_COSTS.get(kind.name, ("see its page", "", ""))])
    return _INDEX.format(
        count=str(len(ideas)),
        ideas=table(["name", "method", "idea", "paper", "labels", "recorded"], ideas),
        costs=table(["name", "encodings", "time", "memory"], costs),
    )


def method_page(kinds: Sequence[Kind]) -> str:
    """Return the page of a file with one method or several."""
    summary, _, rest = _docstring(kinds[0]).partition("\n")
    sections = [
        f"# {' and '.join(kind.title for kind in kinds)}",
        _sentence(summary),
        "\n".join(_facts(kind) for kind in kinds),
        "```bash\n" + "\n".join(_commands(kind) for kind in kinds) + "\n```",
        rest.strip(),
        "## Settings",
        _settings(kinds),
        *(_recipes(kind) for kind in kinds),
        f"This page is made from `src/fossil/methods/{_module(kinds[0])}.py` and the recipes beside it by "
        "`python docs/make_methods.py`;\ndo not edit it by hand. [All methods](index.md).",
    ]
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def _facts(kind: Kind) -> str:
    reads = "reads labels" if kind.needs_labels else "sees no labels"
    return (
        f"- {code(kind.name)}: {kind.paper}. Training {reads}; {kind.epochs:,} epochs unless a recipe says otherwise."
    )


def _commands(kind: Kind) -> str:
    return f"fossil embed cora --method {kind.name} --out runs/{kind.name}\nfossil evaluate runs/{kind.name}"


def _settings(kinds: Sequence[Kind]) -> str:
    """Return one table for all methods of a file, and which settings not all of them have."""
    fields = {name: field for kind in kinds for name, field in kind.Config.model_fields.items()}
    others = {
        name: [kind for kind in kinds if name in kind.Config.model_fields]
        for name in fields
        if not all(name in kind.Config.model_fields for kind in kinds)
    }
    only = [f"{code(name)} is a setting of {_names(owners)} alone." for name, owners in others.items()]
    text = "Change one with `--set NAME=VALUE`."
    presets = list(kinds[0].presets)
    if len(presets) > 1:
        text += (
            f" Presets: {', '.join(map(code, presets))}, the first by default; a column says what another one changes."
        )
    return "\n\n".join([" ".join([text, *only]), settings_table(fields, kinds[0].presets)])


def _recipes(kind: Kind) -> str:
    found = recipes(kind.name)
    if not found:
        return ""
    rows = [
        [code(graph), _overrides(recipe), f"{recipe.epochs or kind.epochs:,}", _percent(recipe), recipe.note]
        for graph, recipe in found.items()
    ]
    text = "Used on these graphs unless you say `--no-recipe`; published figures in percent."
    header = ["graph", "settings", "epochs", "published", "note"]
    return "\n\n".join([f"## Recipes of {kind.title}", _provenance(kind), text, table(header, rows)])


def _provenance(kind: Kind) -> str:
    """Return the comment at the top of a recipe file: where its values come from."""
    lines = (Path(registry.__file__).parent / "recipes" / f"{kind.name}.yaml").read_text(encoding="utf-8").splitlines()
    return "\n".join(line.removeprefix("#").strip() for line in takewhile(lambda line: line.startswith("#"), lines))


def _percent(recipe: Recipe) -> str:
    return "" if recipe.published is None else f"{recipe.published:.2f}"


def _overrides(recipe: Recipe) -> str:
    return ", ".join(f"{name} {code(value)}" for name, value in recipe.settings.items()) or "the defaults"


def _idea(kind: Kind, kinds: Sequence[Kind]) -> str:
    """Return one line: the first of the file, or of the class where the file has several methods."""
    if kind.name in _IDEAS:
        return _IDEAS[kind.name]
    text = _docstring(kind) if len(kinds) == 1 else inspect.getdoc(kind) or ""
    return _sentence(text.partition("\n")[0])


def _sentence(summary: str) -> str:
    """Return a line such as `DGI: make every node ...` without the name in front."""
    name, colon, idea = summary.partition(": ")
    return idea[:1].upper() + idea[1:] if colon and name.count(" ") <= 2 else summary


def _names(kinds: Sequence[Kind]) -> str:
    return " and ".join(code(kind.name) for kind in kinds)


def _docstring(kind: Kind) -> str:
    return inspect.getdoc(sys.modules[kind.__module__]) or ""


def _module(kind: Kind) -> str:
    return kind.__module__.rpartition(".")[2]


if __name__ == "__main__":
    for path, content in pages().items():
        path.write_text(content, encoding="utf-8")
