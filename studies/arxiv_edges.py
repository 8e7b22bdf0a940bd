"""Make `arxiv-edges.npz` beside this file: edges and labels of ogbn-arxiv, with features computed from the edges.

For whoever has `ogbn_arxiv_nofeat/raw` under $FOSSIL_DATA (`adj_full.npz` and `node-label.csv.gz`) and not the 128
features: the graph is as large and as sparse as the published one, and scores on it compare with nothing published.

    python studies/arxiv_edges.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from fossil.graph.graph import Graph
from fossil.readers.npz import write_npz
from fossil.readers.structural_features import STRUCTURAL_NAMES, structural_matrix
from raw_files import raw_folder


def main() -> None:
    """Read the files and write the graph."""
    folder = raw_folder("ogbn_arxiv_nofeat", "raw")
    adjacency = sp.csr_array(sp.load_npz(folder / "adj_full.npz"))
    adjacency = sp.csr_array(((adjacency + adjacency.T) > 0).astype(np.float32))  # citations both ways
    labels = np.loadtxt(folder / "node-label.csv.gz", np.int64)
    features, _ = structural_matrix(adjacency, ())
    out = Path(__file__).with_name("arxiv-edges.npz")
    ids = np.arange(len(labels))
    write_npz(out, Graph("arxiv_edges", adjacency, features, ids, labels, feature_names=STRUCTURAL_NAMES))
    print(out)


if __name__ == "__main__":
    main()
