from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fossil.errors import GraphError
from fossil.guard.arrays import Arrays


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(4, 3),
        np.asfortranarray(np.arange(12.0).reshape(4, 3)),
        np.array(["a", "ü", "longer"]),
        np.arange(3, dtype=">i2"),
    ],
    ids=["rows", "columns", "text", "swapped"],
)
def test_a_mapped_array_is_the_one_that_numpy_reads(tmp_path: Path, array: np.ndarray) -> None:
    path = tmp_path / "arrays.npz"
    np.savez(path, first=np.zeros(5), **{"an ä in its name": array}, last=np.ones(2))
    with Arrays(path) as arrays:
        mapped = arrays.mapped("an ä in its name")
    assert isinstance(mapped, np.memmap) and not mapped.flags.writeable
    np.testing.assert_array_equal(mapped, np.load(path)["an ä in its name"])


def test_a_compressed_array_cannot_be_mapped(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "arrays.npz", x=np.zeros(5))
    with Arrays(tmp_path / "arrays.npz") as arrays, pytest.raises(GraphError, match=r"'x' of .* is compressed"):
        arrays.mapped("x")


def test_an_array_that_is_shorter_than_it_says_is_not_mapped(tmp_path: Path) -> None:
    import zipfile

    whole = tmp_path / "whole.npy"
    np.save(whole, np.zeros(100))
    with zipfile.ZipFile(tmp_path / "arrays.npz", "w") as archive:
        archive.writestr("x.npy", whole.read_bytes()[:-8])
    with Arrays(tmp_path / "arrays.npz") as arrays, pytest.raises(GraphError, match="but holds 792"):
        arrays.mapped("x")
