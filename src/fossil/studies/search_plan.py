"""What is searched and for how long, everything checked before anything is trained."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from fossil.errors import FossilWarning, GraphError, SettingError
from fossil.graph.graph import Graph
from fossil.methods import DEFAULT_METHOD
from fossil.methods.registry import Kind, get_method
from fossil.readers.read import LoadedGraph
from fossil.runs.embeddings import FitResult
from fossil.runs.fit import fit
from fossil.runs.plan import plan_run, resolve_settings
from fossil.settings import Settings, check_seed
from fossil.studies.measuring import Limits
from fossil.studies.objectives import Objective
from fossil.studies.space import Space, build_space, without_idle
from fossil.studies.trials import Trial
from fossil.training.trainer import TrainingSettings


@dataclass(frozen=True)
class Budget:
    """How long to search: whichever ends first. What earlier sittings did counts.

    Attributes:
        trials: settings to try in all, those that failed or were given up included; no limit when None.
        minutes: time of all trials together; no limit when None.
    """

    trials: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        if self.trials is None and self.minutes is None:
            raise SettingError("A search without end.", remedy="Say how long (--minutes, --trials).")
        if self.trials is not None and self.trials < 1:
            raise SettingError(f"{self.trials} trials try nothing.", remedy="At least one is needed (--trials).")
        if self.minutes is not None and not 0 < self.minutes < float("inf"):
            raise SettingError(
                f"In {self.minutes:g} minutes nothing is tried.", remedy="More than 0 is needed (--minutes)."
            )

    def share(self, trials: list[Trial]) -> float:
        """Return which part of it is used up."""
        shares = [0.0]
        if self.trials is not None:
            shares.append(len(trials) / self.trials)
        if self.minutes is not None:
            shares.append(sum(one.spent for one in trials) / (60 * self.minutes))
        return min(1.0, max(shares))

    def seconds_left(self, trials: list[Trial]) -> float | None:
        """Return how long the rest will take, if trials go on taking as long as they did; None before the first."""
        if not trials:
            return None if self.minutes is None else 60 * self.minutes
        spent = [one.spent for one in trials]
        left = [] if self.minutes is None else [60 * self.minutes - sum(spent)]
        if self.trials is not None:
            left.append((self.trials - len(trials)) * fmean(spent))
        return max(0.0, min(left))

    def allows_another(self, trials: list[Trial]) -> bool:
        """Tell whether one more trial may begin: one that, going by the others, would end in time. The first may."""
        if self.trials is not None and len(trials) >= self.trials:
            return False
        spent = [one.spent for one in trials]
        return self.minutes is None or not spent or sum(spent) + fmean(spent) <= 60 * self.minutes


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """A search, everything checked.

    Attributes:
        kind: the method.
        preset: its preset.
        fixed: settings that stay as they are.
        space: what may be tried.
        training: epochs, device and precision.
        objective: what is maximised, with the graph.
        encoders: encoders that each setting is tried with; their seeds count from 0.
        seed: of what is proposed.
        limits: what a training may take.
        prune: whether settings that lag behind are given up before all encoders are trained.
    """

    kind: Kind
    preset: str
    fixed: Mapping[str, Any]
    space: Space
    training: TrainingSettings
    objective: Objective
    encoders: int = 2
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    prune: bool = True

    @property
    def graph(self) -> Graph:
        """What the first encoder is trained on."""
        return self.objective.graph_for(0, with_labels=self.kind.needs_labels)

    @property
    def usual(self) -> dict[str, Any]:
        """The method's own values of what is searched."""
        base = self.kind.configure(self.preset, self.fixed)
        return {name: getattr(base, name) for name in self.space}

    def settings(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a trial says explicitly: what is fixed and what was chosen, where it has an effect."""
        whole: Settings = self.kind.configure(self.preset, self.fixed, chosen)
        return {**self.fixed, **without_idle(whole, chosen)}

    def train(self, graph: Graph, settings: Mapping[str, Any], seed: int) -> FitResult:
        """Train one encoder, without the advice about single settings that would drown a search."""
        run = plan_run(
            LoadedGraph(graph),
            method=self.kind,
            preset=self.preset,
            settings=settings,
            training=self.training,
            seed=seed,
            use_recipe=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FossilWarning)
            return fit(run)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that all sittings of a search must agree on."""
        return {
            "graph": self.graph.name,
            "fingerprint": self.graph.fingerprint,
            "method": self.kind.name,
            "preset": self.preset,
            "settings": dict(self.fixed),
            "space": {name: str(domain) for name, domain in self.space.items()},
            "epochs": self.training.epochs,
            "precision": self.training.precision,
            "encoders": self.encoders,
            "seed": self.seed,
            "limits": {"seconds": self.limits.seconds, "memory": self.limits.memory},
            "prune": self.prune,
            "objective": self.objective.to_dict(),
        }


def plan_search(
    objective: Objective,
    *,
    method: str | Kind = DEFAULT_METHOD,
    preset: str | None = None,
    settings: Mapping[str, Any] | None = None,
    space: Space | None = None,
    training: TrainingSettings | Mapping[str, Any] | None = None,
    encoders: int = 2,
    seed: int = 0,
    limits: Limits | None = None,
    prune: bool = True,
) -> SearchPlan:
    """Check what is to be searched; nothing is trained.

    Args:
        objective: what is maximised, with the graph.
        method: name of the method, or its class.
        preset: its preset; the first one when None.
        settings: single settings that stay as they are.
        space: values or ranges to try, in place of those that settings declare.
        training: epochs, device and precision.
        encoders: encoders that each setting is tried with.
        seed: of what is proposed.
        limits: what a training may take.
        prune: give up settings that lag behind the median before all of their encoders are trained.

    Raises:
        SettingError: a setting or the space is not accepted, there is nothing to search, or Optuna is missing.
        GraphError: the method needs labels and the objective has none.
    """
    load_optuna()
    kind, fixed = get_method(method), dict(settings or {})
    if encoders < 1:
        raise SettingError(f"{encoders} encoders try nothing.", remedy="At least one is needed (--encoders).")
    graph = objective.graph_for(0, with_labels=kind.needs_labels)
    if kind.needs_labels:
        if graph.labels is None:
            raise GraphError(
                f"{kind.title} trains on labels, and this search has none.", remedy="Search with labels (--label)."
            )
        fixed = _with_the_search_split(kind, fixed)
    chosen, _ = resolve_settings(kind, preset, "", fixed, use_recipe=False)
    built = build_space(kind, chosen, fixed, space or {})
    if not isinstance(training, TrainingSettings):
        training = TrainingSettings.build(training or {})
    plan_run(LoadedGraph(graph), method=kind, preset=chosen, settings=fixed, training=training, use_recipe=False)
    found = SearchPlan(
        kind, chosen, fixed, built, training, objective, encoders, check_seed(seed), limits or Limits(), prune
    )
    found.limits.check(training.device)
    return found


def _with_the_search_split(kind: Kind, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a method that trains on labels, with the split that the search has drawn for it."""
    for name in ("split", "split_seed", "nodes_per_class"):
        if name in fixed:
            raise SettingError(
                f"{name} cannot be fixed: a search of {kind.title} draws splits itself and puts test nodes aside.",
                remedy="Leave it out; --protocol says how splits are drawn.",
            )
    return {**fixed, "split": "public"}


def load_optuna() -> None:
    """Raise SettingError where Optuna is missing; keep it from printing."""
    try:
        import optuna
    except ImportError as error:
        raise SettingError(
            "A search needs Optuna, which is not installed.", remedy="pip install 'fossil-gnn[search]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
