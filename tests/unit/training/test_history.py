import json
import math
import os
from pathlib import Path

import pytest
import torch

from fossil.errors import RunError
from fossil.training.divergence import DivergedError
from fossil.training.history import History


def lines(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(path: Path, epochs: int) -> History:
    history = History(path)
    for epoch in range(1, epochs + 1):
        history.add(epoch, {"loss": torch.tensor(float(epoch)), "count": 3.0})
    history.flush()
    return history


def test_numbers_and_tensors_are_fetched_in_order(tmp_path: Path) -> None:
    history = History(tmp_path / "h.jsonl")
    history.add(1, {"a": torch.tensor(0.5), "b": 7.0, "c": torch.tensor([2], dtype=torch.int64)})
    history.add(2, {"b": torch.tensor(0.25, dtype=torch.float64), "a": 1.0})
    assert history.records == [] and not (tmp_path / "h.jsonl").exists()
    history.flush()
    without_time = [{key: value for key, value in record.items() if key != "seconds"} for record in history.records]
    assert without_time == [{"epoch": 1, "a": 0.5, "b": 7.0, "c": 2.0}, {"epoch": 2, "b": 0.25, "a": 1.0}]
    assert lines(tmp_path / "h.jsonl") == history.records


def test_flushing_again_adds_nothing_twice(tmp_path: Path) -> None:
    history = written(tmp_path / "h.jsonl", 2)
    history.flush()
    history.add(3, {"loss": 1.0})
    history.flush()
    assert [record["epoch"] for record in lines(tmp_path / "h.jsonl")] == [1, 2, 3]


def test_without_a_path_records_stay_in_memory() -> None:
    history = History()
    history.restore(5)
    history.add(1, {"loss": 1.0})
    history.flush()
    assert [record["loss"] for record in history.records] == [1.0]


def test_seconds_never_run_backwards(tmp_path: Path) -> None:
    seconds = [record["seconds"] for record in written(tmp_path / "h.jsonl", 20).records]
    assert seconds == sorted(seconds) and seconds[0] >= 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("as_tensor", [True, False])
def test_a_loss_that_is_no_number_is_named_with_its_epoch(tmp_path: Path, value: float, as_tensor: bool) -> None:
    history = written(tmp_path / "h.jsonl", 2)
    history.add(3, {"fine": 1.0, "loss": torch.tensor(value) if as_tensor else value})
    with pytest.raises(DivergedError, match=r"loss is -?(nan|inf) in epoch 3") as caught:
        history.flush()
    assert "learning rates" in caught.value.remedy
    assert len(lines(tmp_path / "h.jsonl")) == 2


def test_restoring_drops_later_records_from_memory_and_file(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    before = written(path, 6).records
    history = History(path)
    history.restore(4)
    assert history.records == lines(path) == before[:4]
    history.add(5, {"loss": 50.0})
    history.flush()
    assert [record["loss"] for record in lines(path)] == [1, 2, 3, 4, 50]
    assert history.records[-1]["seconds"] >= before[3]["seconds"]


@pytest.mark.parametrize(
    "tail", [b'{"epoch": 3, "se', b"\x00\x00\x00\x00", b"{", b"\n", b'{"epoch": 3, "seconds": 1, "name": "\xff\xfe']
)
def test_restoring_drops_a_broken_last_line(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "h.jsonl"
    before = written(path, 2).records
    with path.open("ab") as stream:
        stream.write(tail)
    history = History(path)
    history.restore(10)
    assert history.records == lines(path) == before


def test_restoring_keeps_a_last_line_without_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    before = written(path, 2).records
    path.write_text(path.read_text().rstrip("\n"))
    history = History(path)
    history.restore(2)
    history.add(3, {"loss": 3.0})
    history.flush()
    assert lines(path)[:2] == before and len(lines(path)) == 3


def test_restoring_without_a_file_or_to_the_start_leaves_nothing(tmp_path: Path) -> None:
    History(tmp_path / "none.jsonl").restore(3)
    assert not (tmp_path / "none.jsonl").exists()
    written(tmp_path / "h.jsonl", 3)
    history = History(tmp_path / "h.jsonl")
    history.restore(0)
    assert history.records == [] == lines(tmp_path / "h.jsonl")


def test_a_file_that_cannot_be_written_is_a_run_error(tmp_path: Path) -> None:
    history = History(tmp_path / "no folder" / "h.jsonl")
    history.add(1, {"loss": 1.0})
    with pytest.raises(RunError, match="Could not write") as caught:
        history.flush()
    assert "--resume" in caught.value.remedy


@pytest.mark.parametrize(
    "damage", [b'{"epoch": 2, "sec', b"", b"\x00\x00", b'{"epoch": "2", "seconds": 1}', b"[2]", b"7"]
)
@pytest.mark.parametrize("epoch", [0, 1, 4])
def test_a_damaged_line_before_the_last_is_named_and_nothing_is_lost(tmp_path: Path, damage: bytes, epoch: int) -> None:
    path = tmp_path / "h.jsonl"
    written(path, 4)
    every = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([every[0], damage, *every[2:]]) + b"\n")
    before = path.read_bytes()
    with pytest.raises(RunError, match=r"Line 2 of .*h\.jsonl is damaged") as caught:
        History(path).restore(epoch)
    assert "move it away" in caught.value.remedy and path.read_bytes() == before


@pytest.mark.parametrize("order", [(0, 2, 3), (0, 1, 1, 2), (1, 0)], ids=["a gap", "twice", "turned"])
def test_epochs_that_do_not_follow_each_other_are_refused(tmp_path: Path, order: tuple[int, ...]) -> None:
    path = tmp_path / "h.jsonl"
    written(path, 4)
    every = path.read_text().splitlines(keepends=True)
    path.write_text("".join(every[index] for index in order))
    with pytest.raises(RunError, match="should be of the next one"):
        History(path).restore(4)


def test_a_history_goes_on_only_from_the_records_that_a_checkpoint_has_seen(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    history = written(path, 3)
    digest = history.digest
    history.add(4, {"loss": 4.0})
    history.flush()
    again = History(path)
    again.restore(3, digest)
    assert again.digest == digest and len(again.records) == 3
    again.add(4, {"loss": 4.0})
    again.flush()
    assert again.digest != digest
    path.write_text(path.read_text().replace('"loss": 2.0', '"loss": 2.5'))
    before = path.read_bytes()
    with pytest.raises(RunError, match="is not the history that the checkpoint of epoch 3 follows"):
        History(path).restore(3, digest)
    assert path.read_bytes() == before


def test_records_are_appended_to_no_link_pipe_or_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder"):
        history = History(tmp_path / name)
        history.add(1, {"loss": 1.0})
        with pytest.raises(RunError, match=f"Could not write .*{name}"):
            history.flush()
    assert not (tmp_path / "target").exists()
