"""Around the training loop: history, checkpoints, progress and Ctrl-C."""

from __future__ import annotations

import time

from fossil.methods.base import Record
from fossil.ops.dispatch import seconds_compiling
from fossil.ops.ranks import LostRankError
from fossil.runs.checkpoints import Checkpoints
from fossil.runs.interrupts import Interrupts, TrainingInterruptedError, hearing_interrupts
from fossil.runs.plan import Plan
from fossil.training.capabilities import EstimatesTime, KnowsLighter
from fossil.training.distributed import all_reduce_max
from fossil.training.history import History
from fossil.training.progress import Reporter, duration
from fossil.training.trainer import Trainer

_PATIENCE = 2.0  # seconds that a step may take for Ctrl-C to wait for its end
_MOST_AHEAD = {"cpu": 1, "cuda": 20}  # epochs a device may be ahead of the history; a CPU has nothing to wait for
_LONG_FIRST = 10.0  # seconds of a first epoch that says by itself what to expect, though something was compiled in it
_LONG_TRAINING = 3600.0  # seconds from which on something lighter is named


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
    alone = trainer.ranks.world_size == 1
    epochs = plan.epochs
    saved_at, reported = time.monotonic(), len(history.records)
    pace = _Pace(trainer.steps, epochs, _MOST_AHEAD[trainer.random.device.type])

    def flush() -> None:
        nonlocal reported
        history.flush()
        pace.measure(trainer.steps)
        expected = pace.expectation()
        if expected is not None:
            reporter.notice(expected + _advice(trainer, pace.left))
        for record in history.records[reported:]:
            reporter.update(int(record["epoch"]), record)
        reported = len(history.records)

    def save() -> None:
        nonlocal saved_at
        history.sync()
        checkpoints.save(trainer, history.digest)
        saved_at = time.monotonic()

    interrupts = Interrupts()
    with hearing_interrupts(interrupts):

        def after_step(number: int, record: Record) -> bool:
            interrupts.break_off = False
            history.add(number, record)  # a step is an epoch
            due = time.monotonic() - saved_at >= plan.config.training.checkpoint_seconds
            if pace.flush_is_due(number) or due or interrupts.heard:
                flush()
            long = pace.seconds > _PATIENCE
            if due or long:
                save()
            stop = _one_of_all_heard(trainer, interrupts)
            interrupts.break_off = alone and long and not stop
            return stop

        interrupts.break_off = alone  # nobody knows how long the first step takes, and it has nothing to lose
        _foretell(trainer, epochs, reporter)
        if plan.kind.trained:
            reporter.start(trainer.steps, epochs)
        try:
            trainer.run(epochs, after_step)
            interrupts.break_off = False
            flush()
            save()
        except LostRankError as error:
            if not trainer.is_between_steps:  # some weights have moved and others have not
                raise
            flush()
            save()
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
        trainer.run(epochs, lambda *_: _one_of_all_heard(trainer, interrupts))
    if trainer.steps < epochs:
        raise _stopped(trainer, epochs, interrupts, "The first process says what is saved.")


def _one_of_all_heard(trainer: Trainer, interrupts: Interrupts) -> bool:
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


class _Pace:
    """How long an epoch takes, measured where the device has been waited for, and what to expect of the others.

    Attributes:
        seconds: of an epoch, by the last measurement; infinite before the first.
        left: seconds to come, if all epochs take as long as those measured.
    """

    def __init__(self, done: int, total: int, most_ahead: int) -> None:
        self.seconds, self.left = float("inf"), 0.0
        self._total, self._most_ahead = total, most_ahead
        self._warm = done + 1  # the first epoch compiles, captures and allocates
        self._warm_at = 0.0
        self._measured, self._measured_at = done, _clock()
        self._said = False

    def flush_is_due(self, number: int) -> bool:
        """Tell whether the device is as far ahead as it may be: a second or so, that Ctrl-C is heard."""
        ahead = max(1, min(self._most_ahead, int(1 / max(self.seconds, 1e-9))))
        return number - self._measured >= ahead

    def measure(self, number: int) -> None:
        """Take note that epoch `number` is over."""
        if number > self._measured:
            now = _clock()
            self.seconds = (now - self._measured_at) / (number - self._measured)
            self._measured, self._measured_at = number, now
            if number <= self._warm:
                self._warm_at = now

    def expectation(self) -> str | None:
        """Return once, as soon as a measurement is worth it, how long all will take."""
        to_come, after = self._total - self._measured, self._measured - self._warm
        since = self._measured_at - self._warm_at
        if self._said or to_come == 0 or (self.seconds < _LONG_FIRST if after <= 0 else since < 1):
            return None
        self._said = True
        seconds = self.seconds if after <= 0 else since / after
        self.left = seconds * to_come
        measured = f"{duration(seconds)} {'for the first epoch' if after <= 0 else 'an epoch'}"
        return f"time: {measured}, about {duration(self.left)} for the {to_come} to come"


def _clock() -> float:
    """Return the time, which stands still while kernels are compiled."""
    return time.monotonic() - seconds_compiling()


def _foretell(trainer: Trainer, epochs: int, reporter: Reporter) -> None:
    """Say how long training takes before its first step, where that alone would take long and the method knows."""
    method, to_come = trainer.method, epochs - trainer.steps
    seconds = method.seconds(trainer.prepared) if to_come and isinstance(method, EstimatesTime) else None
    if seconds is not None and seconds >= _LONG_FIRST:
        left = seconds * to_come
        expected = f"time: {duration(seconds)} or more an epoch, about {duration(left)} for {to_come}"
        reporter.notice(expected + _advice(trainer, left))


def _advice(trainer: Trainer, left: float) -> str:
    """Return what to do instead, where training would take long and the method knows."""
    lighter = trainer.method.lighter() if isinstance(trainer.method, KnowsLighter) else None
    return f"; {lighter}" if lighter and left > _LONG_TRAINING else ""
