"""`fossil embed`: train on a graph, or use a trained run on another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fossil.errors import EvaluationError, GraphError, RunError, SettingError

if TYPE_CHECKING:
    from rich.console import Console

    from fossil.graph.graph import Graph
    from fossil.run import Run

_FILES = "Your own files"
_ODDITIES = "What is done about oddities"
_TRAINED = "With a trained run"
# What can be said beside --run, by the names of the parameters below; the run settles all else.
_OPEN_WITH_A_RUN = ("source", "out", "device", "force", "edges", "trained", "attach")


def command(
    context: typer.Context,
    source: str = typer.Argument(
        ...,
        metavar="INPUT",
        help="A catalogue name (see `fossil data list`), or a path: a folder with nodes.csv and edges.csv, "
        "a node table, an .npz or a .graphml file.",
    ),
    out: Path = typer.Option(
        ..., "--out", "-o", help="Folder to write; an existing run is never overwritten without --force."
    ),
    method: str = typer.Option("fossil", help="Name of the method; `fossil methods` lists them."),
    preset: str | None = typer.Option(
        None,
        help="Named set of switches: released (default) or paper for FOSSIL; `fossil methods` tells those of others.",
    ),
    assignments: list[str] = typer.Option(
        [],
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="One setting of the method (`fossil methods --method NAME` lists them); may be repeated.",
    ),
    seed: int = typer.Option(0, help="Everything random is derived from it; 0 to 4294967295."),
    epochs: int | None = typer.Option(None, help="Training steps; by default the recipe's or the method's own."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:0."),
    precision: str = typer.Option("float32", help="Of products outside the solver: float32, tf32 or bfloat16."),
    replay: bool = typer.Option(True, help="On a GPU, record the training step once and replay it."),
    checkpoint_seconds: float = typer.Option(15.0, help="Least time between two checkpoints."),
    resume: bool = typer.Option(False, "--resume", help="Go on where the run in --out stopped."),
    force: bool = typer.Option(False, "--force", help="Replace the run in --out."),
    recipe: bool = typer.Option(True, help="Use the settings that are kept for this graph and method, if any."),
    picture: bool = typer.Option(False, "--map", help="Also draw a 2-D map of the embeddings (map.png)."),
    edges: Path | None = typer.Option(None, help="Edge table, when INPUT is a node table.", rich_help_panel=_FILES),
    label: str | None = typer.Option(
        None,
        help="Column of classes; only fs_gcn and fs_mlp train on it, all other methods never see it.",
        rich_help_panel=_FILES,
    ),
    columns: list[str] = typer.Option(
        [],
        "--column",
        metavar="NAME=ROLE",
        help="What a column is: numeric, boolean, categorical, drop, label or id; may be repeated.",
        rich_help_panel=_FILES,
    ),
    structural_features: bool = typer.Option(
        False, "--structural-features", help="Make features from the edges.", rich_help_panel=_FILES
    ),
    direction: str = typer.Option(
        "keep",
        help="keep, symmetrize (add the reverse of each edge) or reverse (turn every edge round).",
        rich_help_panel=_ODDITIES,
    ),
    self_loops: str = typer.Option("remove", help="remove, keep or refuse.", rich_help_panel=_ODDITIES),
    duplicates: str = typer.Option("merge", help="Repeated edges: merge or refuse.", rich_help_panel=_ODDITIES),
    isolated: str = typer.Option("keep", help="Nodes without edges: keep, drop or refuse.", rich_help_panel=_ODDITIES),
    zero_features: str = typer.Option(
        "keep", help="Nodes with all-zero features: keep, drop or refuse.", rich_help_panel=_ODDITIES
    ),
    trained: Path | None = typer.Option(
        None, "--run", help="Embed INPUT with this trained run instead of training.", rich_help_panel=_TRAINED
    ),
    attach: bool = typer.Option(
        False,
        "--attach",
        help="With --run: INPUT holds new nodes, whose edges may name nodes of the run's graph.",
        rich_help_panel=_TRAINED,
    ),
) -> None:
    """Learn a vector for every node of a graph."""
    from fossil.cli.terminal import plain_console
    from fossil.fit import fit, resolve_epochs, resolve_settings
    from fossil.graph.catalog import known_name
    from fossil.graph.findings import Treatment
    from fossil.graph.source import open_graph
    from fossil.run import check_intent
    from fossil.settings import check_seed, parse_assignments
    from fossil.training.progress import LiveReporter
    from fossil.training.trainer import TrainingSettings

    console = plain_console()
    if trained is not None:
        _refuse_settled(context)
        return _use(console, trained, source, edges, out, device, attach=attach, force=force)
    if attach:
        raise SettingError("--attach needs a trained run.", remedy="Name it with --run DIR.")
    seed = check_seed(seed)
    check_intent(resume=resume, force=force)
    treatment = Treatment.build(
        {
            "direction": direction,
            "self_loops": self_loops,
            "duplicates": duplicates,
            "isolated": isolated,
            "zero_features": zero_features,
        }
    )
    settings = parse_assignments(assignments)
    training = TrainingSettings.build(
        {
            "epochs": epochs,
            "device": device,
            "precision": precision,
            "replay": replay,
            "checkpoint_seconds": checkpoint_seconds,
        }
    )
    reading = reading_options(edges, label, columns, structural_features)
    loaded = open_graph(source, treatment=treatment, **reading)
    show_graph(console, loaded)
    chosen, _ = resolve_settings(method, preset, known_name(loaded.graph), settings, recipe)
    steps = resolve_epochs(method, known_name(loaded.graph), epochs, recipe)
    console.print(f"{method}, preset {chosen}, seed {seed}, {steps} epochs → {out}")
    result = fit(
        loaded,
        method=method,
        preset=preset,
        settings=settings,
        training=training,
        seed=seed,
        out=out,
        resume=resume,
        force=force,
        source=source,
        treatment=treatment,
        use_recipe=recipe,
        reporter=LiveReporter(console),
    )
    if picture:
        from fossil.picture import draw_map

        draw_map(out / "map.png", result)
    _show_result(console, out)
    if _can_be_scored(result.graph, seed):
        console.print(f"next: fossil evaluate {out}")
    return None


def _refuse_settled(context: typer.Context) -> None:
    """Raise SettingError for an option that was given beside --run and would have no effect."""
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name)
        if name in _OPEN_WITH_A_RUN or given is None or given.name != "COMMANDLINE":
            continue
        spellings = parameter.secondary_opts if context.params[name] is False else parameter.opts
        raise SettingError(f"{spellings[0]} has no effect with --run.", remedy="The run settles it: leave it out.")


def reading_options(edges: Path | None, label: str | None, columns: list[str], structural: bool) -> dict[str, Any]:
    """Return the options that only the user's own files know, as `read_graph` wants them."""
    roles = {}
    for assignment in columns:
        name, equals, role = assignment.rpartition("=")
        if not equals:
            raise SettingError(
                f"--column {assignment!r} is not of the form NAME=ROLE.", remedy="Example: city=categorical"
            )
        roles[name] = role
    return {"edges": edges, "label": label, "roles": roles, "structural_features": structural}


