"""What Ctrl-C does, and the two signals by which others ask a process to end: SIGTERM and SIGHUP.

All three mean the same: stop at the next good moment, keep what was done. The exit status says which it was, as a shell
would: 128 and the signal's number, 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from fossil.errors import RunError

CTRL_C = 128 + signal.SIGINT
_ENDINGS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows has no SIGHUP


class TrainingInterruptedError(RunError):
    """Ctrl-C, SIGTERM or SIGHUP: the state was saved."""

    exit_status = CTRL_C


class Interrupts:
    """Signals that ask for an end.

    Attributes:
        heard: somebody asked, and the work ends at the next good moment.
        break_off: what is under way is not to be waited for.
        exit_status: 128 and the number of the first signal that was heard.
        outer: who heard before, and is told the status.
    """

    def __init__(self, *, break_off: bool = False) -> None:
        self.heard, self.break_off, self.exit_status = False, break_off, CTRL_C
        self.outer: Interrupts | None = None

    def __call__(self, number: int, _: FrameType | None) -> None:
        """Take note of a signal; give up what is under way where it is not to be waited for, or they ask again."""
        again, self.heard = self.heard, True
        if not again:
            self.exit_status = 128 + number
            if self.outer is not None:
                self.outer.exit_status = self.exit_status
        if again or self.break_off:
            raise KeyboardInterrupt


@contextmanager
def hearing_interrupts(interrupts: Interrupts, *, ctrl_c: bool = True) -> Iterator[None]:
    """Let `interrupts` hear SIGTERM, SIGHUP and, with `ctrl_c`, SIGINT inside the block, and put back what was there.

    Outside the main thread, which alone can set handlers, nothing changes. SIGTERM and SIGHUP stay ignored where they
    are, as SIGHUP under `nohup`, and a handler of the caller's own for them stays in place.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        free = [number for number in _ENDINGS if _is_free(signal.getsignal(number))]
        before = {number: signal.getsignal(number) for number in ([signal.SIGINT] if ctrl_c else []) + free}
        interrupts.outer = next((handler for handler in before.values() if isinstance(handler, Interrupts)), None)
    try:
        for number in before:
            signal.signal(number, interrupts)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_free(handler: object) -> bool:
    return handler is signal.SIG_DFL or isinstance(handler, Interrupts)
