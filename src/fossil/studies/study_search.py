"""The searches of a study: one for each row and graph, all with the same budget, and their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from fossil.errors import FossilError, GraphError, SettingError
from fossil.evaluation.protocol import protocol
from fossil.report.tables import Table
from fossil.runs.lock import HeldError
from fossil.studies.entries import SearchEntry
from fossil.studies.measuring import Limits
from fossil.studies.objectives import ValidationAccuracy
from fossil.studies.plan import WHOLE, Graphs, StudyPlan
from fossil.studies.rows import Row
from fossil.studies.sealed import Openings, seal
from fossil.studies.search import Listener, at_rest, search
from fossil.studies.search_plan import Budget, SearchPlan, plan_search
from fossil.studies.searched import Searched, folder_of_search, how_searched, write_searched
from fossil.studies.space import read_space
from fossil.studies.spread import Figures, figures_of, spread_table
from fossil.studies.trials import Found, Trial


@dataclass(frozen=True, eq=False)
class StudySearch:
    """One search of a study.

    Attributes:
        row: title of the row.
        graph: title of the graph.
        folder: where it is kept.
        plan: what is searched; None where it cannot be.
        reason: why not.
    """

    row: str
    graph: str
    folder: Path
    plan: SearchPlan | None
    reason: str = ""


def searches_of(plan: StudyPlan, graphs: Graphs, device: str = "auto") -> Iterator[StudySearch]:
    """Yield the searches of a study, graph by graph.

    Raises:
        SettingError: the study has no search, or Optuna is missing.
    """
    asked = wanted(plan)
    for column, graph in enumerate(plan.columns):
        for row in plan.rows:
            if row.found:
                continue  # what was found is not searched again
            folder = folder_of_search(plan.study.folder_of_searches(plan.file), graph, row.title)
            if column in plan.unreadable:
                yield StudySearch(row.title, graph, folder, None, plan.unreadable[column])
                continue
            try:
                planned = _plan(plan, graphs, row, column, asked, device)
            except SettingError:
                raise
            except FossilError as error:
                yield StudySearch(row.title, graph, folder, None, f"{error.what} {error.remedy}")
                continue
            yield StudySearch(row.title, graph, folder, planned)


def wanted(plan: StudyPlan) -> SearchEntry:
    """Return the search that a study asks for.

    Raises:
        SettingError: it asks for none.
    """
    if plan.study.search is None:
        raise SettingError(f"{plan.file} asks for no search.", remedy="Add search: {trials: 100}.")
    return plan.study.search


def budget_of(asked: SearchEntry) -> Budget:
    """Return the budget that every method has on every graph."""
    return Budget(asked.trials, asked.minutes)


def _plan(plan: StudyPlan, graphs: Graphs, row: Row, column: int, asked: SearchEntry, device: str) -> SearchPlan:
    rule = protocol(asked.protocol or plan.study.protocols[0])
    graph = graphs.open(column, plan.study.seeds[0]).graph
    return plan_search(
        ValidationAccuracy(seal(graph, rule, range(asked.encoders))),
        method=row.method,
        preset=row.preset,
        settings=row.settings,
        space=read_space(asked.space.get(row.method, {})),
        training={"epochs": row.epochs, "device": device, "precision": plan.study.precision, **WHOLE},
        encoders=asked.encoders,
        seed=asked.seed,
        limits=Limits(asked.max_seconds, asked.max_memory),
        prune=asked.prune,
    )


def run_searches(
    plan: StudyPlan,
    graphs: Graphs,
    listener: Callable[[StudySearch], Listener],
    device: str = "auto",
    elsewhere: Callable[[StudySearch, str], None] = lambda one, who: None,
) -> list[tuple[StudySearch, Found | None]]:
    """Search until every row has used up its budget on every graph, or others are at all that remain.

    What another process is searching is left to it, and looked at again when the rest is done: it may be over by then,
    or that process may have been killed. A method that turns out not to have a graph does not keep the others from it.

    Args:
        plan: the study.
        graphs: reads its graphs.
        listener: makes what is told how a search goes.
        device: `auto`, `cpu`, `cuda` or `cuda:0`.
        elsewhere: told, once each, of what is left to another process, and which that is.

    Returns:
        Every search and what it found: None where it cannot be done, with the reason in it, or where another process
        is still at it.
    """
    budget = budget_of(wanted(plan))
    searches = list(searches_of(plan, graphs, device))
    found: dict[StudySearch, Found] = {}
    impossible: dict[StudySearch, StudySearch] = {}
    told = set()
    pending = [one for one in searches if one.plan is not None]
    while pending:
        for one in pending:
            assert one.plan is not None
            try:
                found[one] = search(one.plan, one.folder, budget, listener(one))
            except HeldError as error:
                if one not in told:
                    elsewhere(one, error.what)
                told.add(one)
            except GraphError as error:
                impossible[one] = replace(one, plan=None, reason=f"{error.what} {error.remedy}".strip())
        left = [one for one in pending if one not in found and one not in impossible]
        if len(left) == len(pending):
            break
        pending = left
    return [(impossible.get(one, one), found.get(one)) for one in searches]


def searched_elsewhere(results: list[tuple[StudySearch, Found | None]]) -> list[str]:
    """Return, in words, the searches that another process is still at."""
    return [f"{one.row} on {one.graph}" for one, found in results if one.plan is not None and found is None]


def freeze_study(plan: StudyPlan, graphs: Graphs) -> int:
    """Keep the best settings of every search, and open the test labels; return how often that makes.

    From then on the study has a row for each method with the settings that were found, which `fossil study run`
    trains and scores, and none of its searches goes on.

    Raises:
        SettingError: the study asks for no search, or one of them is not over or has found nothing.
    """
    wanted(plan)
    found: dict[str, dict[str, dict[str, object]]] = {}
    spread: dict[str, dict[str, Figures]] = {}
    folders = []
    with ExitStack() as held:  # all searches, so that none goes on, and no other command freezes them, meanwhile
        for one in searches_of(plan, graphs):
            if one.plan is None:
                continue
            try:
                result = held.enter_context(at_rest(one.plan, one.folder))
            except HeldError as error:
                raise SettingError(
                    f"The search of {one.row} on {one.graph} is not over: {error.what}", remedy="Wait for it to end."
                ) from error
            folders.append(one.folder)
            if result is not None and result.impossible:
                continue  # its labels count as opened all the same, so that it is not searched later
            result, best = _best(plan, one, one.plan, result)
            chosen = {name: best.settings[name] for name in best.chosen if name in best.settings}
            found.setdefault(one.row, {})[one.graph] = chosen
            spread.setdefault(one.row, {})[one.graph] = figures_of(result)
        if not found:
            raise SettingError(f"{plan.file}: no graph could be searched.", remedy="See `fossil study search`.")
        count = max(Openings(folder).add({"study": plan.study.name}) for folder in folders)
        how = how_searched(plan.study)
        write_searched(plan.study.folder_of_searches(plan.file), Searched(found, how, count, spread))
    return count


def _best(plan: StudyPlan, one: StudySearch, planned: SearchPlan, result: Found | None) -> tuple[Found, Trial]:
    """Return what a search found, and its best trial.

    Raises:
        SettingError: it is not over, or has found nothing.
    """
    is_over = result is not None and (
        result.is_exhausted(planned.space) or not budget_of(wanted(plan)).allows_another(result.trials)
    )
    if result is None or not is_over:
        raise SettingError(
            f"The search of {one.row} on {one.graph} is not over.", remedy=f"Go on: fossil study search {plan.file}"
        )
    if result.best is None:
        raise SettingError(
            f"The search of {one.row} on {one.graph} has found nothing{' within its limits' * bool(planned.limits)}.",
            remedy=f"Leave out the method or the graph{', or allow more' * bool(planned.limits)}.",
        )
    return result, result.best


def searches_table(plan: StudyPlan, results: list[tuple[StudySearch, Found | None]]) -> Table:
    """Return how validation accuracy spreads over the settings of every search: how far a method must be tuned."""
    searches = [(one.graph, one.row, None if found is None else figures_of(found)) for one, found in results]
    how = how_searched(plan.study)
    notes = [how[0].upper() + how[1:]]
    notes += [f"{one.row} on {one.graph}: {one.reason}" for one, found in results if found is None and one.reason]
    if others := searched_elsewhere(results):
        notes.append(f"Still being searched elsewhere: {', '.join(others)}.")
    opened = max((len(Openings(one.folder).all) for one, _ in results), default=0)
    notes.append(f"Test labels were opened {opened} time{'' if opened == 1 else 's'}.")
    return spread_table(searches, notes)
