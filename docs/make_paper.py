"""Makes the pages of `docs/paper` that set the paper's tables, figures and claims beside what was measured here.

    fossil study export studies/table2.yaml --records --no-tables --out studies/records
    python docs/make_paper.py

Everything on them comes from `studies/*.yaml` and `studies/records/*.jsonl`; no graph is read and nothing is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claim_rules import READINGS, Evidence, Status
from claims import CLAIMS
from make_pages import table

from fossil.report.tables import Format, Table, render
from fossil.studies.figures import draw_figure, is_measured, notes_of
from fossil.studies.file import read_study
from fossil.studies.overview import tables_named
from fossil.studies.recorded import open_recorded
from fossil.studies.results import Results, each_once
from fossil.studies.verdicts import RULE, beside_published, counted

DOCS = Path(__file__).parent
PAPER, IMAGES = DOCS / "paper", DOCS / "paper" / "images"
STUDIES = DOCS.parent / "studies"

_BY_HAND = "This page is made by `python docs/make_paper.py` from `studies/`; do not edit it by hand."
_ENDING = f"{_BY_HAND} [All of the paper](index.md)."


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper, or one of ours, and the study that makes it.

    Attributes:
        study: name of its file.
        text: what it is about.
    """

    study: str
    text: str


ITEMS = (
    Item("table2", "Table 2 of the paper: fourteen methods on seven graphs, there 100 encoders of one split each."),
    Item("ablation_similarity", "Table 3 of the paper: four ways to compare subgraphs, without and with node loss."),
    Item("ablation_encoder", "Table 4 of the paper: what encodes the nodes."),
    Item("ablation_generator", "Table 5 of the paper: what makes the second view."),
    Item("ablation_fusion", "Table 6 of the paper: what the fusion layer knows of a node's place in the graph."),
    Item("alpha", "The figure of Appendix C: α weighs features against structure in the cost of transport."),
    Item("growth", "The figure of Section 4.7: time against size, on contextual stochastic block models.\nWhat the "
         "time is made of is measured by `benchmarks/growth.py` ([How fast is it?](../guides/how-fast-is-it.md))."),
    Item("large", "Table 7 of the paper: large graphs."),
    Item("directions", "Not in the paper, which does not say which way edges count: three graphs both ways."),
    Item("official", "Not in the paper: settings of the methods' official code beside the defaults here."),
    Item("costs", "Not in the paper: the time of a training, one at a time."),
    Item("comparison", "Not in the paper: `fossil_channels`, the default here, beside other methods on twelve graphs."),
    Item("public_split", "Not in the paper: `fossil_channels` on the split of the literature."),
    Item("geom_gcn_splits", "Not in the paper: `fossil_channels` on ten splits of the literature."),
    Item("ablation_channels", "Not in the paper: what each part of `fossil_channels` is worth."),
    Item("held_out", "Not in the paper: graphs that were named before anything was trained on them.\nBefore the first "
         "command: `python studies/held_out_tables.py`, which makes their tables."),
    Item("search_fossil", "Settings of FOSSIL searched here as the paper searched its own, 100 trials on each of two "
         "graphs.\nBefore the first command: `fossil study search` and `fossil study freeze` of the same file."),
)  # fmt: skip

_PUBLISHED = """{counted} Ours minus theirs in points, under `{protocol}`. Printed figures are the best over
checkpoints of the probe by test accuracy, and so are ours in this table alone."""

_INDEX = """# The paper, table by table

Each page is made from a file in `studies/` and the records beside it: the command, ours with its interval, the printed
figure, the difference, and what can be said of it. The table says how many of a study's trainings are done.
[The claims of the paper](claims.md) are checked one by one over the same records. By hand are
[the two readings of the paper](readings.md) and what [was looked into](accuracy.md) where figures differ.

{table}
{by_hand}
"""

