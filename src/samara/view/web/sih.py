"""PX4's built-in simulator (SIH) on the page, live: PX4 computes the flight, and the page shows the states that PX4
reports."""

import math
import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.core.types import Array
from samara.link.motor_outputs import (
    command_from_thrust_outputs,
    outputs_by_rotor,
    rotor_order,
    rotor_speeds_from_thrust_outputs,
)
from samara.link.px4_sih import SharedOrigin, SihReceiver, SihState, wait_for_any
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import Vehicle
from samara.record.recorder import LogLine
from samara.vehicles.defaults import clearance
from samara.vehicles.shape import COLOURS
from samara.view.web.controls import KeyBinding
from samara.view.web.gauges import log_html, status_html
from samara.view.web.history import ERROR, History, Trail, plot_quantities
from samara.view.web.page import FRAME_RATE, Page, Viewer
from samara.view.web.scene import DroneFigure
from samara.view.web.server import PORT
from samara.view.web.snapshot import DroneDetail, FrameArrays, ViewFrame

MAX_INSTANCES = 10
SIH_HOVER = 0.5  # PX4's output at hover, of its default vehicle: 1 kg, four times 5 N
MAX_SILENCE = 1.0  # [s] without a state, before the page reports it
TRAIL_PERIOD = 0.2  # [s], wall-clock
START_COMMAND = "PX4_SIM_MODEL=sihsim_quadx px4"


class SihDisplay(NamedTuple):
    """Input of the drawing thread."""

    states: tuple[SihState | None, ...]
    trail: Array | None
    status: str
    logs: tuple[LogLine, ...]
    fresh: bool


