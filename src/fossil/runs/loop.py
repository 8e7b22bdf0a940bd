"""Around the training loop: history, checkpoints, progress and Ctrl-C."""

from __future__ import annotations

import time

from fossil.methods.base import Record
from fossil.ops.ranks import LostRankError
from fossil.runs.checkpoints import Checkpoints
from fossil.runs.interrupts import Interrupts, TrainingInterruptedError, hearing_interrupts
from fossil.runs.pace import Pace, estimate
from fossil.runs.plan import Plan
from fossil.training.distributed import all_reduce_max
from fossil.training.history import History
from fossil.training.progress import Reporter
from fossil.training.trainer import Trainer

_PATIENCE = 2.0  # seconds that a step may take for Ctrl-C to wait for its end
_MOST_AHEAD = {"cpu": 1, "cuda": 20}  # epochs a device may be ahead of the history; a CPU has nothing to wait for


def train(trainer: Trainer, plan: Plan, history: History, checkpoints: Checkpoints, reporter: Reporter) -> None:
    """Run the loop, keeping history and checkpoints, until it is done or somebody presses Ctrl-C.

    Ctrl-C waits for the end of a short step, whose state is then saved. A step of more than two seconds is given up at
    once: there is a checkpoint from before it. SIGTERM and SIGHUP do the same (`fossil.runs.interrupts`). Several
    processes stop after the same step, and wait for its end however long it takes.

    Raises:
        TrainingInterruptedError: somebody did; the state is saved where there is a run folder.
        KeyboardInterrupt: somebody did in a long step, or twice.
        DivergedError: a loss or a weight is not finite.
        LostRankError: another process is gone; the state after the last whole step is saved.
    """
    interrupts, epochs = Interrupts(), plan.epochs
    keeper = _Keeper(trainer, plan, history, checkpoints, reporter, interrupts)
    with hearing_interrupts(interrupts):
        # Nobody knows how long the first step takes, and it has nothing to lose.
        interrupts.break_off = trainer.ranks.world_size == 1
        foretold = estimate(trainer, epochs)
        if foretold is not None:
            reporter.notice(foretold)
        if plan.kind.trained:
            reporter.start(trainer.steps, epochs)
        try:
            trainer.run(epochs, keeper.after_step)
            interrupts.break_off = False
            keeper.flush()
            keeper.save()
        except LostRankError as error:
            if not trainer.is_between_steps:  # some weights have moved and others have not
                raise
            keeper.flush()
            keeper.save()
            what = f"{error.what} Stopped after epoch {trainer.steps} of {epochs}."
            raise LostRankError(what, remedy=_how_to_go_on(checkpoints, trainer.steps)) from error
        finally:
            reporter.finish()
    if trainer.steps < epochs:
        raise _stopped(trainer, epochs, interrupts, _how_to_go_on(checkpoints, trainer.steps))


def train_worker(trainer: Trainer, epochs: int) -> None:
    """Take the same steps as the process that leads, which keeps everything.

    Raises:
        TrainingInterruptedError: somebody asked one of all processes to end.
        LostRankError: another process is gone.
    """
    interrupts = Interrupts()
    with hearing_interrupts(interrupts):
        trainer.run(epochs, lambda *_: _any_rank_interrupted(trainer, interrupts))
    if trainer.steps < epochs:
        raise _stopped(trainer, epochs, interrupts, "The first process says what is saved.")


class _Keeper:
    """Keeps what training leaves: records go to the history and the reporter, the state to the checkpoint.

    Records stay on the device until they are flushed, because fetching them waits for it.
    """

    def __init__(
        self,
        trainer: Trainer,
        plan: Plan,
        history: History,
        checkpoints: Checkpoints,
        reporter: Reporter,
        interrupts: Interrupts,
    ) -> None:
        self.trainer, self.history, self.checkpoints = trainer, history, checkpoints
        self.reporter, self.interrupts = reporter, interrupts
        self.checkpoint_seconds = plan.config.training.checkpoint_seconds
        self.pace = Pace(trainer.steps, plan.epochs, _MOST_AHEAD[trainer.random.device.type])
        self.saved_at, self.num_reported = time.monotonic(), len(history.records)

    def after_step(self, epoch: int, record: Record) -> bool:
        """Flush and save what is due after a step, which is an epoch; return whether to stop."""
        self.interrupts.break_off = False
        self.history.add(epoch, record)
        save_is_due = time.monotonic() - self.saved_at >= self.checkpoint_seconds
        if self.pace.is_due(epoch) or save_is_due or self.interrupts.heard:
            self.flush()
        is_long = self.pace.seconds > _PATIENCE
        if save_is_due or is_long:
            self.save()
        stop = _any_rank_interrupted(self.trainer, self.interrupts)
        alone = self.trainer.ranks.world_size == 1
        self.interrupts.break_off = alone and is_long and not stop
        return stop

    def flush(self) -> None:
        """Wait for the device, and report the epochs since the last time."""
        self.history.flush()
        self.pace.measure(self.trainer.steps)
        expected = self.pace.expectation(self.trainer)
        if expected is not None:
            self.reporter.notice(expected)
        for record in self.history.records[self.num_reported :]:
            self.reporter.update(int(record["epoch"]), record)
        self.num_reported = len(self.history.records)

    def save(self) -> None:
        """Write history and checkpoint."""
        self.history.sync()
        self.checkpoints.save(self.trainer, self.history.digest)
        self.saved_at = time.monotonic()


def _any_rank_interrupted(trainer: Trainer, interrupts: Interrupts) -> bool:
    """Tell whether somebody asked this process or another one to end, so that all do after the same step."""
    status = all_reduce_max(trainer.ranks, interrupts.exit_status if interrupts.heard else 0)
    if status:
        interrupts.heard, interrupts.exit_status = True, status
    return interrupts.heard


def _stopped(trainer: Trainer, epochs: int, interrupts: Interrupts, remedy: str) -> TrainingInterruptedError:
    error = TrainingInterruptedError(f"Stopped after epoch {trainer.steps} of {epochs}.", remedy=remedy)
    error.exit_status = interrupts.exit_status
    return error


def _how_to_go_on(checkpoints: Checkpoints, epoch: int) -> str:
    """Return what there is to go on with."""
    if checkpoints.path is None:
        return "Nothing was saved."
    saved = "Everything is saved"
    if checkpoints.epoch != epoch:  # its vectors are no good
        saved = f"The training diverges; the last good state, after epoch {checkpoints.epoch or 0}, is kept"
    return f"{saved}: go on with the same command and --resume."
