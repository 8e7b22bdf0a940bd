"""`report.html`: one file that shows a run, or several side by side, without a server and without the network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from fossil.errors import EvaluationError, RunError, SettingError
from fossil.evaluation.answers import answers
from fossil.evaluation.audit import describe_audit
from fossil.evaluation.evaluate import SPLITS_OF_A_SINGLE_RUN, default_protocol, evaluate
from fossil.evaluation.protocol import Protocol, protocol
from fossil.evaluation.subjects import refuse_repeats, subject_of
from fossil.graph.graph import Array, Graph
from fossil.graph.structure import undirected
from fossil.neighbours.exact import ExactNeighbours
from fossil.progress import Progress, silent
from fossil.report.arrays import category_codes, number_steps, packed, packed_texts, places
from fossil.report.columns import LARGEST_PAGE, NodeColumn, columns_of, has_classes, table_note
from fossil.report.contract import Encoded, Meta, Pair, Plan, Probe, RunMeta, Scores, Topic, brief, plain
from fossil.report.cosines import cosines_between
from fossil.report.layout import layout_of
from fossil.report.probe import describe_probe
from fossil.report.provenance import changed_settings, provenance, summary_facts, training_curves
from fossil.report.score_page import describe_scores
from fossil.report.subgraphs import NodeSubgraphs, sampler_of, subgraph_rule, subgraphs_of
from fossil.report.transport import chosen_pairs
from fossil.runs.run import Run
from fossil.seeding import numpy_generator
from fossil.storage import write_text

MOST_NODES = LARGEST_PAGE

_NEAR = 10  # neighbours of a node by its vector
_LISTED = 10  # neighbours of a node in the graph
# An empty style element, which the map's lasso makes and fills by script.
_NO_STYLE = "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="


def check_report(path: Path, *, force: bool) -> None:
    """Raise, before any work is done, where a report could not be written to `path`.

    Raises:
        SettingError: the suffix is not that of a page.
        RunError: there is a file already, and nobody said that it may be replaced.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"A report cannot be written to {path}.", remedy="Name a file that ends in .html.")
    if path.exists() and not force:
        raise RunError(f"{path} already exists.", remedy="Replace it with --force, or choose another --out.")


def write_report(
    path: Path,
    runs: Sequence[Run],
    *,
    named: str | None = None,
    splits: int | None = None,
    device: str = "auto",
    progress: Progress = silent,
) -> None:
    """Write one page about finished runs; what stands there is replaced.

    Args:
        path: of the page.
        runs: finished runs, of one graph or of several.
        named: the protocol to score by; see `fossil.evaluate`.
        splits: splits per run; see `fossil.evaluate`.
        device: where probes are fitted.
        progress: told which share of the work is done.

    Raises:
        RunError: a run is not finished, or the file cannot be written.
        EvaluationError: a run is given twice, or there is no such protocol.
    """
    for run in runs:
        run.check_finished()
    scores, unscored, rule = _scores(runs, named, splits, device, lambda share: progress(share / 2))
    parts = []
    for number, run in enumerate(runs):
        parts.append(_part(run, rule, splits, device))
        progress(0.5 + (number + 1) / (2 * len(runs)))
    meta = Meta(
        version=_version(),
        kind="report",
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        runs=[part.meta for part in parts],
        scores=scores,
        unscored=unscored,
    )
    arrays = {f"{number}/{name}": each for number, part in enumerate(parts) for name, each in part.arrays.items()}
    plans = {f"{number}/{pair.a}/{pair.b}": plan for number, part in enumerate(parts) for pair, plan in part.pairs}
    write_text(path, page(plain(meta), arrays, {key: plain(plan) for key, plan in plans.items()}))


