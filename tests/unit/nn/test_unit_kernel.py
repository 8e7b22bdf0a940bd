"""The GPU version of directions, interpreted on the CPU, against the plain version in float64."""

import importlib.util
import json
import os
import subprocess
import sys
from typing import Any

import pytest

SCRIPT = """
import json
import torch
from fossil.nn.unit import unit_vectors

random = torch.Generator().manual_seed(0)
results = []


def plain_unit(vectors):
    length = vectors.norm(dim=-1, keepdim=True)
    return vectors / torch.where(length > 1e-6, length, torch.ones_like(length))


def difference(fused, plain, inputs):
    singles = [value.clone().requires_grad_() for value in inputs]
    doubles = [value.double().clone().requires_grad_() for value in inputs]
    found, expected = fused(*singles), plain(*doubles)
    weights = torch.randn(found.shape, generator=random)
    gradients = torch.autograd.grad((found * weights).sum(), singles)
    wanted = torch.autograd.grad((expected * weights).sum(), doubles)
    return [
        float((found - expected).abs().max()),
        max(float((one - other).abs().max() / other.abs().max()) for one, other in zip(gradients, wanted)),
    ]


for rows, width in ((5, 7), (17, 64), (3, 100)):
    results.append(difference(unit_vectors, plain_unit, (torch.randn(rows, width, generator=random),)))
vectors = torch.randn(4, 3, 10, generator=random)
vectors[1, 2] = 0
results.append(difference(unit_vectors, plain_unit, (vectors[:, :2],)))
tiny = vectors[:1, :1] * 1e-8
results.append(difference(unit_vectors, plain_unit, (tiny,)))
zero = torch.zeros(1, 5, requires_grad=True)
results.append([0.0, float((torch.autograd.grad(unit_vectors(zero).sum(), zero)[0] - 1).abs().max())])
print(json.dumps(results))
"""


PAIRS = """
import json
import torch
from fossil.nn._infonce_launches import unit_pairs

random = torch.Generator().manual_seed(0)
first, second = torch.randn(2, 9, 100, generator=random)
first[2], second[3] = 0, 1e-9
wide = torch.cat([first, second]).double()
wide[6:9] = wide[15:] = 0
first[6:], second[6:] = torch.nan, torch.inf
count = torch.tensor(6)
full, narrow = (unit_pairs(first, second, count, products) for products in ("float32", "tf32"))
length = wide.norm(dim=1)
unit = wide / torch.where(length > 1e-6, length, 1)[:, None]
print(json.dumps({
    "unit": float((full.unit - unit).abs().max()),
    "length": float((full.length - torch.where(length > 1e-6, length, -1)).abs().max()),
    "cosine": float((full.cosine - (unit[:9] * unit[9:]).sum(1)).abs().max()),
    "half": bool(torch.equal(narrow.half, full.unit.half())),
    "narrow": bool(torch.equal(narrow.narrow[:18], full.unit.bfloat16())),
    "padding": [len(narrow.narrow), float(narrow.narrow[18:].abs().max())],
    "none": full.half is None and full.narrow is None,
    "same": all(torch.equal(getattr(narrow, name), getattr(full, name)) for name in ("unit", "length", "cosine")),
}))
"""


def measured(script: str = SCRIPT, **environment: str) -> Any:
    kept = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=kept | environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")


@needs_triton
def test_interpreted_kernels_give_the_values_and_gradients_of_float64() -> None:
    results = measured(TRITON_INTERPRET="1")
    assert len(results) == 6
    assert all(value < 5e-6 and gradient < 2e-5 for value, gradient in results), results


def test_tensor_operations_give_the_values_and_gradients_of_float64() -> None:
    results = measured()
    assert all(value < 5e-6 and gradient < 2e-5 for value, gradient in results), results


@needs_triton
def test_directions_of_both_views_are_those_of_float64_and_rounded_to_the_nearest() -> None:
    found = measured(PAIRS, TRITON_INTERPRET="1")
    assert max(found["unit"], found["cosine"]) < 1e-6 and found["length"] < 1e-5
    assert found["padding"] == [128, 0]
    assert found["half"] and found["narrow"] and found["none"] and found["same"]