def show_graph(console: Console, loaded: Any) -> None:
    """Print what was read: size, findings, and how columns became features."""
    graph = loaded.graph
    console.print(
        f"{graph.name}: {graph.num_nodes:,} nodes, {graph.num_edges:,} directed edges, "
        f"{graph.num_features:,} features, {graph.num_classes or 'no'} classes",
    )
    for finding in graph.findings:
        console.print(f"  {finding}")
    if loaded.plan is not None and loaded.plan.describe():
        from rich.table import Table

        table = Table("column", "role", "encoding", "width", title="Encoding plan", title_justify="left")
        for row in loaded.plan.describe():
            table.add_row(*map(str, row))
        console.print(table, soft_wrap=False)


def _show_result(console: Console, out: Path) -> None:
    from fossil.run import Run

    summary = Run.open(out).summary
    console.print(
        f"done in {summary['seconds']:.1f} s: {summary['nodes']:,} vectors of width {summary['width']}, "
        f"effective rank {summary['effective_rank']}",
    )
    if "lambda" in summary:
        fusion = summary["lambda"]
        console.print(
            f"λ (weight of structure per node): mean {fusion['mean']:.3g}, median {fusion['median']:.3g}, "
            f"spread {fusion['std']:.3g}",
        )


def _can_be_scored(graph: Graph, seed: int) -> bool:
    """Tell whether `fossil evaluate` finds the labels it needs."""
    from fossil.evaluation.protocol import protocol
    from fossil.graph.catalog import known_name

    if graph.labels is None:
        return False
    try:
        protocol("paper").draw(graph.labels, seed, known_name(graph))
    except EvaluationError:
        return False
    return True


def _use(
    console: Console,
    trained: Path,
    source: str,
    edges: Path | None,
    out: Path,
    device: str,
    *,
    attach: bool,
    force: bool,
) -> None:
    """Embed `source` with a trained run and write its vectors to `out`."""
    from fossil.run import Run, write_embeddings
    from fossil.storage import write_json

    _claim(out, force)
    run = Run.open(trained)
    graph, first = _graph_for(run, source, edges, attach)
    encoded = run.encode(graph, device)
    fusion = None if encoded.fusion is None else encoded.fusion.numpy()[first:]
    write_embeddings(out, graph.ids[first:], encoded.vectors.numpy()[first:], fusion)
    write_json(
        out / "about.json", {"run": str(trained), "source": source, "attached": attach, "weights": run.config.identity}
    )
    for finding in graph.findings:
        console.print(f"  {finding}")
    console.print(f"{graph.num_nodes - first:,} vectors of width {encoded.vectors.shape[1]} → {out}")


def _claim(out: Path, force: bool) -> None:
    """Raise RunError unless `out` is free, or holds vectors made with --run that --force may replace."""
    if out.exists() and not out.is_dir():
        raise RunError(f"{out} is a file.", remedy="Choose another --out.")
    if not out.is_dir() or not any(out.iterdir()):
        return
    if not (out / "about.json").is_file():
        raise RunError(f"{out} exists and holds other files.", remedy="Choose another --out; nothing was touched.")
    if not force:
        raise RunError(f"{out} already holds vectors.", remedy="Choose another --out, or replace them with --force.")


def _graph_for(run: Run, source: str, edges: Path | None, attach: bool) -> tuple[Any, int]:
    """Return the graph to encode and the row at which what the caller asked for begins."""
    from fossil.graph.read import attach as attach_nodes
    from fossil.graph.source import open_graph
    from fossil.graph.tables import table_paths

    treatment = run.config.treatment
    if attach:
        nodes_path, edges_path = table_paths(Path(source), edges)
        union = attach_nodes(run.graph, run.plan, nodes_path, edges_path, treatment=treatment)
        return union, sum(key in run.graph for key in union.ids.tolist())
    options: dict[str, Any] = {} if run.plan is None else {"plan": run.plan}
    loaded = open_graph(source, treatment=treatment, edges=edges, **options)
    if loaded.plan is not None and run.plan is None:
        raise GraphError(
            f"{source} has columns, but the run in {run.path} was trained on a feature matrix.",
            remedy="Give the graph in the form the run was trained on.",
        )
    return loaded.graph, 0
