"""The one place where whatever goes wrong inside a file becomes one message with the file's name.

A damaged file can make the libraries that read it raise anything at all. A reader says what it can say better; what it
does not foresee ends here, with its cause kept (`raise ... from`), so that a fault of this package is not hidden.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fossil.errors import FossilError, GraphError

_LONGEST_REASON = 200
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@contextmanager
def reading(
    what: object,
    kind: type[FossilError] = GraphError,
    remedy: str = "Write or copy it again; if it is whole, report this with the file.",
) -> Iterator[None]:
    """Turn what reading `what` raises into one error of this package, with its cause.

    Args:
        what: the file or folder that is read.
        kind: of the error.
        remedy: where the content cannot be read.

    >>> with reading("nodes.csv"):
    ...     raise IndexError("list index out of range")
    Traceback (most recent call last):
    fossil.errors.GraphError: nodes.csv cannot be read (IndexError: list index out of range). Write or copy it again; if it is whole, report this with the file.
    """  # noqa: E501
    try:
        yield
    except FossilError:
        raise
    except MemoryError as error:
        raise kind(
            f"{what} does not fit in memory.", remedy="Close other programs, or use a machine with more memory."
        ) from error
    except RecursionError as error:
        raise kind(f"{what} is nested too deeply to be read.", remedy=remedy) from error
    except OSError as error:
        raise kind(
            f"{what} cannot be read ({error.strerror or reason(error)}).", remedy="Check the path and its permissions."
        ) from error
    except Exception as error:  # see the head of this file
        raise kind(f"{what} cannot be read ({reason(error)}).", remedy=remedy) from error


def reason(error: BaseException) -> str:
    """Return in a line what an error says, with its kind where that is all there is to go by.

    >>> reason(KeyError("labels")), reason(ValueError("bad shape"))
    ("KeyError: 'labels'", 'ValueError: bad shape')
    """
    text = " ".join(str(error).split())
    text = text if len(text) <= _LONGEST_REASON else text[: _LONGEST_REASON - 3] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def exists(path: Path) -> bool:
    """Tell whether there is something under this path; what cannot be asked for, such as too long a name, is not there.

    >>> exists(Path("/")), exists(Path("n" * 5000))
    (True, False)
    """
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_regular(path: Path, kind: type[FossilError] = GraphError) -> None:
    """Refuse what is no plain file: a pipe or a device would be waited for, perhaps for ever.

    Raises:
        GraphError: or another kind; it is missing, or is something else than a file.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError as error:
        raise kind(f"{path} does not exist.", remedy="Check the spelling of the path.") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise kind(f"{path} cannot be read ({why}).", remedy="Check the path and its permissions.") from error
    if not stat.S_ISREG(mode):
        found = next((name for test, name in _KINDS if test(mode)), "something else")
        raise kind(f"{path} is {found}, not a file.", remedy="Give a plain file.")
