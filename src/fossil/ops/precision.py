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
def arithmetic(products: Products, device: torch.device) -> Iterator[None]:
    """Compute products inside the block in full float32, in TF32 (on a GPU) or in bfloat16 by `torch.autocast`."""
    with _tf32(products != "float32"), torch.autocast(device.type, torch.bfloat16, enabled=products == "bfloat16"):
        yield


@contextmanager
def products_in(products: Products, device: torch.device) -> Iterator[None]:
    """Let float32 products on a GPU use TF32 inside the block where that is asked for, and only there."""
    wanted = products == "tf32"
    if device.type != "cuda" or wanted == (torch.backends.cuda.matmul.fp32_precision == "tf32"):
        yield
        return
    with _tf32(wanted):
        yield


@contextmanager
def full_float32() -> Iterator[None]:
    """Forbid TF32 and autocast inside the block.

    Transport needs all 24 bits, whatever the rest of a program allows: with TF32, plans are wrong by 1e-3 to 1e-2 at
    small steps.
    """
    with _tf32(False), torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
        yield


def at_least_float32(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return tensors in the widest of their dtypes and float32."""
    kind = torch.float32
    for tensor in tensors:
        kind = torch.promote_types(kind, tensor.dtype)
    return tuple(tensor.to(kind) for tensor in tensors)


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
