"""What a search found: its trials, the best of them, how they spread, and which settings mattered."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

from fossil.evaluation.comparison import Spread
from fossil.studies.measuring import Limits, Usage
from fossil.studies.space import Space, combinations

if TYPE_CHECKING:
    import optuna

EXHAUSTED = "exhausted"
"""What Optuna keeps of a search that has nothing new to propose."""

IMPOSSIBLE = "impossible"
"""What Optuna keeps of a search whose first training the graph did not allow: the reason."""

FEWEST_FOR_IMPORTANCE = 10
ENOUGH_FOR_IMPORTANCE = 100


@dataclass(frozen=True)
class Trial:
    """One proposal and what became of it.

    Attributes:
        number: in the order they were proposed.
        state: COMPLETE, PRUNED (given up before all encoders were trained) or FAIL.
        chosen: what was proposed for each setting of the space.
        settings: the same with what is fixed, without what has no effect.
        values: what each encoder reached.
        usage: what they took.
        feasible: whether all limits were kept.
        reason: why it failed or was given up.
    """

    number: int
    state: str
    chosen: Mapping[str, Any]
    settings: Mapping[str, Any]
    values: tuple[float, ...]
    usage: Usage
    feasible: bool
    reason: str | None = None

    @property
    def value(self) -> float:
        """Mean over its encoders."""
        return fmean(self.values)

    @property
    def spent(self) -> float:
        """Seconds that it took."""
        return sum(self.usage.spent)

    @property
    def is_complete(self) -> bool:
        """Whether all of its encoders were trained."""
        return self.state == "COMPLETE"


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found so far.

    Attributes:
        trials: all that are over.
        usual: the settings of the trial that has the method's own values; None where these are not in the space.
        study: Optuna's.
    """

    trials: list[Trial]
    usual: Mapping[str, Any] | None
    study: optuna.Study

    @property
    def best(self) -> Trial | None:
        """The best complete trial that keeps all limits, the first of equals; None where there is none."""
        candidates = [one for one in self.complete if one.feasible]
        return max(candidates, key=lambda one: (one.value, -one.number), default=None)

    @property
    def defaults(self) -> Trial | None:
        """The trial with the method's own values, where it is complete."""
        same = (one for one in self.complete if self.usual == one.settings)
        return next(same, None)

    @property
    def complete(self) -> list[Trial]:
        """Trials all of whose encoders were trained."""
        return [one for one in self.trials if one.is_complete]

    @property
    def spread(self) -> Spread | None:
        """How complete trials that keep all limits spread, as the best of them is chosen; None where there are none."""
        usual = None if self.defaults is None or not self.defaults.feasible else self.defaults.value
        values = tuple(one.value for one in self.complete if one.feasible)
        return Spread(values, usual) if values else None

    def is_exhausted(self, space: Space) -> bool:
        """Tell whether every setting of the space was tried, or nothing but settings that were is proposed."""
        return bool(self.study.user_attrs.get(EXHAUSTED)) or len(
            {tuple(sorted(map(str, one.chosen.items()))) for one in self.trials}
        ) >= combinations(space)

    @property
    def impossible(self) -> str:
        """Why the method cannot have the graph, as far as was tried; empty where it can."""
        return "" if self.trials else str(self.study.user_attrs.get(IMPOSSIBLE, ""))

    def count(self, state: str) -> int:
        """Return how many trials ended so."""
        return sum(one.state == state for one in self.trials)

    @cached_property
    def importances(self) -> dict[str, float]:
        """How much of the variance over trials each setting explains (fANOVA), the greatest first; empty where few."""
        import optuna

        values = {one.value for one in self.complete}
        if len(self.complete) < FEWEST_FOR_IMPORTANCE or len(values) < 2:
            return {}
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(optuna.importance.get_param_importances(self.study, evaluator=evaluator))

    def equal_budget(self) -> str:
        """Return what a table has to say of how the settings were found."""
        others = {"given up early": self.count("PRUNED"), "failed": self.count("FAIL")}
        parts = [f"{len(self.complete)} trained in full", *(f"{n} {what}" for what, n in others.items() if n)]
        return f"{len(self.trials)} trials ({', '.join(parts)})"


def read_trial(
    kept: optuna.trial.FrozenTrial, settings: Callable[[Mapping[str, Any]], dict[str, Any]], limits: Limits
) -> Trial:
    """Return one of Optuna's trials as the search sees it."""
    usage = Usage.read(kept.user_attrs)
    return Trial(
        number=kept.number,
        state=kept.state.name,
        chosen=kept.params,
        settings=settings(kept.params),
        values=tuple(kept.user_attrs.get("values", ())),
        usage=usage,
        feasible=limits.are_kept(usage),
        reason=kept.user_attrs.get("reason"),
    )
