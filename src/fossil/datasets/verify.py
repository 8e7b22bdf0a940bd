"""Telling a published file, or the graph in it, from a damaged or another one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from fossil.datasets.pins import FILES, Pin
from fossil.graph.assemble import RawGraph


def difference(stream: IO[bytes], pin: Pin) -> str:
    """Return in words how a file differs from the published one; nothing where it does not."""
    digest, size = hashlib.sha256(), 0
    while block := stream.read(1 << 20):
        digest.update(block)
        size += len(block)
    if pin.size is not None and size != pin.size:
        return f"it has {size:,} bytes, and the published file has {pin.size:,}"
    found = digest.hexdigest()
    return (
        ""
        if found == pin.sha256
        else f"its SHA-256 is {found[:12]}..., and that of the published is {pin.sha256[:12]}..."
    )


def differing(root: Path, files: Iterable[str]) -> dict[str, str]:
    """Return which of these files below `root` are not the published ones, and how; those without a pin are not asked.

    A file that cannot be read is not the published one either.
    """
    found = {}
    for file in files:
        if file in FILES:
            try:
                with (root / file).open("rb") as stream:
                    why = difference(stream, FILES[file])
            except OSError as error:
                why = f"it cannot be read: {error.strerror or error}"
            if why:
                found[file] = why
    return found


def content_digest(raw: RawGraph) -> str:
    """Return the SHA-256 of edges, features, labels, ids and splits, whatever the order and type they are stored in."""
    nodes = len(raw.ids)
    edges = np.unique(raw.source.astype(np.int64) * nodes + raw.target.astype(np.int64))
    features = sp.csr_array(raw.features, dtype=np.float32, copy=True)
    features.sum_duplicates()
    features.eliminate_zeros()
    labels = np.zeros(0) if raw.labels is None else np.asarray(raw.labels)
    parts = [edges, features.indptr, features.indices, features.data, labels]
    parts += [raw.published_splits[name] for name in sorted(raw.published_splits)]
    digest = hashlib.sha256(str((features.shape, labels.shape)).encode())
    for part in parts:
        digest.update(np.ascontiguousarray(part, np.float32 if part is features.data else np.int64).tobytes())
    digest.update("\n".join(map(str, raw.ids.tolist())).encode())
    return digest.hexdigest()
