"""Recorded flights on a timeline, one or several at once, each in its colour."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import ZERO
from samara.core.types import Array
from samara.identify.log_run import load_flight, scene_run
from samara.identify.readers.registry import Columns
from samara.plan.trajectory import Trajectory, hover
from samara.record.recorder import LogLine
from samara.record.run import DroneRecord, Run, embedded_scenario
from samara.scenario.world import recorded_world
from samara.vehicles.shape import COLOURS
from samara.view.vision_frames import vision_sensors
from samara.view.web.controls import KeyBinding, Request
from samara.view.web.gauges import log_html, status_html
from samara.view.web.history import RecordedHistory
from samara.view.web.page import IDLE_PERIOD, Page, Viewer
from samara.view.web.scene import MAX_INDIVIDUAL_DRONES, DroneFigure
from samara.view.web.server import PORT
from samara.view.web.snapshot import recorded_frame

MAX_PATH_POINTS = 24_000  # points of all paths
SLIDER_PERIOD = 0.1  # [s], wall-clock
SLIDER_STEP = 0.01  # [s]
JUMP_TIME = 1.0  # [s]
NO_TASK = replace(hover(ZERO), waypoints=())


class ReplayDisplay(NamedTuple):
    """Input of the drawing thread."""

    time: float
    status: str
    playing: bool
    fresh: bool


class ReplayViewer(Viewer[ReplayDisplay]):
    """Playback of recorded runs. `run()` plays until it is closed."""

    def __init__(self, runs: Sequence[Run], names: Sequence[str] = (), *, port: int = PORT, speed: float = 1.0) -> None:
        if not runs:
            raise ValueError("no run; expected at least one")
        if not 0.0 < speed < math.inf:
            raise ValueError(f"the speed is {speed!r}; expected a finite number above 0: 1 is real time")
        self.runs, self.speed, self.time, self.playing = tuple(runs), float(speed), 0.0, True
        self.tracks = [track for run in runs for track in run.drone_records]
        self._vision_sensors = vision_sensors(runs)
        self.end = max(float(track.time[-1]) for track in self.tracks)
        self._slider_due, self._static_drawn = 0.0, False
        figures = _figures(runs, list(names) or _run_names(runs))
        title = " and ".join(dict.fromkeys(run.scenario for run in runs))
        self._title = "; ".join(dict.fromkeys(run.metadata.get("description", "") or run.scenario for run in runs))
        self._open(Page(figures, f"samara · {title}", RecordedHistory(runs, 0.0), port=port))

    def run(self, *, wait: bool = True) -> None:
        """Play in real time until closed, and stop at the end. With `wait`, play only while a browser shows the page."""
        last_time = time.perf_counter()
        while not self._closed:
            for request in self.page.requests.take():
                self._handle_request(request)
            now = time.perf_counter()
            if self.playing and (self.page.is_watched or not wait):
                self.time = min(self.time + (now - last_time) * self.speed, self.end)
                if self.time >= self.end:
                    self.playing, self.page.changed = False, True
            last_time = now
            self._publish()
            self.page.requests.wait(
                max(self._next_frame_time - time.perf_counter(), 1e-3) if self.playing else IDLE_PERIOD
            )

    def _handle_request(self, request: Request) -> None:
        name, value = request
        self.page.changed = True
        if name == "play":
            self.time = 0.0 if self.time >= self.end else self.time
            self.playing = True
        elif name == "pause":
            self.playing = False
        elif name == "toggle":
            self._handle_request(Request("pause" if self.playing else "play"))
        elif name == "jump":
            self.time = min(max(self.time + value, 0.0), self.end)
        elif name == "begin":
            self.time = 0.0
        elif name == "speed":
            self.speed = value
        elif name == "seek":
            self.time, self.playing = min(max(value, 0.0), self.end), False

    @property
    def _is_moving(self) -> bool:
        return self.playing

    def _display_state(self, fresh: bool) -> ReplayDisplay:
        status = f"playing {self.speed:g}×" if self.playing else "at the end" if self.time >= self.end else "paused"
        return ReplayDisplay(self.time, status, self.playing, fresh)

    # The drawing thread ----------------------------------------------------------------------------------------------

    def _draw(self, display: ReplayDisplay) -> None:
        frame, page, now = (
            recorded_frame(self.runs, display.time, self.page.selected, self._vision_sensors),
            self.page,
            time.perf_counter(),
        )
        with page.server.atomic():
            if not self._static_drawn:
                page.scene.draw_runs([_decimate_path(track.position, len(self.tracks)) for track in self.tracks])
                with_reference = [track for track in self.tracks if "reference" in track.tables]
                page.scene.draw_references(
                    [_decimate_path(track.reference_position, len(with_reference)) for track in with_reference]
                )
                page.scene.mark_waypoints(_first_tasks(self.runs))
                page.scene.add_obstacles(recorded_world(self.runs[0].attachments))
                self._static_drawn = True
            page.draw(frame, now, display.fresh)
            page.active_buttons.show({"clock": "Play" if display.playing else "Pause", "camera": page.mode})
            lines, crashed = self._log_until(display.time), bool(frame.crashed[page.selected])
            self._status.content = status_html(
                self._title, display.time, self.end, display.status, lines, crashed=crashed
            )
            if display.fresh or now > self._slider_due:
                self._slider_due = now + SLIDER_PERIOD
                self._slider.value = round(display.time, 2)  # type: ignore[misc]
                self._log.content = log_html(lines)

    def _log_until(self, now: float) -> list[LogLine]:
        """Return the log lines of all runs up to a time."""
        lines = [line for run in self.runs for line in run.logs if line.time_us <= now * 1e6]
        return sorted(lines, key=lambda line: line.time_us)

    # The server's thread ---------------------------------------------------------------------------------------------

    def _clock_buttons(self) -> dict[str, str]:
        return {"Play": "play", "Pause": "pause", "To the start": "begin"}

    def _add_time_controls(self) -> None:
        ends = [max(float(track.time[-1]) for track in run.drone_records) for run in self.runs]
        log_times = [(line.time_us / 1e6, end) for run, end in zip(self.runs, ends, strict=True) for line in run.logs]
        marks = tuple(sorted({round(log_time, 2) for log_time, end in log_times if 0.0 < log_time < end}))[:12]
        self._slider = self.page.server.gui.add_slider(
            "time [s]", 0.0, max(round(self.end, 2), SLIDER_STEP), SLIDER_STEP, 0.0, marks=marks or None
        )

        @self._slider.on_update
        async def _(event: Any) -> None:
            if event.client is not None and math.isfinite(event.target.value):  # not an update by the page itself
                self.page.requests.put("seek", float(event.target.value))

    def _key_bindings(self) -> list[KeyBinding]:
        put_request = self.page.requests.put
        return [
            KeyBinding("space", "play, pause", lambda: put_request("toggle")),
            KeyBinding("home", "to the start", lambda: put_request("begin")),
            KeyBinding("J", f"back by {JUMP_TIME:g} s", lambda: put_request("jump", -JUMP_TIME)),
            KeyBinding("L", f"forward by {JUMP_TIME:g} s", lambda: put_request("jump", JUMP_TIME)),
        ]


def _first_tasks(runs: Sequence[Run]) -> list[Trajectory]:
    """Return the first task of each drone, if the recording contains its scenario."""
    tasks: list[Trajectory] = []
    for run in runs:
        scenario = embedded_scenario(run)
        drone_tasks = {drone.name: drone.task for drone in scenario.drones} if scenario else {}
        tasks += [drone_tasks.get(track.name, NO_TASK) for track in run.drone_records]
    return tasks


def _figures(runs: Sequence[Run], names: Sequence[str]) -> list[DroneFigure]:
    """Create the figures: of one run each drone has a colour, of several runs each run has one."""
    several, figures = len(runs) > 1, []
    for k, (run, name) in enumerate(zip(runs, names, strict=True)):
        for j, track in enumerate(run.drone_records):
            colour = (
                COLOURS[k % len(COLOURS)]
                if several
                else COLOURS[j % len(COLOURS) if len(run.drone_records) <= MAX_INDIVIDUAL_DRONES else 0]
            )
            figures.append(
                DroneFigure(_figure_name(track, name, several, len(run.drone_records)), track.vehicle, colour)
            )
    return figures


def _figure_name(track: DroneRecord, run: str, several: bool, drones: int) -> str:
    return track.name if not several else run if drones == 1 else f"{run}: {track.name}"


def _run_names(runs: Sequence[Run]) -> list[str]:
    """Label runs by number, scenario and controller."""
    return [f"{k + 1}: {run.scenario}, {run.drone_records[0].controller}" for k, run in enumerate(runs)]


def _decimate_path(positions: Array, drones: int) -> Array:
    """Decimate a path to a bounded point count, with its ends."""
    max_points = max(MAX_PATH_POINTS // max(drones, 1), 60)
    if len(positions) <= max_points:
        return positions
    return positions[np.linspace(0, len(positions) - 1, max_points).round().astype(int)]


def load_runs(paths: Sequence[str | Path], columns: Columns = None) -> tuple[list[Run], list[str]]:
    """Load recordings and flight logs, labelled by file name, and by folder if names are equal."""
    files = [Path(path) for path in paths]
    names = [file.stem for file in files]
    if len(set(names)) < len(names):
        names = [f"{file.resolve().parent.name}/{file.stem}" for file in files]
    return [scene_run(load_flight(file, columns)) for file in files], names
