"""Names in a picture, as they are: matplotlib takes dollar signs for mathematics and draws boxes for unknown signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fossil.printable import printable, shortened

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties
    from matplotlib.text import Text


TITLE = 80
"""Signs of a title that fit above a picture."""


def write_literally(text: Text, name: str, further: str = "", *, longest: int = 40) -> None:
    """Put a name of the user's into a text of a picture, shortened where it is long, and `further` behind it."""
    text.set_parse_math(False)
    text.set_usetex(False)
    text.set_text(_drawable(shortened(printable(name), longest) or "(empty)", text.get_fontproperties()) + further)


def _drawable(name: str, properties: FontProperties) -> str:
    """Return a name with the signs escaped that none of the fonts has."""
    from matplotlib.font_manager import findfont, get_font

    known: set[int] = set()
    for family in properties.get_family():
        one = properties.copy()
        one.set_family(family)
        known |= get_font(findfont(one)).get_charmap().keys()
    return "".join(sign if ord(sign) in known else sign.encode("unicode_escape").decode() for sign in name)
