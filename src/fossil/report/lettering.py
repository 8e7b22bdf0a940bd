"""Names in a picture, as they are: matplotlib takes dollar signs for mathematics and draws boxes for unknown signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fossil.printable import printable

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties
    from matplotlib.text import Text

_LONGEST = 40  # signs of a name


def write_literally(text: Text, name: str, further: str = "") -> None:
    """Put a name of the user's into a text of a picture, shortened where it is long, and `further` behind it."""
    text.set_parse_math(False)
    text.set_usetex(False)
    text.set_text(_drawable(shortened(printable(name)) or "(empty)", text.get_fontproperties()) + further)


def shortened(name: str) -> str:
    """Return the beginning and the end of a long name: those that differ at one end alone stay apart.

    >>> shortened("a" * 30 + "b" * 30)
    'aaaaaaaaaaaaaaaaaaaa…bbbbbbbbbbbbbbbbbbb'
    """
    name = name.strip()
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[:half]}…{name[len(name) - half + 1 :]}"


def _drawable(name: str, properties: FontProperties) -> str:
    """Return a name with the signs escaped that none of the fonts has."""
    from matplotlib.font_manager import findfont, get_font

    known: set[int] = set()
    for family in properties.get_family():
        one = properties.copy()
        one.set_family(family)
        known |= get_font(findfont(one)).get_charmap().keys()
    return "".join(sign if ord(sign) in known else sign.encode("unicode_escape").decode() for sign in name)
