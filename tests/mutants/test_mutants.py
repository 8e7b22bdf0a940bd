"""The list of planted faults is current, and the runner tells faults that tests see from faults that they do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault import Planted
from mutate import EXPLAINED, RECORDS, Mutant, Workshop, planted, read, run, sampled, table
from operators import changes, is_same_program
from planted import PLANTED
from seen import CORE, ROOT, seen_by

SOURCE = """
def larger(a, b):
    # ± two bytes before a change must not shift it
    return a if a > b else b


def half(values):
    total = sum(values)
    return total.detach() / 2
"""
TEST = "from tiny import larger\n\n\ndef test_larger():\n    assert larger(1, 2) == 2 and larger(3, 2) == 3\n"


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_every_planted_text_stands_once_in_its_file_and_leaves_a_program(fault: Planted) -> None:
    compile(fault.applied(ROOT), fault.file, "exec")
    assert fault.new not in ("", fault.old)
    assert fault.tests and all((ROOT / test.partition("::")[0]).exists() for test in fault.tests)


def test_planted_faults_have_names_of_their_own() -> None:
    assert len({fault.name for fault in PLANTED}) == len(PLANTED)


def test_a_text_that_stands_nowhere_or_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("x = 1\ny = 1\n")
    for old, times in (("z", 0), ("= 1", 2)):
        with pytest.raises(ValueError, match=f"stands {times} times in file.py, not once"):
            Planted("fault", "file.py", old, "2", ()).applied(tmp_path)


def test_every_explained_survivor_is_still_a_change_of_the_code() -> None:
    known = {f"{file}: {change.key}" for file in CORE for change in changes((ROOT / file).read_text(encoding="utf-8"))}
    assert EXPLAINED.keys() <= known, "drop what is gone from explained.json, or say it anew"
    assert all(len(reason) > 20 for reason in EXPLAINED.values())


def test_every_file_of_the_core_is_seen_by_a_test() -> None:
    assert len(CORE) > 50 and all(seen_by(file) for file in CORE)


def test_changes_are_those_of_the_operators_each_in_its_place() -> None:
    found = {change.key: change.source for change in changes(SOURCE)}
    assert set(found) == {
        "larger: branches swapped: a if a > b else b -> (b if a > b else a)",
        "larger: comparison: a > b -> (a >= b)",
        "larger: comparison: a > b -> (a <= b)",
        "half: call: sum(values) -> (mean(values))",
        "half: arithmetic: total.detach() / 2 -> (total.detach() * 2)",
        "half: factor dropped: total.detach() / 2 -> (total.detach())",
        "half: call dropped: total.detach() -> (total)",
        "half: constant: 2 -> (3)",
    }
    assert "return a if (a >= b) else b" in found["larger: comparison: a > b -> (a >= b)"]


def test_what_is_for_a_gpu_or_only_said_is_not_changed() -> None:
    assert not changes("def f(x):\n    if supports(x):\n        return triton('f').run(x, 1)\n    return x\n")
    assert not changes("def f(x):\n    raise ValueError(f'{x + 1} is not accepted, not 2')\n")
    assert not changes('def f(x: int = 1) -> int:\n    """Return 1 + 1."""\n    return x\n')


def test_programs_are_compared_wherever_they_stand() -> None:
    assert is_same_program("def f(x):\n    return x * (2 * 1)\n", "\n\ndef f(x):\n    return x * 2\n")
    assert not is_same_program("def f(x):\n    return x * 2\n", "def f(x):\n    return x * 2.0\n")


def test_a_sample_is_the_same_each_time_and_the_start_of_a_larger_one() -> None:
    few, more = (sampled(count, "src/fossil/ops/costs.py") for count in (3, 8))
    assert [mutant.key for mutant in few] == [mutant.key for mutant in more[:3]]
    assert all(mutant.file == "src/fossil/ops/costs.py" for mutant in more)
    assert len({mutant.key for mutant in more}) == 8


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    root, copy = tmp_path / "tree", tmp_path / "copy"
    (root / "src").mkdir(parents=True)
    copy.mkdir()
    (root / "src" / "tiny.py").write_text(SOURCE)
    (root / "test_tiny.py").write_text(TEST)
    return Workshop(root, copy, ("src", "test_tiny.py"))


def mutants() -> dict[str, Mutant]:
    """One that the test sees, one that it does not, one that never ends, and one that ends the process."""
    sources = {change.key: change.source for change in changes(SOURCE)}
    sources["seen"] = sources["larger: comparison: a > b -> (a <= b)"]
    sources["unseen"] = sources["half: constant: 2 -> (3)"]
    sources["endless"] = "while True:\n    pass\n"
    sources["deadly"] = "import os\nos._exit(0 + 3)\n"
    return {
        name: Mutant(name, "src/tiny.py", sources[name], ("test_tiny.py",))
        for name in ("seen", "unseen", "endless", "deadly")
    }


def test_a_fault_is_killed_or_survives_and_the_copy_is_whole_again(workshop: Workshop) -> None:
    found = {}
    for name, mutant in mutants().items():
        with workshop.planted(mutant):
            found[name] = workshop.test(mutant.tests, 3.0 if name == "endless" else 60.0)[0]
    assert found["seen"] == "killed: test_tiny.py::test_larger" and found["unseen"] == "survived"
    assert found["endless"] == "killed: time" and found["deadly"].startswith("killed: ")
    assert (workshop.folder / "src" / "tiny.py").read_text() == SOURCE
    assert workshop.test(["test_tiny.py"], 60.0)[0] == "survived"


def test_killed_faults_are_not_tried_again_and_survivors_are(
    workshop: Workshop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records, chosen = tmp_path / "records.jsonl", [mutants()[name] for name in ("seen", "unseen")]
    run(chosen, workshop, records)
    assert {key: record["outcome"].split(":")[0] for key, record in read(records).items()} == {
        "seen": "killed",
        "unseen": "survived",
    }
    capsys.readouterr()
    run(chosen, workshop, records)
    again = capsys.readouterr().out
    assert "2 faults, 1 of them known to be killed" in again and "unseen" in again and " seen" not in again
    assert table(chosen, read(records)) == 1
    assert "NOBODY KNOWS WHY" in capsys.readouterr().out


def test_tests_that_fail_without_a_fault_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    (workshop.folder / "test_tiny.py").write_text("def test_nothing():\n    assert False\n")
    with pytest.raises(SystemExit, match="Without any fault"):
        run([mutants()["seen"]], workshop, tmp_path / "records.jsonl")


def test_by_the_records_that_are_kept_every_planted_fault_was_killed_or_has_a_reason() -> None:
    records = read(RECORDS)
    for mutant in planted():
        assert mutant.key in records, f"run: python tests/mutants/mutate.py --sample 0 --only {mutant.file}"
        assert records[mutant.key]["outcome"].startswith("killed: ") is (mutant.reason is None), mutant.key
