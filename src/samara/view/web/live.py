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

from samara.control.registry import CONTROLLERS, controller_name
from samara.core.algebra import Vec3
from samara.core.types import Array
from samara.physics.frames import wind_enu_from_direction
from samara.plan.trajectory import Trajectory
from samara.record.recorder import BackgroundRecorder, LogLine
from samara.record.run import Run
from samara.record.streams import Sink, StreamBlock
from samara.scenario.events import (
    EventAction,
    FlightSettings,
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
from samara.sim.fly import create_recorder, final_log_line, load_recorded_run
from samara.sim.simulation import Simulation
from samara.vehicles.shape import COLOURS
from samara.view.web.controls import KeyBinding, Request
from samara.view.web.gauges import log_html, status_html
from samara.view.web.history import History, Trail, plot_quantities
from samara.view.web.page import FRAME_RATE, IDLE_PERIOD, SPEEDS, Page, Viewer, connect_choice
from samara.view.web.scene import MAX_INDIVIDUAL_DRONES, DroneFigure
from samara.view.web.server import PORT
from samara.view.web.snapshot import (
    Snapshot,
    drone_motion,
    drone_positions,
    max_rotor_count,
    snapshot_frame,
    take_snapshot,
)

SLEEP_TIME = 4e-3  # [s]
MAX_LAG = 0.25  # [s]: a larger lag behind real time is not made up
STEP_US = 10_000
WATCHED_DURATION = 3600.0  # [s]: duration of a watched scenario
TRAIL_PERIOD = 0.2  # [s], wall-clock
REFERENCE_POINTS = 401
GUST_SECONDS = 2.0

Progress = Callable[[float, float], None]


class LiveDisplay(NamedTuple):
    """Input of the drawing thread."""

    snapshot: Snapshot
    trail: Array | None
    logs: tuple[LogLine, ...]
    status: str
    refusal: str
    paused: bool
    fresh: bool


class Live(Viewer[LiveDisplay]):
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
        self._refusal = ""
        self._trail, self._history = Trail(len(scenario.drones)), History()
        self._trail_time = 0.0
        self._drawn_setting: FlightSettings | None = None
        self._actions: dict[str, Callable[[], EventAction]] = {}
        self.factor = 0.0
        self._pace = deque([(0.0, 0.0)], maxlen=PACE_FRAMES)
        self.simulation = self._start_simulation(scenario)
        try:
            title, ground = f"samara · {scenario.name}", _ground_height(scenario)
            self._open(Page(_figures(scenario), title, self._history, port=port, ground=ground))
        except BaseException:
            self.simulation.close()
            raise

    def shut_down(self) -> None:
        """Close the drawing thread, the page, and programs that the simulation started."""
        super().shut_down()
        self.simulation.close()

    def _start_simulation(self, scenario: Scenario) -> Simulation:
        def sink(blocks: Sequence[StreamBlock], lines: Sequence[LogLine]) -> None:
            self.logs.extend(lines)
            if self._record is not None:
                self._record(blocks, lines)

        return Simulation(scenario, sink)

    def fly_until(self, seconds: float) -> None:
        """Before `run`: fly as fast as possible to a time, and pause there."""
        self._advance_to(seconds * MICROSECONDS)
        self.paused = True

    # The simulation's thread -----------------------------------------------------------------------------------------

    def run(self, *, until_end: bool = False, wait: bool = False, progress: Progress = lambda now, total: None) -> None:
        """Run in real time until closed, or with `until_end` to the end; with `wait`, start when a browser shows the page."""
        self._restart_clock()
        self.waiting = wait
        last_second = -1
        while not self._closed:
            for request in self.page.requests.take():
                self._handle_request(request)
            self.waiting = self.waiting and not self.page.is_watched
            if not self._is_moving:
                if self.ended and until_end:
                    break
                self._publish()
                self.page.requests.wait(IDLE_PERIOD)
                self._restart_clock()
                continue
            self._advance()
            self._publish()
            if self.simulation.time_us // MICROSECONDS != last_second:
                last_second = self.simulation.time_us // MICROSECONDS
                progress(float(last_second), self.scenario.duration)
            if self._due_us() <= self.simulation.time_us:
                time.sleep(SLEEP_TIME)
        self.simulation.flush()
        self._publish(force=True)

    def _restart_clock(self) -> None:
        """Restart the real-time clock at the current instant."""
        self._clock_start, self._clock_start_us = time.perf_counter(), self.simulation.time_us

    def _due_us(self) -> float:
        return self._clock_start_us + (time.perf_counter() - self._clock_start) * self.speed * MICROSECONDS

    def _advance(self) -> None:
        """Advance to the present time, at most for the duration of one frame, so that requests are handled."""
        simulation, frame_end = self.simulation, time.perf_counter() + 1.0 / FRAME_RATE
        due = self._due_us()
        while simulation.time_us < due:
            if not simulation.advance():
                self.ended = self.page.changed = True
                break
            self._record_motion()
            if time.perf_counter() > frame_end:
                break
        if due - simulation.time_us > MAX_LAG * self.speed * MICROSECONDS:
            self._restart_clock()

    def _record_motion(self) -> None:
        """Append the current motion to the paths and plots."""
        simulation, now = self.simulation, self.simulation.time_us / MICROSECONDS
        if self._trail.is_due(now):
            self._trail.add(now, drone_positions(simulation))
        if self._history.is_due(now):
            self._history.add(now, plot_quantities(*drone_motion(simulation), self.page.scene.ground))

    @property
    def _is_moving(self) -> bool:
        return not (self.paused or self.ended or self.waiting)

    def _display_state(self, fresh: bool) -> LiveDisplay:
        """Collect the current state for drawing; completely if `fresh`."""
        now, simulated = time.perf_counter(), self.simulation.time_us / MICROSECONDS
        trail = None
        if fresh or now - self._trail_time > TRAIL_PERIOD:
            trail, self._trail_time = self._trail.points(), now
        self._pace.append((now, simulated))
        elapsed = now - self._pace[0][0]
        self.factor = (simulated - self._pace[0][1]) / elapsed if elapsed > 0.0 else 0.0
        idle_status = "ended" if self.ended else "paused" if self.paused else "ready" if self.waiting else ""
        status = idle_status or f"{max(self.factor, 0.0):.2f}× real time"
        logs = (*self.logs, *self.simulation.logs)
        return LiveDisplay(take_snapshot(self.simulation), trail, logs, status, self._refusal, self.paused, fresh)

    def _handle_request(self, request: Request) -> None:
        """Handle one request; the page shows the reason if it is refused."""
        name, value = request
        self.page.changed, self._refusal = True, ""
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
                self._restart_clock()
            elif name == "restart":
                self._restart(value)
            elif name == "act":
                self.simulation.apply_action(value)
        except (ValueError, FloatingPointError, KeyError) as error:
            self._refusal = str(error)

    def _step(self) -> None:
        self._advance_to((self.simulation.time_us // STEP_US + 1) * STEP_US)

    def _advance_to(self, until_us: float) -> None:
        while self.simulation.time_us < until_us and not self.ended:
            self.ended = not self.simulation.advance()
            self._record_motion()

    def _restart(self, controller: str | None) -> None:
        if not self._restartable:
            raise ValueError("a recorded flight cannot be restarted")
        scenario = self.scenario
        if controller is not None:
            scenario = replace(
                scenario,
                drones=tuple(
                    drone if controller_name(drone.controller) == controller else replace(drone, controller=controller)
                    for drone in scenario.drones
                ),
            )
        simulation = self._start_simulation(scenario)
        self.simulation.close()
        self.simulation, self.scenario, self.ended = simulation, scenario, False
        self.logs.clear()
        self._trail.clear()
        self._history.clear()
        self._pace.clear()
        self._pace.append((time.perf_counter(), 0.0))
        self._restart_clock()

    # The drawing thread ----------------------------------------------------------------------------------------------

    def _draw(self, display: LiveDisplay) -> None:
        snapshot, page = display.snapshot, self.page
        frame = snapshot_frame(snapshot, page.selected)
        with page.server.atomic():
            if display.trail is not None:
                page.scene.draw_paths(np.concatenate([display.trail, frame.p_W[None]]))
            if self._drawn_setting is None or _task_keys(self._drawn_setting) != _task_keys(snapshot.setting):
                self._drawn_setting = snapshot.setting
                tasks = [drone.task for drone in snapshot.setting.drones]
                page.scene.draw_references([_sample_task(task, self.scenario.duration, len(tasks)) for task in tasks])
                page.scene.mark_waypoints(tasks)
            page.draw(frame, time.perf_counter(), display.fresh)
            page.active_buttons.show(
                {
                    "clock": "Pause" if display.paused else "Play",
                    "camera": page.mode,
                    "motor": "Failed" if self._is_failed(snapshot.setting) else None,
                }
            )
            total = self.scenario.duration if not self._restartable else math.inf
            title, crashed = self.scenario.description, bool(snapshot.crashed[page.selected])
            self._status.content = status_html(
                title, snapshot.time, total, display.status, display.logs, display.refusal, crashed
            )
            self._log.content = log_html(display.logs, display.refusal)

    # The server's thread: callbacks only queue requests --------------------------------------------------------------

    def _clock_buttons(self) -> dict[str, str]:
        restart_button = {"Restart": "restart"} if self._restartable else {}
        return {"Play": "play", "Pause": "pause", "Step 10 ms": "step", **restart_button}

    def _add_specific_controls(self) -> None:
        self._add_flight_controls()
        self._add_disturbances()
        self.page.scene.add_obstacles(self.scenario.world)

    def _key_bindings(self) -> list[KeyBinding]:
        put_request = self.page.requests.put
        keys = [
            KeyBinding("space", "play, pause", lambda: put_request("toggle")),
            KeyBinding("T", "step by 10 ms", lambda: put_request("step")),
            KeyBinding("pageup", "faster", lambda: self._shift_speed(1)),
            KeyBinding("pagedown", "slower", lambda: self._shift_speed(-1)),
            KeyBinding("L", "land", lambda: self._request_action(self._actions["Land"])),
            KeyBinding("H", "return home", lambda: self._request_action(self._actions["Return home"])),
            KeyBinding("G", "gust of 2 s", lambda: self._request_action(self._actions["Gust 2 s"])),
        ]
        if self._restartable:
            keys.insert(2, KeyBinding("R", "restart", lambda: put_request("restart")))
        if max_rotor_count([drone.vehicle for drone in self.scenario.drones]):
            keys.append(KeyBinding("M", "fail or restore the motor", lambda: self._request_action(self._toggle_motor)))
        return keys

    def _shift_speed(self, step: int) -> None:
        """Select the next faster or slower speed."""
        names = list(self._speeds)
        current = names.index(self._speed.value) if self._speed.value in names else names.index("1×")
        self._speed.value = names[min(max(current + step, 0), len(names) - 1)]  # type: ignore[misc]
        self.page.requests.put("speed", self._speeds[self._speed.value])

    def _add_actions(
        self, buttons: viser.GuiButtonGroupHandle, actions: Mapping[str, Callable[[], EventAction]]
    ) -> None:
        self._actions.update(actions)
        connect_choice(buttons.on_click, actions, self._request_action)

    def _request_action(self, action: Callable[[], EventAction]) -> None:
        """Queue an action; an error in its construction is reported when it is handled."""
        try:
            requested = action()
        except ValueError as error:
            requested = _failing_action(str(error))
        self.page.requests.put("act", requested)

    @property
    def _selected_drone(self) -> str:
        return self.scenario.drones[self.page.selected].name

    def _add_flight_controls(self) -> None:
        gui, scene = self.page.server.gui, self.page.scene
        start = max(float(drone.task.evaluate(0.0).p_W.z) for drone in self.scenario.drones)
        max_height = 30.0 if scene.cell == 1.0 else 5.0
        with gui.add_folder("Fly"):
            click = gui.add_checkbox("click the ground to go there", True)
            height = gui.add_slider(
                "height [m]", 0.0, max_height, 0.1, min(max(round(start, 1), 0.1 * max_height), max_height)
            )
            speed = gui.add_slider("speed [m/s]", 0.1, 10.0, 0.1, 2.0 if scene.cell == 1.0 else 0.5)
            tasks = gui.add_button_group("task", ("Land", "Return home"))
            current = self.scenario.drones[0].controller
            names = tuple(dict.fromkeys(["own" if callable(current) else controller_name(current), *CONTROLLERS]))
            chooser = gui.add_dropdown(
                "controller", names, visible=self._restartable, hint="Changing it restarts the flight."
            )
        self._add_actions(
            tasks,
            {
                "Land": lambda: land(drone=self._selected_drone),
                "Return home": lambda: return_home(
                    speed=_clip_slider(speed.value, 0.1, 10.0), drone=self._selected_drone
                ),
            },
        )

        put_request = self.page.requests.put
        connect_choice(
            chooser.on_update, {name: name for name in CONTROLLERS}, lambda name: put_request("restart", name)
        )

        async def on_ground_click(event: Any) -> None:
            if not click.value or event.ray_origin is None or event.ray_direction is None:
                return
            hit = scene.intersect_ground(event.ray_origin, event.ray_direction)
            if hit is not None:
                x, y, z = (
                    round(hit.x, 2),
                    round(hit.y, 2),
                    round(_clip_slider(height.value, 0.0, max_height) + scene.ground, 2),
                )
                self._request_action(
                    lambda: go_to((x, y, z), speed=_clip_slider(speed.value, 0.1, 10.0), drone=self._selected_drone)
                )

        on_click: Any = self.page.server.scene.on_click()
        on_click(on_ground_click)

    def _add_disturbances(self) -> None:
        gui = self.page.server.gui
        rotors = max_rotor_count([drone.vehicle for drone in self.scenario.drones])
        with gui.add_folder("Disturb", expand_by_default=False):
            strength = gui.add_slider("wind [m/s]", 0.0, 20.0, 0.5, 4.0)
            angle = gui.add_slider("wind from [°]", 0, 359, 1, 270, hint="0 is from the north, 90 from the east.")
            wind_buttons = gui.add_button_group("wind", ("Blow", "Gust 2 s", "Calm"))
            motor = gui.add_dropdown("motor", [str(k) for k in range(max(rotors, 1))], visible=rotors > 0)
            motor_buttons = gui.add_button_group("motor is", ("Failed", "Restored"), visible=rotors > 0)
            self.page.active_buttons.add("motor", motor_buttons)

        def wind() -> Vec3:
            return wind_enu_from_direction(
                _clip_slider(strength.value, 0.0, 20.0), math.radians(_clip_slider(angle.value, 0, 359))
            )

        self._motor = motor
        winds = {
            "Blow": lambda: wind_step(wind()),
            "Gust 2 s": lambda: gust(wind(), GUST_SECONDS),
            "Calm": lambda: wind_step((0.0, 0.0, 0.0)),
        }
        self._add_actions(wind_buttons, winds)
        self._add_actions(
            motor_buttons,
            {
                "Failed": lambda: fail_motor(int(motor.value), drone=self._selected_drone),
                "Restored": lambda: restore_motor(int(motor.value), drone=self._selected_drone),
            },
        )

    def _toggle_motor(self) -> EventAction:
        return self._actions["Restored" if self._is_failed(self.simulation.setting) else "Failed"]()

    def _is_failed(self, setting: FlightSettings) -> bool:
        """Whether the selected motor of the selected drone has failed."""
        powers, motor = setting.drones[self.page.selected].faults.motor_effectiveness, self._motor.value
        return motor.isdecimal() and int(motor) < len(powers) and powers[int(motor)] == 0.0


PACE_FRAMES = 30  # frames over which the real-time factor is measured


def _figures(scenario: Scenario) -> list[DroneFigure]:
    individual = len(scenario.drones) <= MAX_INDIVIDUAL_DRONES
    return [
        DroneFigure(drone.name, drone.vehicle, COLOURS[k % len(COLOURS)] if individual else COLOURS[0])
        for k, drone in enumerate(scenario.drones)
    ]


def _ground_height(scenario: Scenario) -> float:
    return float(scenario.environment.ground.point_W.z)


def _task_keys(setting: FlightSettings) -> list[tuple[int, int]]:
    return [(id(drone.task), drone.since_us) for drone in setting.drones]


def _sample_task(task: Trajectory, duration: float, drones: int) -> Array:
    """Return the path of a task, (points, 3)  [m]."""
    path: Array = task.sample_path(
        duration, REFERENCE_POINTS if drones <= MAX_INDIVIDUAL_DRONES else 2 + 4000 // drones
    )
    return path


def _clip_slider(value: float, low: float, high: float) -> float:
    """Limit the value of a slider, which a browser may set to anything."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r}: expected a finite number")
    return min(max(number, low), high)


def _failing_action(sentence: str) -> EventAction:
    def action(setting: FlightSettings, bus: object) -> FlightSettings:
        raise ValueError(sentence)

    return action


def extend_duration(scenario: Scenario) -> Scenario:
    """Return the scenario with its duration extended to `WATCHED_DURATION`."""
    return replace(scenario, duration=max(scenario.duration, WATCHED_DURATION))


def fly_in_viewer(
    scenario: Scenario,
    out: str | Path,
    *,
    port: int = PORT,
    speed: float = 1.0,
    on_open: Callable[[str], None] = lambda address: None,
    progress: Progress = lambda now, total: None,
) -> Run:
    """Fly a scenario to its end in real time, recorded to a file and shown on a page; visitors' actions are recorded too.

    Args:
        scenario: the scenario.
        out: recording to write.
        port: port of the page; 0: any free port.
        speed: simulated seconds per wall-clock second.
        on_open: called with the address of the page.
        progress: called with the simulated time and the duration [s].
    """
    with create_recorder(scenario, out, overwrite=True) as recorder, BackgroundRecorder(recorder) as background:
        live = Live(scenario, port=port, speed=speed, record=background.write_blocks, restartable=False)
        try:
            on_open(live.page.address)
            live.run(until_end=True, progress=progress)
            background.write_blocks([], [final_log_line(live.simulation)])
        except BaseException:
            live.simulation.flush()
            raise
        finally:
            live.shut_down()
    return load_recorded_run(recorder, scenario, live.simulation.end_reason, full_resolution=False)
