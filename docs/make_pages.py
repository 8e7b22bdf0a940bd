"""Write the pages that are made from the code: one for each file of methods, one that compares them, and the formats.

    python docs/make_pages.py

`tests/unit/test_docs.py` fails while the pages and the code differ.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from fossil.methods import registry
from fossil.methods.registry import Kind, Recipe, methods, recipes
from fossil.readers.registry import readers
from fossil.settings import Settings, bounds, choices, meaning, spelt

DOCS = Path(__file__).parent
FOLDER = DOCS / "methods"

_INDEX = """# All methods

{count} methods learn from the same graphs, are trained by the same trainer and are scored under the same protocol.
This page is made by `python docs/make_pages.py`; do not edit it by hand. How to add one:
[a guide](../guides/how-do-i-add-a-method.md).

```bash
fossil methods
fossil embed digits --method dgi --epochs 100 --set width=128 --out runs/dgi
fossil evaluate runs/dgi --features
```

{ideas}
"Labels" says whether training reads labels, "direction" whether a directed graph stays directed or is made undirected
([why it matters](../decisions/0029-compared-by-one-rule.md)), "captured" whether a GPU captures a training step once
and replays it ([why](../decisions/0020-steps-are-captured.md)).

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

_FORMATS = """# In which formats can a graph come?

Besides the [named graphs](start.md), whatever one of these readers takes. `fossil data formats` prints the same list,
with readers of other packages where some are installed ([how to add one](guides/how-do-i-read-another-format.md)). This
page is made by `python docs/make_pages.py`; do not edit it by hand.

{table}
"Columns" says whether nodes have columns, of which `--label` and `--column` can say what they are.
"""


def pages() -> dict[Path, str]:
    """Return every generated page by its path."""
    found = {FOLDER / f"{name}.md": method_page(kinds) for name, kinds in by_file().items()}
    return {FOLDER / "index.md": index_page(), DOCS / "formats.md": formats_page(), **found}


def by_file() -> dict[str, list[Kind]]:
    """Return the methods of each file or folder, FOSSIL's first."""
    found: dict[str, list[Kind]] = {"fossil": []}
    for _, kind in sorted(methods().items()):
        found.setdefault(_file(kind), []).append(kind)
    return found


def index_page() -> str:
    """Return the page that compares all methods."""
    ideas, costs = [], []
    for file, kinds in by_file().items():
        for kind in kinds:
            labels, captured = ("yes" if fact else "no" for fact in (kind.needs_labels, not kind.data_dependent))
            facts = [labels, "undirected" if kind.undirected else "stays", captured if kind.trained else "–"]
            ideas.append([code(kind.name), f"[{kind.title}]({file}.md)", _idea(kind, kinds), kind.paper, *facts])
            costs.append([code(kind.name), *kind.cost])
    return _INDEX.format(
        count=str(len(ideas)),
        ideas=table(["name", "method", "idea", "paper", "labels", "direction", "captured"], ideas),
        costs=table(["name", "encodings", "time", "memory"], costs),
    )


def formats_page() -> str:
    """Return the page that lists the readers."""
    rows = [
        [code(name), reader.form, ", ".join(map(code, reader.suffixes)), "yes" if reader.has_columns else "no",
         _sentence(inspect.getdoc(reader) or "")]
        for name, reader in sorted(readers().items())
    ]  # fmt: skip
    return _FORMATS.format(table=table(["reader", "takes", "suffixes", "columns", "what is read"], rows))


