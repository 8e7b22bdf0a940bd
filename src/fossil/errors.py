"""What can go wrong, said once and clearly.

Every message names the bad value and what is accepted; `remedy` says what to do next. The command line
prints both and leaves with `exit_status`; a library user reads them in one sentence after another.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Iterable


class FossilError(Exception):
    """Base of everything this package raises on purpose."""

    exit_status = 2

    def __init__(self, what: str, *, remedy: str = "") -> None:
        super().__init__(f"{what} {remedy}".strip())
        self.what = what
        self.remedy = remedy


class GraphError(FossilError, ValueError):
    """The graph, or a file it is read from, cannot be used."""


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
    """Something worth reading that does not stop the work."""


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
