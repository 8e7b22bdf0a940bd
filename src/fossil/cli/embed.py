"""`fossil embed`: train on a graph, or use a trained run on another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fossil.cli import complete
from fossil.cli.reading import Reading, reads_a_graph
from fossil.cli.together import refuse_ranks, together
from fossil.errors import SettingError
from fossil.methods import DEFAULT_METHOD

if TYPE_CHECKING:
    from rich.console import Console

_TRAINED = "With a trained run"
# What can be said beside --run, by the names of the parameters below; the run settles all else.
_OPEN_WITH_A_RUN = ("source", "out", "device", "force", "edges", "trained", "attach")


@together
@reads_a_graph
def command(
    context: typer.Context,
    source: str = typer.Argument(
        ...,
        metavar="INPUT",
        autocompletion=complete.graphs,
        help="A catalogue name (see `fossil data list`), or a path: a folder with nodes.csv and edges.csv, "
        "a node table, or another format (see `fossil data formats`).",
    ),
    out: Path | None = typer.Option(
        None,
        "--out",
        "-o",
        help="Folder to write; an existing run is never overwritten without --force. Only --plan needs none.",
    ),
    method: str = typer.Option(
        DEFAULT_METHOD,
        autocompletion=complete.methods,
        help="Name of the method; `fossil methods` lists them, and fossil is the paper's.",
    ),
    preset: str | None = typer.Option(
        None,
        autocompletion=complete.presets,
        help="Named set of switches of the method, such as paper for method fossil "
        "(`fossil methods --method NAME` lists them).",
    ),
    assignments: list[str] = typer.Option(
        [],
        "--set",
        "-s",
        metavar="KEY=VALUE",
        autocompletion=complete.settings,
        help="One setting of the method (`fossil methods --method NAME` lists them); may be repeated.",
    ),
    seed: int = typer.Option(0, help="Everything random is derived from it; 0 to 4294967295."),
    epochs: int | None = typer.Option(None, help="Training steps; by default the recipe's or the method's own."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:0."),
    precision: str = typer.Option("float32", help="Of products outside the solver: float32, tf32 or bfloat16."),
    replay: bool = typer.Option(True, help="On a GPU, capture the training step once as a CUDA graph and replay it."),
    sampled: bool | None = typer.Option(
        None,
        "--sampled/--no-sampled",
        help="Take steps on the surroundings of the sampled nodes, or on the whole graph; by default the former where "
        "the latter does not fit and the method can.",
    ),
    fan_out: int = typer.Option(5, help="Neighbours of a node that a sampled step reads at most; 0 for all."),
    batch_nodes: int = typer.Option(
        2000,
        help="Nodes whose loss a sampled step takes, for methods whose settings do not say: bgrl, bnll, dgi, grace.",
    ),
    plan_only: bool = typer.Option(
        False, "--plan", help="Say where each array would lie, what memory and time a step takes, and train nothing."
    ),
    checkpoint_seconds: float = typer.Option(
        15.0, help="Least time between two checkpoints; long steps have one each."
    ),
    resume: bool = typer.Option(False, "--resume", help="Go on where the run in --out stopped."),
    force: bool = typer.Option(False, "--force", help="Replace the run in --out."),
    recipe: bool = typer.Option(True, help="Use the settings that are kept for this graph and method, if any."),
    picture: bool = typer.Option(
        False, "--map", help="Also draw a 2-D map of the embeddings (map.png); `fossil map` does it later."
    ),
    logs: list[str] = typer.Option(
        [],
        "--log",
        metavar="NAME[:PLACE]",
        autocompletion=complete.loggers,
        help="Also log every epoch to tensorboard, mlflow or wandb; after a colon, its folder, address or project. "
        "May be repeated.",
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
    *,
    reading: Reading,
) -> None:
    """Learn a vector for every node of a graph."""
    from fossil.cli.show import plain_console, show_graph, show_result
    from fossil.runs.fit import fit, fit_worker
    from fossil.runs.loggers.registry import get_loggers
    from fossil.runs.plan import plan_run
    from fossil.settings import parse_assignments
    from fossil.training.progress import LiveReporter

    console, ranks = plain_console(), context.obj
    if trained is not None:
        refuse_ranks(ranks, "--run")
        _refuse_settled(context)
        return _use(console, trained, source, reading.edges, _named(out), device, attach=attach, force=force)
    out = out if plan_only else _named(out)
    if attach:
        raise SettingError("--attach needs a trained run.", remedy="Name it with --run DIR.")
    if picture and out is not None:
        from fossil.report.map import check_map, draw_map

        check_map(out / "map.png", force=True)
    wanted = get_loggers(logs)
    plan = plan_run(
        source,
        method=method,
        preset=preset,
        settings=parse_assignments(assignments),
        training={
            "epochs": epochs,
            "device": device,
            "precision": precision,
            "replay": replay,
            "sampled": {None: "auto", True: "always", False: "never"}[sampled],
            "fan_out": fan_out,
            "batch_nodes": batch_nodes,
            "checkpoint_seconds": checkpoint_seconds,
        },
        seed=seed,
        out=out,
        resume=resume,
        force=force,
        use_recipe=recipe,
        **reading.options(),
    )
    if not ranks.leads:
        return fit_worker(plan, ranks)
    show_graph(console, plan.loaded)
    if plan_only:
        from fossil.runs.forecast import forecast

        refuse_ranks(ranks, "--plan")
        for line in forecast(plan):
            console.print(line)
        return None
    console.print(plan.describe())
    result = fit(plan, LiveReporter(console), wanted, ranks)
    if picture and out is not None:
        draw_map(out / "map.png", result)
    show_result(console, result)
    return None


def _named(out: Path | None) -> Path:
    if out is None:
        raise SettingError("There is no folder to write to.", remedy="Name one with --out DIR.")
    return out


def _refuse_settled(context: typer.Context) -> None:
    """Raise SettingError for an option that was given beside --run and would have no effect."""
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name)
        if name in _OPEN_WITH_A_RUN or given is None or given.name != "COMMANDLINE":
            continue
        spellings = parameter.secondary_opts if context.params[name] is False else parameter.opts
        raise SettingError(f"{spellings[0]} has no effect with --run.", remedy="The run settles it: leave it out.")


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
    from fossil.graph.findings import counted
    from fossil.runs.run import Run
    from fossil.training.progress import LiveReporter

    with LiveReporter(console) as reporter:
        found = Run.open(trained).embed(
            source, attach=attach, edges=edges, device=device, out=out, force=force, progress=reporter.stage
        )
    console.print(f"{source}: {counted(len(found), 'nodes')}")
    for finding in found.graph.findings:
        console.print(f"  {finding}")
    console.print(f"{len(found):,} vectors of width {found.vectors.shape[1]} → {out}")
