"""Whether a browser keeps up. After a picture it is asked for something small; while it has not answered, it has not drawn.

A browser takes messages faster than it can draw them, and a slow one would show an ever older flight. It is sent the next
picture only when it is done with the last but one.
"""

import threading
import time
import warnings

import viser

warnings.filterwarnings("ignore", "Queued a LocalStorageGetItemRequestMessage on a closed connection", UserWarning)

BEHIND = 0.1  # [s] without an answer
PATIENCE = 30.0  # [s] after which it is asked again


class Pulse:
    """One browser's answers, waited for in a thread of its own."""

    def __init__(self, client: viser.ClientHandle) -> None:
        self._client, self._sent = client, threading.Event()
        self._asked: float | None = None
        self._gone = False
        self.answered = False  # ever: it shows the page
        threading.Thread(target=self._run, name="samara pulse", daemon=True).start()

    def sent(self) -> None:
        """A picture is on its way"""
        self._sent.set()

    def end(self) -> None:
        """The browser is gone"""
        self._gone = True
        self._sent.set()

    @property
    def is_behind(self) -> bool:
        """Whether it has owed an answer for too long"""
        asked = self._asked
        return asked is not None and time.perf_counter() - asked > BEHIND

    def _run(self) -> None:
        while True:
            self._sent.wait()
            self._sent.clear()
            if self._gone:
                return
            self._asked = time.perf_counter()
            try:
                self._client.local_storage.get_item("samara", timeout=PATIENCE)
                self.answered = True
            except TimeoutError:
                continue
            except (RuntimeError, UserWarning):  # gone, or a browser that keeps nothing: it answered all the same
                self.answered = True
            finally:
                self._asked = None
