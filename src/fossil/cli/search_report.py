"""What a search prints: a line or a bar while it goes, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fossil.settings import spelt
from fossil.studies.objectives import ValidationAccuracy
from fossil.studies.sealed import Openings
from fossil.studies.trials import ENOUGH_FOR_IMPORTANCE, FEWEST_FOR_IMPORTANCE
from fossil.training.progress import duration

if TYPE_CHECKING:
    from fossil.studies.freeze import Frozen
    from fossil.studies.search_plan import Budget, SearchPlan
    from fossil.studies.trials import Found, Trial

_MOST_IMPORTANT = 5


class LiveSearch:
    """A bar with trials, the best so far and the time left; a line for each trial where there is no terminal.

    Args:
        console: where it is printed.
        percent: whether values are shares.
        title: said when the search begins, where one of several does.
    """

    def __init__(self, console: Console, percent: bool, title: str = "") -> None:
        self.console, self.percent, self.title = console, percent, title
        self.progress = Progress(
            TextColumn("searching"),
            BarColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def begin(self, trials: list[Trial], budget: Budget) -> None:
        """Show the bar, and say where the search stands."""
        if self.title:
            self.console.print(self.title)
        if trials:
            done = sum(one.spent for one in trials)
            self.console.print(f"going on after {len(trials)} trials ({duration(done)})")
        self.progress.start()
        state = f"{_count(len(trials), budget)} trials"
        self.task = self.progress.add_task("search", total=1.0, state=state)
        self.progress.update(self.task, completed=budget.share(trials))

    def after(self, trial: Trial, found: Found, budget: Budget) -> None:
        """Move the bar, or print a line."""
        left = budget.seconds_left(found.trials)
        best = "none yet" if found.best is None else f"{self._value(found.best.value)} (trial {found.best.number})"
        remaining = f", about {duration(left)} left" if left else ""
        count = _count(len(found.trials), budget)
        self.progress.update(
            self.task, completed=budget.share(found.trials), state=f"{count} trials, best {best}{remaining}"
        )
        if not self.console.is_terminal:
            self.console.print(f"trial {trial.number}: {self._outcome(trial)}; {count} done, best {best}{remaining}")

    def end(self) -> None:
        """Take the bar away."""
        self.progress.stop()

    def _outcome(self, trial: Trial) -> str:
        if trial.state == "FAIL":
            return f"failed ({trial.reason})"
        given_up = "" if trial.is_complete else f", given up after {len(trial.values)}: {trial.reason}"
        over = "" if trial.feasible or not trial.is_complete else ", over the limits"
        return f"{self._value(trial.value)} in {duration(trial.spent)}{given_up}{over}"

    def _value(self, value: float) -> str:
        return _shown(value, self.percent)


def _count(trials: int, budget: Budget) -> str:
    return str(trials) if budget.trials is None else f"{trials} of {budget.trials}"


def _shown(value: float, percent: bool) -> str:
    return f"{100 * value:.2f} %" if percent else f"{value:.4f}"


def show_found(console: Console, plan: SearchPlan, found: Found, folder: Path, command: str) -> None:
    """Print the best settings, how trials spread, what mattered, and the command to train with."""
    best, percent, name = found.best, plan.objective.percent, plan.objective.name
    if best is None:
        reasons = [one.reason for one in found.trials if one.reason]
        why = f" The last reason: {reasons[-1]}" if reasons else ""
        console.print(f"none of {len(found.trials)} trials is complete and keeps the limits.{why}")
        return
    console.print()
    console.print(
        f"best of {found.equal_budget()}: trial {best.number}, {name} {_shown(best.value, percent)}, mean of "
        f"{len(best.values)} encoders trained in {duration(sum(best.usage.training) / len(best.values))} each"
    )
    console.print(_settings_table(plan, best.chosen, best.settings), soft_wrap=False)
    _show_spread(console, found, percent, " within the limits" * bool(plan.limits))
    _show_importances(console, found)
    if isinstance(plan.objective, ValidationAccuracy):
        opened = Openings(folder)
        hint = "" if opened.all else " The same command with --freeze 10 opens them, to see what was gained."
        console.print(opened.describe() + hint)
    console.print("train with them:")
    console.print(f"  {command}", soft_wrap=True)  # whole, to be copied


def _settings_table(plan: SearchPlan, chosen: Mapping[str, Any], settings: Mapping[str, Any]) -> Table:
    table = Table("setting", "best", "default", "tried", title="Best settings", title_justify="left")
    usual = plan.usual
    for name, domain in plan.space.items():
        value = spelt(chosen[name]) if name in settings else "(no effect)"
        table.add_row(name, value, spelt(usual[name]), str(domain))
    return table


def _show_spread(console: Console, found: Found, percent: bool, which: str) -> None:
    spread = found.spread
    assert spread is not None
    low, median, high = spread.quartiles
    shown = {"best": spread.best, "median": median, "worst": spread.worst}
    if spread.usual is not None:
        shown = {"best": spread.best, "defaults": spread.usual, "median": median, "worst": spread.worst}
    parts = ", ".join(f"{name} {_shown(value, percent)}" for name, value in shown.items())
    console.print(
        f"spread over {len(spread.values)} settings{which}: {parts}, middle half {_shown(low, percent)} to "
        f"{_shown(high, percent)}. The best of many is partly luck: expect less of it on other nodes."
    )


def _show_importances(console: Console, found: Found) -> None:
    if not found.importances:
        console.print(
            f"what mattered: cannot be told from {len(found.complete)} settings; "
            f"{FEWEST_FOR_IMPORTANCE} that differ in what they reach are the least."
        )
        return
    shares = list(found.importances.items())[:_MOST_IMPORTANT]
    text = ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares)
    few = len(found.complete) < ENOUGH_FOR_IMPORTANCE
    caveat = f" From {len(found.complete)} settings this is a hint: another search may order them anew." if few else ""
    console.print(f"what mattered (share of the variance, fANOVA): {text}.{caveat}")


@contextmanager
def freezing_bar(console: Console) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how many encoders are trained; yields what to tell it to."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("training with frozen settings")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def show_frozen(console: Console, found: Found, frozen: Frozen) -> None:
    """Print the test accuracies, and how often test labels were opened."""
    table = Table("settings", "encoders", "test accuracy", title="On test nodes, once", title_justify="left")
    table.add_row("found", str(frozen.best.n), frozen.best.percent())
    if frozen.defaults is not None:
        table.add_row("defaults", str(frozen.defaults.n), frozen.defaults.percent())
    console.print(table, soft_wrap=False)
    if frozen.difference is not None:
        console.print(f"found minus defaults, paired by encoder: {frozen.difference.percent()}")
    times = f"{frozen.openings} time{'' if frozen.openings == 1 else 's'}"
    console.print(
        f"{frozen.test_nodes:,} test nodes, the same for all; found in {found.equal_budget()}. "
        f"Test labels of this search were opened {times}."
    )
