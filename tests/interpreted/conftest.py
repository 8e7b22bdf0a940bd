"""Kernels that Triton interprets on the CPU, all in one process that was started for it."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from fossil.ops.dispatch import triton

# Triton decides at its import whether it interprets.
INTERPRETS = os.environ.get("TRITON_INTERPRET") == "1" and find_spec("triton") is not None
REASON = "kernels are interpreted only in a process started with TRITON_INTERPRET=1 (make test does)"


@pytest.fixture(scope="session", autouse=True)
def _interpreting() -> Iterator[None]:
    """Skip where nothing is interpreted, and take one thread: tensors are small here, and tests share the cores."""
    if not INTERPRETS:
        pytest.skip(REASON)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return a function that has the calls of some functions of an operation's Triton version written to a list.

    All that it is asked for goes to one list, in the order of the calls.
    """
    calls: list[str] = []

    def counting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            calls.append(name)
            return original(*given, **options)

        return call

    def count(operation: str, *names: str) -> list[str]:
        version = triton(operation)
        for name in names:
            monkeypatch.setattr(version, name, counting(name, getattr(version, name)))
        return calls

    return count
