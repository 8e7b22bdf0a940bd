"""What a comparison has to beat: features and propagated features of the same graph, on the same splits.

Nothing is trained for them, so that whoever does not score above them has learnt nothing that was not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from fossil.errors import warn_the_caller
from fossil.evaluation.rows import ByEncoder
from fossil.evaluation.subjects import Subject
from fossil.evaluation.tasks.node_classification import NodeClassification, SplitScore
from fossil.graph.graph import Array, Graph
from fossil.methods.registry import get_method
from fossil.methods.untrained import Features, Prop
from fossil.ops.memory import free_memory
from fossil.progress import Progress
from fossil.training.trainer import Trainer

UNTRAINED: tuple[type[Features], ...] = (Features, Prop)


def is_trained(subject: Subject) -> bool:
    """Tell whether somebody may have trained these vectors, as opposed to those that are to be beaten."""
    return subject.config is None or get_method(subject.config.method).trained


class UntrainedScores:
    """Scores of untrained vectors, each made and scored once, however many rows share it.

    Args:
        task: what vectors are scored by.
        device: where.
    """

    def __init__(self, task: NodeClassification, device: str) -> None:
        self.task, self.device = task, device
        self._vectors: dict[tuple[str, str], Array | None] = {}
        self._scores: dict[tuple[str, str, str], dict[int, SplitScore]] = {}

    def of(
        self, members: Sequence[Subject], splits: int, truth: str, parts: Iterator[Progress]
    ) -> Mapping[str, ByEncoder]:
        """Return the scores of each untrained method on the splits of a row, by title, under the seeds of its encoders.

        Args:
            members: the encoders of the row.
            splits: how many each of them has.
            truth: what rows have in common whose splits are the same; see `Row`.
            parts: told of the progress, one for each method and encoder.
        """
        graph = members[0].graph
        found: dict[str, ByEncoder] = {}
        for kind in UNTRAINED:
            vectors = self._vectors_of(kind, graph)
            scores: dict[int, Sequence[SplitScore]] = {}
            for member in members:
                progress = next(parts)
                if vectors is not None:
                    known = self._scores.setdefault((kind.name, graph.fingerprint, truth), {})
                    seeds = member.split_seeds(splits, self.task.protocol)
                    missing = [seed for seed in seeds if seed not in known]
                    if missing:
                        new = self.task.score(vectors, graph, missing, device=self.device, progress=progress)
                        known.update(zip(missing, new, strict=True))
                    scores[member.seed] = [known[seed] for seed in seeds]
                progress(1.0)
            if vectors is not None:
                found[kind.title] = scores
        return found

    def _vectors_of(self, kind: type[Features], graph: Graph) -> Array | None:
        key = (kind.name, graph.fingerprint)
        if key not in self._vectors:
            self._vectors[key] = untrained_vectors(kind, graph, torch.device(self.device))
        return self._vectors[key]


def untrained_vectors(kind: type[Features], graph: Graph, device: torch.device) -> Array | None:
    """Return the vectors (N×D) of an untrained method with its default settings, as a run of seed 0 has them.

    None, with a warning, where memory is too small for them: the rest of a comparison can go on.
    """
    method = kind.build(kind.complete(kind.configure(None), graph, 0), graph.num_features, 0).to(device)
    prepared = method.prepare(graph, device)
    needed, free = method.memory(prepared), free_memory(device)
    if free is not None and needed > free:
        warn_the_caller(
            f"{kind.title} of {graph.name} would take {needed / 2**30:,.1f} GiB, and {free / 2**30:,.1f} GiB are free: "
            "nothing is compared with them."
        )
        return None
    Trainer(method, prepared, 0, device).fit()
    vectors: Array = method.encode(prepared).vectors.cpu().numpy()
    return vectors
