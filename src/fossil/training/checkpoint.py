"""Checkpoints: everything needed to go on, in one file without executable content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import Tensor

from fossil.errors import RunError
from fossil.storage import open_file, write_bytes

_DIGEST = "sha256"


class Checkpoint(NamedTuple):
    """Tensors, and what they belong to."""

    tensors: dict[str, Tensor]
    about: dict[str, Any]


def save_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write named tensors with a description and a digest of both, atomically."""
    copies = _copies(tensors)
    # One entry: the format keeps several in no order, and equal content would be different files.
    described = json.dumps({**about, _DIGEST: _digest(copies, about)})
    write_bytes(path, save(copies, metadata={"about": described}))


def load_tensors(path: Path) -> Checkpoint:
    """Read what `save_tensors` wrote.

    Raises:
        RunError: the file is missing, truncated or something else, or a value in it has changed.
    """
    open_file(path).close()  # no pipe, no folder: neither would come to an end below
    try:
        with safe_open(str(path), framework="pt") as content:
            about = json.loads((content.metadata() or {})["about"])
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
        if not isinstance(about, dict):
            raise ValueError("its description is none")
        digest = about.pop(_DIGEST, None)  # files of earlier versions have none
        if digest is not None and digest != _digest(tensors, about):
            raise ValueError("its content has changed since it was written")
        return Checkpoint(tensors, about)
    except (SafetensorError, KeyError, ValueError, TypeError, OSError, RuntimeError, MemoryError) as error:
        raise RunError(
            f"{path} is truncated or damaged ({error}).",
            remedy="Delete that file and go on with --resume (training starts again), or start anew with --force.",
        ) from error


def packed_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Return named tensors as bytes, for another process."""
    return save(_copies(tensors))


def unpacked_tensors(content: bytes) -> dict[str, Tensor]:
    """Return what `packed_tensors` was given."""
    return load(content)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors on the host that share no memory, which the format refuses: parameters of a shared module do."""
    return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}


def _digest(tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> str:
    """Return a hash of names, types, shapes and bytes of tensors on the host, and of their description."""
    digest = hashlib.sha256(json.dumps(about).encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
