"""Search for settings: Optuna proposes, encoders are trained and looked at, and a folder keeps what was found.

search.yaml     what is searched; another search is refused
journal.log     Optuna's journal, the only record of the trials
openings.jsonl  how often test labels were looked at afterwards

Optuna is asked and told, one trial after another. A proposal becomes a trial only if nobody has tried it before. It
depends on the number of the trial and on the trials before it alone, so that a search that was killed goes on as if it
had not been: a trial that was under way keeps its number, its settings and the encoders that were done.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol

from fossil.errors import FossilError, GraphError, RunError
from fossil.runs.interrupts import TrainingInterruptedError
from fossil.seeding import derive
from fossil.studies.measuring import Usage, measured
from fossil.studies.sealed import Openings
from fossil.studies.search_folder import SearchFolder
from fossil.studies.search_plan import Budget, SearchPlan
from fossil.studies.trials import EXHAUSTED, IMPOSSIBLE, Found, Trial, read_trial
from fossil.training.devices import resolve_device

if TYPE_CHECKING:
    import optuna

_PROPOSALS = 50  # for one trial, after which nothing new is expected
_BY_CHANCE = 10  # trials before the sampler has something to go by, as in the paper's searches


class Listener(Protocol):
    """Told how a search goes."""

    def begin(self, trials: list[Trial], budget: Budget) -> None:
        """The search begins, after these trials of earlier sittings."""

    def after(self, trial: Trial, found: Found, budget: Budget) -> None:
        """A trial is over."""

    def end(self) -> None:
        """The search is over, however it ended."""


class Quiet:
    """Says nothing."""

    def begin(self, trials: list[Trial], budget: Budget) -> None:
        """Say nothing."""

    def after(self, trial: Trial, found: Found, budget: Budget) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""


class SearchInterruptedError(RunError):
    """Ctrl-C: finished trials and encoders are kept."""

    exit_status = 130


def search(plan: SearchPlan, out: Path, budget: Budget, listener: Listener | None = None) -> Found:
    """Search until the budget is used up, going on with what the folder holds.

    Args:
        plan: what is searched.
        out: folder of the search.
        budget: how long, earlier sittings included.
        listener: told about every trial.

    Raises:
        RunError: the folder holds something else, another process searches in it, its test labels were opened, or it
            cannot be written.
        GraphError: the method cannot treat the graph.
        SearchInterruptedError: somebody pressed Ctrl-C.
    """
    listener = listener or Quiet()
    with SearchFolder(out).claimed(plan.to_dict()) as folder, _errors_of_the_disk(out):
        study = folder.study
        found = read(plan, study)
        if not budget.allows_another(found.trials) or found.is_exhausted(plan.space):
            return found
        if Openings(out).all:
            if found.impossible:
                raise GraphError(found.impossible)
            raise RunError(
                f"The test labels of the search in {out} were opened, so that nothing may be chosen by it any more.",
                remedy="Search in another --out.",
            )
        listener.begin(found.trials, budget)
        try:
            for trial in _trials(plan, study, budget):
                listener.after(trial, read(plan, study), budget)
        except (KeyboardInterrupt, TrainingInterruptedError) as error:
            raise SearchInterruptedError(
                f"Stopped after {len(read(plan, study).trials)} trials.",
                remedy="Everything that was finished is kept: give the same command again to go on.",
            ) from error
        finally:
            listener.end()
        return read(plan, study)


@contextmanager
def at_rest(plan: SearchPlan, out: Path) -> Iterator[Found | None]:
    """Yield what a folder holds of a search, None where it has not begun; nobody searches in it until the block ends.

    Raises:
        RunError: the folder holds something else, or another process searches in it.
    """
    if not (out / "journal.log").exists():
        yield None
        return
    with SearchFolder(out).claimed(plan.to_dict()) as folder:
        yield read(plan, folder.study)


def read(plan: SearchPlan, study: optuna.Study) -> Found:
    """Return what was found so far."""
    finished = [read_trial(one, plan.settings, plan.limits) for one in study.trials if one.state.is_finished()]
    usual = plan.usual
    whole = all(domain.holds(usual[name]) for name, domain in plan.space.items())
    return Found(finished, plan.settings(usual) if whole else None, study)


def _trials(plan: SearchPlan, study: optuna.Study, budget: Budget) -> Iterator[Trial]:
    """Try settings until the budget or the space is used up; yield each trial when it is over."""
    import optuna

    while True:
        unfinished = [one for one in study.trials if not one.state.is_finished()]
        if not unfinished:
            found = read(plan, study)
            if not budget.allows_another(found.trials) or found.is_exhausted(plan.space):
                return
            chosen = _propose(plan, study, found)
            if chosen is None:
                study.set_user_attr(EXHAUSTED, True)
                return
            study.enqueue_trial(chosen)
        # A trial that was under way when somebody killed the search: nobody else has claimed the folder.
        under_way = [one for one in unfinished if one.state is optuna.trial.TrialState.RUNNING]
        trial = optuna.trial.Trial(study, under_way[0]._trial_id) if under_way else study.ask()
        _try(plan, study, trial, _suggested(plan, trial))
        yield read_trial(study.trials[trial.number], plan.settings, plan.limits)


def _propose(plan: SearchPlan, study: optuna.Study, found: Found) -> dict[str, Any] | None:
    """Return settings that were not tried before, at first the method's own; None where nothing new is proposed."""
    import optuna

    tried = [one.settings for one in found.trials]
    drafts = optuna.create_study(direction="maximize")  # in memory: what is not tried leaves no trace
    drafts.add_trials(study.trials)
    if not tried:
        drafts.enqueue_trial({name: value for name, value in plan.usual.items() if plan.space[name].holds(value)})
    for draft in range(_PROPOSALS):
        seed = derive(plan.seed, "search", len(tried), draft) % 2**32
        drafts.sampler = _estimator(seed) if draft == 0 else optuna.samplers.RandomSampler(seed)
        chosen = _suggested(plan, drafts.ask())
        if plan.settings(chosen) not in tried:
            return chosen
    return None


