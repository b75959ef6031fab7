"""PX4 in lockstep over the MAVLink simulator API on TCP: one HIL_ACTUATOR_CONTROLS for each HIL_SENSOR.

PX4 is the client and connects to port 4560 + instance. The time of HIL_SENSOR is PX4's clock. While PX4 boots it does not
answer, but its boot advances only with that clock; after its first answer, it answers every packet with the same time stamp,
and the simulation waits for the answer. Frames on the wire: body forward-right-down, world north-east-down.
"""

import math
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from samara.core.algebra import Vec3
from samara.link.deploy.px4_raptor import ARCHIVE_PATH, controller_archive
from samara.link.ground_station import PX4 as PX4_MODES
from samara.link.ground_station import GroundStation, GroundStationConnection
from samara.link.link import AutopilotWatchdog, Link, LinkContext, LogMessage, OnceLog, exchange_summary
from samara.link.mavlink import FrameEncoder, FrameParser, dialect, layout
from samara.link.motor_outputs import outputs_by_rotor, rotor_order
from samara.link.ports import bind_socket, other_flight_advice, other_process_advice, require_free
from samara.link.process import Process, StartScript, default_binary, require_binary
from samara.link.sensor_snapshot import Fix, Readings, ned_frd_state
from samara.physics.air.atmosphere import pressure_altitude
from samara.physics.frames import frd_from_flu, ned_from_enu
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import failsafe_parameters, main_battery
from samara.scenario.autopilot_types import PX4, RAPTOR
from samara.scenario.batteries import BatteryFailsafe
from samara.scenario.events import Order
from samara.vehicles.exchange.px4 import HOVER_RANGE, airframe_parameters, gain_parameters, rotor_parameters
from samara.vehicles.exchange.throttle import HOVER_OUTPUT, hover_output, hover_throttle

MODEL = "none_iris"  # an airframe of PX4 without a simulator
NO_BATTERY = {"SIM_BAT_ENABLE": 0, "SIM_BAT_DRAIN": 0}  # PX4 until 1.17, and from 1.18
DEFAULT_RATE = 250.0  # [Hz], of PX4's IMU integration


def rate_parameters(rate: float) -> dict[str, float]:
    """Return the parameters with which PX4 answers every HIL_SENSOR at rates above its default of 250 Hz."""
    if rate <= DEFAULT_RATE:
        return {}
    return {"IMU_INTEG_RATE": math.ceil(rate), "IMU_GYRO_RATEMAX": 2 * math.ceil(rate)}


def battery_parameters(vehicle: Vehicle) -> dict[str, float]:
    """Disable PX4's simulated battery if the vehicle has one; return at the critical charge, land in an emergency."""
    if main_battery(vehicle) is None:
        return {}
    return {**NO_BATTERY, "COM_LOW_BAT_ACT": 3, **failsafe_parameters(PX4, vehicle, BatteryFailsafe())}


def px4_parameters(
    vehicle: Vehicle, rate: float = DEFAULT_RATE, hover: float = HOVER_OUTPUT, outputs: str = "thrust", mode: str = ""
) -> dict[str, float]:
    """Return all PX4 parameters of a vehicle.

    Args:
        vehicle: the vehicle.
        rate: rate of HIL_SENSOR [Hz].
        hover: PX4's motor output at hover, 0 … 1.
        outputs: "thrust" if an output is a thrust, "command" if it is the motor command.
        mode: flight mode that follows the reference; "raptor" gives the parameters for mc_raptor.
    """
    if mode == RAPTOR.name:
        return {**policy_parameters(vehicle, rate), **battery_parameters(vehicle)}
    if outputs == "thrust":
        vehicle_parameters = {
            **rotor_parameters(vehicle),
            **gain_parameters(vehicle, hover),
            "MPC_THR_HOVER": hover_output(vehicle, hover),
        }
    else:
        vehicle_parameters = airframe_parameters(vehicle)
    return {
        **vehicle_parameters,
        **rate_parameters(rate),
        **battery_parameters(vehicle),
    }


