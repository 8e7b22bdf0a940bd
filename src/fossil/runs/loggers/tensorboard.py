"""TensorBoard: event files in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fossil.errors import SettingError
from fossil.runs.loggers.base import Logger, Training

_FLUSH_SECONDS = 10


class TensorboardLogger(Logger):
    """A curve for everything in the history, in `tensorboard` of the run folder or in a folder of the caller's."""

    name = "tensorboard"

    def check(self, folder: Path | None) -> None:
        """Raise SettingError where TensorBoard is not installed, or there is no folder to write to."""
        try:
            import tensorboard  # noqa: F401
        except ImportError as error:
            raise SettingError(
                "A log for TensorBoard needs its package, which is not installed.",
                remedy="pip install 'fossil-gnn[tensorboard]'",
            ) from error
        if folder is None and not self.target:
            raise SettingError("TensorBoard has no folder to log to.", remedy="Name one as tensorboard:FOLDER.")

    def open(self, training: Training) -> None:
        """Begin a file; what older files in the folder have of the epochs to come counts no more."""
        from torch.utils.tensorboard import SummaryWriter

        folder = Path(self.target) if self.target else (training.folder or Path()) / "tensorboard"
        writer: Any = SummaryWriter
        self._writer = writer(str(folder), purge_step=training.done + 1, flush_secs=_FLUSH_SECONDS)

    def log(self, epoch: int, record: Mapping[str, float]) -> None:
        """Add a point to each curve."""
        for name, value in record.items():
            if name != "epoch":
                self._writer.add_scalar(name, value, epoch)

    def close(self, *, finished: bool) -> None:
        """Write what is left."""
        self._writer.close()
