"""The page of the viewer: server, scene, camera controls and instruments, and the connected browsers."""

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
from samara.view.web.controls import ActiveButtons, DrawingThread, KeyBinding, Requests, ResponseMonitor, add_keys
from samara.view.web.gauges import gauges, vision_html
from samara.view.web.history import Curves, History, RecordedHistory
from samara.view.web.mesh import rgb
from samara.view.web.scene import FIELD_OF_VIEW, DroneFigure, WebScene
from samara.view.web.server import PORT, close_server, open_server, server_address
from samara.view.web.snapshot import ViewFrame

CAMERA_MODES = ("follow", "onboard", "free")
GAUGES_PERIOD, PLOTS_PERIOD = 0.15, 0.25  # [s], wall-clock: fast enough for a reader
PART_LABELS = {
    "path": "path flown",
    "reference": "reference",
    "thrust": "thrust arrows",
    "axes": "body axes",
    "estimate": "estimate (ghost)",
    "names": "names",
    "eyes": "camera and lidar readings",
}
_ROW = (
    "div:has(> .mantine-Notifications-root + div + .mantine-Paper-root)"  # picture and panel, in viser's narrow layout
)
PHONE_STYLE = (
    "<style>@media (max-width: 36em) and (orientation: portrait) {"
    f"{_ROW} {{flex-direction: column}}"
    f"{_ROW} > .mantine-Notifications-root + div {{flex: 1 1 0 !important; min-height: 0; height: auto !important}}"
    f"{_ROW} > .mantine-Paper-root {{position: static !important; flex: none;"
    " width: 100% !important; max-height: 45% !important}"
    f'{_ROW} > .mantine-Paper-root div[style*="width: 20em"] {{width: 100% !important}}'
    "}</style>"
)
"""Upright phones show the panel below the picture; viser lays it over the picture, where it covers the drone."""