def policy_parameters(vehicle: Vehicle, rate: float) -> dict[str, float]:
    """Return the parameters for mc_raptor: motors in the order of PX4's quadrotor X, and a linear throttle curve.

    THR_MDL_FAC would also bend the module's commands. Without it PX4's controllers see the slope of the motor curve at hover,
    dt/du = 1 − e + 2 e u, so their gains are scaled by it. The module runs once every IMU_GYRO_RATEMAX/100 sensor updates,
    which is 10 ms only if IMU_GYRO_RATEMAX is the rate of the sensors.
    """
    order, hover = rotor_order(vehicle, "px4"), hover_throttle(vehicle)
    slope = 1.0 - hover.expo + 2.0 * hover.expo * hover.throttle
    return {
        **rotor_parameters(replace(vehicle, rotors=tuple(vehicle.rotors[k] for k in order))),
        **gain_parameters(vehicle, min(hover.thrust / slope, hover.throttle)),
        "THR_MDL_FAC": 0,
        "MPC_THR_HOVER": min(max(hover.throttle, HOVER_RANGE[0]), HOVER_RANGE[1]),
        "IMU_INTEG_RATE": rate,
        "IMU_GYRO_RATEMAX": rate,
        "MC_RAPTOR_ENABLE": 1,
        "MC_RAPTOR_OFFB": 0,
    }


def px4_environment(parameters: dict[str, float], model: str = MODEL) -> dict[str, str]:
    """Return the environment variables that PX4 is started with."""
    return {"PX4_SIM_MODEL": model, **{f"PX4_PARAM_{name}": f"{value:.9g}" for name, value in parameters.items()}}


PORT, OFFBOARD_PORT, OUTPUTS = 4560, 14540, 16
LAST_INSTANCE = 9  # the last one with a separate port for onboard computers
PX4_UDP_PORTS = (14580, 18570)  # UDP ports that PX4 opens: for onboard computers, and for a ground station
SIMULATOR = (1, 51)  # system and component the simulator speaks as
IMU, MAGNETOMETER, BAROMETER = 0x3F, 0x1C0, 0x1A00  # fields_updated; a group needs all its bits
ARMED = 128
SET_MESSAGE_INTERVAL = 511
NO_EXCHANGE = -1  # [µs]: no exchange has begun
SETPOINT_PERIOD_US = 10_000  # period of the setpoints
STEPS_PER_CLIENT_CHECK = 250  # steps between two checks for a second client
ANSWER_TIMEOUT = 0.5  # [s, wall-clock], for one answer
REDUCED_ANSWER_TIMEOUT = 0.02  # [s, wall-clock], after PX4 has missed an answer
GAUSS, HECTOPASCAL = 1e-4, 100.0
TEMPERATURE = 20.0  # [°C], of the sensors
EPH, EPV, SATELLITES, FIX_3D = 30, 40, 10, 3  # cm, cm
NO_COURSE = 65535
MIN_COURSE_SPEED = 0.1  # [m/s]: GPS reports no course below this speed


def require_packages() -> None:
    """Raise MissingExtraError if pymavlink is not installed."""
    dialect()


def open_link(context: LinkContext) -> Link:
    """Open the link to one PX4."""
    return Px4(context.autopilot, context.vehicle, context.log_message, context.controller)