def _suggested(plan: SearchPlan, trial: optuna.Trial) -> dict[str, Any]:
    return {name: domain.suggest(trial, name) for name, domain in plan.space.items()}


def _estimator(seed: int) -> optuna.samplers.TPESampler:
    """Return the sampler that learns from the trials: the tree-structured Parzen estimator, as the paper has it."""
    import optuna

    return optuna.samplers.TPESampler(
        n_startup_trials=_BY_CHANCE,
        multivariate=False,  # as when the paper was written; newer versions differ
        constant_liar=False,
        seed=seed,
    )


def _tell(
    plan: SearchPlan, study: optuna.Study, trial: optuna.Trial, value: float | None = None, state: str = "COMPLETE"
) -> None:
    """Finish a trial, and keep for the sampler by how much it exceeds the limits."""
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a trial that was killed right here
        for name, excess in plan.limits.excess(Usage.read(study.trials[trial.number].user_attrs)).items():
            trial.set_constraint(name, excess)
    study.tell(trial, value, state=optuna.trial.TrialState[state])


def _report(study: optuna.Study, trial: optuna.Trial, values: Sequence[float]) -> None:
    """Report the mean of the first encoders, of the first two and so on, what was not reported before."""
    reported = study.trials[trial.number].intermediate_values
    for step in range(len(values)):
        if step not in reported:
            trial.report(fmean(values[: step + 1]), step)


def _try(plan: SearchPlan, study: optuna.Study, trial: optuna.Trial, chosen: Mapping[str, Any]) -> None:
    """Train and look at the encoders of one trial, those that are not done yet, and tell the sampler."""
    kept = study.trials[trial.number].user_attrs
    values, usage = list(kept.get("values", [])), Usage.read(kept)
    while True:
        _report(study, trial, values)
        if len(values) == plan.encoders:
            return _tell(plan, study, trial, fmean(values))
        if values and (reason := _reason_to_give_up(plan, trial, usage)):
            trial.set_user_attr("reason", reason)
            return _tell(plan, study, trial, state="PRUNED")
        began = time.monotonic()
        try:
            value, usage = _train(plan, chosen, len(values), usage)
        except TrainingInterruptedError:
            raise
        except Exception as error:  # a probe that runs out of memory would end the search at every attempt to go on
            if trial.number == 0 and (isinstance(error, GraphError) or not isinstance(error, FossilError)):
                if isinstance(error, GraphError):
                    study.set_user_attr(IMPOSSIBLE, f"{error.what} {error.remedy}".strip())
                raise  # no other settings would change that
            reason = error.what if isinstance(error, FossilError) else f"{type(error).__name__}: {error}"
            trial.set_user_attr("reason", reason)
            trial.set_user_attr("spent", [*usage.spent, time.monotonic() - began])
            return _tell(plan, study, trial, state="FAIL")
        values.append(value)
        for name, content in usage.to_dict().items():
            trial.set_user_attr(name, content)
        trial.set_user_attr("values", values)  # last: an encoder that has it is done


def _reason_to_give_up(plan: SearchPlan, trial: optuna.Trial, usage: Usage) -> str | None:
    if not plan.limits.are_kept(usage):
        return "over the limits"
    return "below the median of the others" if plan.prune and trial.should_prune() else None


def _train(plan: SearchPlan, chosen: Mapping[str, Any], seed: int, usage: Usage) -> tuple[float, Usage]:
    """Train one encoder and return what it reached, with what it took added to `usage`."""
    graph = plan.objective.graph_for(seed, with_labels=plan.kind.needs_labels)
    began = time.monotonic()
    with measured(plan.training.device) as taken:
        result = plan.train(graph, plan.settings(chosen), seed)
    value = plan.objective.value(result, seed, str(resolve_device(plan.training.device)))
    return value, usage.plus(taken.seconds, time.monotonic() - began, taken.memory)


@contextmanager
def _errors_of_the_disk(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FossilError):
            raise
        raise RunError(
            f"Could not write to {out}: {error.strerror or error}.",
            remedy="Make room there and give the same command again: finished trials are kept.",
        ) from error