_CLAIMS = """# What the paper says, and whether it holds here

Every claim of Section 5 and of the appendices that figures can decide, and that of Section 4.7 on time, in our words.
Each is a statement over the records of the studies, in [`docs/claims.py`](../claims.py), and is checked twice: as the
paper counts, by the test maximum of the `released` probe, and by accuracy under a probe that has converged.

**Above** and **below** on a graph mean that the 95 % interval of the difference, paired by encoder on the splits that
both have, lies on one side of zero. A claim that one thing is better than another **holds** where it is above on every
graph that was measured, **holds in part** where it is above on some and ahead on average, and **does not hold**
otherwise. Of several things it holds where all do, and in part where any of them does, wholly or in part. Other claims
say their rule.

{counts}

{table}
{ending}
"""


def pages(folder: Path = STUDIES) -> dict[str, str]:
    """Return every generated page by its name, from the studies of a folder."""
    found = recorded(folder)
    made = {f"{item.study}.md": item_page(item, folder, found.get(item.study)) for item in ITEMS}
    return {"index.md": index_page(folder, found), **made, "claims.md": claims_page(found)}


def recorded(folder: Path) -> dict[str, Results]:
    """Return what was measured, by the name of the study."""
    files = {item.study: folder / "records" / f"{item.study}.jsonl" for item in ITEMS}
    return {name: open_recorded(folder / f"{name}.yaml", path) for name, path in files.items() if path.exists()}


def item_page(item: Item, folder: Path, results: Results | None) -> str:
    """Return the page of one table or figure."""
    if results is None:
        title = _title(folder, item.study)
        missing = "**Not measured here yet.**"
        return _joined([f"# {title}", item.text, _commands(folder, item.study), missing, _ENDING])
    tables = [section for made in tables_named(results).values() for section in _section(made)]
    parts = [
        f"# {results.plan.study.title}",
        item.text,
        _commands(folder, item.study),
        circumstances(results),
        *_published(results),
        *(section for entry in results.plan.study.figures for section in _figure(results, entry.name)),
        *tables,
        *_found(results),
        _ENDING,
    ]
    return _joined(parts)


def circumstances(results: Results) -> str:
    """Return how much of a study was measured, on what, and what failed."""
    study, records = results.plan.study, list(results.records.values())
    versions = sorted({record.torch for record in records if record.torch})
    devices = sorted({record.device for record in records if record.device})
    text = (
        f"Measured: {_measured(results)} trainings that the study asks for ({len(study.seeds)} encoders × "
        f"{study.splits} split{'s' * (study.splits > 1)}), on {' and '.join(devices) or 'an unknown device'}, PyTorch "
        f"{' and '.join(versions) or 'unknown'}, {study.precision}."
    )
    # An export of this very study, taken over on another machine, is no other source.
    imported = [record.imported for record in records if record.imported not in ("", f"{study.name}.jsonl")]
    if imported:
        said = "One of the records was" if len(imported) == 1 else f"{len(imported):,} of the records were"
        text += f" {said} taken over from {', '.join(f'`{name}`' for name in sorted(set(imported)))}."
    failed = [cell for cell in each_once(results.plan.cells) if results.state(cell) == "failed"]
    if failed:
        text += f" {len(failed)} failed; the reasons stand below the tables."
    return text


def _measured(results: Results) -> str:
    """Return how many of the places of a table were measured, of how many; rows may share a training."""
    plan = results.plan
    possible = [
        (row, column)
        for row in range(len(plan.rows))
        for column in range(len(plan.columns))
        if column not in plan.unreadable and (row, column) not in plan.impossible
    ]
    places = {(cell.row, cell.column, cell.seed) for cell in plan.cells if results.state(cell) == "done"}
    return f"{len(places):,} of {len(possible) * len(plan.study.seeds):,}"


def _published(results: Results) -> Iterator[str]:
    """Yield how far measured figures are from printed ones, as the paper selects them."""
    plan = results.plan
    entry = next((one for one in plan.study.wanted_tables() if one.value == "test_maximum"), None)
    found = [] if entry is None else beside_published(results, entry)
    if entry is None or not found:
        return
    by_place = {(place.row, place.column): one for place, one in found}
    lines = []
    for row, of in enumerate(plan.rows):
        cells = [by_place.get((row, column)) for column in range(len(plan.columns))]
        if any(cells):
            lines.append([of.title, *("" if one is None else str(one) for one in cells)])
    yield "## Beside the printed figures"
    yield _PUBLISHED.format(counted=counted([one for _, one in found]), protocol=entry.protocol)
    yield table(["", *plan.columns], lines)
    yield RULE