def method_page(kinds: Sequence[Kind]) -> str:
    """Return the page of a file with one method or several."""
    summary, _, rest = _docstring(kinds[0]).partition("\n")
    package = f"src/{_module(kinds[0]).replace('.', '/')}"
    source = f"{package}/" if (DOCS.parent / package).is_dir() else f"{package}.py"
    sections = [
        f"# {' and '.join(kind.title for kind in kinds)}",
        _sentence(summary),
        "\n".join(_facts(kind) for kind in kinds),
        "```bash\n" + "\n".join(_commands(kind) for kind in kinds) + "\n```",
        rest.strip(),
        "## Settings",
        _settings(kinds),
        *(_recipes(kind) for kind in kinds),
        f"This page is made from `{source}` and the recipes beside it by `python docs/make_pages.py`;\n"
        "do not edit it by hand. [All methods](index.md).",
    ]
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def settings_table(settings: type[Settings], presets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the settings as a Markdown table, with a column for each preset that changes any of them."""
    fields = settings.model_fields
    changed = {preset: values for preset, values in presets.items() if any(name in fields for name in values)}
    header = ["setting", "default", *changed, "meaning", "accepted", "searched", "origin"]
    rows = []
    for name, field in fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        by_preset = [code(values[name]) if name in values else "" for values in changed.values()]
        listed = [] if field.annotation is bool else choices(field)
        accepted = ", ".join([*map(code, listed), *bounds(field)])
        searched = _searched(settings.search_space().get(name, []))
        rows.append([code(name), code(field.default), *by_preset, meaning(settings, name), accepted, searched,
                     extra.get("origin", "")])  # fmt: skip
    return table(header, rows)


def table(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def code(value: object) -> str:
    """Return a value as code."""
    return f"`{spelt(value)}`"


def _searched(values: Sequence[Any]) -> str:
    """Return values to try; a long row of whole numbers by its ends."""
    if len(values) > 9 and all(isinstance(value, int) for value in values):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(spelt, values))


def _facts(kind: Kind) -> str:
    if not kind.trained:
        return f"- {code(kind.name)}: {kind.paper}. Nothing is trained, and no labels are read."
    reads = "reads labels" if kind.needs_labels else "sees no labels"
    length = f"{kind.epochs_in_words()} epochs unless a recipe says otherwise"
    return f"- {code(kind.name)}: {kind.paper}. Training {reads}; {length}."


def _commands(kind: Kind) -> str:
    return f"fossil embed cora --method {kind.name} --out runs/{kind.name}\nfossil evaluate runs/{kind.name}"


def _settings(kinds: Sequence[Kind]) -> str:
    """Return one table for all methods of a file, and which settings not all of them have."""
    widest = max((kind.Config for kind in kinds), key=lambda config: len(config.model_fields))
    others = {
        name: [kind for kind in kinds if name in kind.Config.model_fields]
        for name in widest.model_fields
        if not all(name in kind.Config.model_fields for kind in kinds)
    }
    only = [f"{code(name)} is a setting of {_names(owners)} alone." for name, owners in others.items()]
    text = "Change one with `--set NAME=VALUE` ([how](../guides/which-settings-are-there.md))."
    presets = list(kinds[0].presets)
    if len(presets) > 1:
        text += (
            f" Presets: {', '.join(map(code, presets))}, the first by default; a column says what another one changes."
        )
    return "\n\n".join([" ".join([text, *only]), settings_table(widest, kinds[0].presets)])


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
    text = _docstring(kind) if len(kinds) == 1 else inspect.getdoc(kind) or ""
    return _sentence(text.partition("\n")[0])


def _sentence(summary: str) -> str:
    """Return a line such as `DGI: make every node ...` without the name in front."""
    name, colon, idea = summary.partition(": ")
    return idea[:1].upper() + idea[1:] if colon and name.count(" ") <= 2 else summary


def _names(kinds: Sequence[Kind]) -> str:
    return " and ".join(code(kind.name) for kind in kinds)


def _docstring(kind: Kind) -> str:
    return inspect.getdoc(importlib.import_module(_module(kind))) or ""


def _module(kind: Kind) -> str:
    """Return the module of a method, or the package where it is one of several modules: `fossil.methods.X`."""
    return ".".join(kind.__module__.split(".")[:3])


def _file(kind: Kind) -> str:
    return _module(kind).rpartition(".")[2]


if __name__ == "__main__":
    for path, content in pages().items():
        path.write_text(content, encoding="utf-8")
