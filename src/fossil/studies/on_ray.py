"""A study on many machines: Ray carries one training each to wherever there is room.

The command that was called holds the claims and writes the records, as it does for trainings of its own, so that the
store stays the only truth and several commands share it as ever. What runs on the machines of the cluster needs nothing
of this machine's disk: the graph and what is kept of a cell go there with the task, and the record comes back. Ray
itself repeats nothing. A training whose process or machine is gone is asked for again from here, and counted.
"""

from __future__ import annotations

import logging
import math
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch

from fossil.errors import FossilError, RunError, SettingError
from fossil.readers.read import LoadedGraph
from fossil.storage import write_bytes
from fossil.studies.plan import Cell, Graphs, StudyPlan
from fossil.studies.pool import environment
from fossil.studies.record import Record
from fossil.studies.store import Store
from fossil.studies.train import do_cell, given_up
from fossil.studies.work import PATIENCE, Options, Reporter, missing_cells
from fossil.training.devices import version_of

_PACKAGE = "fossil-gnn"
_DEATHS = 2  # processes that one cell may cost before that is its result
_KNOCK = 10  # seconds that a cluster has to answer; Ray by itself would wait for minutes

Files: TypeAlias = Mapping[str, bytes]
"""What a store keeps of a cell, by path below `kept`."""


@dataclass(frozen=True)
class Errand:
    """One training as it travels.

    Attributes:
        cell: which one it is.
        before: its record so far.
        kept: what was kept of it so far.
        device: what it is trained on.
        threads: of its process.
        version: of this package, which must be that of the other machine.
    """

    cell: Cell
    before: Record | None
    kept: Files
    device: str
    threads: int
    version: str


@dataclass(frozen=True)
class Answer:
    """What came of it: a record with what is to be kept, or what is wrong, which is no result of the training's."""

    record: Record | None = None
    kept: Files | None = None
    wrong: tuple[str, str] | None = None


def train_there(plan: StudyPlan, loaded: LoadedGraph, errand: Errand) -> Answer:
    """Do one cell on a machine of the cluster, in a store that lives as long as this call."""
    if errand.version != (here := version_of(_PACKAGE)):
        what = f"{socket.gethostname()} has {_PACKAGE} {here}, this machine {errand.version}."
        return Answer(wrong=(what, "Install the same version on every machine of the cluster."))
    torch.set_num_threads(errand.threads)
    cell = errand.cell
    graphs = Graphs(plan.study, plan.file.parent)
    graphs.put(cell.column, cell.seed, loaded)
    with tempfile.TemporaryDirectory(prefix="fossil-") as folder:
        store = Store(Path(folder))
        try:
            _unpack(errand.kept, store)
            if errand.before is not None:
                store.write(errand.before)
            record = do_cell(plan, graphs, store, cell, errand.device)
        except FossilError as error:
            return Answer(wrong=(error.what, error.remedy))
        return Answer(record, _pack(store, cell.key))


def _pack(store: Store, key: str) -> Files:
    found = [store.kept / f"{key}.npz", *sorted((store.kept / key).rglob("*"))]
    return {str(path.relative_to(store.kept)): path.read_bytes() for path in found if path.is_file()}


def _unpack(files: Files, store: Store) -> None:
    for name, content in files.items():
        path = store.kept / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, content)


