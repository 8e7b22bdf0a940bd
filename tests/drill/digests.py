"""One short text for whatever was read, equal where the content is equal bit for bit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

# What a reader noticed, how long training took, what depends on where the folder lies, and the hashes of all that.
_LEFT_OUT = {"findings", "seconds", "name", "path", "source", "checkpoint_seconds", "files"}


def digest(value: Any) -> str:
    """Return the digest of a graph, arrays, tensors, settings or plain values."""
    found = hashlib.sha256()
    _add(found, value)
    return found.hexdigest()[:24]


def _add(found: Any, value: Any) -> None:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            if key not in _LEFT_OUT:
                found.update(f"{key!r}:".encode())
                _add(found, value[key])
    elif isinstance(value, list | tuple):
        found.update(f"[{len(value)}".encode())
        for each in value:
            _add(found, each)
    elif isinstance(value, torch.Tensor):
        _add(found, value.detach().cpu().numpy())
    elif sp.issparse(value):
        matrix = sp.csr_array(value)
        _add(found, [list(matrix.shape), matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data])
    elif isinstance(value, np.ndarray):
        found.update(f"{value.dtype.str if value.dtype.kind not in 'US' else 'text'}{value.shape}".encode())
        found.update(
            repr(value.tolist()).encode() if value.dtype.kind in "USO" else np.ascontiguousarray(value).tobytes()
        )
    elif is_dataclass(value) and not isinstance(value, type):
        _add(found, {each.name: getattr(value, each.name) for each in fields(value)})
    else:
        found.update(repr(value).encode("utf-8", "surrogatepass"))
    found.update(b";")
