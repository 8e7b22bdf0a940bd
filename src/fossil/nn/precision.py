"""The precision of products: what it is at this moment, and how it is changed for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import torch

Products: TypeAlias = Literal["float32", "tf32", "bfloat16"]


def ambient_products(device: torch.device) -> Products:
    """Return the precision that PyTorch's own products have on a device at this moment."""
    kind = device.type
    if torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16:
        return "bfloat16"
    return "tf32" if kind == "cuda" and torch.backends.cuda.matmul.fp32_precision == "tf32" else "float32"


@contextmanager
def products_in(products: Products, device: torch.device) -> Iterator[None]:
    """Let float32 products on a GPU use TF32 inside the block where that is asked for, and only there."""
    wanted, before = products == "tf32", torch.backends.cuda.matmul.fp32_precision == "tf32"
    if device.type != "cuda" or wanted == before:
        yield
        return
    torch.backends.cuda.matmul.allow_tf32 = wanted
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
