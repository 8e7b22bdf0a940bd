"""Write the table of FOSSIL's settings from their declarations.

    python docs/make_settings.py

`tests/unit/test_docs.py` fails while the page and the declarations differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from fossil.methods.fossil_settings import PRESETS, FossilSettings

PAGE = Path(__file__).parent / "guides" / "which-settings-are-there.md"

_INTRODUCTION = """# Which settings are there?

Every setting of `fossil` and `fossil_v2`. The table is made from the declarations in
`src/fossil/methods/fossil_settings.py` by `python docs/make_settings.py`; do not edit it by hand.

Change a setting with `--set NAME=VALUE` (as often as needed) or `settings={"NAME": VALUE}` in Python. An unknown name
or an impossible value is an error that says what is accepted. `null` stands for None.

```bash
fossil embed digits --out runs/settings --set alpha=0.3 --set width=64 --epochs 100
```

What applies, the later over the earlier: the preset, the recipe of a named graph, what you say. `config.yaml` in the
run folder has every value that was used. The column `paper` is the value of the preset `paper` where it differs from
the default. `fossil_v2` has `node_contrast` = `subgraph_nodes`.

"Searched" are the values that the authors' hyper-parameter search tried; those of `gcnii_layers` are our own.

"""

_COLUMNS = ("setting", "default", "paper", "meaning", "accepted", "searched", "origin")


def page() -> str:
    """Return the whole page."""
    lines = [_row(_COLUMNS), _row(["---"] * len(_COLUMNS))]
    lines += [_row(_describe(name, field)) for name, field in FossilSettings.model_fields.items()]
    return _INTRODUCTION + "\n".join(lines) + "\n"


def _describe(name: str, field: FieldInfo) -> list[str]:
    extra: dict[str, Any] = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    preset = PRESETS["paper"]
    return [
        f"`{name}`",
        _value(field.default),
        _value(preset[name]) if name in preset else "",
        (field.description or "").replace("|", "\\|"),
        _accepted(field),
        _values(extra.get("search", [])),
        extra.get("origin", ""),
    ]


def _accepted(field: FieldInfo) -> str:
    """Return the choices of a setting, or its bounds."""
    if get_origin(field.annotation) is Literal:
        return ", ".join(_value(choice) for choice in get_args(field.annotation))
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [
        f"{sign} {getattr(bound, name):g}"
        for bound in field.metadata
        for name, sign in signs.items()
        if getattr(bound, name, None) is not None
    ]
    return ", ".join(bounds)


def _values(values: list[Any]) -> str:
    """Return values to try; a long row of whole numbers by its ends."""
    if len(values) > 9 and all(isinstance(value, int) for value in values):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(f"{value:g}" for value in values)


def _value(value: object) -> str:
    if value is None or isinstance(value, bool):
        return f"`{ {None: 'null', True: 'true', False: 'false'}[value] }`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _row(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
