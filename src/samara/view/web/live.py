"""A simulation that runs in real time while visitors watch and control it in a browser.

Three threads: this one advances the simulation and takes snapshots, the drawing thread converts them to messages, and the
server's thread sends them and queues the visitors' requests. Without visitors nothing is drawn.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import viser

from samara.control.registry import CONTROLLERS, name_of
from samara.core.algebra import Vec3
from samara.core.types import Array
from samara.physics.frames import wind_enu_from_direction
from samara.plan.trajectory import Trajectory
from samara.record.recorder import Background, LogLine
from samara.record.run import Run
from samara.record.streams import Block, Sink
from samara.scenario.events import (
    Action,
    Setting,
    fail_motor,
    go_to,
    gust,
    land,
    restore_motor,
    return_home,
    wind_step,
)
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fly import ending, recorded, recorder_of
from samara.sim.simulation import Simulation
from samara.vehicles.shape import COLOURS
from samara.view.web.controls import Key, Request
from samara.view.web.gauges import log_html, status_html
from samara.view.web.history import History, Trail, measured
from samara.view.web.page import FRAMES, IDLE, SPEEDS, Page, Viewer, on_choice
from samara.view.web.scene import FEW, Figure
from samara.view.web.server import PORT
from samara.view.web.snapshot import Snapshot, frame_of, most_rotors, motion_of, positions_of, snapshot_of

NAP = 4e-3  # [s]
LATE = 0.25  # [s]: a larger lag behind real time is not made up
STEP_US = 10_000
ENDLESS = 3600.0  # [s]: duration of a watched scenario
TRAIL_EVERY = 0.2  # [s], wall-clock
REFERENCE_POINTS = 401
GUST_SECONDS = 2.0

Progress = Callable[[float, float], None]


class Shown(NamedTuple):
    """Input of the drawing thread."""

    snapshot: Snapshot
    trail: Array | None
    logs: tuple[LogLine, ...]
    words: str
    refused: str
    paused: bool
    fresh: bool


class Live(Viewer[Shown]):
    """A scenario flown live. `run()` returns when it is closed, or with `until_end` at the end of the flight."""

    speeds: ClassVar[Mapping[str, float]] = {**SPEEDS, "no limit": math.inf}

    def __init__(
        self,
        scenario: Scenario,
        *,
        port: int = PORT,
        speed: float = 1.0,
        record: Sink | None = None,
        restartable: bool = True,
    ) -> None:
        if not speed > 0.0:
            raise ValueError(f"the speed is {speed!r}; expected a number above 0: 1 is real time")
        self.scenario, self.speed = scenario, float(speed)
        self.paused, self.ended, self.waiting = False, False, False
        self._record, self._restartable = record, restartable
        self.logs: deque[LogLine] = deque(maxlen=100)
        self._refused = ""
        self._trail, self._history = Trail(len(scenario.drones)), History()
        self._trail_shown = 0.0
        self._way: Setting | None = None
        self._actions: dict[str, Callable[[], Action]] = {}
        self.factor = 0.0
        self._pace = deque([(0.0, 0.0)], maxlen=FRAMES_OF_PACE)
        self.simulation = self._begun(scenario)
        try:
            title, ground = f"samara · {scenario.name}", _ground(scenario)
            self._open(Page(_figures(scenario), title, self._history, port=port, ground=ground))
        except BaseException:
            self.simulation.close()
            raise

    def take_down(self) -> None:
        """Close the drawing thread, the page, and programs that the simulation started."""
        super().take_down()
        self.simulation.close()

    def _begun(self, scenario: Scenario) -> Simulation:
        def sink(blocks: Sequence[Block], lines: Sequence[LogLine]) -> None:
            self.logs.extend(lines)
            if self._record is not None:
                self._record(blocks, lines)

        return Simulation(scenario, sink)

    def fly_to(self, seconds: float) -> None:
        """Before `run`: fly as fast as possible to a time, and pause there."""
        self._advance_to(seconds * MICROSECONDS)
        self.paused = True

    # The simulation's thread -----------------------------------------------------------------------------------------

    def run(self, *, until_end: bool = False, wait: bool = False, progress: Progress = lambda now, total: None) -> None:
        """Run in real time until closed, or with `until_end` to the end; with `wait`, start when a browser shows the page."""
        self._anchor()
        self.waiting = wait
        last_second = -1
        while not self._closed:
            for request in self.page.requests.take():
                self._serve(request)
            self.waiting = self.waiting and not self.page.is_watched
            if not self._is_moving:
                if self.ended and until_end:
                    break
                self._publish()
                self.page.requests.wait(IDLE)
                self._anchor()
                continue
            self._advance()
            self._publish()
            if self.simulation.time_us // MICROSECONDS != last_second:
                last_second = self.simulation.time_us // MICROSECONDS
                progress(float(last_second), self.scenario.duration)
            if self._due_us() <= self.simulation.time_us:
                time.sleep(NAP)
        self.simulation.flush()
        self._publish(force=True)

    def _anchor(self) -> None:
        """Restart the real-time clock at the current instant."""
        self._wall, self._from_us = time.perf_counter(), self.simulation.time_us

    def _due_us(self) -> float:
        return self._from_us + (time.perf_counter() - self._wall) * self.speed * MICROSECONDS

    def _advance(self) -> None:
        """Advance to the present time, at most for the duration of one frame, so that requests are handled."""
        simulation, frame_end = self.simulation, time.perf_counter() + 1.0 / FRAMES
        due = self._due_us()
        while simulation.time_us < due:
            if not simulation.advance():
                self.ended = self.page.changed = True
                break
            self._remember()
            if time.perf_counter() > frame_end:
                break
        if due - simulation.time_us > LATE * self.speed * MICROSECONDS:
            self._anchor()

    def _remember(self) -> None:
        """Append the current motion to the paths and plots."""
        simulation, now = self.simulation, self.simulation.time_us / MICROSECONDS
        if self._trail.is_due(now):
            self._trail.add(now, positions_of(simulation))
        if self._history.is_due(now):
            self._history.add(now, measured(*motion_of(simulation), self.page.scene.ground))

    @property
    def _is_moving(self) -> bool:
        return not (self.paused or self.ended or self.waiting)

    def _shown(self, fresh: bool) -> Shown:
        """Collect the current state for drawing; completely if `fresh`."""
        now, simulated = time.perf_counter(), self.simulation.time_us / MICROSECONDS
        trail = None
        if fresh or now - self._trail_shown > TRAIL_EVERY:
            trail, self._trail_shown = self._trail.points(), now
        self._pace.append((now, simulated))
        elapsed = now - self._pace[0][0]
        self.factor = (simulated - self._pace[0][1]) / elapsed if elapsed > 0.0 else 0.0
        idle_status = "ended" if self.ended else "paused" if self.paused else "ready" if self.waiting else ""
        status = idle_status or f"{max(self.factor, 0.0):.2f}× real time"
        logs = (*self.logs, *self.simulation.logs)
        return Shown(snapshot_of(self.simulation), trail, logs, status, self._refused, self.paused, fresh)

    def _serve(self, request: Request) -> None:
        """Handle one request; the page shows the reason if it is refused."""
        name, value = request
        self.page.changed, self._refused = True, ""
        try:
            if name in ("play", "pause"):
                self.paused = name == "pause"
            elif name == "toggle":
                self.paused = not self.paused
            elif name == "step":
                self.paused = True
                self._step()
            elif name == "speed":
                self.speed = value
                self._anchor()
            elif name == "restart":
                self._restart(value)
            elif name == "act":
                self.simulation.act(value)
        except (ValueError, FloatingPointError, KeyError) as error:
            self._refused = str(error)

    def _step(self) -> None:
        self._advance_to((self.simulation.time_us // STEP_US + 1) * STEP_US)

    def _advance_to(self, until_us: float) -> None:
        while self.simulation.time_us < until_us and not self.ended:
            self.ended = not self.simulation.advance()
            self._remember()

    def _restart(self, controller: str | None) -> None:
        if not self._restartable:
            raise ValueError("a recorded flight cannot be restarted")
        scenario = self.scenario
        if controller is not None:
            scenario = replace(
                scenario,
                drones=tuple(
                    drone if name_of(drone.controller) == controller else replace(drone, controller=controller)
                    for drone in scenario.drones
                ),
            )
        simulation = self._begun(scenario)
        self.simulation.close()
        self.simulation, self.scenario, self.ended = simulation, scenario, False
        self.logs.clear()
        self._trail.clear()
        self._history.clear()
        self._pace.clear()
        self._pace.append((time.perf_counter(), 0.0))
        self._anchor()

    # The drawing thread ----------------------------------------------------------------------------------------------

    def _draw(self, display: Shown) -> None:
        snapshot, page = display.snapshot, self.page
        frame = frame_of(snapshot, page.chosen)
        with page.server.atomic():
            if display.trail is not None:
                page.scene.draw_paths(np.concatenate([display.trail, frame.p_W[None]]))
            if self._way is None or _tasks(self._way) != _tasks(snapshot.setting):
                self._way = snapshot.setting
                tasks = [drone.task for drone in snapshot.setting.drones]
                page.scene.draw_references([_sampled(task, self.scenario.duration, len(tasks)) for task in tasks])
                page.scene.mark_way(tasks)
            page.draw(frame, time.perf_counter(), display.fresh)
            page.pressed.show(
                {
                    "clock": "Pause" if display.paused else "Play",
                    "camera": page.mode,
                    "motor": "Failed" if self._is_failed(snapshot.setting) else None,
                }
            )
            total = self.scenario.duration if not self._restartable else math.inf
            title, crashed = self.scenario.description, bool(snapshot.crashed[page.chosen])
            self._status.content = status_html(
                title, snapshot.time, total, display.words, display.logs, display.refused, crashed
            )
            self._log.content = log_html(display.logs, display.refused)

    # The server's thread: callbacks only queue requests --------------------------------------------------------------

    def _clock(self) -> dict[str, str]:
        restart_button = {"Restart": "restart"} if self._restartable else {}
        return {"Play": "play", "Pause": "pause", "Step 10 ms": "step", **restart_button}

    def _add_own(self) -> None:
        self._add_flying()
        self._add_disturbances()
        self.page.scene.add_solids(self.scenario.world)

    def _keys(self) -> list[Key]:
        put_request = self.page.requests.put
        keys = [
            Key("space", "play, pause", lambda: put_request("toggle")),
            Key("T", "step by 10 ms", lambda: put_request("step")),
            Key("pageup", "faster", lambda: self._shift_speed(1)),
            Key("pagedown", "slower", lambda: self._shift_speed(-1)),
            Key("L", "land", lambda: self._wish(self._actions["Land"])),
            Key("H", "return home", lambda: self._wish(self._actions["Return home"])),
            Key("G", "gust of 2 s", lambda: self._wish(self._actions["Gust 2 s"])),
        ]
        if self._restartable:
            keys.insert(2, Key("R", "restart", lambda: put_request("restart")))
        if most_rotors([drone.vehicle for drone in self.scenario.drones]):
            keys.append(Key("M", "fail or restore the motor", lambda: self._wish(self._toggle_motor)))
        return keys

    def _shift_speed(self, step: int) -> None:
        """Select the next faster or slower speed."""
        names = list(self._speeds)
        current = names.index(self._speed.value) if self._speed.value in names else names.index("1×")
        self._speed.value = names[min(max(current + step, 0), len(names) - 1)]  # type: ignore[misc]
        self.page.requests.put("speed", self._speeds[self._speed.value])

    def _act(self, buttons: viser.GuiButtonGroupHandle, actions: Mapping[str, Callable[[], Action]]) -> None:
        self._actions.update(actions)
        on_choice(buttons.on_click, actions, self._wish)

    def _wish(self, action: Callable[[], Action]) -> None:
        """Queue an action; an error in its construction is reported when it is handled."""
        try:
            requested = action()
        except ValueError as error:
            requested = _refusal(str(error))
        self.page.requests.put("act", requested)

    @property
    def _whom(self) -> str:
        return self.scenario.drones[self.page.chosen].name

    def _add_flying(self) -> None:
        gui, scene = self.page.server.gui, self.page.scene
        start = max(float(drone.task.at(0.0).p_W.z) for drone in self.scenario.drones)
        max_height = 30.0 if scene.cell == 1.0 else 5.0
        with gui.add_folder("Fly"):
            click = gui.add_checkbox("click the ground to go there", True)
            height = gui.add_slider(
                "height [m]", 0.0, max_height, 0.1, min(max(round(start, 1), 0.1 * max_height), max_height)
            )
            speed = gui.add_slider("speed [m/s]", 0.1, 10.0, 0.1, 2.0 if scene.cell == 1.0 else 0.5)
            tasks = gui.add_button_group("task", ("Land", "Return home"))
            current = self.scenario.drones[0].controller
            names = tuple(dict.fromkeys(["own" if callable(current) else name_of(current), *CONTROLLERS]))
            chooser = gui.add_dropdown(
                "controller", names, visible=self._restartable, hint="Changing it restarts the flight."
            )
        self._act(
            tasks,
            {
                "Land": lambda: land(drone=self._whom),
                "Return home": lambda: return_home(speed=_within(speed.value, 0.1, 10.0), drone=self._whom),
            },
        )

        put_request = self.page.requests.put
        on_choice(chooser.on_update, {name: name for name in CONTROLLERS}, lambda name: put_request("restart", name))

        async def on_ground_click(event: Any) -> None:
            if not click.value or event.ray_origin is None or event.ray_direction is None:
                return
            hit = scene.on_ground(event.ray_origin, event.ray_direction)
            if hit is not None:
                x, y, z = (
                    round(hit.x, 2),
                    round(hit.y, 2),
                    round(_within(height.value, 0.0, max_height) + scene.ground, 2),
                )
                self._wish(lambda: go_to((x, y, z), speed=_within(speed.value, 0.1, 10.0), drone=self._whom))

        on_click: Any = self.page.server.scene.on_click()
        on_click(on_ground_click)

    def _add_disturbances(self) -> None:
        gui = self.page.server.gui
        rotors = most_rotors([drone.vehicle for drone in self.scenario.drones])
        with gui.add_folder("Disturb", expand_by_default=False):
            strength = gui.add_slider("wind [m/s]", 0.0, 20.0, 0.5, 4.0)
            angle = gui.add_slider("wind from [°]", 0, 359, 1, 270, hint="0 is from the north, 90 from the east.")
            wind_buttons = gui.add_button_group("wind", ("Blow", "Gust 2 s", "Calm"))
            motor = gui.add_dropdown("motor", [str(k) for k in range(max(rotors, 1))], visible=rotors > 0)
            motor_buttons = gui.add_button_group("motor is", ("Failed", "Restored"), visible=rotors > 0)
            self.page.pressed.add("motor", motor_buttons)

        def wind() -> Vec3:
            return wind_enu_from_direction(
                _within(strength.value, 0.0, 20.0), math.radians(_within(angle.value, 0, 359))
            )

        self._motor = motor
        winds = {
            "Blow": lambda: wind_step(wind()),
            "Gust 2 s": lambda: gust(wind(), GUST_SECONDS),
            "Calm": lambda: wind_step((0.0, 0.0, 0.0)),
        }
        self._act(wind_buttons, winds)
        self._act(
            motor_buttons,
            {
                "Failed": lambda: fail_motor(int(motor.value), drone=self._whom),
                "Restored": lambda: restore_motor(int(motor.value), drone=self._whom),
            },
        )

    def _toggle_motor(self) -> Action:
        return self._actions["Restored" if self._is_failed(self.simulation.setting) else "Failed"]()

    def _is_failed(self, setting: Setting) -> bool:
        """Whether the selected motor of the selected drone has failed."""
        powers, motor = setting.drones[self.page.chosen].faults.motor_power, self._motor.value
        return motor.isdecimal() and int(motor) < len(powers) and powers[int(motor)] == 0.0


FRAMES_OF_PACE = 30  # frames over which the real-time factor is measured


def _figures(scenario: Scenario) -> list[Figure]:
    individual = len(scenario.drones) <= FEW
    return [
        Figure(drone.name, drone.vehicle, COLOURS[k % len(COLOURS)] if individual else COLOURS[0])
        for k, drone in enumerate(scenario.drones)
    ]


def _ground(scenario: Scenario) -> float:
    return float(scenario.environment.ground.point_W.z)


def _tasks(setting: Setting) -> list[tuple[int, int]]:
    return [(id(drone.task), drone.since_us) for drone in setting.drones]


def _sampled(task: Trajectory, duration: float, drones: int) -> Array:
    """Return the path of a task, (points, 3)  [m]."""
    path: Array = task.path(duration, REFERENCE_POINTS if drones <= FEW else 2 + 4000 // drones)
    return path


def _within(value: float, low: float, high: float) -> float:
    """Limit the value of a slider, which a browser may set to anything."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r}: expected a finite number")
    return min(max(number, low), high)


