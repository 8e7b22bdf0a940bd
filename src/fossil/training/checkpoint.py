"""Checkpoints: everything needed to go on, in one file without executable content."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from fossil.errors import RunError
from fossil.storage import write_bytes


class Checkpoint(NamedTuple):
    """Tensors, and what they belong to."""

    tensors: dict[str, Tensor]
    about: dict[str, Any]


def save_tensors(path: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write named tensors with a description, atomically."""
    # Copies, because the format refuses tensors that share memory, as the parameters of a shared module do.
    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    write_bytes(path, save(copies, metadata={"about": json.dumps(about)}))


def load_tensors(path: Path) -> Checkpoint:
    """Read what `save_tensors` wrote.

    Raises:
        RunError: the file is missing, truncated or something else.
    """
    try:
        with safe_open(str(path), framework="pt") as content:
            about = json.loads((content.metadata() or {})["about"])
            return Checkpoint({name: content.get_tensor(name) for name in content.keys()}, about)  # noqa: SIM118
    except FileNotFoundError as error:
        raise RunError(f"{path} does not exist.", remedy="Check the run folder's path.") from error
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise RunError(
            f"{path} is truncated or damaged ({error}).",
            remedy="Delete that file and go on with --resume (training starts again), or start anew with --force.",
        ) from error
