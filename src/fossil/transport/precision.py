"""Transport needs all 24 bits of float32, whatever the rest of the program allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def full_float32() -> Iterator[None]:
    """Forbid TF32 and autocast products inside the block: with TF32, plans are wrong by 1e-3 to 1e-2 at small steps."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
