"""Sparse matrices whose parts point outside each other: SciPy would follow them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from fossil.guard.arrays import checked_csr

WHOLE = sp.csr_array(np.array([[0, 1, 2], [3, 0, 0], [0, 0, 4], [0, 5, 0]], np.float32))
DATA, INDICES, INDPTR = WHOLE.data, WHOLE.indices, WHOLE.indptr


@pytest.mark.parametrize("kind", ["<i8", "<u8", ">i4", "<i1", "<u2"])
def test_good_parts_of_any_integer_type_make_the_matrix(kind: str) -> None:
    again = checked_csr(DATA, INDICES.astype(kind), INDPTR.astype(kind), WHOLE.shape)
    assert (again != WHOLE).nnz == 0
    again.check_format(full_check=True)
    assert checked_csr(np.zeros(0), np.zeros(0, int), np.zeros(1, int), (0, 10**12)).shape == (0, 10**12)


@pytest.mark.parametrize(
    "parts",
    [
        (DATA, INDICES, np.array([0, 10**6, 5, 3, 0])),  # ends at zero, so that SciPy takes it for empty
        (DATA, INDICES, np.array([0, 2, 10**6, -7, -1])),
        (DATA, INDICES, np.array([0, 2, 3, 4, 9])),
        (DATA, INDICES, np.array([0, 2, 3, 4, 4])),
        (DATA, INDICES, np.array([0, 3, 2, 4, 5])),
        (DATA, INDICES, np.array([0, 3, 2, 4, 5], np.uint64)),
        (DATA, INDICES, np.array([1, 2, 3, 4, 5])),
        (DATA, INDICES, INDPTR[:-1]),
        (DATA, INDICES, INDPTR.astype(float)),
        (DATA, INDICES[:, None], INDPTR),
        (DATA, np.array([0, 1, 2, 1, 3]), INDPTR),
        (DATA, np.array([0, 1, -1, 1, 2]), INDPTR),
        (DATA, np.array([0, 1, 2**63, 1, 2], np.uint64), INDPTR),
        (DATA[:-1], INDICES, INDPTR),
        (np.array(list("abcde")), INDICES, INDPTR),
    ],
)
def test_parts_that_point_outside_are_refused(parts: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="sparse matrix"):
        checked_csr(*parts, WHOLE.shape)


@pytest.mark.parametrize("key", ["adj", "attr"])
def test_a_file_with_such_parts_does_not_end_the_process(tmp_path: Path, key: str) -> None:
    """In a process of its own: with SciPy's check alone it ended by a signal."""
    nodes = 2000
    ring = sp.csr_array((np.ones(nodes, np.float32), (np.arange(nodes), np.roll(np.arange(nodes), 1))))
    parts = {
        f"{name}_{part}": getattr(ring, part) for name in ("adj", "attr") for part in ("data", "indices", "indptr")
    }
    pointers = np.full(nodes + 1, 2**30, np.int32)
    pointers[0] = pointers[-1] = 0
    parts[f"{key}_indptr"] = pointers
    np.savez(tmp_path / "g.npz", adj_shape=[nodes, nodes], attr_shape=[nodes, nodes], **parts)
    code = "import sys, fossil; fossil.open_graph(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "g.npz")], capture_output=True, text=True)
    assert done.returncode == 1, done.returncode
    assert "g.npz cannot be read (ValueError: the row pointers of a sparse matrix do not rise" in done.stderr
