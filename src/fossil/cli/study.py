"""`fossil study`: many trainings from one file, each done once, and their tables and figures."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from fossil.cli.show import Form, plain_console, show_table
from fossil.report.tables import Format

if TYPE_CHECKING:
    from fossil.studies.plan import StudyPlan
    from fossil.studies.results import Results
    from fossil.studies.store import Store

app = typer.Typer(
    help="Whole comparisons from one file: plan, run, and look at tables and figures.", no_args_is_help=True
)

File: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="The study file, such as studies/table2.yaml.")]
Out: TypeAlias = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder to write to; NAME-export beside FILE.")
]


class Executor(StrEnum):
    """Who trains."""

    PROCESSES = "processes"
    RAY = "ray"


@app.command("plan")
def plan(file: File, form: Form = Format.TABLE) -> None:
    """Say how many trainings are missing, and what they will take as far as that was measured; train nothing."""
    from fossil.studies.overview import plan_table
    from fossil.studies.recorded import measured_elsewhere

    results = _results(file)
    show_table(plain_console(), plan_table(results, measured_elsewhere(results.plan)), form)


@app.command("run")
def run(
    file: File,
    jobs: int | None = typer.Option(
        None, min=1, help="Trainings at once, which share the cores; 1, or on a Ray cluster as many as it has room for."
    ),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:0."),
    mps: bool = typer.Option(False, "--mps", help="Let the processes share one GPU by NVIDIA's Multi-Process Service."),
    executor: Executor = typer.Option(Executor.PROCESSES, help="Processes of this machine, or a Ray cluster."),
    address: str | None = typer.Option(None, help="HOST:PORT of the Ray cluster; one on this machine by default."),
    seconds: float | None = typer.Option(None, min=0, help="Start no further training after this long."),
    retry_failed: bool = typer.Option(False, "--retry-failed", help="Try again what failed before."),
) -> None:
    """Train and score what is missing; several of these commands at once share the work."""
    import time

    from fossil.studies.execute import run_study
    from fossil.studies.overview import left_out, summary_line
    from fossil.studies.plan import open_study
    from fossil.studies.progress import LiveReport
    from fossil.studies.results import Results
    from fossil.studies.store import Store
    from fossil.studies.work import Options

    now, console = time.time(), plain_console()
    plan, graphs = open_study(file, download=True)
    store = Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)
    for line in left_out(plan):
        console.print(line)
    options = Options(
        device=device,
        jobs=jobs,
        mps=mps,
        executor=executor.value,
        address=address,
        deadline=None if seconds is None else now + seconds,
        retry_before=now if retry_failed else None,
    )
    with LiveReport(plan, store, options) as reporter:
        run_study(plan, graphs, store, options, reporter)
    console.print(summary_line(Results(plan, store)))
    console.print(f"next: fossil study table {file}")


@app.command("search")
def search(file: File, device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:0.")) -> None:
    """Search settings for every method on every graph, with equal budgets; several of these commands share the work.

    Test labels stay sealed. A search that another command is at is left to it.
    """
    from fossil.cli.search_report import LiveSearch
    from fossil.studies.plan import open_study
    from fossil.studies.store import Store
    from fossil.studies.study_search import StudySearch, run_searches, searched_elsewhere, searches_table, wanted

    console = plain_console()
    plan, graphs = open_study(file, download=True)
    wanted(plan)
    Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)

    def listener(one: StudySearch) -> LiveSearch:
        return LiveSearch(console, percent=True, title=f"{one.row} on {one.graph} → {one.folder}")

    def elsewhere(one: StudySearch, who: str) -> None:
        console.print(f"{one.row} on {one.graph} is left to another command: {who}")

    results = run_searches(plan, graphs, listener, device, elsewhere)
    show_table(console, searches_table(plan, results), Format.TABLE)
    if searched_elsewhere(results):
        console.print(f"next, when that is over: fossil study search {file}")
    else:
        console.print(f"next: fossil study freeze {file}")


@app.command("freeze")
def freeze(file: File) -> None:
    """Freeze the settings that the searches found and open the test labels; counted, and no search goes on after it."""
    from fossil.studies.plan import open_study
    from fossil.studies.store import Store
    from fossil.studies.study_search import freeze_study

    plan, graphs = open_study(file)
    Store.open(plan.study.folder_of_records(file), plan.study.name, file)
    times = freeze_study(plan, graphs)
    console = plain_console()
    console.print(f"settings are frozen; test labels were opened {times} time{'' if times == 1 else 's'}")
    console.print(f"next: fossil study run {file}")


@app.command("status")
def status(file: File, form: Form = Format.TABLE) -> None:
    """Say what is done, what failed and why, and what is being trained now."""
    from fossil.studies.overview import status_table

    plan, store = _open(file)
    show_table(plain_console(), status_table(plan, store), form)


@app.command("table")
def table(
    file: File,
    name: str | None = typer.Option(None, "--table", help="One of the tables of the study; all when nothing is said."),
    form: Form = Format.TABLE,
) -> None:
    """Print the tables of the study from what is done so far."""
    from fossil.errors import SettingError
    from fossil.studies.overview import tables_named

    console, tables = plain_console(), tables_named(_results(file), name)
    if form in (Format.CSV, Format.JSON) and len(tables) > 1:  # one after another they would be neither
        raise SettingError(
            f"{file} has {len(tables)} tables, and {form} holds one.",
            remedy=f"Name one with --table: {', '.join(tables)}. `fossil study export` writes all.",
        )
    for made in tables.values():
        show_table(console, made, form)
        if form is Format.MARKDOWN:
            console.print()


@app.command("figure")
def figure(
    file: File,
    name: str | None = typer.Option(None, "--figure", help="One of the figures; all when nothing is said."),
    out: Out = None,
) -> None:
    """Draw the figures of the study as PNG and SVG."""
    from fossil.studies.overview import draw_figures, figure_notes

    results, console = _results(file), plain_console()
    for path in draw_figures(results, name, _folder(file, out)):
        console.print(str(path))
    for note in figure_notes(results, name):
        console.print(note)


@app.command("export")
def export(
    file: File,
    out: Out = None,
    forms: list[Format] = typer.Option(
        [Format.CSV, Format.MARKDOWN, Format.LATEX, Format.JSON],
        "--format",
        metavar="FORM",
        help="csv, markdown, latex or json; may be repeated.",
    ),
    records: bool = typer.Option(False, "--records", help="Also every record, one a line, for `fossil study import`."),
    tables: bool = typer.Option(True, help="Write the tables."),
) -> None:
    """Write every table to files: CSV, Markdown, LaTeX and JSON, with the best and the second best set apart."""
    from fossil.errors import SettingError
    from fossil.studies.overview import export_tables
    from fossil.studies.recorded import export_records

    if not (tables or records):
        raise SettingError("There is nothing to write with --no-tables alone.", remedy="Add --records.")
    results, folder = _results(file), _folder(file, out)
    written = [export_records(results, folder)] if records else []
    written += export_tables(results, folder, forms) if tables else []
    for path in written:
        plain_console().print(str(path))


@app.command("import")
def import_(
    file: File,
    records: list[Path] = typer.Argument(..., metavar="RECORDS", help="Files of JSON records, one a line."),
) -> None:
    """Take over trainings that were done elsewhere, from files that `export --records` wrote."""
    from fossil.studies.imports import import_records
    from fossil.studies.plan import open_study
    from fossil.studies.store import Store

    plan, _ = open_study(file)
    store = Store.open(plan.study.folder_of_records(file), plan.study.name, file, create=True)
    for path in records:
        taken = import_records(plan, store, path)
        plain_console().print(f"{path}: {taken}")


def _open(file: Path) -> tuple[StudyPlan, Store]:
    from fossil.studies.plan import open_study
    from fossil.studies.store import Store

    plan, _ = open_study(file)
    return plan, Store.open(plan.study.folder_of_records(file), plan.study.name, file)


def _results(file: Path) -> Results:
    from fossil.studies.results import Results

    return Results(*_open(file))


def _folder(file: Path, out: Path | None) -> Path:
    from fossil.studies.file import read_study

    return out or file.parent / f"{read_study(file).name}-export"