def page(meta: dict[str, Any], arrays: dict[str, Any] | None = None, plans: dict[str, Any] | None = None) -> str:
    """Return the page; without arrays it asks the server that it comes from.

    The policy lets it run the bundle and nothing else, and lets no request leave: scripts and styles are known by their
    hashes. `unsafe-eval` is for regl, which compiles its draw calls; no text of a user comes near them.
    """
    script, style = (files("fossil.report").joinpath("assets", name).read_text() for name in ("page.js", "page.css"))
    served = arrays is None
    source = "served" if served else "embedded"
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}' 'unsafe-eval'",
            f"style-src '{_hash(style)}' '{_NO_STYLE}'",
            "img-src data: blob:",
            "connect-src 'self'" if served else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    told = {"meta": meta} if served else {"meta": meta, "arrays": arrays, "plans": plans or {}}
    blocks = "\n".join(
        f'<script type="application/json" id="{name}">{_json(value)}</script>' for name, value in told.items()
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<meta name="fossil-source" content="{source}">\n'
        f"<title>fossil report</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="page"><p class="loading">Reading the report …</p>'
        "<noscript>This page is drawn by a script that is part of it; allow scripts for this file.</noscript></div>\n"
        f"{blocks}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(value: object) -> str:
    """Return JSON in which no text ends an element, begins a comment or breaks a line of a script."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode("utf-8", "replace").decode()


@dataclass(frozen=True, eq=False)
class _Part:
    """What a page has of one run."""

    meta: RunMeta
    arrays: dict[str, Any]
    pairs: list[tuple[Pair, Plan]]


def _scores(
    runs: Sequence[Run], named: str | None, splits: int | None, device: str, progress: Progress
) -> tuple[Scores | None, str | None, Protocol | None]:
    """Return the scores, why there are none, and the protocol they follow."""
    subjects = [subject_of(run) for run in runs]
    refuse_repeats(subjects)
    asked = None if named is None else protocol(named)
    if not all(has_classes(run.graph) for run in runs):
        bare = next(run for run in runs if not has_classes(run.graph))
        return None, f"{bare.graph.name} has no classes to score against.", None
    try:
        rule = asked or default_protocol(subjects)
        rows = evaluate(runs, protocol=rule, splits=splits, features=True, device=device, progress=progress, keep=False)
    except EvaluationError as error:
        return None, f"{error.what} {error.remedy}", None
    return describe_scores(rows), None, rule


def _part(run: Run, rule: Protocol | None, splits: int | None, device: str) -> _Part:
    graph, found = run.graph, run.embeddings
    rows = shown_rows(graph.num_nodes)
    page_rows = np.full(graph.num_nodes, -1)
    page_rows[rows] = np.arange(len(rows))
    layout = layout_of(run)
    probe, errors = _probe(run, rule, splits, device, page_rows)
    columns = [column.of(rows) for column in columns_of(run, errors)]
    near, cosines = ExactNeighbours(found.vectors[rows]).nearest(np.arange(len(rows)), _NEAR)
    sampler = sampler_of(run)
    subgraphs = subgraphs_of(sampler, rows)
    pairs, pairs_about = chosen_pairs(run, subgraphs, rows, rows[near], page_rows)
    x, y = places(layout.positions[rows])
    arrays = {"x": packed(x), "y": packed(y), "near/rows": packed(near.astype(np.uint32))}
    arrays["near/cosines"] = packed(_cosine_steps(cosines))
    texts, lengths = packed_texts([brief(str(key)) for key in graph.ids[rows].tolist()])
    arrays |= {"ids": packed(texts), "ids/lengths": packed(lengths)}
    arrays |= {f"column/{number}": _column(column) for number, column in enumerate(columns)}
    arrays |= _listed(run, rows, page_rows) | _subgraph_arrays(subgraphs, page_rows)
    return _Part(describe_run(run, rows, layout.how, columns, pairs, pairs_about, probe), arrays, pairs)


def shown_rows(nodes: int) -> Array:
    """Return the nodes that a page shows: all, or a sample of `MOST_NODES`, in the order of the graph."""
    if nodes <= MOST_NODES:
        return np.arange(nodes)
    return np.sort(numpy_generator(0, "report", "sample").choice(nodes, MOST_NODES, replace=False))


def _probe(
    run: Run, rule: Protocol | None, splits: int | None, device: str, page_rows: Array
) -> tuple[Probe | None, Array | None]:
    if rule is None:
        return None, None
    found = answers(subject_of(run), rule, splits or SPLITS_OF_A_SINGLE_RUN, _device(device))
    return describe_probe(run.graph, found, page_rows), found.errors


def _version() -> str:
    import torch

    from fossil.training.devices import environment

    return str(environment(torch.device("cpu"))["versions"]["fossil-gnn"])


def _device(name: str) -> str:
    from fossil.training.devices import resolve_device

    return str(resolve_device(name))


def _column(column: NodeColumn) -> dict[str, Any]:
    about = column.meta()
    if column.names is not None:
        return packed(category_codes(column.values, len(column.names)))
    steps, step = number_steps(column.values, about.low, about.high)
    return packed(steps, step=step)


def _listed(run: Run, rows: Array, page_rows: Array) -> dict[str, Any]:
    """Return the first neighbours of each node in the graph, how near their vectors are, and how many there are."""
    edges = undirected(run.graph.adjacency)
    source = np.repeat(page_rows, np.diff(edges.indptr))
    target = page_rows[edges.indices]
    inside = (source >= 0) & (target >= 0)
    source, target = source[inside], target[inside]
    starts = np.searchsorted(source, np.arange(len(rows)))
    kept = np.arange(len(source)) - starts[source] < _LISTED if len(source) else np.empty(0, bool)
    source, target = source[kept], target[kept]
    vectors = run.embeddings.vectors
    return {
        "degrees": packed(np.diff(edges.indptr)[rows].astype(np.uint32)),
        "graph/counts": packed(np.bincount(source, minlength=len(rows)).astype(np.uint8)),
        "graph/rows": packed(target.astype(np.uint32)),
        "graph/cosines": packed(_cosine_steps(cosines_between(vectors, rows[source], rows[target]))),
    }


def _cosine_steps(cosines: Array) -> Array:
    return np.round((np.clip(cosines, -1, 1) + 1) / 2 * 255).astype(np.uint8)


def _subgraph_arrays(subgraphs: NodeSubgraphs, page_rows: Array) -> dict[str, Any]:
    """Return the subgraphs whose nodes are all on the page."""
    rows = page_rows[subgraphs.nodes]
    kept = subgraphs.filled & (rows >= 0).all(axis=1)
    size = subgraphs.nodes.shape[1]
    first, second = np.triu_indices(size, 1)
    bits = np.packbits(subgraphs.adjacency[kept][:, first, second], axis=1) if kept.any() else np.empty(0, np.uint8)
    return {
        "subgraphs/filled": packed(kept.astype(np.uint8)),
        "subgraphs/rows": packed(rows[kept][:, :-1].astype(np.uint32)),
        "subgraphs/edges": packed(bits),
    }


def describe_run(
    run: Run,
    rows: Array,
    how: str,
    columns: Sequence[NodeColumn],
    pairs: Sequence[tuple[Pair, Plan]],
    pairs_about: str,
    probe: Probe | None,
) -> RunMeta:
    """Return all that the page says of a run, but for what it has of every node.

    Args:
        run: a finished run.
        rows: the nodes that are shown.
        how: they were laid out.
        columns: their values.
        pairs: whose plans are worth a look.
        pairs_about: how these were chosen.
        probe: what it gets wrong; None where there is none.
    """
    graph = run.graph
    notes = [note for note in (_sample_note(run, rows), table_note(run)) if note is not None]
    named = [column.name for column in columns]
    first = next((name for name in ("label", "channel", "lambda", "degree") if name in named), None)
    return RunMeta(
        name=run.path.resolve().name,
        graph=graph.name,
        method=subject_of(run).method,
        seed=run.config.seed,
        nodes_key=_nodes_key(graph, rows),
        nodes=len(rows),
        total_nodes=graph.num_nodes,
        edges=graph.num_edges,
        directed=graph.is_directed,
        features=graph.num_features,
        width=int(run.embeddings.vectors.shape[1]),
        layout=how,
        columns=[column.meta() for column in columns],
        colour=first,
        notes=notes,
        findings=[*(str(finding) for finding in graph.findings), *run.summary.get("findings", [])],
        encoding=[Encoded(brief(row[0]), *row[1:]) for row in (run.plan.describe() if run.plan else [])],
        audit=[Topic(topic, text) for topic, text in describe_audit(graph).items()],
        summary=summary_facts(run),
        training=training_curves(run),
        subgraphs=subgraph_rule(run),
        pairs=[pair for pair, _ in pairs],
        pairs_about=pairs_about,
        probe=probe,
        provenance=provenance(run),
        settings=changed_settings(run),
    )


def _nodes_key(graph: Graph, rows: Array) -> str:
    """Return what two runs have in common whose rows are the same nodes.

    Ids that only count the nodes say nothing of which graph they are of, so that its name counts too.
    """
    ids = list(map(str, graph.ids.tolist()))
    counted = ids == list(map(str, range(len(ids))))
    words = [graph.name if counted else "", *(ids[row] for row in rows.tolist())]
    return hashlib.sha256("\n".join(words).encode("utf-8", "replace")).hexdigest()


def _sample_note(run: Run, rows: Array) -> str | None:
    nodes = run.graph.num_nodes
    if len(rows) == nodes:
        return None
    return (
        f"This page shows a sample of {len(rows):,} of {nodes:,} nodes, drawn at random: neighbours are those in the "
        f"sample. `fossil explore {run.path}` shows all."
    )
