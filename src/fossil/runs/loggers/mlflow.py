"""MLflow: a run in a tracking store, on a disk or a server."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fossil.errors import SettingError
from fossil.runs.loggers.base import Logger, Training

_BETWEEN = 2.0  # seconds between two messages to the store, which may take longer than an epoch
_LARGEST_MESSAGE = 1000  # metrics, as the store has it
_MOST_SETTINGS = 100  # in a message, likewise
_LONGEST_VALUE = 500


class MlflowLogger(Logger):
    """Settings and curves in MLflow's store: that of MLFLOW_TRACKING_URI, or of the address behind the colon.

    The experiment is that of MLFLOW_EXPERIMENT_NAME, or `fossil`.
    """

    name = "mlflow"

    def check(self, folder: Path | None) -> None:
        """Raise SettingError where MLflow is not installed."""
        try:
            import mlflow  # noqa: F401
        except ImportError as error:
            raise SettingError(
                "A log for MLflow needs its package, which is not installed.", remedy="pip install 'fossil-gnn[mlflow]'"
            ) from error

    def open(self, training: Training) -> str:
        """Begin a run of MLflow, or go on with the one from before; return its id."""
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(tracking_uri=self.target or None)
        self._pending: list[Any] = []
        self._sent_at = time.monotonic()
        if training.before is not None:
            self._run = training.before
            self._client.update_run(self._run, status="RUNNING")
            return self._run
        experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "fossil"
        known = self._client.get_experiment_by_name(experiment)
        place = self._client.create_experiment(experiment) if known is None else known.experiment_id
        self._run = str(self._client.create_run(place, run_name=training.name).info.run_id)
        settings = [Param(name, str(value)[:_LONGEST_VALUE]) for name, value in training.settings.items()]
        for first in range(0, len(settings), _MOST_SETTINGS):
            self._client.log_batch(self._run, params=settings[first : first + _MOST_SETTINGS])
        return self._run

    def log(self, epoch: int, record: Mapping[str, float]) -> None:
        """Keep the metrics of an epoch, and send them once in a while."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._pending += [Metric(name, value, now, epoch) for name, value in record.items() if name != "epoch"]
        if time.monotonic() - self._sent_at > _BETWEEN:
            self._send()

    def close(self, *, finished: bool) -> None:
        """Send what is left, and say how it ended."""
        self._send()
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")

    def _send(self) -> None:
        while self._pending:
            self._client.log_batch(self._run, metrics=self._pending[:_LARGEST_MESSAGE])
            del self._pending[:_LARGEST_MESSAGE]
        self._sent_at = time.monotonic()