class Px4:
    """The link to one PX4."""

    title = PX4.title

    def __init__(
        self, autopilot: Autopilot, vehicle: Vehicle, log_message: LogMessage, controller: object = None
    ) -> None:
        self._autopilot, self._rotors, self._log_message = autopilot, len(vehicle.rotors), log_message
        self._period_us = round(1e6 / autopilot.sensor_rate)
        self.parameters = {
            **px4_parameters(vehicle, autopilot.sensor_rate, autopilot.hover, autopilot.outputs, autopilot.mode),
            **autopilot.numbers,
        }
        environment = px4_environment(self.parameters)
        files: dict[str, bytes] = {}
        self._order = tuple(range(self._rotors))
        if autopilot.mode == RAPTOR.name:
            files[ARCHIVE_PATH] = controller_archive(controller, vehicle)
            self._order = rotor_order(vehicle, "px4")
        host, instance = autopilot.host, autopilot.instance
        if instance > LAST_INSTANCE:
            raise ValueError(
                f"autopilot.instance is {instance}; PX4 sends every instance above {LAST_INSTANCE} to UDP "
                f"{OFFBOARD_PORT + LAST_INSTANCE}, where their messages cannot be told apart: expected 0 to {LAST_INSTANCE}"
            )
        command = None
        if autopilot.binary:
            binary = require_binary(autopilot.binary, "PX4, bin/px4 of a px4_sitl build")
            command = px4_command(str(binary), instance)
            require_free(
                host, other_process_advice(self.title, instance), udp=[port + instance for port in PX4_UDP_PORTS]
            )
        self._endpoint = f"on TCP {host}:{PORT + instance}"
        wire = GroundStationConnection(host, OFFBOARD_PORT + instance, stream=False)
        udp = [port + instance for port in PX4_UDP_PORTS]
        self.ground = GroundStation(wire, PX4_MODES, self.title, log_message, udp=udp)
        try:
            self._server = bind_socket(host, PORT + instance, other_flight_advice(instance), stream=True)
        except ValueError:
            wire.close()
            raise
        self._server.listen(4)
        process = Process(command, environment, files) if command else None
        self.watch = AutopilotWatchdog(
            autopilot, self.title, process, px4_start(instance, environment, files), log_message
        )
        self._once_log = OnceLog(log_message)
        self._peer: socket.socket | None = None
        self._outputs = [0.0] * self._rotors
        self._exchange_us, self._is_sent = NO_EXCHANGE, False
        self._connection_error: _ConnectionLostError | None = None
        self._steps = self.sent = self.answered = self.missed = self.late = 0
        self.compute_seconds = self.wait_seconds = 0.0
        self.armed = False
        self._reset()

    def _reset(self) -> None:
        """Reset everything that belongs to one run of PX4."""
        self._encoder = FrameEncoder(*SIMULATOR)
        self._parser = FrameParser("HIL_ACTUATOR_CONTROLS", "COMMAND_LONG", "HEARTBEAT")
        self._answer_id, self._command_id = layout("HIL_ACTUATOR_CONTROLS").id, layout("COMMAND_LONG").id
        self.booted, self._answer_timeout, self._silent_since = False, ANSWER_TIMEOUT, time.monotonic()
        self._truth_period_us, self._truth_us = 0, 0
        self._skipped_bytes_logged = False
        self._field, self._pressure = Vec3(0.0, 0.0, 0.0), 0.0

    # The interface ---------------------------------------------------------------------------------------------------

    def begin(self, readings: Readings) -> None:
        """Send HIL_SENSOR and the other new readings if PX4 is connected; `exchange` waits for the answer."""
        start_time = time.perf_counter()
        self._exchange_us, self._is_sent, self._connection_error = readings.time_us, False, None
        self.ground.poll(readings.time_us, readings.origin, readings.state.p_W)
        if readings.supply is not None:
            self.ground.send_battery_status(readings.supply)
        self._steps += 1
        if self._autopilot.mode and readings.time_us % SETPOINT_PERIOD_US < self._period_us:
            self.ground.send_setpoint(readings.reference, readings.origin)
        if self._steps % STEPS_PER_CLIENT_CHECK == 0:
            self._refuse_others()
        if self._peer is not None:
            try:
                self._send(readings, start_time)
            except _ConnectionLostError as gone:
                self._connection_error = gone

    def exchange(self, readings: Readings) -> Sequence[float]:
        """Send HIL_SENSOR and the other new readings; return the outputs of HIL_ACTUATOR_CONTROLS with the same time stamp."""
        if self._exchange_us != readings.time_us:
            self.begin(readings)
        self._exchange_us = NO_EXCHANGE
        while True:
            if self._peer is None:
                self._connect()
            start_time = time.perf_counter()
            try:
                if self._connection_error is not None:
                    raise self._connection_error
                if not self._is_sent:
                    self._send(readings, start_time)
                self._wait(readings.time_us + self._period_us)
                return self._outputs
            except _ConnectionLostError as gone:
                motors_running = any(self._outputs)
                self._close_peer()
                self._is_sent, self._connection_error = False, None
                self.watch.handle_loss(f"{self.title} {gone} at {readings.time_us / 1e6:.3f} s", motors_running)

    def send_order(self, order: Order) -> None:
        """Send the order over MAVLink, as a ground station; a mode that follows the reference ignores positions."""
        mode = self._autopilot.mode
        if mode and order.kind in ("go_to", "reach"):
            return
        self.ground.queue_order(order)
        if mode and order.kind == "take_off":
            self.ground.queue_order(Order(mode))

    def closing_report(self) -> Iterator[tuple[str, str]]:
        """Yield the answer count and the repeated messages."""
        yield exchange_summary(self, self.missed)
        yield from self._once_log.repetitions()
        yield from self.ground.closing_report()

    def close(self) -> None:
        """Close the sockets and end the process."""
        self._close_peer()
        self._server.close()
        self.ground.close()
        self.watch.close()

    # The wire --------------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        def poll_connection(seconds: float) -> bool:
            self._server.settimeout(seconds)
            try:
                self._peer, _ = self._server.accept()
            except (TimeoutError, BlockingIOError):
                return False
            self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return True

        self.watch.wait_until(poll_connection, self._endpoint)
        self._reset()
        self.ground.reset()

    def _refuse_others(self) -> None:
        if self._peer is None or not select.select([self._server], [], [], 0)[0]:
            return
        second_client, _ = self._server.accept()
        second_client.close()
        self._once_log.log(
            "warning", f"a second autopilot connected {self._endpoint} and was refused: {self.title} is there already"
        )

    def _send(self, r: Readings, start_time: float) -> None:
        now = r.time_us + self._period_us
        data = b""
        if r.fix is not None:
            data += self._encoder.frame("HIL_GPS", now, *gps_fields(r.fix))
        if self._truth_period_us and r.time_us - self._truth_us >= self._truth_period_us:
            self._truth_us = r.time_us
            data += self._encoder.frame("HIL_STATE_QUATERNION", now, *truth_fields(r))
        updated = IMU
        if r.field_B is not None:
            self._field, updated = frd_from_flu(r.field_B) / GAUSS, updated | MAGNETOMETER
        if r.pressure is not None:
            self._pressure, updated = r.pressure / HECTOPASCAL, updated | BAROMETER
        altitude = pressure_altitude(HECTOPASCAL * self._pressure) if self._pressure else 0.0
        data += self._encoder.frame(
            "HIL_SENSOR",
            now,
            *frd_from_flu(r.specific_force_B),
            *frd_from_flu(r.omega_B),
            *self._field,
            self._pressure,
            0.0,
            altitude,
            TEMPERATURE,
            updated,
            0,
        )
        ready = time.perf_counter()
        if self._peer is None:
            raise _ConnectionLostError("is not there")
        try:
            self._peer.settimeout(self._autopilot.patience)
            self._peer.sendall(data)
        except TimeoutError:
            raise _ConnectionLostError(f"has read nothing for {self._autopilot.patience:g} s") from None
        except OSError:
            raise _ConnectionLostError("closed the connection") from None
        self._is_sent = True
        self.sent += 1
        self.compute_seconds += ready - start_time

    def _wait(self, now: int) -> None:
        """Wait for the answer to this time stamp: in real time while PX4 boots, shorter once it has missed an answer."""
        sent = time.perf_counter()
        patience = self._answer_timeout if self.booted else self._period_us / 1e6
        left = patience
        while left > 0.0:
            if self._receive_answer(left, now):
                self.wait_seconds += time.perf_counter() - sent
                return
            left = patience - (time.perf_counter() - sent)
        self.wait_seconds += time.perf_counter() - sent
        if not self.booted:
            self.watch.restart_if_ended()
            if time.monotonic() - self._silent_since > self._autopilot.wait:
                raise _ConnectionLostError(f"connected and sent nothing for {self._autopilot.wait:g} s")
            return
        self.missed += 1
        if self.missed == 1:
            rate = self._autopilot.sensor_rate
            hint = (
                f"; at {rate:g} Hz it needs IMU_INTEG_RATE = {rate:g} and IMU_GYRO_RATEMAX ≥ it" if rate > 250.0 else ""
            )
            self._log_message("warning", f"{self.title} did not answer the sensors of {now / 1e6:.3f} s{hint}")
        if time.monotonic() - self._silent_since > self._autopilot.patience:
            raise _ConnectionLostError(f"has not answered for {self._autopilot.patience:g} s")

    def _receive_answer(self, seconds: float, now: int) -> bool:
        """Receive; return whether the answer to this time stamp arrived. Answers to other time stamps count as late."""
        assert self._peer is not None
        self._peer.settimeout(seconds)
        try:
            data = self._peer.recv(1 << 14)
        except TimeoutError:
            return False
        except OSError:
            raise _ConnectionLostError("closed the connection") from None
        if not data:
            raise _ConnectionLostError("closed the connection")
        is_answered = False
        for frame in self._parser.parse(data):
            if frame.id == self._command_id:
                self._handle_command(frame.fields)
            elif frame.id == self._answer_id:
                if self.missed and self.booted:
                    self._answer_timeout = REDUCED_ANSWER_TIMEOUT
                self.booted, self._silent_since = True, time.monotonic()
                stamp_us = int(frame.fields[0])
                if stamp_us == now:
                    is_answered = True
                else:
                    self.late += 1
                if stamp_us <= now:
                    outputs = [clamp_output(u) for u in frame.fields[2 : 2 + self._rotors]]
                    self._outputs = outputs_by_rotor(outputs, self._order)
                    self.armed = bool(frame.fields[-1] & ARMED)
        if self._parser.skipped_bytes and not self._skipped_bytes_logged:
            self._skipped_bytes_logged = True
            self._log_message("warning", f"{self.title} sent bytes that are not MAVLink; they were skipped")
        self.answered += is_answered
        return is_answered

    def _handle_command(self, fields: tuple[float, ...]) -> None:
        """Handle PX4's request to send HIL_STATE_QUATERNION, the true state, periodically."""
        if fields[7] == SET_MESSAGE_INTERVAL and fields[0] == layout("HIL_STATE_QUATERNION").id:
            self._truth_period_us = int(fields[1]) if 0.0 < fields[1] < 1e9 else 0

    def _close_peer(self) -> None:
        if self._peer is not None:
            self._peer.close()
        self._peer = None
        self._outputs = [0.0] * self._rotors


