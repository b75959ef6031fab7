"""PX4 in lockstep: its simulator's MAVLink over TCP, one HIL_SENSOR for one HIL_ACTUATOR_CONTROLS.

PX4 is the client and connects to 4560 + instance. The time of HIL_SENSOR is its clock. While it boots it is silent and only
time brings it on; from its first answer on, every packet is answered with the same time, and the plant waits for it. Frames on
the wire: body forward-right-down, world north-east-down.
"""

import math
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from samara.core.algebra import Vec3
from samara.link.deploy.px4_raptor import ON_CARD, archive_of
from samara.link.ground_station import PX4 as PX4_MODES
from samara.link.ground_station import GroundStation, Wire
from samara.link.link import Link, LinkContext, Repeated, Say, Watch, counted
from samara.link.mavlink import Listener, Speaker, dialect, layout
from samara.link.motor_outputs import outputs_by_rotor, rotor_of_output
from samara.link.ports import bound, other_flight, other_process, require_free
from samara.link.process import Process, Start, default_binary, require_binary
from samara.link.sensor_snapshot import Fix, Readings, outside
from samara.physics.air.atmosphere import pressure_altitude
from samara.physics.frames import frd_from_flu, ned_from_enu
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import battery_of, failsafe_parameters
from samara.scenario.autopilot_types import PX4, RAPTOR
from samara.scenario.batteries import BatteryFailsafe
from samara.scenario.events import Order
from samara.vehicles.exchange.px4 import HOVER_RANGE, airframe_parameters, gain_parameters, rotor_parameters
from samara.vehicles.exchange.throttle import HOVER_OUTPUT, hover_output, hover_throttle

MODEL = "none_iris"  # an airframe of PX4 that brings no simulator of its own
NO_BATTERY = {"SIM_BAT_ENABLE": 0, "SIM_BAT_DRAIN": 0}  # that of PX4 until 1.17, and from 1.18 on
DEFAULT_RATE = 250.0  # [Hz], of PX4's own integration


def rate_parameters(rate: float) -> dict[str, float]:
    """What makes PX4 answer every HIL_SENSOR when they come faster than its usual 250 Hz"""
    if rate <= DEFAULT_RATE:
        return {}
    return {"IMU_INTEG_RATE": math.ceil(rate), "IMU_GYRO_RATEMAX": 2 * math.ceil(rate)}


def battery_parameters(vehicle: Vehicle) -> dict[str, float]:
    """Without the battery PX4 invents, where ours empties: it returns when that is critical, and lands in an emergency"""
    if battery_of(vehicle) is None:
        return {}
    return {**NO_BATTERY, "COM_LOW_BAT_ACT": 3, **failsafe_parameters(PX4, vehicle, BatteryFailsafe())}


def px4_parameters(
    vehicle: Vehicle, rate: float = DEFAULT_RATE, hover: float = HOVER_OUTPUT, outputs: str = "thrust", mode: str = ""
) -> dict[str, float]:
    """All that PX4 must know of a vehicle and of how fast its sensors come"""
    if mode == RAPTOR.name:
        return {**policy_parameters(vehicle, rate), **battery_parameters(vehicle)}
    if outputs == "thrust":
        own = {
            **rotor_parameters(vehicle),
            **gain_parameters(vehicle, hover),
            "MPC_THR_HOVER": hover_output(vehicle, hover),
        }
    else:
        own = airframe_parameters(vehicle)
    return {
        **own,
        **rate_parameters(rate),
        **battery_parameters(vehicle),
    }


