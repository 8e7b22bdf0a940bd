"""Does a change of the code change any number? For changes that should not.

    python benchmarks/unchanged.py record build/before.json
    python benchmarks/unchanged.py compare build/before.json
    python benchmarks/unchanged.py record build/choices.json --choices --graphs digits --seeds 0 --epochs 2
    python benchmarks/unchanged.py record build/before-gpu.json --device cuda --graphs cora --epochs 20

Trains every method for a few epochs and solves transport problems. On a CPU embeddings, weights of structure, losses
and plans must be equal to the last bit, on the same machine with the same number of threads. On a GPU, where sums have
no fixed order, losses must agree to `--tolerance`. With `--choices` every preset of a method and every value of every
setting that offers a choice is trained too, one at a time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np
import torch
from torch import Tensor

import fossil
from fossil.errors import FossilWarning
from fossil.methods.registry import get_method, methods
from fossil.transport import (
    BAPG,
    Feasible,
    FusedProblem,
    NestedGW,
    ProximalPoint,
    Sinkhorn,
    fused_gromov_wasserstein,
    gromov_wasserstein,
    wasserstein,
)

Numbers = dict[str, Any]


def main() -> None:
    """Record numbers, or compare them with those of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--graphs", nargs="+", default=["digits", "cora"])
    parser.add_argument("--methods", nargs="+", default=sorted(methods()))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--choices", action="store_true", help="also train every preset and every choice")
    parser.add_argument("--threads", type=int, default=1, help="with more, some sums have no fixed order")
    parser.add_argument("--tolerance", type=float, default=2e-3, help="of losses on a GPU, relative")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    before = json.loads(arguments.file.read_text()) if arguments.what == "compare" else None
    found: Numbers = {"machine": machine(arguments), "plans": plans(), "trainings": {}}
    for graph in arguments.graphs:
        for method in arguments.methods:
            for variant in variants(method) if arguments.choices else [Variant()]:
                for seed in arguments.seeds:
                    name = " ".join(filter(None, [method, str(variant), graph, f"seed {seed}"]))
                    found["trainings"][name] = training(graph, method, variant, seed, arguments)
                    print(name, found["trainings"][name]["vectors"], flush=True)
    if before is None:
        arguments.file.parent.mkdir(parents=True, exist_ok=True)
        arguments.file.write_text(json.dumps(found, indent=1))
        return
    sys.exit(compare(before, found, arguments))


def machine(arguments: argparse.Namespace) -> Numbers:
    """Return what else decides the bits."""
    return {
        "processor": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": arguments.threads,
        "epochs": arguments.epochs,
        "device": arguments.device,
    }


class Variant(NamedTuple):
    """A preset, and settings beside it."""

    preset: str | None = None
    settings: Mapping[str, Any] = MappingProxyType({})

    def __str__(self) -> str:
        return " ".join([self.preset or "", *(f"{key}={value}" for key, value in self.settings.items())]).strip()


def variants(method: str) -> list[Variant]:
    """Return the method as it is, under its other presets, and with each value of each choice that it offers."""
    kind = get_method(method)
    found = [Variant(), *(Variant(preset) for preset in list(kind.presets)[1:])]
    for name, field in kind.Config.model_fields.items():
        offered = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        offered = (True, False) if field.annotation is bool else offered
        found += [Variant(None, {name: value}) for value in offered if value != field.default]
    return found


def training(graph: str, method: str, variant: Variant, seed: int, arguments: argparse.Namespace) -> Numbers:
    """Train for a few epochs; return digests of what was learnt, and the losses."""
    options = {"preset": variant.preset, "settings": variant.settings, "use_recipe": not arguments.choices}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FossilWarning)  # few epochs may well look like a collapse
        epochs = arguments.epochs if get_method(method).trained else None
        result = fossil.embed(graph, method=method, seed=seed, epochs=epochs, device=arguments.device, **options)
    weights = hashlib.sha256()
    for name, tensor in sorted(result.method.state_dict().items()):
        weights.update(name.encode() + tensor.cpu().contiguous().numpy().tobytes())
    history = [{key: value for key, value in record.items() if key != "seconds"} for record in result.history]
    return {
        "vectors": digest(result.vectors),
        "fusion": None if result.fusion is None else digest(result.fusion),
        "weights": weights.hexdigest()[:16],
        "history": history,
    }


