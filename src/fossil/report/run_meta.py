"""What a page says of a run, but for what it has of every node."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fossil.evaluation.audit import describe_audit
from fossil.evaluation.subjects import subject_of
from fossil.graph.graph import Array, Graph
from fossil.report.columns import NodeColumn, table_note
from fossil.report.contract import Encoded, Pair, Plan, Probe, RunMeta, Topic, brief
from fossil.report.provenance import changed_settings, provenance, summary_facts, training_curves
from fossil.report.subgraphs import subgraph_rule
from fossil.runs.run import Run


def describe_run(
    run: Run,
    rows: Array,
    layout: str,
    columns: Sequence[NodeColumn],
    pairs: Sequence[tuple[Pair, Plan]],
    pairs_about: str,
    probe: Probe | None,
) -> RunMeta:
    """Return all of it.

    Args:
        run: a finished run.
        rows: the nodes that are shown.
        layout: how they were laid out, in words.
        columns: their values.
        pairs: pairs of subgraphs, with the transport plan of each.
        pairs_about: how these were chosen.
        probe: what it gets wrong; None where there is none.
    """
    graph = run.graph
    notes = [note for note in (_sample_note(run, rows), table_note(run)) if note is not None]
    names = [column.name for column in columns]
    colour = next((name for name in ("label", "channel", "lambda", "degree") if name in names), None)
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
        layout=layout,
        columns=[column.meta() for column in columns],
        colour=colour,
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
