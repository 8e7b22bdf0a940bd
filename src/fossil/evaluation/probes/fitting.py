"""The probes of a protocol, fitted on the training nodes of every split: candidates, and what they say of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fossil.errors import EvaluationError
from fossil.evaluation.protocol import Protocol
from fossil.graph.graph import Array
from fossil.graph.splits import Split
from fossil.progress import Progress
from fossil.seeding import derive

_MEMORY_BUDGET = 2**30  # bytes for one group of splits fitted together


def fitted(
    embedding: Array,
    labels: Array,
    splits: Sequence[tuple[int, Split]],
    protocol: Protocol,
    device: str,
    progress: Progress,
) -> Iterator[tuple[int, Split, list[float], Array]]:
    """Yield every split with the candidates that were fitted on its training nodes, and what each says of all nodes."""
    from fossil.training.capabilities import lack_of_memory_as

    forms = _forms(embedding, protocol.rows)
    fit = _fit_strengths if protocol.probe == "logistic" else _fit_adam
    for group in _groups(embedding, labels, [split for _, split in splits], protocol):
        chunk = [splits[i] for i in group]
        candidates: list[float] = []
        by_form = []
        for number, form in enumerate(forms):
            told = partial(_tell, progress, group, len(splits), number, len(forms))
            with lack_of_memory_as(_too_large(form, protocol, device)):
                tried, predicted_by = fit(form, labels, chunk, protocol, device, told)
            candidates += tried
            by_form.append(predicted_by)
        predictions = np.concatenate(by_form, axis=1)
        for (seed, split), predicted in zip(chunk, predictions, strict=True):
            yield seed, split, candidates, predicted


def _too_large(vectors: Array, protocol: Protocol, device: str) -> EvaluationError:
    count, width = vectors.shape
    return EvaluationError(
        f"Fitting the probe of protocol {protocol.name!r} to {count:,} vectors of {width:,} numbers ran out of memory "
        f"on {device}.",
        remedy="Score when less else is at work there, or on another device (--device).",
    )


def _forms(embedding: Array, rows: str) -> list[Array]:
    """Return the embedding as it is, with rows of length one (zero rows stay), or both."""
    if rows == "as they are":
        return [embedding]
    lengths = np.linalg.norm(embedding, axis=1, keepdims=True)
    unit = embedding / np.where(lengths > 0, lengths, 1)
    return [unit] if rows == "of length one" else [embedding, unit]


def _tell(progress: Progress, group: range, total: int, form: int, forms: int, share: float) -> None:
    """Report the share of all splits that is done when a share of this group is fitted in one of its forms."""
    progress((group.start + (form + share) / forms * len(group)) / total)


def _fit_strengths(
    embedding: Array,
    labels: Array,
    chunk: Sequence[tuple[int, Split]],
    protocol: Protocol,
    device: str,
    progress: Progress,
) -> tuple[Sequence[float], Array]:
    from fossil.evaluation.probes.logistic import fit_probe

    train = [split.train for _, split in chunk]
    probes = fit_probe(embedding, labels, train, protocol.strengths, device=device, progress=progress)
    return protocol.strengths, probes.predict(embedding)


def _fit_adam(
    embedding: Array,
    labels: Array,
    chunk: Sequence[tuple[int, Split]],
    protocol: Protocol,
    device: str,
    progress: Progress,
) -> tuple[Sequence[float], Array]:
    from fossil.evaluation.probes.adam import fit_adam_probe

    seeds = [derive(seed, "evaluation", "probe") for seed, _ in chunk]
    looks = fit_adam_probe(embedding, labels, [split for _, split in chunk], seeds, device=device, progress=progress)
    return looks.steps, looks.predictions


def _groups(embedding: Array, labels: Array, splits: Sequence[Split], protocol: Protocol) -> Iterator[range]:
    """Yield ranges of splits that fit in memory together."""
    nodes, width = embedding.shape
    train, classes, budget = [split.train for split in splits], int(labels.max()) + 1, _MEMORY_BUDGET // 4
    if protocol.probe == "logistic":
        from fossil.evaluation.probes.logistic import numbers_in_rows

        candidates, (rows, shared) = len(protocol.strengths), numbers_in_rows(train, width)
        # Logits of the search; parameters of the search and of all strengths; predictions.
        others = classes * (12 * nodes + (12 + 2 * candidates) * width) + 2 * candidates * nodes
        size = budget // (rows + others)
        if shared is not None:
            size = max(size, (budget - shared) // others)
    else:
        size = budget // (max(map(len, train)) * width + 25 * nodes)
    size = max(1, size)
    return (range(start, min(start + size, len(splits))) for start in range(0, len(splits), size))
