"""The checkpoint of a run: the last state that is known to be good."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fossil.errors import GraphError, RunError
from fossil.graph.blocks import blocks
from fossil.graph.graph import Graph
from fossil.methods.base import Method, NodeVectors
from fossil.runs.embeddings import fault_of
from fossil.runs.parts import ROWS
from fossil.sampling.batches import PartsOfGraph
from fossil.sampling.few import few_of
from fossil.storage import reading, writing
from fossil.training.capabilities import TrainsOnSamples, is_out_of_memory
from fossil.training.checkpoint import Checkpoint, load_tensors, save_tensors
from fossil.training.divergence import DivergedError, first_not_finite
from fossil.training.trainer import Trainer

CHECKPOINT = "checkpoint.safetensors"
# Weights of a training that goes well are below that; of others the vectors are looked at before they are saved.
_SUSPICIOUS = 100.0


class Checkpoints:
    """Writes and reads the checkpoint of the run in a folder; does nothing without one.

    Args:
        folder: the run folder, or None.
        identity: of the run, which the checkpoint carries.
        graph: what is embedded.

    Attributes:
        epoch: of the checkpoint on the disk; None where there is none.
    """

    def __init__(self, folder: Path | None, identity: str, graph: Graph) -> None:
        self.path = None if folder is None else folder / CHECKPOINT
        self.identity, self.graph = identity, graph
        self.epoch: int | None = None

    def load(self) -> Checkpoint | None:
        """Return the checkpoint, if there is one.

        Raises:
            RunError: it is damaged, belongs to another run, or is not finite.
        """
        assert self.path is not None
        with reading(self.path):
            if not (self.path.exists() or self.path.is_symlink()):
                return None
        found = load_tensors(self.path)
        if found.about.get("identity") != self.identity:
            raise RunError(
                f"{self.path} belongs to another graph or other settings.",
                remedy="Put the right file back, or use --force.",
            )
        epoch, bad = found.about.get("epoch"), first_not_finite(found.tensors)
        if type(epoch) is not int or epoch < 0 or bad is not None:
            raise RunError(
                f"{self.path} cannot be gone on with: {f'{bad} is not finite' if bad else f'its epoch is {epoch!r}'}.",
                remedy="Delete that file and go on with --resume (training starts again), or start anew with --force.",
            )
        self.epoch = epoch
        return found

    def save(self, trainer: Trainer, history: str) -> None:
        """Write the state of a trainer, with a digest of the history up to it.

        A state whose vectors are no good is not written: a later one may be better, and if none is, this is the last
        good checkpoint. Of a graph that is sampled a few nodes are looked at here, and all where training has diverged.

        Raises:
            DivergedError: a weight is not finite, from which nothing recovers.
            RunError: the file cannot be written.
        """
        if self.path is None or trainer.steps == self.epoch:
            return
        bad = first_not_finite(trainer.method.state_dict())
        if bad is not None:
            raise DivergedError.after(trainer.steps, bad)
        if _largest(trainer.method) > _SUSPICIOUS and self._fault(trainer, few=True) is not None:
            return
        about = {"epoch": trainer.steps, "identity": self.identity, "history": history}
        save_tensors(self.path, trainer.state(), about)
        self.epoch = trainer.steps

    def keep_good(self, trainer: Trainer) -> int | None:
        """Remove the checkpoint if its state is no good; return its epoch if it is.

        The trainer, whose training has diverged, gets its state.
        """
        if self.path is None or self.epoch is None:
            return None
        found = self.load()
        assert found is not None
        trainer.load_state(found.tensors, self.epoch)
        if self._fault(trainer) is None:
            return self.epoch
        with writing(self.path):
            self.path.unlink()
        self.epoch = None
        return None

    def _fault(self, trainer: Trainer, *, few: bool = False) -> str | None:
        """Return in words what is not finite among weights and vectors: of all nodes, or a few of a sampled graph."""
        method, ids = trainer.method, self.graph.ids
        try:
            if not isinstance(trainer.prepared, PartsOfGraph):
                return fault_of(method, ids, method.eval().encode(trainer.prepared))
            found = (fault_of(method, ids, part) for part in _parts(method.eval(), trainer.prepared, few))
            return next((fault for fault in found if fault is not None), None)
        except GraphError:
            return None  # what all nodes need at once to be embedded does not fit
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return None  # beside what training takes there is no room to look


def _parts(method: Method[Any], graph: PartsOfGraph, few: bool) -> Iterator[NodeVectors]:
    """Yield the vectors of a sampled graph, one chunk of nodes after the other; or those of a small part of it."""
    assert isinstance(method, TrainsOnSamples)
    looked = replace(graph, store=few_of(graph.store)) if few else graph
    inference = method.inference(looked)
    for part in blocks(looked.num_nodes, ROWS):
        yield inference.vectors(part.start, part.stop).on_host()


def _largest(method: Method[Any]) -> float:
    sizes = [value.abs().max() for value in method.state_dict().values() if value.is_floating_point() and value.numel()]
    return max((float(size) for size in sizes), default=0.0)
