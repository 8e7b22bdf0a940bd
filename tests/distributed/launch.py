"""Several processes on this machine, as `torchrun` starts them, that talk over the loopback interface alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
ENVIRONMENT = os.environ | {
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
    "COLUMNS": "120",
}
PATIENCE = 240  # seconds, of which a machine that is not busy needs a few


@dataclass(frozen=True)
class Ended:
    """How processes ended, by rank, and what they said."""

    statuses: list[int]
    said: str

    def lines(self, start: str) -> list[str]:
        return [line for line in self.said.splitlines() if line.startswith(start)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def start(commands: Sequence[Sequence[str | Path]], output: Path) -> list[subprocess.Popen[bytes]]:
    """Start one process a command, each told of the others by the environment; all write to one file."""
    world, port = len(commands), free_port()
    about = {"WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_ADDR": LOOPBACK, "MASTER_PORT": port}
    with output.open("wb") as stream:
        return [
            subprocess.Popen(
                [sys.executable, *map(str, command)],
                env=ENVIRONMENT | {name: str(value) for name, value in about.items()} | _numbered(rank),
                stdout=stream,
                stderr=stream,
            )
            for rank, command in enumerate(commands)
        ]


def wait(processes: Sequence[subprocess.Popen[bytes]], output: Path) -> Ended:
    try:
        statuses = [process.wait(PATIENCE) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return Ended(statuses, output.read_text())


def torchrun(world: int, *arguments: str | Path) -> list[str]:
    """Return the command line by which a user trains in several processes."""
    at = ("--master-addr", LOOPBACK, "--master-port", str(free_port()))
    launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(world), *at)
    return [*launcher, "-m", "fossil", *map(str, arguments)]


def _numbered(rank: int) -> dict[str, str]:
    return {"RANK": str(rank), "LOCAL_RANK": str(rank)}
