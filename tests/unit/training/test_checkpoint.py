from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fossil.errors import RunError
from fossil.training.checkpoint import load_tensors, save_tensors


def tensors() -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return {
        "weights/a": torch.randn(5, 3, generator=random),
        "step": torch.tensor(3.0),
        "count": torch.arange(4),
        "double": torch.randn(2, generator=random, dtype=torch.float64),
    }


def test_tensors_and_description_come_back_unchanged(tmp_path: Path) -> None:
    about = {"epoch": 17, "identity": {"method": "fossil", "λ": None}}
    save_tensors(tmp_path / "c", tensors(), about)
    loaded = load_tensors(tmp_path / "c")
    assert loaded.about == about and loaded.tensors.keys() == tensors().keys()
    for name, value in tensors().items():
        assert torch.equal(loaded.tensors[name], value) and loaded.tensors[name].dtype == value.dtype
    assert [entry.name for entry in tmp_path.iterdir()] == ["c"]


def test_tensors_that_share_memory_are_strided_or_learnt_can_be_saved(tmp_path: Path) -> None:
    base = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    save_tensors(tmp_path / "c", {"one": base, "two": base, "turned": base.T}, {})
    loaded = load_tensors(tmp_path / "c").tensors
    assert (
        torch.equal(loaded["one"], base) and torch.equal(loaded["two"], base) and torch.equal(loaded["turned"], base.T)
    )


def test_a_new_checkpoint_replaces_the_old_one(tmp_path: Path) -> None:
    for epoch in (1, 2):
        save_tensors(tmp_path / "c", {"a": torch.tensor(float(epoch))}, {"epoch": epoch})
    assert load_tensors(tmp_path / "c").about == {"epoch": 2}


@pytest.mark.parametrize("keep", [0, 4, 8, 60, 300, -1])
def test_truncated_checkpoints_are_run_errors(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "c"
    save_tensors(path, tensors(), {"epoch": 1})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(RunError, match="truncated or damaged") as caught:
        load_tensors(path)
    assert str(path) in caught.value.what and "--resume" in caught.value.remedy


def test_garbage_is_a_run_error(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"PK\x03\x04" * 100)
    with pytest.raises(RunError, match="truncated or damaged"):
        load_tensors(tmp_path / "c")


@pytest.mark.parametrize("metadata", [None, {"other": "x"}, {"about": "{"}])
def test_a_file_of_another_program_is_a_run_error(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "c", metadata=metadata)
    with pytest.raises(RunError):
        load_tensors(tmp_path / "c")


def test_missing_files_and_folders_are_run_errors(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is missing"):
        load_tensors(tmp_path / "c")
    with pytest.raises(RunError):
        load_tensors(tmp_path)


def test_a_value_that_changed_on_the_disk_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save_tensors(path, tensors(), {"epoch": 1})
    content = bytearray(path.read_bytes())
    content[-3] ^= 4  # the last tensor; the format itself has no checksum
    path.write_bytes(content)
    with pytest.raises(RunError, match="its content has changed since it was written"):
        load_tensors(path)


def test_a_file_of_an_earlier_version_has_no_digest_and_is_read(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / "c", metadata={"about": '{"epoch": 3}'})
    assert load_tensors(tmp_path / "c").about == {"epoch": 3}


@pytest.mark.parametrize("about", ["[1]", "7", "null", "[" * 5000])
def test_a_description_that_is_none_is_a_run_error(tmp_path: Path, about: str) -> None:
    save_file(tensors(), tmp_path / "c", metadata={"about": about})
    with pytest.raises(RunError, match="truncated or damaged"):
        load_tensors(tmp_path / "c")


def test_equal_content_makes_equal_files(tmp_path: Path) -> None:
    for number in range(8):
        save_tensors(tmp_path / f"c{number}", tensors(), {"epoch": 1, "identity": "x"})
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
