"""word2vec: the format of word vectors, which gensim, fastText, spaCy and others read."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from fossil.errors import RunError, warn_the_caller
from fossil.runs.exports.base import Exporter, Subject, decimal

_BINARY = ".bin"


class Word2vecExporter(Exporter):
    """The number of nodes and of dimensions, then id and vector of each node; binary where the name ends in .bin.

    A space ends the id in both forms of the format. White space in an id is therefore written as an address has it,
    and so is the per cent sign: `Ada Lovelace` becomes `Ada%20Lovelace`, and `urllib.parse.unquote` gives it back.
    """

    name = "word2vec"
    suffix = ".txt"

    @classmethod
    def write(cls, subject: Subject, path: Path, suffix: str) -> None:
        """Write ids and vectors.

        Raises:
            RunError: an id is empty, and the format has no empty words.

        Warns:
            FossilWarning: some ids are written in another way than they are.
        """
        words = [word(key) for key in subject.ids]
        if "" in words:
            raise RunError(
                "A node has an empty id, and the word2vec format has no empty words.",
                remedy="Take another format, such as csv.",
            )
        nodes, width = subject.vectors.shape
        with path.open("xb") as stream:
            stream.write(f"{nodes} {width}\n".encode())
            if suffix == _BINARY:
                for name, vector in zip(words, subject.vectors.astype("<f4"), strict=True):
                    stream.write(name.encode() + b" " + vector.tobytes() + b"\n")
            else:
                for name, numbers in zip(words, decimal(subject.vectors), strict=True):
                    stream.write(" ".join([name, *numbers]).encode() + b"\n")
        changed = sum(name != key for name, key in zip(words, subject.ids, strict=True))
        if changed:
            warn_the_caller(
                f"White space and % in {changed:,} of {nodes:,} ids are written as %20, %25 and so on, since a space "
                "ends an id in this format. urllib.parse.unquote gives the ids back."
            )


def word(key: str) -> str:
    """Return an id without white space, from which `urllib.parse.unquote` makes the id again.

    >>> word("Ada Lovelace"), word("100%")
    ('Ada%20Lovelace', '100%25')
    """
    return re.sub(r"[\s%]", lambda found: quote(found[0]), key)