def _figure(results: Results, name: str) -> Iterator[str]:
    entry = next(one for one in results.plan.study.figures if one.name == name)
    stem = f"{results.plan.study.name}-{name}"
    yield f"## {entry.title or results.plan.study.title}"
    if not is_measured(results, entry):
        yield "Not measured."
        return
    yield f"![{entry.title}](images/{stem}.png)"
    yield f"The same as [SVG](images/{stem}.svg)."
    yield from notes_of(results, entry)


def _found(results: Results) -> Iterator[str]:
    """Yield the settings that searches found, a column for each graph."""
    for row, of_graph in {} if results.plan.searched is None else results.plan.searched.settings.items():
        names = list(dict.fromkeys(name for settings in of_graph.values() for name in settings))
        lines = [[f"`{name}`", *(f"{of_graph[graph].get(name)}" for graph in of_graph)] for name in names]
        yield f"## Settings found for {row}"
        yield table(["setting", *of_graph], lines)


def _section(made: Table) -> Iterator[str]:
    yield f"## {made.title}"
    yield render(made, Format.MARKDOWN)


def index_page(folder: Path, found: Mapping[str, Results]) -> str:
    """Return the page that lists all of them."""
    rows = []
    for item in ITEMS:
        results = found.get(item.study)
        measured = ["none", ""] if results is None else [_measured(results), _verdicts(results)]
        rows.append([f"[{_title(folder, item.study)}]({item.study}.md)", *measured])
    return _INDEX.format(table=table(["page", "trainings", "printed figures"], rows), by_hand=_BY_HAND)


def _verdicts(results: Results) -> str:
    entry = next((one for one in results.plan.study.wanted_tables() if one.value == "test_maximum"), None)
    found = [] if entry is None else beside_published(results, entry)
    return counted([one for _, one in found]) if found else ""


def claims_page(found: Mapping[str, Results]) -> str:
    """Return the page that checks what the paper says in words."""
    lines = []
    for claim in CLAIMS:
        said = [claim.check(Evidence(found, reading)) for reading in READINGS]
        lines.append([claim.section, claim.says, *(f"**{one.status.value}**: {one.why}" for one in said)])
    header = ["section", "what the paper says", *(reading.title for reading in READINGS)]
    tallies = [
        f"- {reading.title}: {_tally([claim.check(Evidence(found, reading)).status for claim in CLAIMS])}"
        for reading in READINGS
    ]
    return _CLAIMS.format(counts="\n".join(tallies), table=table(header, lines), ending=_ENDING)


def _tally(statuses: Sequence[Status]) -> str:
    return ", ".join(f"{statuses.count(status)} {status.value}" for status in Status if status in statuses)


def _title(folder: Path, study: str) -> str:
    return read_study(folder / f"{study}.yaml").title


def _commands(folder: Path, study: str) -> str:
    asked = read_study(folder / f"{study}.yaml")
    # What measures time trains alone: several trainings at once take longer each.
    is_timed = any(entry.value in ("seconds", "epoch_seconds") for entry in [*asked.wanted_tables(), *asked.figures])
    at_once = "" if is_timed else " --jobs 8"
    return (
        "```bash\n"
        f"fossil study run studies/{study}.yaml --device cuda{at_once}\n"
        f"fossil study export studies/{study}.yaml --records --no-tables --out studies/records\n"
        "python docs/make_paper.py\n"
        "```"
    )


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def draw(found: Mapping[str, Results], folder: Path) -> Iterator[Path]:
    """Draw every figure for which there is something to draw, and yield the files."""
    for results in found.values():
        for entry in results.plan.study.figures:
            if is_measured(results, entry):
                yield from draw_figure(results, entry, folder)


if __name__ == "__main__":
    for name, content in pages().items():
        (PAPER / name).write_text(content, encoding="utf-8")
    IMAGES.mkdir(exist_ok=True)
    for path in draw(recorded(STUDIES), IMAGES):
        print(path.relative_to(DOCS.parent))
