"""What the speed benchmarks share: a clock that waits for the device, memory peaks, records and tables."""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fossil.errors import FossilWarning

Record = dict[str, Any]
RESULTS = Path(__file__).parent / "results"
# Calls between two looks at the clock, at most: a GPU runs ahead of the processor in training too, where records are
# read every 20 steps. A block need not last longer than this.
_BLOCK = {"cpu": 1, "cuda": 20}
_BLOCK_SECONDS = 0.1


def parser(description: str | None, *, results: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every speed benchmark has; `results` is the default file's name."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    made.add_argument("--precision", default="float32", choices=["float32", "tf32", "bfloat16"])
    made.add_argument("--threads", type=int, help="threads on the CPU; PyTorch's own number by default")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--results", type=Path, default=RESULTS / results, help="file that records are added to")
    made.add_argument("--resume", action="store_true", help="take what the file already holds instead of measuring it")
    made.add_argument(
        "--seconds", type=float, default=float("inf"), help="start no further measurement after this long"
    )
    return made


def ready(arguments: argparse.Namespace, made: argparse.ArgumentParser) -> torch.device:
    """Check the device, set the threads, and return the device."""
    if arguments.device == "cuda" and not torch.cuda.is_available():
        made.error("--device cuda: PyTorch finds no GPU here")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    return torch.device(arguments.device)


def now(device: torch.device) -> float:
    """Return the time in seconds when all work given to the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def milliseconds(call: Callable[[], object], device: torch.device, repeats: int, *, block: int | None = None) -> float:
    """Return the median over `repeats` of the mean time of a block of calls; the caller has warmed it up."""
    calls, times = block or _calls_of_block(call, device), []
    for _ in range(repeats):
        began = now(device)
        for _ in range(calls):
            call()
        times.append(1e3 * (now(device) - began) / calls)
    return median(times)


def _calls_of_block(call: Callable[[], object], device: torch.device) -> int:
    most = _BLOCK[device.type]
    if most == 1:
        return 1
    began = now(device)
    call()
    return max(1, min(most, round(_BLOCK_SECONDS / (now(device) - began))))


def clear(device: torch.device) -> None:
    """Free what nobody holds any more, and forget the peak of memory so far."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak_gigabytes(device: torch.device) -> float | None:
    """Return the most memory that tensors took on a GPU since the last `clear`; None on a CPU."""
    return torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else None


def circumstances(arguments: argparse.Namespace) -> Record:
    """Return what else decides the figures."""
    return {
        "device": arguments.device,
        "hardware": hardware(arguments.device),
        "precision": arguments.precision,
        "threads": torch.get_num_threads(),
        "seed": arguments.seed,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fossil": version_of("fossil-gnn"),
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def hardware(device: str) -> str:
    """Return the name of the GPU or of the processor."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def version_of(package: str) -> str:
    """Return the installed version of a package, or that it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed as a package"


class Ledger:
    """A file of JSON records, one a line, that a benchmark adds to.

    Args:
        arguments: those of the benchmark, made by `parser`.
        key: names of the fields that say what was measured; device, precision and versions always count.
    """

    def __init__(self, arguments: argparse.Namespace, key: Sequence[str]) -> None:
        self.path: Path = arguments.results
        self.key = [*key, "device", "hardware", "precision", "threads", "seed", "torch"]
        self.setting = circumstances(arguments)
        self.deadline = time.perf_counter() + arguments.seconds
        old = self.path.read_text().splitlines() if arguments.resume and self.path.exists() else []
        found = [json.loads(line) for line in old]
        self.known = {self._identity(record): record for record in found if "failed" not in record}

    def known_record(self, wanted: Record) -> Record | None:
        """Return the record of what is wanted, if the file holds it."""
        return self.known.get(self._identity(wanted | self.setting))

    def obtain(self, wanted: Record, measure: Callable[[], Record]) -> Record | None:
        """Return the record of what is wanted: the one known, or a new one, which is written; None if time is up."""
        known = self.known_record(wanted)
        return known if known is not None or self.late() else self.keep(wanted, measure)

    def obtain_at_once(
        self, wanted: Iterable[Record], measure: Callable[[Record], Record], processes: int
    ) -> Iterator[Record]:
        """Yield the records of all that is wanted: those known, then new ones, so many measured at a time.

        Args:
            wanted: what is wanted.
            measure: given one of them, in a process of its own; a function that can be sent there.
            processes: how many.
        """
        missing = []
        for each in wanted:
            known = self.known_record(each)
            if known is None:
                missing.append(each)
            else:
                yield known
        # Stopping with work in the queue, as an interrupt does, must not wait for all of it.
        pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
        try:
            work = {pool.submit(measure, each): each for each in missing}
            for done in as_completed(work):
                if self.late():  # what has begun is waited for and kept
                    for each in work:
                        each.cancel()
                if not done.cancelled():
                    yield self.keep(work[done], done.result)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def late(self) -> bool:
        """Return whether the time for further measurements is over."""
        return time.perf_counter() > self.deadline

    def keep(self, wanted: Record, measure: Callable[[], Record]) -> Record:
        """Measure what is wanted, write its record and return it."""
        # A step that could not be captured, or ran in less memory than it wanted, says so in a warning.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FossilWarning)
            record: Record = wanted | measure() | self.setting
        heard = {str(warning.message) for warning in caught if issubclass(warning.category, FossilWarning)}
        record["warnings"] = sorted(heard)
        for text in record["warnings"]:
            print(f"warning: {text}", flush=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as stream:
            stream.write(json.dumps(record) + "\n")
        return record

    def _identity(self, record: Record) -> str:
        return json.dumps([record.get(name) for name in self.key], sort_keys=True)

    def __str__(self) -> str:
        """Return the circumstances in words."""
        setting = self.setting
        threads = f", {setting['threads']} threads" if setting["device"] == "cpu" else ""
        return f"{setting['hardware']}, PyTorch {setting['torch']}, {setting['precision']}{threads}"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; numbers have three digits, what is None a dash."""
    lines = [header, ["---"] * len(header), *([_cell(value) for value in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
