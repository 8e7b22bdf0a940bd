"""One GPU shared by several processes at the same instant: NVIDIA's Multi-Process Service for as long as a study runs.

Without it a GPU gives its processes turns. With it their kernels run side by side, which pays where a single training
does not fill the GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from fossil.errors import RunError, SettingError

CONTROL = "nvidia-cuda-mps-control"
_PATIENCE = 60  # seconds for the daemon to answer
_GRACE = 5  # seconds that clients have left when the daemon is told to quit


@contextmanager
def shared_gpu(device: torch.device) -> Iterator[Mapping[str, str]]:
    """Start a daemon of our own, and yield what processes need in their environment to be its clients.

    It listens in a folder of its own, so that no other daemon and no other program of this machine is touched. It is
    stopped at the end of the block, however that ends, once the processes inside it are gone.

    Raises:
        SettingError: there is no GPU to share, or no such service on this machine.
        RunError: the daemon does not start.
    """
    if device.type != "cuda":
        raise SettingError("--mps shares a GPU, and this study runs on a CPU.", remedy="Leave it out.")
    control = shutil.which(CONTROL)
    if control is None:
        raise SettingError(
            f"--mps needs the program {CONTROL}, which is not here.",
            remedy="It comes with NVIDIA's driver for Linux. Without --mps processes take turns on the GPU.",
        )
    with tempfile.TemporaryDirectory(prefix="fossil-mps-", ignore_cleanup_errors=True) as folder:
        clients = _environment(Path(folder))
        _tell(control, clients, "-d")
        try:
            yield clients
        finally:
            _tell(control, clients, said=f"quit -t {_GRACE}\n")


def _environment(folder: Path) -> dict[str, str]:
    """Return where the daemon listens and writes."""
    found = {}
    for variable, name in (("CUDA_MPS_PIPE_DIRECTORY", "pipe"), ("CUDA_MPS_LOG_DIRECTORY", "log")):
        (folder / name).mkdir()
        found[variable] = str(folder / name)
    return found


def _tell(control: str, clients: Mapping[str, str], *arguments: str, said: str = "") -> None:
    try:
        # Its output is not waited for: the daemon would hold the pipe open for as long as it lives. It is in a session
        # of its own, so that Ctrl-C in the terminal does not reach it before the processes that use it.
        done = subprocess.run(
            [control, *arguments], env=os.environ | dict(clients), input=said, text=True, timeout=_PATIENCE,
            check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"{control} cannot be used: {error}.", remedy="Leave out --mps.") from error
    if done.returncode:
        raise RunError(
            f"{control} {' '.join(arguments) or said.strip()} ended with status {done.returncode}.",
            remedy="Leave out --mps, or look whether this user may start it.",
        )