def policy_parameters(vehicle: Vehicle, rate: float) -> dict[str, float]:
    """For mc_raptor: its motors in the order of PX4's quadrotor in X, commands that no curve bends, and turns to count

    THR_MDL_FAC would bend what the module commands too. Without it PX4's own controllers feel the slope of the motors' curve at
    hover, dt/du = 1 − e + 2 e u, and their gains are made for that. Every IMU_GYRO_RATEMAX/100 turns the module goes on: only
    where that is the rate of the sensors are these 10 ms.
    """
    order, at_hover = rotor_of_output(vehicle, "px4"), hover_throttle(vehicle)
    slope = 1.0 - at_hover.expo + 2.0 * at_hover.expo * at_hover.throttle
    return {
        **rotor_parameters(replace(vehicle, rotors=tuple(vehicle.rotors[k] for k in order))),
        **gain_parameters(vehicle, min(at_hover.thrust / slope, at_hover.throttle)),
        "THR_MDL_FAC": 0,
        "MPC_THR_HOVER": min(max(at_hover.throttle, HOVER_RANGE[0]), HOVER_RANGE[1]),
        "IMU_INTEG_RATE": rate,
        "IMU_GYRO_RATEMAX": rate,
        "MC_RAPTOR_ENABLE": 1,
        "MC_RAPTOR_OFFB": 0,
    }


def px4_environment(parameters: dict[str, float], model: str = MODEL) -> dict[str, str]:
    """The environment PX4 is started with"""
    return {"PX4_SIM_MODEL": model, **{f"PX4_PARAM_{name}": f"{value:.9g}" for name, value in parameters.items()}}


PORT, OFFBOARD_PORT, OUTPUTS = 4560, 14540, 16
LAST_INSTANCE = 9  # with a port for onboard computers of its own
ITS_PORTS = (14580, 18570)  # which PX4 opens itself: for onboard computers, and for a ground station
SIMULATOR = (1, 51)  # system and component the simulator speaks as
IMU, MAGNETOMETER, BAROMETER = 0x3F, 0x1C0, 0x1A00  # fields_updated; a group needs all its bits
ARMED = 128
SET_MESSAGE_INTERVAL = 511
NOT_BEGUN = -1  # [µs], in place of the time of an exchange
SETPOINT_US = 10_000  # from one setpoint to the next
HERE_AND_THERE = 250  # steps from one look for a second client to the next
FIRST_PATIENCE = 0.5  # [s], by the clock, for one answer
SECOND_PATIENCE = 0.02  # [s], from one that is known to miss some
GAUSS, HECTOPASCAL = 1e-4, 100.0
TEMPERATURE = 20.0  # [°C], of the sensors
EPH, EPV, SATELLITES, FIX_3D = 30, 40, 10, 3  # cm, cm
NO_COURSE = 65535
SLOWEST = 0.1  # [m/s]: a slower drone has no course


def require_packages() -> None:
    """Raise MissingExtraError where pymavlink is not installed."""
    dialect()


def open_link(context: LinkContext) -> Link:
    """Open the link to one PX4."""
    return Px4(context.autopilot, context.vehicle, context.say, context.controller)


