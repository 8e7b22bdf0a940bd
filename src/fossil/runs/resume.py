"""Going on with a run that was interrupted, or training it longer."""

from __future__ import annotations

from fossil.errors import RunError
from fossil.runs.config import RunConfig
from fossil.runs.run import Run
from fossil.training.checkpoint import load_tensors
from fossil.training.history import History
from fossil.training.trainer import Trainer


def resume_training(existing: Run, wanted: RunConfig, trainer: Trainer, history: History) -> None:
    """Load the checkpoint of `existing`, if it has one and it belongs to what is wanted.

    Raises:
        RunError: the run is of another graph, of other settings, or trained for longer than what is wanted.
    """
    before = existing.config
    if before.fingerprint != wanted.fingerprint:
        raise RunError(
            f"{existing.path} was trained on another graph ({before.graph}, fingerprint {before.fingerprint}; "
            f"this one is {wanted.graph}, {wanted.fingerprint}).",
            remedy="Give the same input, or choose another --out.",
        )
    if before.identity != wanted.identity:
        old, new = before.flat(), wanted.flat()
        changed = [f"{key} was {old[key]!r}, is {new[key]!r}" for key in old if key in new and old[key] != new[key]]
        raise RunError(
            f"{existing.path} was started with other settings: {'; '.join(changed)}.",
            remedy="Resume with the same settings, or choose another --out.",
        )
    path = existing.path / "checkpoint.safetensors"
    if path.exists():
        checkpoint = load_tensors(path)
        if checkpoint.about.get("identity") != wanted.identity:
            raise RunError(
                f"{path} belongs to another graph or other settings.", remedy="Put the right file back, or use --force."
            )
        trainer.load_state(checkpoint.tensors, checkpoint.about["epoch"])
    epochs = wanted.training.epochs or 0
    if trainer.steps > epochs:
        raise RunError(
            f"{existing.path} is trained for {trainer.steps} epochs, more than the {epochs} asked for.",
            remedy=f"Ask for {trainer.steps} epochs or more, or choose another --out.",
        )
    history.restore(trainer.steps)  # without a checkpoint everything starts again, the history too