class _ConnectionLostError(Exception):
    """Loss of the connection; the message completes a sentence that begins with the autopilot's name."""


def px4_command(binary: str, instance: int) -> list[str]:
    """Return the command line bin/px4 -d -i instance, with the folder `etc` of its build."""
    from pathlib import Path

    program = Path(binary)
    folder = next(
        (parent / "etc" for parent in (program.parent, program.parent.parent) if (parent / "etc").is_dir()), None
    )
    return [binary, "-d", "-i", str(instance), *([str(folder)] if folder is not None else ["etc"])]


def px4_start(instance: int, environment: Mapping[str, str], files: Mapping[str, bytes] = {}) -> StartScript:
    """Return the start script of PX4: the command of `px4_command`, with `etc` located next to the program."""
    lines = (
        'for etc in "$(dirname "$program")/etc" "$(dirname "$program")/../etc"; do [ -d "$etc" ] && break; done',
        f'exec "$program" -d -i {instance} "$etc"',
    )
    return StartScript(default_binary(PX4) or "px4", lines, environment, files)


def clamp_output(u: float) -> float:
    """Clamp to 0 … 1; NaN marks an unused output."""
    return min(max(u, 0.0), 1.0) if math.isfinite(u) else 0.0


def _round_clamped(value: float, low: int, high: int) -> int:
    return min(max(round(value), low), high)