class Px4:
    """The link to one PX4."""

    title = PX4.title

    def __init__(self, autopilot: Autopilot, vehicle: Vehicle, say: Say, controller: object = None) -> None:
        self._autopilot, self._rotors, self._say = autopilot, len(vehicle.rotors), say
        self._period_us = round(1e6 / autopilot.sensor_rate)
        self.parameters = {
            **px4_parameters(vehicle, autopilot.sensor_rate, autopilot.hover, autopilot.outputs, autopilot.mode),
            **dict(autopilot.parameters),
        }
        environment = px4_environment(self.parameters)
        files: dict[str, bytes] = {}
        self._order = tuple(range(self._rotors))
        if autopilot.mode == RAPTOR.name:
            files[ON_CARD] = archive_of(controller, vehicle)
            self._order = rotor_of_output(vehicle, "px4")
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
            require_free(host, other_process(self.title, instance), udp=[port + instance for port in ITS_PORTS])
        self._where = f"on TCP {host}:{PORT + instance}"
        wire = Wire(host, OFFBOARD_PORT + instance, stream=False)
        udp = [port + instance for port in ITS_PORTS]
        self.ground = GroundStation(wire, PX4_MODES, self.title, say, udp=udp)
        try:
            self._server = bound(host, PORT + instance, other_flight(instance), stream=True)
        except ValueError:
            wire.close()
            raise
        self._server.listen(4)
        process = Process(command, environment, files) if command else None
        self.watch = Watch(autopilot, self.title, process, px4_start(instance, environment, files), say)
        self._once = Repeated(say)
        self._peer: socket.socket | None = None
        self._outputs = [0.0] * self._rotors
        self._begun_us, self._is_sent = NOT_BEGUN, False
        self._lost: _GoneError | None = None
        self._steps = self.sent = self.answered = self.missed = self.late = 0
        self.own_seconds = self.waited_seconds = 0.0
        self.armed = False
        self._forget()

    def _forget(self) -> None:
        """A new PX4 knows nothing, and nothing is known of it"""
        self._speaker = Speaker(*SIMULATOR)
        self._listener = Listener("HIL_ACTUATOR_CONTROLS", "COMMAND_LONG", "HEARTBEAT")
        self._answer_id, self._command_id = layout("HIL_ACTUATOR_CONTROLS").id, layout("COMMAND_LONG").id
        self.booted, self._patience, self._silent_since = False, FIRST_PATIENCE, time.monotonic()
        self._truth_every_us, self._truth_us = 0, 0
        self._nonsense_told = False
        self._field, self._pressure = Vec3(0.0, 0.0, 0.0), 0.0

    # The interface ---------------------------------------------------------------------------------------------------

    def begin(self, readings: Readings) -> None:
        """Send HIL_SENSOR and what else is new, where PX4 is connected; `exchange` waits for the answer"""
        begun = time.perf_counter()
        self._begun_us, self._is_sent, self._lost = readings.time_us, False, None
        self.ground.look(readings.time_us, readings.origin, readings.state.p_W)
        if readings.supply is not None:
            self.ground.report(readings.supply)
        self._steps += 1
        if self._autopilot.mode and readings.time_us % SETPOINT_US < self._period_us:
            self.ground.steer(readings.wanted, readings.origin)
        if self._steps % HERE_AND_THERE == 0:
            self._refuse_others()
        if self._peer is not None:
            try:
                self._send(readings, begun)
            except _GoneError as gone:
                self._lost = gone

    def exchange(self, readings: Readings) -> Sequence[float]:
        """HIL_SENSOR and what else is new out, HIL_ACTUATOR_CONTROLS of the same time in"""
        if self._begun_us != readings.time_us:
            self.begin(readings)
        self._begun_us = NOT_BEGUN
        while True:
            if self._peer is None:
                self._connect()
            begun = time.perf_counter()
            try:
                if self._lost is not None:
                    raise self._lost
                if not self._is_sent:
                    self._send(readings, begun)
                self._wait(readings.time_us + self._period_us)
                return self._outputs
            except _GoneError as gone:
                turned = any(self._outputs)
                self._close_peer()
                self._is_sent, self._lost = False, None
                self.watch.lost(f"{self.title} {gone} at {readings.time_us / 1e6:.3f} s", turned)

    def obey(self, order: Order) -> None:
        """Over MAVLink, as a ground station; in a mode that follows the reference places are the reference's"""
        mode = self._autopilot.mode
        if mode and order.kind in ("go_to", "reach"):
            return
        self.ground.obey(order)
        if mode and order.kind == "take_off":
            self.ground.obey(Order(mode))

    def ending(self) -> Iterator[tuple[str, str]]:
        """How often it answered, and what was said more than once"""
        yield counted(self, self.missed)
        yield from self._once.totals()
        yield from self.ground.ending()

    def close(self) -> None:
        """Ends it all"""
        self._close_peer()
        self._server.close()
        self.ground.close()
        self.watch.close()

    # The wire --------------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        def arrived(seconds: float) -> bool:
            self._server.settimeout(seconds)
            try:
                self._peer, _ = self._server.accept()
            except (TimeoutError, BlockingIOError):
                return False
            self._peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return True

        self.watch.until(arrived, self._where)
        self._forget()
        self.ground.reset()

    def _refuse_others(self) -> None:
        if self._peer is None or not select.select([self._server], [], [], 0)[0]:
            return
        other, _ = self._server.accept()
        other.close()
        self._once.say(
            "warning", f"a second autopilot connected {self._where} and was sent away: {self.title} is there already"
        )

    def _send(self, r: Readings, begun: float) -> None:
        now = r.time_us + self._period_us
        data = b""
        if r.fix is not None:
            data += self._speaker.frame("HIL_GPS", now, *gps_fields(r.fix))
        if self._truth_every_us and r.time_us - self._truth_us >= self._truth_every_us:
            self._truth_us = r.time_us
            data += self._speaker.frame("HIL_STATE_QUATERNION", now, *truth_fields(r))
        updated = IMU
        if r.field_B is not None:
            self._field, updated = frd_from_flu(r.field_B) / GAUSS, updated | MAGNETOMETER
        if r.pressure is not None:
            self._pressure, updated = r.pressure / HECTOPASCAL, updated | BAROMETER
        altitude = pressure_altitude(HECTOPASCAL * self._pressure) if self._pressure else 0.0
        data += self._speaker.frame(
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
            raise _GoneError("is not there")
        try:
            self._peer.settimeout(self._autopilot.patience)
            self._peer.sendall(data)
        except TimeoutError:
            raise _GoneError(f"has taken nothing for {self._autopilot.patience:g} s") from None
        except OSError:
            raise _GoneError("closed the connection") from None
        self._is_sent = True
        self.sent += 1
        self.own_seconds += ready - begun

    def _wait(self, now: int) -> None:
        """The answer of this time. A PX4 that boots is given as long as real time, one that skips some a moment."""
        sent = time.perf_counter()
        patience = self._patience if self.booted else self._period_us / 1e6
        left = patience
        while left > 0.0:
            if self._heard(left, now):
                self.waited_seconds += time.perf_counter() - sent
                return
            left = patience - (time.perf_counter() - sent)
        self.waited_seconds += time.perf_counter() - sent
        if not self.booted:
            self.watch.alive()
            if time.monotonic() - self._silent_since > self._autopilot.wait:
                raise _GoneError(f"connected and said nothing for {self._autopilot.wait:g} s")
            return
        self.missed += 1
        if self.missed == 1:
            rate = self._autopilot.sensor_rate
            hint = (
                f"; at {rate:g} Hz it needs IMU_INTEG_RATE = {rate:g} and IMU_GYRO_RATEMAX ≥ it" if rate > 250.0 else ""
            )
            self._say("warning", f"{self.title} did not answer the sensors of {now / 1e6:.3f} s{hint}")
        if time.monotonic() - self._silent_since > self._autopilot.patience:
            raise _GoneError(f"has not answered for {self._autopilot.patience:g} s")

    def _heard(self, seconds: float, now: int) -> bool:
        """Whether the answer of this time has come; others are late, and count for nothing"""
        assert self._peer is not None
        self._peer.settimeout(seconds)
        try:
            data = self._peer.recv(1 << 14)
        except TimeoutError:
            return False
        except OSError:
            raise _GoneError("closed the connection") from None
        if not data:
            raise _GoneError("closed the connection")
        came = False
        for frame in self._listener.hear(data):
            if frame.id == self._command_id:
                self._asked(frame.fields)
            elif frame.id == self._answer_id:
                if self.missed and self.booted:
                    self._patience = SECOND_PATIENCE
                self.booted, self._silent_since = True, time.monotonic()
                told = int(frame.fields[0])
                if told == now:
                    came = True
                else:
                    self.late += 1
                if told <= now:
                    said = [output(u) for u in frame.fields[2 : 2 + self._rotors]]
                    self._outputs = outputs_by_rotor(said, self._order)
                    self.armed = bool(frame.fields[-1] & ARMED)
        if self._listener.nonsense and not self._nonsense_told:
            self._nonsense_told = True
            self._say("warning", f"{self.title} sent bytes that are no MAVLink; they were skipped")
        self.answered += came
        return came

    def _asked(self, fields: tuple[float, ...]) -> None:
        """PX4 asks for HIL_STATE_QUATERNION, its truth, every so many microseconds"""
        if fields[7] == SET_MESSAGE_INTERVAL and fields[0] == layout("HIL_STATE_QUATERNION").id:
            self._truth_every_us = int(fields[1]) if 0.0 < fields[1] < 1e9 else 0

    def _close_peer(self) -> None:
        if self._peer is not None:
            self._peer.close()
        self._peer = None
        self._outputs = [0.0] * self._rotors


class _GoneError(Exception):
    """What became of the connection, to be said after its name."""


def px4_command(binary: str, instance: int) -> list[str]:
    """bin/px4 -d -i instance, with the folder `etc` of its build"""
    from pathlib import Path

    own = Path(binary)
    folder = next((place / "etc" for place in (own.parent, own.parent.parent) if (place / "etc").is_dir()), None)
    return [binary, "-d", "-i", str(instance), *([str(folder)] if folder is not None else ["etc"])]


def px4_start(instance: int, environment: Mapping[str, str], files: Mapping[str, bytes] = {}) -> Start:
    """How a person starts PX4: as `px4_command` has it, the folder `etc` found where the program is"""
    lines = (
        'for etc in "$(dirname "$program")/etc" "$(dirname "$program")/../etc"; do [ -d "$etc" ] && break; done',
        f'exec "$program" -d -i {instance} "$etc"',
    )
    return Start(default_binary(PX4) or "px4", lines, environment, files)


def output(u: float) -> float:
    """0 … 1; NaN marks an output that is not used"""
    return min(max(u, 0.0), 1.0) if math.isfinite(u) else 0.0


def _whole(value: float, low: int, high: int) -> int:
    return min(max(round(value), low), high)


def gps_fields(fix: Fix) -> tuple[int, ...]:
    """HIL_GPS behind its time: 1e-7 degrees, mm, cm, cm/s north-east-down, centidegrees"""
    north, east, down = ned_from_enu(fix.v_W)
    speed = math.hypot(north, east)
    course = round(math.degrees(math.atan2(east, north)) * 100.0) % 36000 if speed > SLOWEST else NO_COURSE
    return (
        round(math.degrees(fix.place.latitude) * 1e7),
        round(math.degrees(fix.place.longitude) * 1e7),
        round(fix.place.altitude * 1000.0),
        EPH,
        EPV,
        _whole(speed * 100.0, 0, 65534),
        *(_whole(v * 100.0, -32768, 32767) for v in (north, east, down)),
        course,
        FIX_3D,
        SATELLITES,
        0,
        0,
    )


def truth_fields(r: Readings) -> tuple[float, ...]:
    """HIL_STATE_QUATERNION behind its time: attitude FRD → NED, rates, place, cm/s, and specific force in mg"""
    own, place = outside(r.state, r.origin)
    force = frd_from_flu(r.specific_force_B)
    airspeed = _whole(math.hypot(*own.v_W) * 100.0, 0, 65535)
    return (
        *own.q_WB,
        *own.omega_B,
        round(math.degrees(place.latitude) * 1e7),
        round(math.degrees(place.longitude) * 1e7),
        round(place.altitude * 1000.0),
        *(_whole(v * 100.0, -32768, 32767) for v in own.v_W),
        airspeed,
        airspeed,
        *(_whole(a / 9.80665 * 1000.0, -32768, 32767) for a in force),
    )