class Page:
    """A page that shows drones. Visitors' requests go to `requests`; `clients` counts the connected browsers."""

    def __init__(
        self,
        figures: Sequence[DroneFigure],
        title: str,
        history: History | RecordedHistory,
        *,
        port: int = PORT,
        ground: float = 0.0,
    ) -> None:
        self.server = open_server(port, title)
        self.requests = Requests()
        self.clients = 0
        self.selected = 0
        self.mode = CAMERA_MODES[0]
        self.changed = True  # a new picture is needed for a reason other than the flight
        self._lock, self._monitors = threading.Lock(), dict[int, ResponseMonitor]()
        self._aimed_view: tuple[str, int] | None = None
        self._gauges_time, self._plots_time = 0.0, 0.0
        self.server.gui.configure_theme(
            control_width="medium", show_logo=False, show_share_button=False, brand_color=rgb(COLOURS[0])
        )
        self.server.gui.main_panel.dock_right()  # beside the picture, so that the followed drone is in its centre
        self.scene = WebScene(self.server, figures, ground=ground)
        self._history = history
        self.active_buttons = ActiveButtons(self.server.gui)
        self.server.gui.add_html(PHONE_STYLE)
        self._count_clients()

    @property
    def address(self) -> str:
        """Address of the page."""
        return server_address(self.server)

    def close(self) -> None:
        """Close the page."""
        close_server(self.server)

    def _count_clients(self) -> None:
        @self.server.on_client_connect
        async def _(client: viser.ClientHandle) -> None:
            with self._lock:
                self._monitors[client.client_id] = ResponseMonitor(client)
                self.clients = len(self._monitors)
            self.changed = True

        @self.server.on_client_disconnect
        async def _(client: viser.ClientHandle) -> None:
            with self._lock:
                monitor = self._monitors.pop(client.client_id, None)
                self.clients = len(self._monitors)
            if monitor is not None:
                monitor.stop()

    def _connected_monitors(self) -> list[ResponseMonitor]:
        with self._lock:
            return list(self._monitors.values())

    def is_ready(self) -> bool:
        """Whether any browser is ready for the next picture; a slow one does not delay the others."""
        monitors = self._connected_monitors()
        return not monitors or not all(pulse.is_behind for pulse in monitors)

    @property
    def is_watched(self) -> bool:
        """Whether any browser has drawn a picture."""
        return any(pulse.has_answered for pulse in self._connected_monitors())

    # Beside the scene ------------------------------------------------------------------------------------------------

    def add_camera(self) -> None:
        """Add the choice of the drone and of the camera."""
        gui, names = self.server.gui, _distinct_names([figure.name for figure in self.scene.figures])
        with gui.add_folder("Camera"):
            drone_choice = gui.add_dropdown("drone", names, visible=len(names) > 1)
            mode = gui.add_button_group("camera", CAMERA_MODES)
            self.active_buttons.add("camera", mode)
        self._drone_choice, self._names = drone_choice, names
        connect_choice(drone_choice.on_update, {name: k for k, name in enumerate(names)}, self._select_drone)
        connect_choice(mode.on_click, {name: name for name in CAMERA_MODES}, self._select_camera)

    def add_instruments(self) -> None:
        """Add images, plots and instruments of the selected drone."""
        gui = self.server.gui
        self._vision_folder = gui.add_folder("Cameras and lidars", visible=False)
        with self._vision_folder:
            self._vision_images = gui.add_html("")
        tabs = gui.add_tab_group()
        with tabs.add_tab("Plots"):
            self.curves = Curves(gui, self.scene.figures[0].vehicle)
        with tabs.add_tab("Instruments"):
            self.instruments = gui.add_html("")

    def add_keys(self, keys: Sequence[KeyBinding]) -> None:
        """Add the given keys and those of the camera, and list them."""
        all_keys = [
            *keys,
            *(
                KeyBinding(str(k + 1), f"camera: {mode}", partial(self._select_camera, mode))
                for k, mode in enumerate(CAMERA_MODES)
            ),
        ]
        if len(self.scene.figures) > 1:
            all_keys.append(KeyBinding("N", "next drone", self._select_next_drone))
        with self.server.gui.add_folder("Keys", expand_by_default=False):
            add_keys(self.server.gui, all_keys)

    def _select_camera(self, mode: str) -> None:
        self.mode, self.changed = mode, True

    def _select_drone(self, chosen: int) -> None:
        self.selected, self.changed = chosen, True

    def _select_next_drone(self) -> None:
        self._select_drone((self.selected + 1) % len(self._names))
        self._drone_choice.value = self._names[self.selected]  # type: ignore[misc]

    def add_parts(self) -> None:
        """Add the choice of visible parts, and a legend."""
        gui, has_several = self.server.gui, len(self.scene.figures) > 1
        with gui.add_folder("Show", expand_by_default=False):
            boxes = {
                part: gui.add_checkbox(label, self.scene.visible_parts[part])
                for part, label in PART_LABELS.items()
                if part != "names" or has_several
            }
            cell = self.scene.cell
            gui.add_markdown(
                f"Grid {cell:g} m, thick lines {5 * cell:g} m. Propellers: **blue** counter-clockwise, **orange** clockwise, "
                "as the curved arrows show; the blades are drawn slower than they turn. "
                "Body axes: blue forward, orange left, green up."
            )

        for part, box in boxes.items():
            connect_choice(box.on_update, {True: True, False: False}, partial(self._show_part, part))

    def _show_part(self, part: str, shown: bool) -> None:
        self.scene.visible_parts[part] = shown
        self.requests.put("show")
        self.changed = True

    # Drawing ---------------------------------------------------------------------------------------------------------

    def take_change(self) -> bool:
        """Whether a new picture was needed for a reason other than the flight; resets the flag."""
        changed, self.changed = self.changed, False
        return changed

    def draw(self, frame: ViewFrame, now: float, fresh: bool = False) -> None:
        """Draw the frame from the selected camera, and the instruments at their own rate or if `fresh`."""
        self.scene.set_view(self.mode, frame, self.selected)
        self.scene.show_parts()
        self.scene.show(frame)
        self._aim(frame)
        if frame.detail is not None and (fresh or now - self._gauges_time > GAUGES_PERIOD):
            self._gauges_time = now
            self.instruments.content = gauges(frame.detail)
            self._vision_folder.visible = bool(frame.detail.vision_frames)
            if frame.detail.vision_frames:
                self._vision_images.content = vision_html(frame.detail.vision_frames)
        if frame.detail is not None and (fresh or now - self._plots_time > PLOTS_PERIOD):
            self._plots_time = now
            times, values = self._history.drone_history(frame.detail_index, frame.time)
            if len(times):
                self.curves.show(times, values, len(frame.detail.vehicle.rotors))
        for pulse in self._connected_monitors():
            pulse.note_sent()

    def _aim(self, frame: ViewFrame) -> None:
        """Place the cameras at the start of a newly selected view; afterwards visitors control them."""
        if self._aimed_view == (self.mode, self.selected):
            return
        is_first, previous = self._aimed_view is None, self._aimed_view
        self._aimed_view = self.mode, self.selected
        position, target = self.scene.camera(self.mode, frame, self.selected)
        self._set_initial_camera(position, target)
        if is_first or previous is None:
            return
        for client in self.server.get_clients().values():
            camera = client.camera
            if self.mode == "free" and previous[0] == "follow":  # keep the viewpoint
                offset = frame.p_W[previous[1]]
                camera.position, camera.look_at = camera.position + offset, camera.look_at + offset
                continue
            if self.mode == previous[0] == "follow":
                continue
            camera.position, camera.look_at = np.array(position, dtype=float), np.array(target, dtype=float)

    def _set_initial_camera(self, position: Vec3, target: Vec3) -> None:
        start = self.server.initial_camera
        start.fov, start.position, start.look_at = FIELD_OF_VIEW, tuple(position), tuple(target)
        start.near, start.far = 0.02 * self.scene.vehicle_radius, 4000.0 * self.scene.cell


