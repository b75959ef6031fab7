"""Ctrl-C, and the two signals by which a system or a closing terminal ends a program, as one and the same thing."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
INTERRUPTED = 130  # the exit status that shells give a program ended by Ctrl-C


class Interrupts:
    """Whether one of the signals has come."""

    asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """As the handler of a signal"""
        self.asked = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """KeyboardInterrupt, where one has come and was lost: LLVM's callbacks swallow what is raised in them"""
        if self.asked:
            raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Inside, each of the signals raises KeyboardInterrupt; one that is ignored, as under nohup, stays ignored

    One within another is the same: what came before the inner one, and was lost, is not lost to it.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield Interrupts()
        return
    heard = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    own = next((outer for each in heard if isinstance(outer := signal.getsignal(each), Interrupts)), Interrupts())
    before = {each: signal.signal(each, own) for each in heard}
    say_unraisable = sys.unraisablehook

    def say_no_interrupt(what: Any) -> None:
        if not isinstance(
            what.exc_value, KeyboardInterrupt
        ):  # one that is swallowed waits for `check`, without a traceback
            say_unraisable(what)

    sys.unraisablehook = say_no_interrupt
    try:
        yield own
    finally:
        sys.unraisablehook = say_unraisable
        for each, handler in before.items():
            signal.signal(each, handler)
