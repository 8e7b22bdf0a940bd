"""Going on with a run that was interrupted, or training it longer."""

from __future__ import annotations

from pathlib import Path

import torch

from fossil.errors import FossilError, RunError, warn_the_caller
from fossil.runs.checkpoints import Checkpoints
from fossil.runs.config import RunConfig
from fossil.storage import read_json
from fossil.training.history import History
from fossil.training.trainer import Trainer


def resume_training(
    folder: Path, wanted: RunConfig, trainer: Trainer, history: History, checkpoints: Checkpoints
) -> None:
    """Load the checkpoint of the run in `folder`, if it has one and it belongs to what is wanted.

    Raises:
        RunError: the run is of another graph, of other settings, or trained for longer than what is wanted; or its
            checkpoint or history is damaged.

    Warns:
        FossilWarning: it was trained on another number of threads or processes.
    """
    before = RunConfig.read(folder)
    if before.fingerprint != wanted.fingerprint:
        raise RunError(
            f"{folder} was trained on another graph ({before.graph}, fingerprint {before.fingerprint}; "
            f"this one is {wanted.graph}, {wanted.fingerprint}).",
            remedy="Give the same input, or choose another --out.",
        )
    if before.identity != wanted.identity:
        old, new = before.flat(), wanted.flat()
        changed = [f"{key} was {old[key]!r}, is {new[key]!r}" for key in old if key in new and old[key] != new[key]]
        raise RunError(
            f"{folder} was started with other settings: {'; '.join(changed)}.",
            remedy="Resume with the same settings, or choose another --out.",
        )
    found = checkpoints.load()
    digest = None
    if found is not None:
        digest = found.about.get("history")
        try:
            trainer.load_state(found.tensors, found.about["epoch"])
        except ValueError as error:
            raise RunError(
                f"{checkpoints.path} does not hold the state of this run: {str(error).rstrip('.')}.",
                remedy="Put the right file back; or delete it and go on with --resume (training starts again).",
            ) from error
    epochs = wanted.training.epochs or 0
    if trainer.steps > epochs:
        raise RunError(
            f"{folder} is trained for {trainer.steps} epochs, more than the {epochs} asked for.",
            remedy=f"Ask for {trainer.steps} epochs or more, or choose another --out.",
        )
    history.restore(trainer.steps, digest)  # without a checkpoint everything starts again, the history too
    if 0 < trainer.steps < epochs and trainer.random.device.type == "cpu":
        _warn_of_other_threads(folder, trainer.ranks.world_size)


def _warn_of_other_threads(folder: Path, processes: int) -> None:
    """Say that the bits will be others than those of an uninterrupted run, where sums come in another order."""
    try:
        known = read_json(folder / "environment.json")
        before = known["threads"], known.get("processes", 1)
    except (FossilError, KeyError, TypeError, AttributeError):
        return  # nobody knows
    now = torch.get_num_threads(), processes
    if before == now:
        return
    differ = "its last digits will differ from those of an uninterrupted run"
    if before[1] != now[1]:
        warn_the_caller(
            f"The run in {folder} was trained in {before[1]} process(es) so far and goes on in {now[1]}: {differ}."
        )
    else:
        warn_the_caller(
            f"The run in {folder} was trained on {before[0]} threads so far and goes on with {now[0]}: {differ}. "
            "OMP_NUM_THREADS sets the number."
        )
