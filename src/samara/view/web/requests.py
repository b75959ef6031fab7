"""What people asked for at the page: plain records in a queue that the simulation's thread empties between two instants."""

import threading
from collections import deque
from typing import Any, NamedTuple

MOST = 256  # what is asked for beyond this pushes out the oldest


class Request(NamedTuple):
    """One wish: 'pause', 'speed', 'go to', …, and what belongs to it."""

    kind: str
    value: Any = None


class Requests:
    """A bounded queue between the server's thread and the simulation's."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque(maxlen=MOST)
        self._some = threading.Event()

    def put(self, kind: str, value: Any = None) -> None:
        """Leaves a wish"""
        self._waiting.append(Request(kind, value))
        self._some.set()

    def take(self) -> list[Request]:
        """All wishes left so far, oldest first"""
        if not self._waiting:
            return []
        self._some.clear()
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken

    def wait(self, seconds: float) -> None:
        """Until there is one, or so long"""
        self._some.wait(seconds)