def _distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names, numbered if they repeat."""
    counts: dict[str, int] = {}
    labels = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        labels.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return labels


def show_in_browser(address: str) -> bool:
    """Open the system's browser if there is a display; return whether it was tried."""
    if platform.startswith("linux") and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return False
    return webbrowser.open(address)


FRAME_RATE = 30.0  # [1/s], wall-clock
IDLE_PERIOD = 2e-2  # [s]
SPEEDS = {"0.1×": 0.1, "0.25×": 0.25, "0.5×": 0.5, "1×": 1.0, "2×": 2.0, "5×": 5.0, "10×": 10.0}

_K = TypeVar("_K")
_T = TypeVar("_T")
_Display = TypeVar("_Display")


class Viewer(ABC, Generic[_Display]):
    """Common part of the viewers. Subclasses collect the state to draw (`_display_state`), draw it (`_draw`) and add
    controls."""

    speeds: ClassVar[Mapping[str, float]] = SPEEDS
    page: Page
    speed: float

    def _open(self, page: Page) -> None:
        """Open the page with its controls, start the drawing thread, and draw a first picture."""
        self.page, self._closed, self._next_frame_time = page, False, 0.0
        try:
            self._add_controls()
            self.drawer = DrawingThread(self._draw, page.is_ready)
            self.drawer.submit(self._display_state(fresh=True))
        except BaseException:
            page.close()
            raise

    def close(self) -> None:
        """End `run()` from another thread."""
        self._closed = True
        self.page.requests.put("close")

    def shut_down(self) -> None:
        """Close the drawing thread and the page."""
        self.drawer.close()
        self.page.close()

    # Pictures --------------------------------------------------------------------------------------------------------

    def _publish(self, force: bool = False) -> None:
        """Submit the current state for drawing, thirty times per second, if a browser is connected and something changed."""
        now = time.perf_counter()
        if now < self._next_frame_time and not force:
            return
        self._next_frame_time = max(self._next_frame_time + 1.0 / FRAME_RATE, now)
        if not self.page.clients and not force:
            return
        fresh = self.page.take_change() or force
        if fresh or self._is_moving:
            self.drawer.submit(self._display_state(fresh))

    @property
    @abstractmethod
    def _is_moving(self) -> bool:
        """Whether every picture differs from the last."""

    @abstractmethod
    def _display_state(self, fresh: bool) -> _Display:
        """Collect the state to draw; completely if `fresh`."""

    @abstractmethod
    def _draw(self, shown: _Display) -> None:
        """Draw, in the drawing thread."""

    # The server's thread: callbacks only queue requests --------------------------------------------------------------

    def _add_controls(self) -> None:
        gui = self.page.server.gui
        self._status = gui.add_html("")
        self._add_clock()
        self.page.add_camera()
        self._add_specific_controls()
        self.page.add_instruments()
        with gui.add_folder("Log"):
            self._log = gui.add_html("")
        self.page.add_parts()
        self.page.add_keys(self._key_bindings())

    def _add_clock(self) -> None:
        """Add the buttons of the clock and the choice of speed."""
        gui, put_request, buttons = self.page.server.gui, self.page.requests.put, self._clock_buttons()
        with gui.add_folder("Time"):
            self._add_time_controls()
            clock = gui.add_button_group("clock", tuple(buttons))
            self.page.active_buttons.add("clock", clock)
            name = next((name for name, speed in self.speeds.items() if speed == self.speed), f"{self.speed:g}×")
            speeds = {**self.speeds, name: self.speed}
            self._speed = gui.add_dropdown("speed", tuple(speeds), initial_value=name)
        self._speeds = dict(sorted(speeds.items(), key=lambda speed: speed[1]))
        connect_choice(clock.on_click, buttons, put_request)
        connect_choice(self._speed.on_update, speeds, lambda speed: put_request("speed", speed))

    @abstractmethod
    def _clock_buttons(self) -> Mapping[str, str]:
        """Buttons of the clock, and the request of each."""

    @abstractmethod
    def _key_bindings(self) -> list[KeyBinding]:
        """Keys in addition to those of the camera."""

    def _add_time_controls(self) -> None:
        """Add controls above the clock."""
        return

    def _add_specific_controls(self) -> None:
        """Add controls below the camera."""
        return


def connect_choice(register: Callable[[Any], Any], options: Mapping[_K, _T], callback: Callable[[_T], None]) -> None:
    """Call `callback` with the value of the pressed button or selected entry; other values from a browser are
    ignored."""

    async def on_event(event: Any) -> None:
        if event.target.value in options:
            callback(options[event.target.value])

    register(on_event)
