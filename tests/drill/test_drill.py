"""The drill notices what it looks for, and a short one finds nothing."""

from __future__ import annotations

import mmap
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import containers
import damage
import formats
import pytest
import reliability
import samples
import wording
from cell import Cell, Verdict, resident, watched
from formats import Format, Fuzz, Shelf

from fossil.errors import GraphError

SCRIPT = Path(__file__).with_name("drill.py")


def judged(*plays: Callable[[], Verdict], seconds: float = 30.0, memory: int = 2**40) -> list[Verdict]:
    cell, found = Cell(plays, seconds, memory), []
    while not cell.over:
        found += [verdict for verdict, _ in cell.poll()]
        time.sleep(0.002)
    return found


def outcome(play: Callable[[], Verdict], **limits: Any) -> str:
    (verdict,) = judged(play, **limits)
    return verdict.outcome


def test_a_short_drill_finds_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "FOSSIL_DATA"}
    command = [sys.executable, SCRIPT, "--short", "--workers", "1", "--build", tmp_path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "kills" in done.stdout and "| CSV |" in done.stdout
    again = subprocess.run([*command, "--table"], env=environment, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0 and "not tried" not in again.stdout


def test_a_verdict_comes_out_of_a_cell() -> None:
    assert judged(lambda: Verdict("equal", "said", {"kills": 2})) == [Verdict("equal", "said", {"kills": 2})]


def test_an_exception_is_a_traceback() -> None:
    def play() -> Verdict:
        raise LookupError("no such thing")

    (verdict,) = judged(play)
    assert verdict.outcome == "traceback" and "LookupError" in verdict.detail and "no such thing" in verdict.detail


def test_a_process_that_dies_is_a_traceback() -> None:
    assert judged(lambda: os._exit(3)) == [Verdict("traceback", "the process ended with status 3")]


def test_a_process_that_goes_on_for_ever_hangs() -> None:
    assert outcome(lambda: time.sleep(600) or Verdict("equal"), seconds=0.2) == "hang"


def touched(size: int) -> mmap.mmap:
    """Return bytes from the system, all resident; an array may lie in memory that the process held anyway."""
    content = mmap.mmap(-1, size)
    content[:: mmap.PAGESIZE] = bytes(size // mmap.PAGESIZE)
    return content


def test_memory_is_weighed_while_it_grows_and_afterwards() -> None:
    def hold() -> Verdict:
        content = touched(512 * 2**20)
        time.sleep(600)
        return Verdict("equal", str(len(content)))

    def drop() -> Verdict:
        touched(512 * 2**20).close()
        return Verdict("equal")

    # A fork begins with fewer bytes than this process has: what is mapped from files comes back as it is touched.
    (empty,) = judged(lambda: Verdict("equal", str(resident(os.getpid()))))
    limit = 200 * 2**20 + int(empty.detail)
    assert outcome(hold, memory=limit, seconds=120) == "memory"
    assert outcome(drop, memory=limit, seconds=120) == "memory"
    assert outcome(lambda: Verdict("equal"), memory=limit) == "equal"


def test_cases_that_share_a_process_are_told_apart() -> None:
    fine, other = (lambda: Verdict("equal")), (lambda: Verdict("other"))
    assert [verdict.outcome for verdict in judged(fine, other, fine)] == ["equal", "other", "equal"]
    ended = judged(fine, lambda: os._exit(1), fine)
    assert [verdict.outcome for verdict in ended] == ["equal", "traceback"], "the last one is tried again elsewhere"
    assert [verdict.outcome for verdict in judged(fine, lambda: time.sleep(600) or fine(), fine, seconds=0.2)] == [
        "equal",
        "hang",
    ]


def test_what_only_reads_is_watched(tmp_path: Path) -> None:
    def play() -> Verdict:
        with watched(tmp_path / "case") as noticed:
            (tmp_path / "case" / "inside.txt").write_text("fine")
            (tmp_path / "outside.txt").write_text("not fine")
            os.system("true")
        (tmp_path / "later.txt").write_text("fine again")
        return Verdict("trespass", " and ".join(noticed))

    (tmp_path / "case").mkdir()
    said = judged(play)[0].detail
    assert said.count(" and ") == 1 and "outside.txt" in said and "os.system" in said


TRICKS = {
    "bytes": (damage.BYTES, lambda folder, seed: samples.town(folder, ".csv", seed), "nodes.csv"),
    "text": (wording.TEXT, lambda folder, seed: samples.town(folder, ".csv", seed), "nodes.csv"),
    "npz": (containers.NPZ, samples.foreign_npz, "graph.npz"),
    "parquet": (containers.PARQUET, lambda folder, seed: samples.town(folder, ".parquet", seed), "nodes.parquet"),
    "pickle": (containers.PICKLE, samples.planetoid, "ind.cora.graph"),
    "gzip": (tuple(map(containers.inside_gzip, wording.TEXT)), samples.ogb, "node-feat.csv.gz"),
}


@pytest.mark.parametrize("kind", TRICKS)
def test_every_trick_does_the_same_for_the_same_seed_and_mostly_does_something(kind: str, tmp_path: Path) -> None:
    tricks, make, name = TRICKS[kind]
    make(tmp_path, 1)
    other = (tmp_path / name).read_bytes()
    make(tmp_path, 0)
    content = (tmp_path / name).read_bytes()
    for trick in dict.fromkeys(trick for trick in tricks if trick.name != "untouched"):
        made, again = ([trick.play(random.Random(seed), content, other) for seed in range(20)] for _ in range(2))
        assert made == again, trick.name
        assert any(each != content for each in made), trick.name


def fuzzed(read: Callable[[Path], object], tmp_path: Path, guarded: Any = "checksum") -> Verdict:
    """Return the verdict on a file of two bytes that is read in some way."""
    trick = damage.Trick("other", lambda draw, content, other: b"no")
    form = Format("small", lambda folder, seed: None, "*.txt", read, (trick,), guarded)
    case = Fuzz(form, 0, Shelf({"a.txt": b"ok"}, {"a.txt": b"??"}, formats.digest(b"ok")))
    case.prepare(tmp_path)
    return judged(lambda: case.play(tmp_path))[0]


def test_other_content_is_silent_where_a_checksum_should_have_told(tmp_path: Path) -> None:
    def read(folder: Path) -> object:
        return (folder / "a.txt").read_bytes()

    assert fuzzed(read, tmp_path).outcome == "silent"
    assert fuzzed(read, tmp_path, "").outcome == "other"
    assert fuzzed(lambda folder: b"ok", tmp_path).outcome == "equal"


def test_a_whole_file_that_is_refused_is_no_good(tmp_path: Path) -> None:
    def refuse(folder: Path) -> object:
        raise GraphError("It is damaged.", remedy="Mend it.")

    trick = damage.Trick("untouched", damage.untouched)
    form = Format("small", lambda folder, seed: None, "*.txt", refuse, (trick,))
    case = Fuzz(form, 0, Shelf({"a.txt": b"ok"}, {}, formats.digest(b"ok")))
    case.prepare(tmp_path)
    assert outcome(lambda: case.play(tmp_path)) == "differs"


def test_an_error_of_ours_is_good_and_any_other_is_not(tmp_path: Path) -> None:
    def refuse(folder: Path) -> object:
        raise GraphError("It is damaged.", remedy="Mend it.")

    def fail(folder: Path) -> object:
        return b"ok"[7]

    assert fuzzed(refuse, tmp_path).outcome == "refused"
    assert fuzzed(fail, tmp_path).outcome == "traceback"


def test_every_format_of_a_file_is_fuzzed() -> None:
    from fossil.readers.registry import readers

    names = " ".join(form.name.lower() for form in formats.FORMATS)
    assert {reader.name for reader in readers().values() if reader.suffixes} == {"csv", "graphml", "npz", "parquet"}
    for known in ("csv", "graphml", "npz", "parquet"):
        assert known in names


def test_the_table_counts_and_stands_between_its_marks(tmp_path: Path) -> None:
    records = [
        {"row": "CSV", "outcome": "refused", "told": {}, "tree": "abc"},
        {"row": "CSV", "outcome": "equal", "told": {}, "tree": "abc"},
        {"row": "SIGKILL", "outcome": "differs", "told": {"kills": 2}, "tree": "abc"},
    ]
    page = tmp_path / "page.md"
    page.write_text(f"before\n{reliability.START}\nold\n{reliability.END}\nafter\n")
    reliability.write_page(page, records)
    written = page.read_text()
    assert written.startswith("before\n") and written.endswith("\nafter\n") and "old" not in written
    assert "| CSV | 2 | 1 | 1 |" in written and "2 kills" in written and "| **all** | 3 |" in written
    assert "the fingerprint `abc`, tried" in written
