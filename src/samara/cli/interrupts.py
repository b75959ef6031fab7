"""Ctrl-C, and the two signals by which a system or a closing terminal ends a program, as one and the same thing."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupts:
    """Whether one of the signals has come."""

    asked = False

    def check(self) -> None:
        """KeyboardInterrupt, where one has come and was lost: LLVM's callbacks swallow what is raised in them"""
        if self.asked:
            raise KeyboardInterrupt


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Inside, each of the signals raises KeyboardInterrupt; one that is ignored, as under nohup, stays ignored"""
    own = Interrupts()

    def ask(number: int, frame: FrameType | None) -> None:
        own.asked = True
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield own
        return
    heard = [each for each in SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, ask) for each in heard}
    try:
        yield own
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
