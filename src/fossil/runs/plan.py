"""What is to be done, everything resolved and checked once, before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fossil.datasets.catalog import known_name
from fossil.errors import GraphError, SettingError
from fossil.graph.findings import Treatment
from fossil.graph.graph import Graph
from fossil.guard.budget import free_host_memory, in_bytes
from fossil.methods import DEFAULT_METHOD
from fossil.methods.registry import Kind, get_method, recipes
from fossil.readers.read import LoadedGraph
from fossil.readers.source import open_graph
from fossil.runs.config import RunConfig, fingerprint
from fossil.runs.preparation import can_sample
from fossil.settings import Settings, check_seed
from fossil.training.trainer import TrainingSettings


@dataclass(frozen=True, eq=False)
class Plan:
    """One training, ready to start.

    Attributes:
        loaded: the graph and its encoding plan.
        kind: the method.
        config: every setting resolved, as the run folder keeps it.
        out: run folder to write; nothing is written when None.
        resume: go on with the run in `out` if there is one.
        force: replace the run in `out` if there is one.
    """

    loaded: LoadedGraph
    kind: Kind
    config: RunConfig
    out: Path | None = None
    resume: bool = False
    force: bool = False

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.loaded.graph

    @property
    def epochs(self) -> int:
        """How many epochs to train; 0 for a method without training."""
        return self.config.training.epochs or 0

    def describe(self) -> str:
        """Return in one line what will be done."""
        config = self.config
        target = "" if self.out is None else f" → {self.out}"
        length = f"{self.epochs} epochs" if self.kind.trained else "no training"
        return f"{config.method}, preset {config.preset}, seed {config.seed}, {length}{target}"


def plan_run(
    source: Any,
    *,
    method: str | Kind = DEFAULT_METHOD,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    training: TrainingSettings | Mapping[str, Any] | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    treatment: Treatment | Mapping[str, Any] | None = None,
    use_recipe: bool = True,
    **reading: Any,
) -> Plan:
    """Check what is asked for, read the graph, and resolve every setting.

    Args:
        source: a `LoadedGraph`, or whatever `fossil.open_graph` takes.
        method: name of the method, or its class.
        preset: named set of switches of that method; its first one when None.
        settings: overrides of single settings.
        training: epochs, device, precision and the like.
        seed: everything random is derived from it; 0 to 2³² - 1.
        out: run folder to write; nothing is written when None.
        resume: go on with the run in `out` if there is one.
        force: replace the run in `out` if there is one.
        treatment: what is done about self loops, direction and other oddities.
        use_recipe: apply the settings published for this graph, if any.
        **reading: further arguments of `fossil.open_graph`, for a user's own files.

    Raises:
        GraphError: the graph cannot be read, or the method needs labels that it has not.
        SettingError: a setting is unknown, impossible, or has no effect beside others; or two options contradict.
    """
    seed, kind, settings = check_seed(seed), get_method(method), settings or {}
    check_intent(resume=resume, force=force)
    if treatment is not None and not isinstance(treatment, Treatment):
        treatment = Treatment.build(treatment)
    if not isinstance(training, TrainingSettings):
        training = TrainingSettings.build(training or {})
    _refuse_idle_epochs(kind, training.epochs)
    kind.configure(preset, settings)  # so that a mistake is found before a large graph is read
    loaded = source if isinstance(source, LoadedGraph) else open_graph(source, treatment=treatment, **reading)
    graph, known = loaded.graph, known_name(loaded.graph)
    if kind.needs_labels and graph.num_classes == 0:
        raise GraphError(
            f"{kind.title} trains on labels, and {graph.name} has none.", remedy="Name a label column (--label COLUMN)."
        )
    chosen, config = resolve_settings(kind, preset, known, settings, use_recipe)
    complete = kind.complete(config, graph, seed)
    _refuse_too_large(kind, complete, graph, seed, training)
    run = RunConfig(
        method=kind.name,
        preset=chosen,
        settings=complete,
        training=training.updated({"epochs": resolve_epochs(kind, graph, training.epochs, use_recipe)}),
        seed=seed,
        graph=graph.name,
        fingerprint=fingerprint(graph, kind, complete),
        source=str(source) if isinstance(source, str | Path) else type(source).__name__,
        treatment=treatment or Treatment(),
        version=kind.version,
    )
    return Plan(loaded, kind, run, None if out is None else Path(out), resume, force)


def resolve_settings(
    kind: Kind, preset: str | None, graph: str, settings: Mapping[str, Any], use_recipe: bool = True
) -> tuple[str, Any]:
    """Return the preset's name and the settings: preset, then the graph's recipe, then what was said explicitly.

    `graph` is a catalogue name, or empty for a graph of the user's own.

    A recipe was tuned for the default preset. Under another preset it does not touch the switches that preset sets.

    Raises:
        SettingError: a setting is unknown or impossible, or was said explicitly and has no effect beside the others.
    """
    chosen = preset or next(iter(kind.presets))
    recipe = recipes(kind.name).get(graph) if use_recipe else None
    tuned = dict(recipe.settings) if recipe else {}
    config = kind.configure(chosen, tuned, kind.presets.get(chosen, {}), settings)
    config.refuse_idle(settings)
    return chosen, config


def resolve_epochs(kind: Kind, graph: Graph, epochs: int | None, use_recipe: bool = True) -> int | None:
    """Return how many epochs to train: those asked for, else those of the graph's recipe, else the method's own.

    None for a method without training.
    """
    if not kind.trained:
        return None
    recipe = recipes(kind.name).get(known_name(graph)) if use_recipe else None
    return epochs or (recipe and recipe.epochs) or kind.epochs_for(graph.num_nodes)


def as_asked(kind: Kind, settings: Settings) -> Settings:
    """Return the settings without what a run fills in from its graph and its seed."""
    return settings.updated(dict.fromkeys(kind.filled_in)) if kind.filled_in else settings


def _refuse_too_large(kind: Kind, config: Settings, graph: Graph, seed: int, training: TrainingSettings) -> None:
    """Refuse settings whose weights and vectors alone do not fit, before any memory is taken.

    Vectors are in the host's memory all at once in the end. What a layer makes of all nodes is so only where steps read
    the whole graph.
    """
    wide = ("width", "hidden", "projection", "num_classes")
    widths = {name: size for name, size in config.sizes().items() if name.endswith(wide)}
    columns = kind.vector_columns(config, graph.num_features)
    if not widths and not columns:
        return
    in_parts = training.sampled != "never" and can_sample(kind)
    if in_parts:
        widths = {name: size for name, size in widths.items() if name == "width"} or widths
    name, width = max(widths.items(), key=lambda item: item[1], default=("columns", columns))
    need, free = 4 * max(columns, width) * graph.num_nodes, free_host_memory()
    # Beside the weights a training has their gradients and two moments of Adam's.
    need += (4 if kind.trained else 1) * _weight_bytes(kind, config, graph.num_features, seed)
    if free is None or need <= free:
        return
    long = f", which makes {columns:,} columns a vector" if columns > width else ""
    smaller = " or ".join([name, *(["untrained"] if long and getattr(config, "untrained", None) else [])])
    fewer = ", or fewer channels" if long and getattr(config, "channels", None) else ""
    raise SettingError(
        f"{kind.title} on {graph.name} ({graph.num_nodes:,} nodes, {graph.num_features:,} features) takes more "
        f"than {in_bytes(need)} in memory with {name}={width}{long}, and {in_bytes(free)} are free.",
        remedy=f"Choose a smaller {smaller}{fewer}, or use a machine with more memory.",
    )


def _weight_bytes(kind: Kind, config: Settings, num_features: int, seed: int) -> int:
    """Return what the weights of a method take, found without taking it; 0 where its constructor computes with them."""
    try:
        with torch.device("meta"):
            model = kind.build(config, num_features, seed)
    except (RuntimeError, NotImplementedError):
        return 0
    return sum(value.numel() * value.element_size() for value in model.state_dict().values())


def _refuse_idle_epochs(kind: Kind, epochs: int | None) -> None:
    if epochs is not None and not kind.trained:
        raise SettingError(f"{kind.title} is not trained, and takes no --epochs.", remedy="Leave it out.")


def check_intent(*, resume: bool, force: bool) -> None:
    """Raise SettingError where a run is to be continued and replaced at once."""
    if resume and force:
        raise SettingError(
            "--resume and --force contradict each other.",
            remedy="Give --resume to go on with the run, or --force to replace it.",
        )
