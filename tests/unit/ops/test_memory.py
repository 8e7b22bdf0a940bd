"""Free memory, as the files of a made-up system tell it."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fossil.ops.memory import free_memory

CPU = torch.device("cpu")
GIB = 1 << 30


def system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def machine(gibibytes: int) -> dict[str, str]:
    return {"proc/meminfo": f"MemTotal: {99 * GIB // 1024} kB\nMemAvailable:   {gibibytes * GIB // 1024} kB\n"}


def group(folder: str, limit: str, used: int, cached: int = 0) -> dict[str, str]:
    names = {"memory.max": limit, "memory.current": str(used), "memory.stat": f"anon 5\ninactive_file {cached}\n"}
    return {f"sys/fs/cgroup/{folder}/{name}": f"{text}\n" for name, text in names.items()}


def test_a_machine_of_its_own(tmp_path: Path) -> None:
    assert free_memory(CPU, system(tmp_path, machine(7))) == 7 * GIB


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (group("job", str(4 * GIB), 3 * GIB), GIB),
        (group("job", str(4 * GIB), 3 * GIB, cached=GIB), 2 * GIB),  # a cache of files is given back when needed
        (group("job", "max", 3 * GIB), 7 * GIB),
        (group("job", str(90 * GIB), GIB), 7 * GIB),
        (group("job", "max", GIB) | group("", str(5 * GIB), 3 * GIB), 2 * GIB),  # the group around it counts too
        (group("job", str(GIB), 2 * GIB), 0),
        ({}, 7 * GIB),
    ],
)
def test_the_limit_of_a_container(tmp_path: Path, groups: dict[str, str], expected: int) -> None:
    root = system(tmp_path, machine(7) | {"proc/self/cgroup": "0::/job\n"} | groups)
    assert free_memory(CPU, root) == expected


def test_the_limit_of_an_older_kernel(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/memory"  # the group's own folder is not seen from inside the container
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n",
        f"{folder}/memory.limit_in_bytes": str(3 * GIB),
        f"{folder}/memory.usage_in_bytes": str(2 * GIB),
        f"{folder}/memory.stat": f"cache 1\ntotal_inactive_file {GIB // 2}\n",
    }
    assert free_memory(CPU, system(tmp_path, machine(7) | files)) == 3 * GIB // 2


@pytest.mark.parametrize(
    ("data", "space", "expected"),
    [
        ("unlimited", "unlimited", 7 * GIB),
        (str(4 * GIB), "unlimited", 3 * GIB),
        (str(4 * GIB), str(5 * GIB), 2 * GIB),
        (str(GIB // 2), "unlimited", 0),
    ],
)
def test_the_limits_of_a_process(tmp_path: Path, data: str, space: str, expected: int) -> None:
    limits = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        f"Max data size             {data:21}unlimited            bytes     \n"
        f"Max address space         {space:21}unlimited            bytes     \n"
    )
    status = f"Name:\tpython\nVmSize:\t{3 * GIB // 1024} kB\nVmData:\t{GIB // 1024} kB\n"
    files = machine(7) | {"proc/self/limits": limits, "proc/self/status": status}
    assert free_memory(CPU, system(tmp_path, files)) == expected


def test_a_limit_of_this_process_is_read() -> None:
    ask = "from fossil.guard.budget import free_host_memory; print(free_host_memory())"
    limited = subprocess.run(
        [sys.executable, "-c", ask],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (GIB, GIB)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert 0 < int(limited.stdout) < GIB


def test_a_system_that_does_not_say_is_taken_at_its_whole_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert free_memory(CPU, tmp_path) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def refuse(name: str) -> int:
        raise ValueError(f"unrecognized configuration name {name}")

    monkeypatch.setattr(os, "sysconf", refuse)
    assert free_memory(CPU, tmp_path) is None


def test_this_machine_has_some_of_its_memory_free() -> None:
    free = free_memory(CPU)
    assert free is not None and 0 < free <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