def _refusal(sentence: str) -> Action:
    def action(setting: Setting, bus: object) -> Setting:
        raise ValueError(sentence)

    return action


def endless(scenario: Scenario) -> Scenario:
    """Return the scenario with its duration extended to `ENDLESS`."""
    return replace(scenario, duration=max(scenario.duration, ENDLESS))


def fly_watched(
    scenario: Scenario,
    out: str | Path,
    *,
    port: int = PORT,
    speed: float = 1.0,
    opened: Callable[[str], None] = lambda address: None,
    progress: Progress = lambda now, total: None,
) -> Run:
    """Fly a scenario to its end in real time, recorded to a file and shown on a page; visitors' actions are recorded too.

    Args:
        scenario: the scenario.
        out: recording to write.
        port: port of the page; 0: any free port.
        speed: simulated seconds per wall-clock second.
        opened: called with the address of the page.
        progress: called with the simulated time and the duration [s].
    """
    with recorder_of(scenario, out, overwrite=True) as recorder, Background(recorder) as background:
        live = Live(scenario, port=port, speed=speed, record=background.write_blocks, restartable=False)
        try:
            opened(live.page.address)
            live.run(until_end=True, progress=progress)
            background.write_blocks([], [ending(live.simulation)])
        except BaseException:
            live.simulation.flush()
            raise
        finally:
            live.take_down()
    return recorded(recorder, scenario, live.simulation.ended, whole=False)
