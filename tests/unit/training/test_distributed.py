import pytest
import torch

from fossil.errors import SettingError
from fossil.ops.ranks import ALONE, LostRankError, Ranks, all_gather, lost_ranks_as_errors, ranks
from fossil.training.distributed import Launch, ProcessGroup, all_reduce_max, average_gradients, launched, process_group

LAUNCHED = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}


def launch(monkeypatch: pytest.MonkeyPatch, **changed: str | None) -> None:
    for name, value in (LAUNCHED | changed).items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 12, 13])
@pytest.mark.parametrize("world", [1, 2, 4, 7])
def test_shares_follow_each_other_and_differ_by_one_at_most(world: int, count: int) -> None:
    shares = [list(range(count))[Ranks(rank, world).share(count)] for rank in range(world)]
    assert [row for share in shares for row in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_one_process_is_alone_and_asks_nobody() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    weight.grad = torch.tensor([3.0, 4.0])
    average_gradients(ALONE, [weight])
    assert weight.grad.tolist() == [3.0, 4.0] and all_reduce_max(ALONE, 7) == 7
    assert ranks() is ALONE and all_gather(weight, 2) is weight
    with process_group() as processes:
        assert processes.join("cpu") is ALONE and processes.claim_failure(2) is None


def test_the_launcher_says_who_is_who(monkeypatch: pytest.MonkeyPatch) -> None:
    launch(monkeypatch)
    assert launched() == Launch(rank=3, world_size=4, local_rank=1, local_world_size=2)


@pytest.mark.parametrize("missing", ["RANK", "WORLD_SIZE", "MASTER_ADDR"])
def test_half_an_environment_is_no_launch(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    launch(monkeypatch, **{missing: None})
    assert launched() == Launch()


@pytest.mark.parametrize(
    ("name", "value"), [("RANK", "4"), ("RANK", "first"), ("WORLD_SIZE", "0"), ("LOCAL_RANK", "2"), ("RANK", "-1")]
)
def test_an_impossible_place_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    launch(monkeypatch, **{name: value})
    with pytest.raises(SettingError, match=f"{name}={value}") as error:
        launched()
    assert "torchrun" in error.value.remedy


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    processes = ProcessGroup(Launch())
    processes.here = Launch(world_size=2, local_world_size=2)
    with pytest.raises(SettingError, match=r"2 processes are to share 1 GPU") as error:
        processes.join("auto")
    assert "--device cpu" in error.value.remedy


def test_what_a_backend_says_of_a_lost_process_is_told_in_one_sentence() -> None:
    said = "[/build/pair.cc:537] Read error [127.0.0.1]:1: Connection reset by peer. This is typically caused by\nmore"
    with pytest.raises(LostRankError) as error, lost_ranks_as_errors():
        raise RuntimeError(said)
    assert "(Read error [127.0.0.1]:1: Connection reset by peer)" in error.value.what
    assert "--resume" in error.value.remedy
