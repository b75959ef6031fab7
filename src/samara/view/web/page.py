"""The page itself: a server, the scene, what every page has beside it (camera, instruments), and who looks at it."""

import threading
import time
import webbrowser
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import environ
from sys import platform
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import viser

from samara.core.algebra import Vec3
from samara.vehicles.shape import COLOURS
from samara.view.web.controls import Drawer, Key, Pressed, Pulse, Requests, add_keys
from samara.view.web.gauges import eyes_html, gauges
from samara.view.web.history import Curves, History, Recorded
from samara.view.web.mesh import rgb
from samara.view.web.scene import FIELD_OF_VIEW, Figure, Scene
from samara.view.web.server import PORT, address_of, close_server, open_server
from samara.view.web.snapshot import Frame

MODES = ("follow", "onboard", "free")
GAUGES_EVERY, PLOTS_EVERY = 0.15, 0.25  # [s] of the wall's clock: faster nobody reads
PARTS = {
    "path": "path flown",
    "reference": "reference",
    "thrust": "thrust arrows",
    "axes": "body axes",
    "estimate": "estimate (ghost)",
    "names": "names",
    "eyes": "what cameras and lidars see",
}


class Page:
    """A page about some drones. Wishes of its visitors end in `requests`; `clients` counts who looks at it."""

    def __init__(
        self,
        figures: Sequence[Figure],
        title: str,
        history: History | Recorded,
        *,
        port: int = PORT,
        ground: float = 0.0,
    ) -> None:
        self.server = open_server(port, title)
        self.requests = Requests()
        self.clients = 0
        self.chosen = 0
        self.mode = MODES[0]
        self.changed = True  # something other than the flight asks for a new picture
        self._counting, self._pulses = threading.Lock(), dict[int, Pulse]()
        self._looked: tuple[str, int] | None = None
        self._gauged, self._plotted = 0.0, 0.0
        self.server.gui.configure_theme(
            control_width="medium", show_logo=False, show_share_button=False, brand_color=rgb(COLOURS[0])
        )
        self.server.gui.main_panel.dock_right()  # beside the picture, not over it: what is followed is in the middle of both
        self.scene = Scene(self.server, figures, ground=ground)
        self._history = history
        self.pressed = Pressed(self.server.gui)
        self._count_clients()

    @property
    def address(self) -> str:
        """What to type into a browser"""
        return address_of(self.server)

    def close(self) -> None:
        """Takes the page down"""
        close_server(self.server)

    def _count_clients(self) -> None:
        @self.server.on_client_connect
        async def _(client: viser.ClientHandle) -> None:
            with self._counting:
                self._pulses[client.client_id] = Pulse(client)
                self.clients = len(self._pulses)
            self.changed = True

        @self.server.on_client_disconnect
        async def _(client: viser.ClientHandle) -> None:
            with self._counting:
                gone = self._pulses.pop(client.client_id, None)
                self.clients = len(self._pulses)
            if gone is not None:
                gone.end()

    def _looking(self) -> list[Pulse]:
        with self._counting:
            return list(self._pulses.values())

    def is_ready(self) -> bool:
        """Whether a browser wants the next picture: one that is slow does not hold up the others"""
        looking = self._looking()
        return not looking or not all(pulse.is_behind for pulse in looking)

    @property
    def is_watched(self) -> bool:
        """Whether some browser has drawn a picture"""
        return any(pulse.answered for pulse in self._looking())

    # Beside the scene ------------------------------------------------------------------------------------------------

    def add_camera(self) -> None:
        """Which drone is looked at, and from where"""
        gui, names = self.server.gui, _distinct([figure.name for figure in self.scene.figures])
        with gui.add_folder("Camera"):
            whom = gui.add_dropdown("drone", names, visible=len(names) > 1)
            mode = gui.add_button_group("camera", MODES)
            self.pressed.add("camera", mode)
        self._whom, self._names = whom, names
        on_choice(whom.on_update, {name: k for k, name in enumerate(names)}, self._look_at)
        on_choice(mode.on_click, {name: name for name in MODES}, self._look_from)

    def add_instruments(self) -> None:
        """What the drone's gauges show, and plots of the last seconds"""
        gui = self.server.gui
        self._eyes_folder = gui.add_folder("Eyes", visible=False)
        with self._eyes_folder:
            self._eyes = gui.add_html("")
        tabs = gui.add_tab_group()
        with tabs.add_tab("Plots"):
            self.curves = Curves(gui, self.scene.figures[0].vehicle)
        with tabs.add_tab("Instruments"):
            self.instruments = gui.add_html("")

    def add_keys(self, keys: Sequence[Key]) -> None:
        """Keys of the camera and some more, and the list of them"""
        every = [
            *keys,
            *(Key(str(k + 1), f"camera: {mode}", partial(self._look_from, mode)) for k, mode in enumerate(MODES)),
        ]
        if len(self.scene.figures) > 1:
            every.append(Key("N", "the next drone", self._look_at_next))
        with self.server.gui.add_folder("Keys", expand_by_default=False):
            add_keys(self.server.gui, every)

    def _look_from(self, mode: str) -> None:
        self.mode, self.changed = mode, True

    def _look_at(self, chosen: int) -> None:
        self.chosen, self.changed = chosen, True

    def _look_at_next(self) -> None:
        self._look_at((self.chosen + 1) % len(self._names))
        self._whom.value = self._names[self.chosen]  # type: ignore[misc]

    def add_parts(self) -> None:
        """What is drawn, and what its colours mean"""
        gui, several = self.server.gui, len(self.scene.figures) > 1
        with gui.add_folder("Show", expand_by_default=False):
            boxes = {
                part: gui.add_checkbox(words, self.scene.shown[part])
                for part, words in PARTS.items()
                if part != "names" or several
            }
            cell = self.scene.cell
            gui.add_markdown(
                f"Grid {cell:g} m, thicker {5 * cell:g} m. Propellers: **blue** turn counter-clockwise, **orange** clockwise, "
                "as the curved arrow on each shows; the blades are shown slower than they turn. "
                "Body axes: blue forward, orange left, green up."
            )

        for part, box in boxes.items():
            on_choice(box.on_update, {True: True, False: False}, partial(self._show_part, part))

    def _show_part(self, part: str, shown: bool) -> None:
        self.scene.shown[part] = shown
        self.requests.put("show")
        self.changed = True

    # Drawing ---------------------------------------------------------------------------------------------------------

    def take_change(self) -> bool:
        """Whether something other than the flight asks for a new picture; from now on that one has been made"""
        changed, self.changed = self.changed, False
        return changed

    def draw(self, frame: Frame, now: float, fresh: bool = False) -> None:
        """The frame, seen as chosen, and its instruments, which wait for their time unless `fresh`"""
        self.scene.look(self.mode, frame, self.chosen)
        self.scene.show_parts()
        self.scene.show(frame)
        self._aim(frame)
        if frame.close is not None and (fresh or now - self._gauged > GAUGES_EVERY):
            self._gauged = now
            self.instruments.content = gauges(frame.close)
            self._eyes_folder.visible = bool(frame.close.eyes)
            if frame.close.eyes:
                self._eyes.content = eyes_html(frame.close.eyes)
        if frame.close is not None and (fresh or now - self._plotted > PLOTS_EVERY):
            self._plotted = now
            times, values = self._history.of(frame.close_index, frame.time)
            if len(times):
                self.curves.show(times, values, len(frame.close.vehicle.rotors))
        for pulse in self._looking():
            pulse.sent()

    def _aim(self, frame: Frame) -> None:
        """Puts the cameras where a newly chosen view begins; after that they are their owners'."""
        if self._looked == (self.mode, self.chosen):
            return
        first, before = self._looked is None, self._looked
        self._looked = self.mode, self.chosen
        position, target = self.scene.camera(self.mode, frame, self.chosen)
        self._begin_with(position, target)
        if first or before is None:
            return
        for client in self.server.get_clients().values():
            camera = client.camera
            if self.mode == "free" and before[0] == "follow":  # stay where one is
                moved = frame.p_W[before[1]]
                camera.position, camera.look_at = camera.position + moved, camera.look_at + moved
                continue
            if self.mode == before[0] == "follow":
                continue
            camera.position, camera.look_at = np.array(position, dtype=float), np.array(target, dtype=float)

    def _begin_with(self, position: Vec3, target: Vec3) -> None:
        start = self.server.initial_camera
        start.fov, start.position, start.look_at = FIELD_OF_VIEW, tuple(position), tuple(target)
        start.near, start.far = 0.02 * self.scene.reach, 4000.0 * self.scene.cell


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that come again"""
    seen: dict[str, int] = {}
    told = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        told.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return told


def show_in_browser(address: str) -> bool:
    """Opens the system's browser where there is a screen to open it on; tells whether it tried"""
    if platform.startswith("linux") and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return False
    return webbrowser.open(address)


FRAMES = 30.0  # [1/s] of the wall's clock
IDLE = 2e-2  # [s]
SPEEDS = {"0.1×": 0.1, "0.25×": 0.25, "0.5×": 0.5, "1×": 1.0, "2×": 2.0, "5×": 5.0, "10×": 10.0}

_K = TypeVar("_K")
_T = TypeVar("_T")
_Shown = TypeVar("_Shown")


class Viewer(ABC, Generic[_Shown]):
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
    def _shown(self, fresh: bool) -> _Shown:
        """What the drawer is handed; all of it when `fresh`."""

    @abstractmethod
    def _draw(self, shown: _Shown) -> None:
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
            self._speed = gui.add_dropdown("speed", tuple(speeds), initial_value=name)
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


def on_choice(register: Callable[[Any], Any], options: Mapping[_K, _T], do: Callable[[_T], None]) -> None:
    """Does what the pressed button or the chosen entry stands for; another word that a browser sends is passed over"""

    async def chosen(event: Any) -> None:
        if event.target.value in options:
            do(options[event.target.value])

    register(chosen)
