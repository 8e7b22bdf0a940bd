"""`fossil search`: find settings for a graph, without looking at test labels."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fossil.cli import complete
from fossil.cli.reading import NAMES, Reading, reads_a_graph
from fossil.errors import SettingError
from fossil.methods import DEFAULT_METHOD

if TYPE_CHECKING:
    from fossil.graph.graph import Graph
    from fossil.studies.objectives import Objective

_DEFAULT_MINUTES = 10.0
_CRITERION = "held-out-edges"
_LIMITS = "What a training may take"


@reads_a_graph
def command(
    context: typer.Context,
    source: str = typer.Argument(
        ...,
        metavar="INPUT",
        autocompletion=complete.graphs,
        help="A graph as `fossil embed` takes it: a catalogue name or a path.",
    ),
    out: Path | None = typer.Option(
        None, "--out", "-o", help="Folder of the search, to go on in if it is there; search-NAME-METHOD by default."
    ),
    minutes: float | None = typer.Option(
        None, help="Time of all trials together, earlier sittings included; 10 where nothing is said."
    ),
    trials: int | None = typer.Option(None, help="Settings to try in all; the paper tried 100."),
    method: str = typer.Option(
        DEFAULT_METHOD, autocompletion=complete.methods, help="Name of the method; `fossil methods` lists them."
    ),
    preset: str | None = typer.Option(None, autocompletion=complete.presets, help="Named set of switches."),
    assignments: list[str] = typer.Option(
        [],
        "--set",
        "-s",
        metavar="KEY=VALUE",
        autocompletion=complete.settings,
        help="A setting that stays as it is and is not searched; may be repeated.",
    ),
    spaces: list[str] = typer.Option(
        [],
        "--space",
        metavar="KEY=VALUES",
        help="Values to try, alpha=0.1,0.5, or a range, learning_rate=0.0001..0.01:log, in place of those that the "
        "setting declares (`fossil methods --method NAME` lists them); may be repeated.",
    ),
    protocol: str | None = typer.Option(
        None,
        autocompletion=complete.protocols,
        help="How splits are drawn and what is fitted, as for `fossil evaluate`; paper by default. Settings are chosen "
        "by accuracy on its validation nodes. Its test labels are sealed.",
    ),
    criterion: str | None = typer.Option(
        None,
        help="Search without labels, by held-out-edges, held-out-features, held-out (the mean of both) or rankme. Used "
        "by itself (held-out-edges) where the graph has no labels. A stand-in, and a weak one: measured on a few "
        "graphs, none of them ranked settings as accuracy does on all.",
    ),
    freeze: int | None = typer.Option(
        None,
        help="When the search is over, open the test labels: train so many new encoders with what was found, and with "
        "the defaults, and score both. Counted, and nothing can be searched in this folder afterwards.",
    ),
    encoders: int = typer.Option(2, help="Encoders, each with a seed of its own, that every setting is tried with."),
    pruning: str = typer.Option(
        "median", help="median: give up settings whose first encoders are below the median of the others; or none."
    ),
    max_seconds: float | None = typer.Option(None, help="Longest training to recommend.", rich_help_panel=_LIMITS),
    max_memory: float | None = typer.Option(
        None, help="GiB of the GPU, or of this process on a CPU, to recommend at most.", rich_help_panel=_LIMITS
    ),
    seed: int = typer.Option(0, help="Of what is proposed; the same seed proposes the same."),
    epochs: int | None = typer.Option(None, help="Training steps; by default the method's own."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:0."),
    precision: str = typer.Option("float32", help="Of products outside the solver: float32, tf32 or bfloat16."),
    *,
    reading: Reading,
) -> None:
    """Find settings for a graph: so many minutes, then the best ones and the command to train with them."""
    from fossil.cli.search_report import LiveSearch, freezing_bar, show_found, show_frozen
    from fossil.cli.show import plain_console, show_graph
    from fossil.methods.registry import get_method
    from fossil.readers.source import open_graph
    from fossil.settings import parse_assignments
    from fossil.studies.freeze import check_freeze
    from fossil.studies.freeze import freeze as open_labels
    from fossil.studies.measuring import Limits
    from fossil.studies.search import search
    from fossil.studies.search_plan import Budget, load_optuna, plan_search
    from fossil.studies.space import parse_space

    load_optuna()
    if minutes is None and trials is None:
        minutes = _DEFAULT_MINUTES
    budget = Budget(trials, minutes)
    kind, fixed, named = get_method(method), parse_assignments(assignments), parse_space(spaces)
    kind.configure(preset, fixed)  # so that a mistake is found before a large graph is read
    if pruning not in ("median", "none"):
        raise SettingError(f"--pruning {pruning!r} is not accepted.", remedy="Use median or none.")
    console = plain_console()
    loaded = open_graph(source, **reading.options())
    graph = loaded.graph
    objective = _objective(graph, protocol, criterion, encoders)
    plan = plan_search(
        objective,
        method=kind,
        preset=preset,
        settings=fixed,
        space=named,
        training={"epochs": epochs, "device": device, "precision": precision},
        encoders=encoders,
        seed=seed,
        limits=Limits(max_seconds, max_memory),
        prune=pruning == "median",
    )
    if freeze is not None:
        check_freeze(plan, freeze)
    folder = out or Path(f"search-{_plain(graph.name)}-{kind.name}")
    show_graph(console, loaded)
    console.print(f"searching {len(plan.space)} settings of {kind.title} by {objective.describe()} → {folder}")
    found = search(plan, folder, budget, LiveSearch(console, objective.percent))
    show_found(console, plan, found, folder, _embed_command(context, plan.preset, found.best, graph))
    if freeze is not None:
        with freezing_bar(console) as progress:
            frozen = open_labels(plan, folder, found, graph, freeze, progress)
        show_frozen(console, found, frozen)


def _objective(graph: Graph, protocol: str | None, criterion: str | None, encoders: int) -> Objective:
    """Return what is maximised: what was asked for, else accuracy where there are labels, else a criterion."""
    from fossil.evaluation.protocol import protocol as named_protocol
    from fossil.studies.objectives import ValidationAccuracy, WithoutLabels
    from fossil.studies.sealed import seal

    if criterion is not None:
        if protocol is not None:
            raise SettingError(
                "--protocol and --criterion contradict each other: the one uses labels, the other does not.",
                remedy="Leave one of them out.",
            )
        return WithoutLabels(graph, criterion)
    if graph.labels is None and protocol is not None:
        raise SettingError(
            f"{graph.name} has no labels, which --protocol needs.",
            remedy=f"Name the column of classes (--label COLUMN), or search by --criterion {_CRITERION}.",
        )
    if graph.labels is None:
        return WithoutLabels(graph, _CRITERION)
    return ValidationAccuracy(seal(graph, named_protocol(protocol or "paper"), range(max(1, encoders))))


def _embed_command(context: typer.Context, preset: str, best: Any, graph: Graph) -> str:
    """Return the command line that trains with the best settings, reading the graph as it was read here."""
    from fossil.datasets.catalog import known_name
    from fossil.methods.registry import get_method, recipes
    from fossil.settings import exactly

    if best is None:
        return ""
    kind, given = get_method(context.params["method"]), context.params
    words = ["fossil", "embed", given["source"], "--method", kind.name]
    if preset != next(iter(kind.presets)):
        words += ["--preset", preset]
    for name, value in best.settings.items():
        if not (kind.needs_labels and name == "split"):  # the search's own
            words += ["--set", f"{name}={exactly(value)}"]
    if known_name(graph) in recipes(kind.name):
        words.append("--no-recipe")
    words += _as_given(context, (*NAMES, "epochs", "device", "precision"))
    return shlex.join([*words, "--out", f"runs/{_plain(graph.name)}-{kind.name}-best"])


def _as_given(context: typer.Context, names: tuple[str, ...]) -> list[str]:
    """Return those options as the user typed them."""
    words: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in names or source is None or source.name != "COMMANDLINE":
            continue
        value = context.params[name]
        for one in value if isinstance(value, list | tuple) else [value]:
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], str(one)]
    return words


def _plain(name: str) -> str:
    """Return a graph's name as part of a file name."""
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name) or "graph"
