"""Write the table of FOSSIL's settings from their declarations.

    python docs/make_settings.py

`tests/unit/test_docs.py` fails while the page and the declarations differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from fossil.cli.methods import bounds, choices, spelt
from fossil.methods.fossil_settings import PRESETS, FossilSettings

PAGE = Path(__file__).parent / "guides" / "which-settings-are-there.md"

_INTRODUCTION = """# Which settings are there?

Every setting of `fossil` and `fossil_v2`. The table is made from the declarations in
`src/fossil/methods/fossil_settings.py` by `python docs/make_settings.py`; do not edit it by hand. The settings of the
other methods are on [their pages](../methods/index.md), and `fossil methods --method NAME` prints those of any method.

Change a setting with `--set NAME=VALUE` (as often as needed) or `settings={"NAME": VALUE}` in Python. An unknown name
or an impossible value is an error that says what is accepted. `null` stands for None.

```bash
fossil embed digits --out runs/settings --set alpha=0.3 --set width=64 --epochs 100
fossil methods --method fossil
```

What applies, the later over the earlier: the preset, the recipe of a named graph, what you say. `config.yaml` in the
run folder has every value that was used. The column `paper` is the value of the preset `paper` where it differs from
the default. `fossil_v2` has `node_contrast` = `subgraph_nodes`.

"Searched" are the values that the authors' hyper-parameter search tried; those of `gcnii_layers` are our own.

"""


def page() -> str:
    """Return the whole page."""
    return _INTRODUCTION + settings_table(FossilSettings.model_fields, PRESETS)


def settings_table(fields: Mapping[str, FieldInfo], presets: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the settings as a Markdown table, with a column for each preset that changes any of them."""
    changed = {preset: values for preset, values in presets.items() if any(name in fields for name in values)}
    header = ["setting", "default", *changed, "meaning", "accepted", "searched", "origin"]
    rows = []
    for name, field in fields.items():
        extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        by_preset = [code(values[name]) if name in values else "" for values in changed.values()]
        listed = [] if field.annotation is bool else choices(field)
        accepted = ", ".join([*map(code, listed), *bounds(field)])
        searched = _searched(extra.get("search", []))
        rows.append([code(name), code(field.default), *by_preset, field.description, accepted, searched,
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


def _searched(values: Any) -> str:
    """Return values to try; a long row of whole numbers by its ends."""
    if len(values) > 9 and all(isinstance(value, int) for value in values):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(spelt, values))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
