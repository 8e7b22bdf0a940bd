"""What can go wrong, said once and clearly.

Every message names the bad value and what is accepted; `remedy` says what to do next. Both are written with the flags
of the command line, which prints them and leaves with `exit_status`. `str(error)` is for callers of the library: the
same sentences with keywords in place of flags (`in_python`), so that no message is written twice.
"""

from __future__ import annotations

import difflib
import inspect
import re
import warnings
from collections.abc import Iterable

SWITCHES = (
    "attach", "exact", "features", "force", "missing-indicator", "mps", "recipe", "records", "replay", "resume",
    "retry-failed", "sampled", "structural-features", "tables",
)  # fmt: skip
"""Flags without a value; `no-` in front turns one off."""
TREATMENTS = (
    "direction", "duplicates", "edge-weights", "isolated", "missing", "missing-indicator", "self-loops",
    "unknown-edges", "zero-features",
)  # fmt: skip
"""Flags that in Python are keys of `treatment`."""
_KEYWORDS = {"recipe": "use_recipe"}
# A flag and what belongs to it. The name of a column may hold anything, spaces and equals signs included.
_FLAG = rf"""(?<![\w-])--(?:
    column[ ]'?.+?=\w+(?![\w=])'?
  | set[ ]\w+=[\w.+-]*\w
  | (?:no-)?(?:{"|".join(SWITCHES)})(?![\w-])
  | [a-z][a-z-]*[a-z](?:[ ](?:'[^']*'|[\w./:+-]*\w))?
)"""
_FLAGS = re.compile(_FLAG, re.VERBOSE)
_CALL = re.compile(rf"fossil[ ](embed|evaluate)[ ](\w+)(?:[ ]{_FLAG})* | {_FLAG}(?:[ ]{_FLAG})*", re.VERBOSE)


class FossilError(Exception):
    """Base of everything this package raises on purpose.

    >>> error = FossilError("There is a run in out.", remedy="Go on with --resume, or choose another --out.")
    >>> error.remedy
    'Go on with --resume, or choose another --out.'
    >>> str(error)
    'There is a run in out. Go on with resume=True, or choose another out.'
    """

    exit_status = 2

    def __init__(self, what: str, *, remedy: str = "") -> None:
        super().__init__(f"{what} {remedy}".strip())
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return in_python(self.args[0])


class GraphError(FossilError, ValueError):
    """The graph, or a file it is read from, cannot be used."""


class UnknownNodeError(GraphError, KeyError):
    """There is no node of this id; a `KeyError` too, as any mapping raises."""


class DataError(FossilError, OSError):
    """A named data set cannot be found, fetched or trusted."""


class SettingError(FossilError, ValueError):
    """A setting has an unknown name or an impossible value."""


class TransportError(FossilError, ValueError):
    """A transport problem is malformed."""


class EvaluationError(FossilError, ValueError):
    """A score cannot be computed under the protocol asked for."""


class RunError(FossilError, RuntimeError):
    """A run folder or checkpoint cannot be written, read or continued."""


class FossilWarning(UserWarning):
    """Something worth reading that does not stop the work; `str` translates it as it does an error."""

    def __str__(self) -> str:
        return in_python(str(self.args[0]))


def in_python(message: str) -> str:
    """Return a message with Python's keywords in place of flags.

    A flag that takes a value is followed by it, or by no word at all: "choose another --out." names the keyword.

    >>> in_python("Use --label COLUMN, --column city=drop or --set alpha=0.3.")
    "Use label=COLUMN, roles={'city': 'drop'} or settings={'alpha': 0.3}."
    >>> in_python("Make one with: fossil embed INPUT --out DIR")
    'Make one with: fossil.embed(INPUT, out=DIR)'
    """

    def translate(found: re.Match[str]) -> str:
        keywords = [_keyword(flag) for flag in _FLAGS.findall(found[0])]
        if found[1]:
            return f"fossil.{found[1]}({', '.join([found[2], *keywords])})"
        return ", ".join(keywords)

    return _CALL.sub(translate, message)


def _keyword(flag: str) -> str:
    """Return one flag, with its value if it has one, as an argument of a call."""
    name, _, value = flag.removeprefix("--").partition(" ")
    value = value.strip("'")
    if name in ("column", "set"):
        key, _, choice = value.rpartition("=")
        return f"{'roles' if name == 'column' else 'settings'}={{{key!r}: {_literal(choice)}}}"
    plain = name.removeprefix("no-")
    keyword = _KEYWORDS.get(plain, plain.replace("-", "_"))
    spelt = str(plain == name) if plain in SWITCHES else value and _literal(value)
    if plain in TREATMENTS and spelt:
        return f"treatment={{{keyword!r}: {spelt}}}"
    return f"{keyword}={spelt}" if spelt else keyword


def _literal(value: str) -> str:
    """Return a value of the command line as Python writes it; a word in capitals stands for one."""
    named = {"null": "None", "true": "True", "false": "False"}
    plain = value in named or re.fullmatch(r"[A-Z][A-Z_]*|[-+]?[\d.]+(e[-+]?\d+)?", value)
    return named.get(value, value) if plain else repr(value)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a sentence that offers the valid name closest to `name`, or lists them all.

    >>> nearest("korra", ["cora", "actor"])
    "Did you mean 'cora'?"
    """
    options = sorted(known)
    close = difflib.get_close_matches(name.lower(), options, n=1, cutoff=0.55)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known names: {', '.join(options)}."


def warn_the_caller(message: str) -> None:
    """Warn at the line outside this package, so that with Python's default filter each such line warns once."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("fossil."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, FossilWarning, stacklevel=level)
