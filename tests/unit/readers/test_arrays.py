from __future__ import annotations

import numpy as np
import pytest

from fossil.errors import GraphError
from fossil.readers.arrays import class_labels


def test_labels_of_every_kind() -> None:
    assert class_labels(np.array(["b", "a"]))[0].tolist() == [1, 0]
    assert class_labels(np.array([[True, False], [False, True]]))[0].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(GraphError, match="not whole"):
        class_labels(np.array([0.5, 1.0]))