class SihView(Viewer[SihDisplay]):
    """Display of one or several PX4 instances. Outputs are drawn as rotor speeds of `vehicle` at the same thrust ratio."""

    speed = 1.0

    def __init__(self, vehicle: Vehicle, instances: int = 1, *, port: int = PORT) -> None:
        if not 1 <= instances <= MAX_INSTANCES:
            raise ValueError(f"--instances {instances}: expected a whole number from 1 to {MAX_INSTANCES}")
        self._vehicle, self._order = vehicle, rotor_order(vehicle, "px4")
        weight = float(vehicle.mass * vehicle["gravity"].acceleration)
        self._full_thrust = weight / (len(vehicle.rotors) * SIH_HOVER)
        self._trail, self._history, self._trail_time = Trail(instances), History(), 0.0
        self._restarts, self._is_received = 0, [False] * instances
        self.logs: deque[LogLine] = deque(maxlen=100)
        origin = SharedOrigin()
        self.receivers: list[SihReceiver] = []
        try:
            self.receivers += [SihReceiver(k, origin) for k in range(instances)]
            figures = [DroneFigure(f"PX4 {k}", vehicle, COLOURS[k % len(COLOURS)]) for k in range(instances)]
            self._open(Page(figures, "samara · PX4 SIH", self._history, port=port))
        except BaseException:
            self._close_receivers()
            raise

    def shut_down(self) -> None:
        """Close the page and free the ports."""
        super().shut_down()
        self._close_receivers()

    def _close_receivers(self) -> None:
        for receiver in self.receivers:
            receiver.close()

    # The receiving thread --------------------------------------------------------------------------------------------

    def run(self, *, wait: bool = False) -> None:
        """Receive and show until closed; `wait` has no effect, because PX4 does not wait for a display."""
        while not self._closed:
            self.page.requests.take()
            wait_for_any(self.receivers, 1.0 / FRAME_RATE)
            if sum(receiver.receive() for receiver in self.receivers):  # the sum polls every receiver; any() would not
                self._record_motion()
            self._publish()

    def _record_motion(self) -> None:
        """Extend the paths and plots; clear them first if a PX4 has restarted."""
        for k, receiver in enumerate(self.receivers):
            if receiver.latest is not None and not self._is_received[k]:
                self._is_received[k] = True
                self.logs.append(
                    LogLine(receiver.latest.time_us, "info", "px4", f"PX4 {k} is received on UDP {receiver.port}")
                )
        restarts = sum(receiver.restarts for receiver in self.receivers)
        if restarts != self._restarts:
            self._restarts = restarts
            self._trail.clear()
            self._history.clear()
        states = [receiver.latest for receiver in self.receivers]
        if any(state is None for state in states):
            return
        frame = self._frame(tuple(states))
        if self._trail.is_due(frame.time):
            self._trail.add(frame.time, frame.p_W)
        if self._history.is_due(frame.time):
            self._history.add(
                frame.time, plot_quantities(frame.p_W, frame.q_WB, frame.reference_W, frame.rotor_speed, 0.0)
            )

    @property
    def _is_moving(self) -> bool:
        return True

    def _display_state(self, fresh: bool) -> SihDisplay:
        now, trail = time.perf_counter(), None
        if fresh or now - self._trail_time > TRAIL_PERIOD:
            trail, self._trail_time = self._trail.points(), now
        states = tuple(receiver.latest for receiver in self.receivers)
        return SihDisplay(states, trail, self._connection_status(), tuple(self.logs), fresh)

    def _connection_status(self) -> str:
        """Describe the state of the connection."""
        missing = [receiver.port for receiver in self.receivers if receiver.latest is None]
        silence = max(receiver.silence for receiver in self.receivers)
        rejected = sum(receiver.rejected for receiver in self.receivers)
        status = f"nothing received for {silence:.0f} s" if silence > MAX_SILENCE else "live"
        if missing:
            status = f"waiting for PX4 on UDP {', '.join(map(str, missing))}; start it with: {START_COMMAND}"
        return f"{status}; {rejected} packets rejected, expected MAVLink 2" if rejected else status

    # The drawing thread ----------------------------------------------------------------------------------------------

    def _draw(self, display: SihDisplay) -> None:
        page, frame = self.page, self._frame(display.states)
        with page.server.atomic():
            if display.trail is not None:
                page.scene.draw_paths(np.concatenate([display.trail, frame.p_W[None]]))
            page.draw(frame, time.perf_counter(), display.fresh)
            page.active_buttons.show({"camera": page.mode})
            state = display.states[page.selected]
            armed = "" if state is None else " · armed" if state.armed else " · disarmed"
            self._status.content = status_html(
                f"PX4's built-in simulator (SIH){armed}", frame.time, math.inf, display.status, display.logs
            )
            self._log.content = log_html(display.logs)

    def _frame(self, states: tuple[SihState | None, ...]) -> ViewFrame:
        """Create the frame to draw; the first received position is on the ground."""
        n, vehicle, chosen = len(states), self._vehicle, self.page.selected
        rows = [self._state_row(state) for state in states]
        state, environment = np.array(rows).T, np.array([flatten(complete_environment(vehicle))] * n, dtype=float).T
        outputs = self._outputs(states[chosen])
        close = DroneDetail(
            f"PX4 {chosen}",
            vehicle,
            state=tuple(rows[chosen]),
            command=tuple(float(u) for u in command_from_thrust_outputs(outputs, vehicle, self._full_thrust)),
            environment=tuple(environment[:, chosen].tolist()),
            reference_W=None,
            controller="PX4 (SIH)",
        )
        now = max((state.time_us for state in states if state is not None), default=0) / 1e6
        arrays = FrameArrays(n, [vehicle])
        arrays.fill(np.arange(n), vehicle, state, environment)
        return arrays.frame(now, np.zeros(n, dtype=bool), close, chosen)

    def _state_row(self, state: SihState | None) -> list[float]:
        """Return the state of the vehicle with the body motion that PX4 reports and rotor speeds for its outputs."""
        rest_state, height = state_at_rest(self._vehicle), clearance(self._vehicle)
        if state is None:
            return [float(x) for x in flatten(rest_state._replace(p_W=Vec3(0.0, 0.0, height)))]
        speeds = rotor_speeds_from_thrust_outputs(self._outputs(state), self._vehicle, self._full_thrust)
        body = state.body
        raised = body.p_W._replace(z=body.p_W.z + height)
        complete = rest_state._replace(
            p_W=raised, v_W=body.v_W, q_WB=body.q_WB, omega_B=body.omega_B, rotor_speed=speeds
        )
        return [float(x) for x in flatten(complete)]

    def _outputs(self, state: SihState | None) -> tuple[float, ...]:
        if state is None:
            return (0.0,) * len(self._order)
        return tuple(outputs_by_rotor(list(state.outputs[: len(self._order)]), self._order))

    # Controls --------------------------------------------------------------------------------------------------------

    def _add_clock(self) -> None:
        """Add nothing: PX4 controls the time."""

    def _clock_buttons(self) -> Mapping[str, str]:
        return {}

    def _add_specific_controls(self) -> None:
        return

    def _key_bindings(self) -> list[KeyBinding]:
        return []

    def _add_controls(self) -> None:
        super()._add_controls()
        self.page.curves.plots[ERROR].visible = False  # PX4 does not report its setpoint
