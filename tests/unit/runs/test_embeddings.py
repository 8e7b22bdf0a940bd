from __future__ import annotations

import numpy as np
import pytest

from fossil.errors import GraphError
from fossil.runs.embeddings import Embeddings


@pytest.mark.parametrize("ids", [np.array(["007", "b", "ü"]), np.array([30, 10, 20])])
def test_vectors_are_found_by_id(ids: np.ndarray) -> None:
    found = Embeddings(ids, np.eye(3, dtype=np.float32), None)
    assert len(found) == 3
    for row, key in enumerate(ids.tolist()):
        np.testing.assert_array_equal(found[key], np.eye(3)[row])
        np.testing.assert_array_equal(found[str(key)], np.eye(3)[row])
    with pytest.raises(GraphError, match="'n99' has no vector"):
        _ = found["n99"]
