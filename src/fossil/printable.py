"""Text of others, made safe to show: names and ids from a file may hold what a terminal obeys instead of showing."""

from __future__ import annotations

import codecs
import unicodedata

# Controls, such as escape sequences; formats, such as marks that turn the direction of writing round; halves of
# characters, which no encoding has; and what ends a line or a paragraph.
_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS = "\u200c\u200d"  # formats that Persian, Indic scripts and emoji are spelt with

DEGRADE = "fossil.degrade"
"""Name of what a stream does with a sign that its encoding has not (`errors=`): another spelling, or an escape."""
_SPELLINGS = {
    "α": "alpha", "β": "beta", "γ": "gamma", "θ": "theta", "λ": "lambda", "σ": "sigma", "τ": "tau", "φ": "phi",
    "ψ": "psi", "₀": "0", "₁": "1", "₂": "2", "₃": "3", "₄": "4", "²": "^2", "³": "^3", "ᵀ": "^T", "½": "1/2",
    "±": "+/-", "×": "x", "·": ".", "−": "-", "–": "-", "≤": "<=", "≥": ">=", "≠": "!=", "→": "->", "←": "<-",
    "…": "...", "†": "*", "•": "-", "‘": "'", "’": "'", "“": '"', "”": '"',
}  # fmt: skip


def printable(text: str) -> str:
    r"""Return a text with every sign escaped that would act on a terminal instead of being shown by it.

    >>> print(printable("Zoë \x1b[2J\r\n"))
    Zoë \x1b[2J\r\n
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(sign) if _acts(sign) else sign for sign in text)


def shortened(name: str, longest: int = 40) -> str:
    """Return the beginning and the end of a long name: those that differ at one end alone stay apart.

    >>> shortened("a" * 30 + "b" * 30)
    'aaaaaaaaaaaaaaaaaaaa…bbbbbbbbbbbbbbbbbbb'
    """
    name = name.strip()
    half = longest // 2
    return name if len(name) <= longest else f"{name[:half]}…{name[len(name) - half + 1 :]}"


def _acts(sign: str) -> bool:
    return unicodedata.category(sign) in _UNSAFE and sign not in _JOINERS


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def _degrade(error: UnicodeError) -> tuple[str, int]:
    r"""Spell what an encoding has not.

    >>> "Łukasz: λ ± 1".encode("ascii", DEGRADE)
    b'\\u0141ukasz: lambda +/- 1'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_SPELLINGS.get(sign) or _escaped(sign) for sign in signs), error.end


codecs.register_error(DEGRADE, _degrade)
