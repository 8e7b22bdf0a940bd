"""Vectors of many nodes as parts: each written whole, so that an embedding that was stopped goes on with those missing.

parts.json                 whose vectors these are, and how many nodes a part has
part-00000.npz, ...        what `embeddings.npz` has, of nodes 0, 1, ... in the graph's order
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fossil.errors import FossilError, RunError
from fossil.graph.blocks import blocks
from fossil.graph.graph import Array, Graph
from fossil.methods.base import Method, NodeVectors
from fossil.methods.chunks import join_chunks
from fossil.progress import CountProgress, StageProgress, silent
from fossil.storage import read_arrays, read_json, write_arrays, write_json, writing
from fossil.training.capabilities import LayerwiseInference, TrainsOnSamples
from fossil.training.placement import host_store, place

ABOUT = "parts.json"
PARTS = "parts"
"""The folder of parts within a run folder; it is gone once the vectors are written as one."""
ROWS = 1 << 17
"""Nodes of a part: 256 MiB at 512 columns."""
_CHANNEL = "channel_of_"


def write_parts(
    folder: Path,
    inference: LayerwiseInference,
    ids: Array,
    identity: str,
    *,
    size: int = ROWS,
    progress: CountProgress = silent,
) -> None:
    """Embed all nodes into the parts that `folder` does not have yet.

    Args:
        folder: for the parts; those of another training are removed.
        inference: what embeds a chunk of nodes.
        ids: of all nodes.
        identity: what tells these vectors from others: graph, settings and weights.
        size: nodes of a part.
        progress: is told how many parts there are so far, and of how many.
    """
    about = {"identity": identity, "nodes": len(ids), "size": size}
    if _read_about(folder) != about:
        remove_parts(folder)
        write_json(folder / ABOUT, about)
    total = -(-len(ids) // size)
    for number in range(total):
        if not _part(folder, number).exists():
            first, last = number * size, min((number + 1) * size, len(ids))
            arrays = {"ids": ids[first:last]} | _arrays(inference.vectors(first, last))
            write_arrays(_part(folder, number), arrays, compress=False)
        progress(number + 1, total)


def refuse_other_parts(folder: Path, identity: str) -> None:
    """Raise RunError where a folder holds parts of other vectors than those that are told by `identity`."""
    found = _read_about(folder)
    if found is not None and found["identity"] != identity:
        raise RunError(
            f"{folder.parent} holds the beginning of another embedding.",
            remedy="Go on with it by the command that began it, begin anew with --force, or choose another --out.",
        )


def read_parts(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the arrays of each part in the order of the nodes.

    Raises:
        FossilError: a part is missing or damaged.
    """
    about = _read_about(folder)
    if about is None:
        raise FossilError(f"{folder} holds no parts of vectors.", remedy="Embed the graph into it first.")
    for number in range(-(-about["nodes"] // about["size"])):
        if not _part(folder, number).exists():
            raise FossilError(f"{_part(folder, number)} is missing.", remedy="Go on with the embedding (--resume).")
        try:
            yield read_arrays(_part(folder, number))
        except RunError as error:
            raise RunError(
                error.what, remedy="Delete that file and go on with --resume, which makes it again and no other."
            ) from error


def remove_parts(folder: Path) -> None:
    """Remove the parts in a folder, what a killed process was writing of them, and the folder if that was all."""
    with writing(folder):
        for path in [*folder.glob("part-*.npz"), *folder.glob(".part*.part"), *folder.glob(ABOUT)]:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def embed_in_parts(
    method: Method[Any],
    graph: Graph,
    device: torch.device,
    folder: Path | None = None,
    identity: str = "",
    progress: StageProgress = silent,
) -> NodeVectors:
    """Return the vectors of a graph of which no more is on the device at a time than is needed, exactly.

    Args:
        method: trained, on the device, and able to embed so.
        graph: in memory or on disk.
        device: where vectors are made.
        folder: for the parts, of which those that are there are not made again; all stay in memory when None.
        identity: what tells these vectors from others.
        progress: is told which stage is at work and which share of it is done.
    """
    assert isinstance(method, TrainsOnSamples)
    store, mapped = host_store(graph, method.edge_directions)
    store, _ = place(store, device, 0.0, mapped=mapped)
    inference = method.eval().inference(method.prepare_sampled(store, device, None))
    inference.progress = progress
    if folder is None:
        parts = (inference.vectors(part.start, part.stop).on_host() for part in blocks(graph.num_nodes, ROWS))
        return join_chunks(parts, graph.num_nodes)
    write_parts(
        folder,
        inference,
        graph.ids,
        identity,
        size=ROWS,
        progress=lambda done, total: progress("vectors", done / total),
    )
    del inference  # and what it keeps of every node, which makes room for the vectors
    return join_chunks(map(vectors_of, read_parts(folder)), graph.num_nodes)


def weights_digest(method: Method[Any]) -> str:
    """Return a hash of everything that a method has learnt or worked out."""
    digest = hashlib.sha256()
    for name, value in sorted(method.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(value.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()[:16]


def vectors_of(part: Mapping[str, Array]) -> NodeVectors:
    """Return the arrays of a part as what a method says of its nodes."""
    named = {name: torch.from_numpy(array) for name, array in part.items() if name != "ids"}
    channels = {name.removeprefix(_CHANNEL): each for name, each in named.items() if name.startswith(_CHANNEL)}
    shares = named.get("channel_shares")
    return NodeVectors(
        named["vectors"],
        named.get("fusion"),
        named.get("structure_share"),
        channels or None,
        None if shares is None else dict(zip(channels, shares.tolist(), strict=True)),
    )


def _arrays(found: NodeVectors) -> dict[str, Array]:
    """Return everything that a method says of some nodes as arrays by name."""
    host = found.on_host()
    tensors = {"vectors": host.vectors, "fusion": host.fusion, "structure_share": host.structure_share}
    arrays = {name: each.numpy() for name, each in tensors.items() if each is not None}
    arrays |= {f"{_CHANNEL}{name}": each.numpy() for name, each in (host.channels or {}).items()}
    if host.channel_shares is not None:
        arrays["channel_shares"] = np.array(list(host.channel_shares.values()))
    return arrays


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05}.npz"


def _read_about(folder: Path) -> Any:
    return read_json(folder / ABOUT) if (folder / ABOUT).exists() else None
