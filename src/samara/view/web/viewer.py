"""A flight on a page, whether it is being flown or was recorded: clock, speed and log beside it, and pictures by the clock."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from samara.view.web.keys import Key
from samara.view.web.latest_thread import Drawer
from samara.view.web.page import Page

FRAMES = 30.0  # [1/s] of the wall's clock
IDLE = 2e-2  # [s]
SPEEDS = {"0.1×": 0.1, "0.25×": 0.25, "0.5×": 0.5, "1×": 1.0, "2×": 2.0, "5×": 5.0, "10×": 10.0}

_T = TypeVar("_T")


class Viewer(ABC):
    """What `Live` and `Replay` have in common. Each says what is to be seen (`_shown`, `_draw`) and adds its own controls."""

    speeds: ClassVar[Mapping[str, float]] = SPEEDS
    page: Page
    speed: float

    def _open(self, page: Page) -> None:
        """The page with its controls, and the thread that draws, with a first picture."""
        self.page, self._closed, self._frame_due = page, False, 0.0
        try:
            self._add_controls()
            self.drawer = Drawer(self._draw, page.is_ready)
            self.drawer.hand(self._shown(fresh=True))
        except BaseException:
            page.close()
            raise

    def close(self) -> None:
        """Ends `run()` from another thread"""
        self._closed = True
        self.page.requests.put("close")

    def take_down(self) -> None:
        """Closes drawer and page"""
        self.drawer.close()
        self.page.close()

    # Pictures --------------------------------------------------------------------------------------------------------

    def _publish(self, force: bool = False) -> None:
        """Hands the drawer what is to be seen, thirty times a second, where somebody looks and something is new."""
        now = time.perf_counter()
        if now < self._frame_due and not force:
            return
        self._frame_due = max(self._frame_due + 1.0 / FRAMES, now)
        if not self.page.clients and not force:
            return
        fresh = self.page.take_change() or force
        if fresh or self._is_moving:
            self.drawer.hand(self._shown(fresh))

    @property
    @abstractmethod
    def _is_moving(self) -> bool:
        """Whether every picture is another one."""

    @abstractmethod
    def _shown(self, fresh: bool) -> Any:
        """What the drawer is handed; all of it when `fresh`."""

    @abstractmethod
    def _draw(self, shown: Any) -> None:
        """In the drawer's thread."""

    # The server's thread: what is asked is only noted ----------------------------------------------------------------

    def _add_controls(self) -> None:
        gui = self.page.server.gui
        self._status = gui.add_html("")
        self._add_clock()
        self.page.add_camera()
        self._add_own()
        self.page.add_instruments()
        with gui.add_folder("Log"):
            self._log = gui.add_html("")
        self.page.add_parts()
        self.page.add_keys(self._keys())

    def _add_clock(self) -> None:
        """The buttons of the clock and the choice of a speed."""
        gui, wish, meaning = self.page.server.gui, self.page.requests.put, self._clock()
        with gui.add_folder("Time"):
            self._add_time()
            clock = gui.add_button_group("clock", tuple(meaning))
            self.page.pressed.add("clock", clock)
            name = next((name for name, own in self.speeds.items() if own == self.speed), f"{self.speed:g}×")
            speeds = {**self.speeds, name: self.speed}
            self._speed: Any = gui.add_dropdown("speed", tuple(speeds), initial_value=name)
        self._speeds = dict(sorted(speeds.items(), key=lambda own: own[1]))
        on_choice(clock.on_click, meaning, wish)
        on_choice(self._speed.on_update, speeds, lambda speed: wish("speed", speed))

    @abstractmethod
    def _clock(self) -> Mapping[str, str]:
        """The buttons of the clock, and the wish of each."""

    @abstractmethod
    def _keys(self) -> list[Key]:
        """Keys beside those of the camera."""

    def _add_time(self) -> None:
        """More controls, above the clock."""
        return

    def _add_own(self) -> None:
        """More controls, below the camera."""
        return


def on_choice(register: Callable[[Any], Any], options: Mapping[str, _T], do: Callable[[_T], None]) -> None:
    """Does what the pressed button or the chosen entry stands for; another word that a browser sends is passed over"""

    async def chosen(event: Any) -> None:
        if event.target.value in options:
            do(options[event.target.value])

    register(chosen)
