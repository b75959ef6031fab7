"""A thread that draws the latest thing it was handed. Who hands it on never waits, and what is overtaken is never drawn."""

import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

SOON = 5e-3  # [s]


class Drawer:
    """`hand(thing)` returns at once; `draw(thing)` runs in a thread of its own, when it is ready. What goes wrong there is
    said once."""

    def __init__(self, draw: Callable[[Any], None], is_ready: Callable[[], bool] = lambda: True) -> None:
        self._draw, self._is_ready, self._latest = draw, is_ready, None
        self._wake, self._closed = threading.Condition(), False
        self.drawn, self.troubles = 0, 0
        self._thread = threading.Thread(target=self._run, name="samara drawer", daemon=True)
        self._thread.start()

    def hand(self, thing: Any) -> None:
        """Draw this next"""
        with self._wake:
            self._latest = thing
            self._wake.notify()

    def close(self) -> None:
        """Draws no more"""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while True:
            with self._wake:
                while self._latest is None and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
            if not self._is_ready():
                time.sleep(SOON)
                continue
            with self._wake:
                thing, self._latest = self._latest, None
            try:
                self._draw(thing)
                self.drawn += 1
            except Exception:  # whatever a browser has done to the page, the flight goes on
                self.troubles += 1
                if self.troubles == 1:
                    print(f"samara: the page could not be drawn:\n{traceback.format_exc()}", file=sys.stderr)
