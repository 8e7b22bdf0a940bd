"""What a page may ask: the words after the question mark, each looked at before it is used."""

from __future__ import annotations

import re
from http import HTTPStatus
from urllib.parse import parse_qsl

_MOST_FIELDS = 8
_NUMBER = re.compile(r"[0-9]{1,12}")


class RefusedError(Exception):
    """A request that is not answered.

    Args:
        what: one sentence for the one who asked.
        status: of the answer.
    """

    def __init__(self, what: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(what)
        self.what, self.status = what, status


class Query:
    """The fields of a request.

    Args:
        text: what stands after the question mark.

    Raises:
        RefusedError: it is not of the form NAME=VALUE&NAME=VALUE, or a name occurs twice.

    >>> query = Query("run=0&text=Zo%C3%AB")
    >>> query.number("run", below=2), query.text("text", longest=10)
    (0, 'Zoë')
    """

    def __init__(self, text: str) -> None:
        try:
            pairs = parse_qsl(
                text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=_MOST_FIELDS
            )
        except ValueError as error:
            raise RefusedError("The query is not of the form NAME=VALUE&NAME=VALUE in UTF-8.") from error
        self._values = dict(pairs)
        if len(self._values) < len(pairs):
            raise RefusedError("A name occurs twice in the query.")

    def text(self, name: str, longest: int, default: str | None = None) -> str:
        """Return a text; RefusedError where it is missing or longer than that."""
        value = self._values.get(name, default)
        if value is None:
            raise RefusedError(f"{name} is missing.")
        if len(value) > longest:
            raise RefusedError(f"{name} is longer than {longest} characters.")
        return value

    def number(self, name: str, below: int, default: int | None = None) -> int:
        """Return a whole number from zero on; RefusedError where it is missing, none, or not below `below`."""
        if default is not None and name not in self._values:
            return default
        return _number(name, self.text(name, longest=12), below)

    def numbers(self, name: str, below: int, most: int) -> list[int]:
        """Return whole numbers between commas, at most so many; RefusedError as for `number`."""
        parts = self.text(name, longest=13 * most).split(",")
        if len(parts) > most:
            raise RefusedError(f"{name} has more than {most} numbers.")
        return [_number(name, part, below) for part in parts]


def _number(name: str, text: str, below: int) -> int:
    if not _NUMBER.fullmatch(text) or int(text) >= below:
        raise RefusedError(f"{name} is no whole number from 0 to {below - 1}.")
    return int(text)