def plans() -> Numbers:
    """Solve problems of several sizes by every solver; return digests of plans, values and gradients."""
    found = {}
    for size in (12, 30):
        batch = 60
        random = torch.Generator().manual_seed(size)
        cost, first, second = (torch.rand(batch, size, size, generator=random) for _ in range(3))
        first, second = (first + first.mT) / 2, (second + second.mT) / 2
        mass = torch.softmax(torch.rand(batch, size, generator=random), 1)
        for name, call in solvers(mass).items():
            leaves = [tensor.clone().requires_grad_() for tensor in (cost, first, second)]
            solution = call(*leaves)
            solution.value.sum().backward()
            gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
            numbers = [solution.plan, solution.value, solution.row_error, solution.column_error, *gradients]
            found[f"{name}, {size} nodes"] = [digest(each.detach().numpy()) for each in numbers]
    return found


def solvers(mass: Tensor) -> dict[str, Callable[[Tensor, Tensor, Tensor], Any]]:
    """Return every solver by name, for costs M, C1 and C2."""

    def bapg(cost: Tensor, first: Tensor, second: Tensor, **options: Any) -> Any:
        solver = BAPG(**({"step": 0.5, "iterations": 20, "tolerance": None} | options))
        return solver(FusedProblem.uniform(cost, first, second, 0.4))

    released = {"constant_terms": False, "marginals": "prescribed", "symmetric": True}
    sinkhorn, proximal, nested = Sinkhorn(regularization=0.05, iterations=50), ProximalPoint(), NestedGW()
    return {
        "bapg": bapg,
        "bapg, prescribed, without constant terms": partial(bapg, **released),
        "bapg, unrolled": partial(bapg, iterations=10, gradient="unrolled"),
        "bapg, tolerance": lambda c, a, b: fused_gromov_wasserstein(c, a, b, mass, mass, alpha=0.3),
        "bapg, directed": lambda c, a, b: bapg(c, a.triu(), b.tril()),
        "gromov_wasserstein": lambda c, a, b: gromov_wasserstein(a, b, mass, mass),
        "wasserstein": lambda c, a, b: wasserstein(c, mass, mass),
        "sinkhorn": lambda c, a, b: wasserstein(c, mass, mass, solver=sinkhorn),
        "proximal": lambda c, a, b: wasserstein(c, mass, mass, solver=proximal),
        "nested": lambda c, a, b: gromov_wasserstein(a, b, mass, mass, solver=nested),
        "feasible": lambda c, a, b: fused_gromov_wasserstein(c, a, b, mass, mass, solver=Feasible()),
    }


def digest(array: np.ndarray[Any, Any]) -> str:
    """Return what tells an array from any other."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def compare(before: Numbers, found: Numbers, arguments: argparse.Namespace) -> int:
    """Print what differs and return how many things do."""
    different = 0
    if before["machine"] != found["machine"]:
        print(f"another machine or another number of threads or epochs: {before['machine']} and {found['machine']}")
        different += 1
    if arguments.device == "cpu":
        for name, digests in before["plans"].items():
            if found["plans"].get(name) != digests:
                different += 1
                print(f"DIFFERENT {name}: {digests}, now {found['plans'].get(name)}")
    largest = 0.0
    for name, expected in before["trainings"].items():
        now = found["trainings"].get(name)
        if now is None:
            continue
        changed = [] if arguments.device == "cuda" else [
            key for key in ("vectors", "fusion", "weights") if now[key] != expected[key]
        ]  # fmt: skip
        for one, other in zip(expected["history"], now["history"], strict=True):
            for key in one.keys() & other.keys():
                gap = abs(one[key] - other[key]) / max(abs(one[key]), 1e-6)
                is_loss = key in ("loss", "contrast", "ot", "node")
                largest = max(largest, gap if is_loss else 0.0)
                limit = arguments.tolerance if arguments.device == "cuda" else 0.0
                if gap > limit and (is_loss or arguments.device == "cpu"):
                    changed.append(f"{key} of epoch {one['epoch']} was {one[key]}, is {other[key]}")
            missing = one.keys() - other.keys()
            if missing:
                changed.append(f"no {sorted(missing)} in epoch {one['epoch']}")
        if changed:
            different += 1
            print(f"DIFFERENT {name}: {'; '.join(changed[:4])}")
    trained = len(before["trainings"].keys() & found["trainings"].keys())
    compared = trained + len(before["plans"]) * (arguments.device == "cpu")
    print(f"{compared - different} equal, {different} different; largest relative difference of a loss {largest:.2g}")
    return min(different, 1)


if __name__ == "__main__":
    main()
