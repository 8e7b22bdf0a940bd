"""Speed and memory of the node loss beside the dense one and a tiled one in plain PyTorch, in the same run.

    python benchmarks/infonce.py --device cpu --nodes 1000 2708
    python benchmarks/infonce.py --device cuda --nodes 2708 20000 169343 --products float32 tf32 bfloat16

Times are medians after a warm-up. The rate counts the products that symmetry leaves, 4N²D operations forward and 16N²D
in all, whoever computes more of them, so that rates compare as times do. Memory is the peak above what the views take.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fossil.ops import infonce
from fossil.ops.infonce import node_contrast
from fossil.ops.precision import Products
from measuring import RESULTS, Record, clear, hardware, milliseconds, peak_gigabytes, table

Loss = Callable[[Tensor, Tensor, float], Tensor]
ROWS = {"cpu": 1024, "cuda": 8192}
OURS, BARE, TILED, DENSE = "ours", "ours, no Triton", "checkpointed rows", "dense"


def dense(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return the loss as a cross-entropy over all 2N×2N cosines."""
    unit = nn.functional.normalize(torch.cat([first, second]), dim=1)
    logits = unit @ unit.T / temperature
    logits.fill_diagonal_(-torch.inf)
    return nn.functional.cross_entropy(logits, torch.arange(len(unit), device=unit.device).roll(len(first)))


def checkpointed_rows(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return the loss a block of whole rows at a time, each computed again for its gradient."""
    unit = nn.functional.normalize(torch.cat([first, second]), dim=1)
    pairs = torch.arange(len(unit), device=unit.device).roll(len(first))

    def part(rows: Tensor, start: int) -> Tensor:
        logits = rows @ unit.T / temperature
        own = torch.arange(start, start + len(rows), device=unit.device)[:, None]
        logits = logits.scatter(1, own, -torch.inf)
        return nn.functional.cross_entropy(logits, pairs[start : start + len(rows)], reduction="sum")

    size = ROWS[unit.device.type]
    parts: list[Tensor] = [
        checkpoint(part, unit[start : start + size], start, use_reentrant=False) for start in range(0, len(unit), size)
    ]
    return torch.stack(parts).sum() / len(unit)


def contenders(device: torch.device, nodes: int, products: Products) -> list[tuple[str, Loss]]:
    """Return those that can run here: the dense one only where about six matrices of all pairs fit."""
    found: list[tuple[str, Loss]] = [(OURS, _ours(products))]
    if device.type == "cuda" and importlib.util.find_spec("triton") is not None:
        found.append((BARE, _ours(products)))
    found.append((TILED, checkpointed_rows))
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 4e9
    if 6 * 4 * (2 * nodes) ** 2 < free:
        found.append((DENSE, dense))
    return found


def _ours(products: Products) -> Loss:
    return lambda first, second, temperature: node_contrast(first, second, temperature, products=products)


@contextmanager
def circumstances_of(name: str, products: Products, device: torch.device) -> Iterator[None]:
    """Set what a contender needs: the ambient precision for the peers, the private switch for ours."""
    before = torch.backends.cuda.matmul.allow_tf32
    with ExitStack() as stack:
        stack.enter_context(torch.autocast(device.type, torch.bfloat16, enabled=products == "bfloat16"))
        torch.backends.cuda.matmul.allow_tf32 = products == "tf32"
        stack.callback(setattr, torch.backends.cuda.matmul, "allow_tf32", before)
        if name == BARE:
            stack.enter_context(mock.patch.object(infonce, "supports", lambda *_: False))
        yield


def measure(
    name: str, loss: Loss, views: tuple[Tensor, Tensor], products: Products, arguments: argparse.Namespace
) -> Record:
    """Time a contender, forward and with its gradient, and note the peak of memory."""
    device = views[0].device

    def forward() -> Tensor:
        with torch.no_grad():
            return loss(*views, arguments.temperature)

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss(*views, arguments.temperature), views)

    with circumstances_of(name, products, device):
        value = forward().item()
        both()
        clear(device)
        before = torch.cuda.memory_allocated(device) / 1e9 if device.type == "cuda" else 0.0
        both()
        peak = peak_gigabytes(device)
        once, twice = (milliseconds(call, device, arguments.repeats, block=arguments.block) for call in (forward, both))
    nodes, width = views[0].shape
    return {
        "value": value,
        "forward_ms": once,
        "both_ms": twice,
        "forward_teraflops": 4 * nodes**2 * width / once / 1e9,
        "both_teraflops": 16 * nodes**2 * width / twice / 1e9,
        "peak_gigabytes": None if peak is None else peak - before,
    }


def records(arguments: argparse.Namespace) -> Iterator[Record]:
    """Yield one record per number of nodes, precision and contender."""
    device = torch.device(arguments.device)
    for nodes in arguments.nodes:
        random = torch.Generator().manual_seed(arguments.seed)
        first = torch.randn(nodes, arguments.width, generator=random)
        second = first + torch.randn(nodes, arguments.width, generator=random)
        views = first.to(device).requires_grad_(), second.to(device).requires_grad_()
        for products in arguments.products:
            ours = None
            for name, loss in contenders(device, nodes, products):
                if name in arguments.leave_out:
                    continue
                found = measure(name, loss, views, products, arguments)
                ours = ours or found
                yield {
                    "nodes": nodes,
                    "width": arguments.width,
                    "products": products,
                    "loss": name,
                    **found,
                    "times_ours": found["both_ms"] / ours["both_ms"],
                }


def main() -> None:
    """Measure what was asked for, print a Markdown table and add one JSON record per row to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 2708])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--products", nargs="+", choices=["float32", "tf32", "bfloat16"], default=["float32"])
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--block", type=int, default=1, help="calls between two looks at the clock")
    parser.add_argument("--threads", type=int, help="threads on the CPU; PyTorch's own number by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--leave-out", nargs="*", default=[], choices=[BARE, TILED, DENSE])
    parser.add_argument("--results", type=Path, help="file to add records to; by default under benchmarks/results")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch finds no GPU here")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    setting = {
        "device": arguments.device,
        "hardware": hardware(arguments.device),
        "threads": torch.get_num_threads(),
        "temperature": arguments.temperature,
        "repeats": arguments.repeats,
        "seed": arguments.seed,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    path = arguments.results or RESULTS / f"infonce-{arguments.device}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = []
    for record in records(arguments):
        found.append(record)
        with path.open("a") as stream:
            stream.write(json.dumps(record | setting) + "\n")
    print(f"{setting['hardware']}, PyTorch {setting['torch']}, {setting['threads']} threads\n")
    columns = ["nodes", "width", "products", "loss", "forward_ms", "both_ms", "forward_teraflops", "both_teraflops"]
    columns += ["peak_gigabytes", "times_ours", "value"]
    print(table(columns, [[record[name] for name in columns] for record in found]))


if __name__ == "__main__":
    main()
