"""Weights & Biases: a run on its server, or offline in a folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from fossil.errors import SettingError
from fossil.runs.loggers.base import Logger, Training


class WandbLogger(Logger):
    """Settings and curves in a project; `WANDB_MODE=offline` keeps them in `wandb` of the run folder."""

    name = "wandb"

    def check(self, folder: Path | None) -> None:
        """Raise SettingError where wandb is not installed."""
        try:
            import wandb  # noqa: F401
        except ImportError as error:
            raise SettingError(
                "A log for Weights & Biases needs the package wandb, which is not installed.",
                remedy="pip install 'fossil-gnn[wandb]'",
            ) from error

    def open(self, training: Training) -> str:
        """Begin a run of W&B, or go on with the one from before; return its id."""
        import wandb

        key = training.before or secrets.token_hex(4)
        self._run = wandb.init(
            project=self.target or os.environ.get("WANDB_PROJECT") or "fossil",
            id=key,
            name=training.name,
            resume="allow" if training.before else None,
            reinit="create_new",  # a run of the caller's own stays as it is
            dir=None if training.folder is None else str(training.folder),
            config=dict(training.settings),
            settings=wandb.Settings(console="off", silent=True),
        )
        self._run.define_metric("*", step_metric="epoch")  # epochs that are trained again after a kill find their place
        return key

    def log(self, epoch: int, record: Mapping[str, float]) -> None:
        """Hand over an epoch."""
        self._run.log({**record, "epoch": epoch})

    def close(self, *, finished: bool) -> None:
        """Wait until everything is written."""
        self._run.finish(exit_code=0 if finished else 1)