@dataclass(frozen=True)
class Room:
    """What a cluster has for a study: trainings at once, and for each of them CPUs, a share of a GPU, and a device."""

    jobs: int
    threads: int
    gpus: float
    device: str

    @classmethod
    def of(cls, resources: Mapping[str, float], smallest: float, options: Options) -> Room:
        """Return how trainings are placed.

        Args:
            resources: CPUs and GPUs of the whole cluster.
            smallest: CPUs of the machine that has the fewest; a training stays on one machine.
            options: how the study is run.

        Raises:
            SettingError: a GPU is asked for that the cluster does not have.
        """
        cpus, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        if options.device.startswith("cuda") and not gpus:
            raise SettingError(
                f"device={options.device!r} was asked for, and the Ray cluster has no GPU.",
                remedy="Use --device cpu, or add a machine with a GPU to it.",
            )
        on_gpu = bool(gpus) and options.device != "cpu"
        jobs = options.jobs or (gpus if on_gpu else max(1, cpus // (options.threads or 1)))
        threads = options.threads or max(1, min(cpus // jobs, int(smallest)))
        # Ray shows each process the one GPU that it may use, which is then its first.
        return cls(jobs, threads, 1 / math.ceil(jobs / gpus) if on_gpu else 0.0, "cuda" if on_gpu else "cpu")


class Cluster:
    """One study on a Ray cluster.

    Args:
        plan: the study.
        graphs: reads its graphs.
        store: its records.
        options: how it is run.
        reporter: told how it goes.
    """

    def __init__(self, plan: StudyPlan, graphs: Graphs, store: Store, options: Options, reporter: Reporter) -> None:
        self.plan, self.graphs, self.store, self.options, self.reporter = plan, graphs, store, options, reporter
        self.running: dict[Any, tuple[Cell, ExitStack]] = {}
        self.deaths: Counter[str] = Counter()
        self.sent: dict[tuple[int, str], Any] = {}

    def run(self) -> None:
        """Do what is missing.

        Raises:
            SettingError: Ray is not installed, or the cluster has no GPU.
            RunError: the cluster cannot be reached, lacks this package, or records cannot be written.
        """
        with _connected(self.options.address) as ray:
            self.ray = ray
            nodes = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
            self.room = Room.of(ray.cluster_resources(), min(filter(None, nodes), default=1), self.options)
            self.task = ray.remote(num_cpus=self.room.threads, num_gpus=self.room.gpus, max_retries=0)(train_there)
            self.planned = ray.put(self.plan)
            try:
                self._work()
            finally:
                for reference, (_, claim) in self.running.items():
                    ray.cancel(reference, force=True)
                    claim.close()

    def _work(self) -> None:
        pending = missing_cells(self.plan, self.store, self.options)
        while pending or self.running:
            held = []
            while pending and len(self.running) < self.room.jobs and not self.options.is_over:
                cell = pending.pop(0)
                if not self._begin(cell):
                    held.append(cell)
            pending += [cell for cell in held if not self._is_done(cell)]
            if self.running:
                pending += self._hear()
            elif self.options.is_over:
                return
            elif pending:
                self.reporter.waiting(len(pending))
                time.sleep(PATIENCE)

    def _is_done(self, cell: Cell) -> bool:
        return self.options.is_done(self.store.read(cell.key), cell)

    def _begin(self, cell: Cell) -> bool:
        """Send a cell away; tell whether nobody else is at it."""
        claim = ExitStack()
        if not claim.enter_context(self.store.claim(cell.key, self.plan.name_of(cell))):
            claim.close()
            return False
        before = self.store.read(cell.key)
        if self.options.is_done(before, cell):
            claim.close()
            return True
        errand = Errand(
            cell, before, _pack(self.store, cell.key), self.room.device, self.room.threads, version_of(_PACKAGE)
        )
        reference = self.task.remote(self.planned, self._graph(cell), errand)
        self.running[reference] = cell, claim
        self.reporter.started(cell)
        return True

    def _graph(self, cell: Cell) -> Any:
        """Return where a graph lies in the cluster; each is sent once, and shared by the processes of a machine."""
        key = (cell.column, self.plan.study.graphs[cell.column].source(self.graphs.folder, cell.seed))
        if key not in self.sent:
            self.sent[key] = self.ray.put(self.graphs.open(cell.column, cell.seed))
        return self.sent[key]

    def _hear(self) -> Iterator[Cell]:
        """Take what has come back; yield the cells that have to be sent again."""
        done, _ = self.ray.wait(list(self.running), num_returns=1, timeout=PATIENCE)
        for reference in done:
            cell, claim = self.running.pop(reference)
            with claim:
                record = self._take(cell, reference)
            if record is None:
                yield cell
            else:
                self.reporter.finished(cell, record)

    def _take(self, cell: Cell, reference: Any) -> Record | None:
        """Keep what came of a cell, and return its record; None where its process died and another may have it."""
        lost = self.ray.exceptions
        try:
            answer: Answer = self.ray.get(reference)
        except (lost.WorkerCrashedError, lost.NodeDiedError, lost.OutOfMemoryError, lost.ObjectLostError) as error:
            self.deaths[cell.key] += 1
            if self.deaths[cell.key] < _DEATHS:
                return None
            how = type(error).__name__
            before = self.store.read(cell.key)
            record = given_up(self.plan, self.graphs, before, cell, self.room.device, _DEATHS, how)
        except lost.RayError as error:
            raise RunError(
                f"Ray could not run {self.plan.name_of(cell)}: {_last_line(error)}",
                remedy="Install fossil-gnn, of the same version, on every machine of the cluster.",
            ) from error
        else:
            if answer.wrong is not None:
                raise RunError(answer.wrong[0], remedy=answer.wrong[1])
            assert answer.record is not None and answer.kept is not None
            _unpack(answer.kept, self.store)
            record = answer.record
        self.store.write(record)
        return record


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Yield Ray, connected to a cluster: the one at an address, one that the caller has, or one on this machine."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise SettingError(
            "Studies on many machines need Ray, which is not installed.", remedy="pip install 'fossil-gnn[ray]'"
        ) from error
    if ray.is_initialized():
        yield ray
        return
    _knock(address)
    sigterm = signal.getsignal(signal.SIGTERM)
    alone: Any = {} if address else {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        with environment({"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}):
            ray.init(address=address or "local", logging_level=logging.ERROR, log_to_driver=False, **alone)
    except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
        raise _unreachable(address, _last_line(error)) from error
    try:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, sigterm)  # Ray has put its own in place, which ends with status 15
        yield ray
    finally:
        ray.shutdown()


def _knock(address: str | None) -> None:
    """Raise RunError where nobody listens at an address."""
    host, colon, port = (address or "").rpartition(":")
    if not address or address == "auto":
        return
    if not colon or not host or not port.isdecimal() or "/" in host:
        raise SettingError(
            f"--address {address!r} is no address of a Ray cluster.",
            remedy="Use HOST:PORT, or auto on one of its machines.",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, str(error)) from error


def _unreachable(address: str | None, reason: str) -> RunError:
    where = f"The Ray cluster at {address} cannot be reached" if address else "Ray cannot be started on this machine"
    return RunError(
        f"{where}: {reason.rstrip('.')}.",
        remedy="Start one with Ray's command `ray start`, and name it with --address HOST:PORT; nothing was changed.",
    )


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