def gps_fields(fix: Fix) -> tuple[int, ...]:
    """Return the fields of HIL_GPS after its time: 1e-7 degrees, mm, cm, cm/s north-east-down, centidegrees."""
    north, east, down = ned_from_enu(fix.v_W)
    speed = math.hypot(north, east)
    course = round(math.degrees(math.atan2(east, north)) * 100.0) % 36000 if speed > MIN_COURSE_SPEED else NO_COURSE
    return (
        round(math.degrees(fix.position.latitude) * 1e7),
        round(math.degrees(fix.position.longitude) * 1e7),
        round(fix.position.altitude * 1000.0),
        EPH,
        EPV,
        _round_clamped(speed * 100.0, 0, 65534),
        *(_round_clamped(v * 100.0, -32768, 32767) for v in (north, east, down)),
        course,
        FIX_3D,
        SATELLITES,
        0,
        0,
    )


def truth_fields(r: Readings) -> tuple[float, ...]:
    """Return the fields of HIL_STATE_QUATERNION after its time: attitude FRD → NED, rates, position, cm/s, force [mg]."""
    ned_state, position = ned_frd_state(r.state, r.origin)
    force = frd_from_flu(r.specific_force_B)
    airspeed = _round_clamped(math.hypot(*ned_state.v_W) * 100.0, 0, 65535)
    return (
        *ned_state.q_WB,
        *ned_state.omega_B,
        round(math.degrees(position.latitude) * 1e7),
        round(math.degrees(position.longitude) * 1e7),
        round(position.altitude * 1000.0),
        *(_round_clamped(v * 100.0, -32768, 32767) for v in ned_state.v_W),
        airspeed,
        airspeed,
        *(_round_clamped(a / 9.80665 * 1000.0, -32768, 32767) for a in force),
    )
