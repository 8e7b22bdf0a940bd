from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fossil.errors import GraphError
from fossil.graph.assemble import RawGraph
from fossil.readers.base import Request
from fossil.readers.encoding import EncodingPlan
from fossil.readers.frames import DataFrames


def read(nodes: pd.DataFrame, edges: pd.DataFrame) -> tuple[RawGraph, EncodingPlan]:
    raw, plan = DataFrames.read((nodes, edges), Request())
    assert isinstance(raw, RawGraph) and plan is not None
    return raw, plan


def test_data_frames_with_gaps_and_index_ids() -> None:
    nodes = pd.DataFrame({"age": [1, 3], "kind": pd.Categorical(["x", None])}, index=["a", "b"])
    edges = pd.DataFrame({"source": ["b"], "target": ["a"], "kind": ["kin"]})
    raw, plan = read(nodes, edges)
    assert raw.ids.tolist() == ["a", "b"] and plan.feature_names == ("age", "kind=x")
    np.testing.assert_array_equal(raw.features, [[-1, 1], [1, 0]])
    assert (int(raw.source[0]), int(raw.target[0])) == (1, 0)


def test_data_frame_ids_that_a_gap_turned_into_floats() -> None:
    nodes = pd.DataFrame({"id": [1, 2], "x": [0.0, 1.0], "label": [1.0, None]})
    raw, _ = read(nodes, pd.DataFrame({"source": [1.0], "target": [2.0]}))
    assert raw.source.tolist() == [0] and raw.label_names == ("1",)
    assert raw.labels is not None and raw.labels.tolist() == [0, -1]
    with pytest.raises(GraphError, match=r"no usable node id .*\(row 2\)"):
        read(pd.DataFrame({"id": [1, None], "x": [0, 1]}), pd.DataFrame({"source": [], "target": []}))
    with pytest.raises(GraphError, match="two columns 'x'"):
        read(pd.DataFrame([[1, 2, 3]], columns=["id", "x", "x"]), pd.DataFrame())
