"""ArduPilot in lockstep over its JSON backend on UDP: one line of state for each packet of servo outputs.

ArduPilot sends to port 9002 + 10 × instance and blocks until it receives a valid line. A repeated frame count requests the last
line again; a smaller frame count means that ArduPilot restarted. It simulates GPS, barometer and compass from the true state.
"""

import select
import shlex
import struct
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from samara.link.ground_station import ARDUCOPTER, GroundStation, GroundStationConnection
from samara.link.link import AutopilotWatchdog, Link, LinkContext, LogMessage, OnceLog, exchange_summary
from samara.link.mavlink import dialect
from samara.link.motor_outputs import FRAME_BY_ROTOR_COUNT, outputs_by_rotor, rotor_order
from samara.link.ports import bind_socket, other_flight_advice, other_process_advice, require_free
from samara.link.process import Process, StartScript, require_binary
from samara.link.sensor_snapshot import PowerModuleReading, Readings, ned_frd_state
from samara.physics.frames import frd_from_flu
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import failsafe_parameters, main_battery, milliampere_hours
from samara.scenario.autopilot_types import ARDUPILOT
from samara.scenario.batteries import BatteryFailsafe
from samara.scenario.events import Order
from samara.sensors.site import HOME_DEGREES
from samara.vehicles.exchange.throttle import hover_output

PORT, PORT_STEP, MAVLINK_PORT = 9002, 10, 5760
PACKETS = {18458: struct.Struct("<HHI16H"), 29569: struct.Struct("<HHI32H")}
"""By magic number: magic, requested frame rate, frame count, pulse widths in µs."""
MIN_PULSE_US, MAX_PULSE_US = 1000, 2000  # [µs]
FRAME_CLASS = {"quad_x": 1, "hexa_x": 2, "octo_x": 3}
DIGITS = 9
PARAMETERS = "samara.parm"
MIN_RESEND_INTERVAL = 0.05  # [s]: a repetition that arrives sooner was sent before the last line arrived


class Servos(NamedTuple):
    """A packet from ArduPilot: the requested frame rate [Hz], the frame count, and the pulse widths [µs]."""

    rate: int
    frame: int
    pulses: tuple[int, ...]


def parse_servos(packet: bytes) -> Servos | None:
    """Parse a servo packet of 16 or 32 outputs; return None for any other packet."""
    if len(packet) < 2:
        return None
    layout = PACKETS.get(packet[0] | packet[1] << 8)
    if layout is None or len(packet) != layout.size:
        return None
    _, rate, frame, *pulses = layout.unpack(packet)
    return Servos(rate, frame, tuple(pulses))


def output_from_pulse(pulse: int) -> float:
    """(µs − 1000) / 1000, within 0 … 1; ArduPilot sends 0 µs while it boots."""
    return min(max((pulse - MIN_PULSE_US) / (MAX_PULSE_US - MIN_PULSE_US), 0.0), 1.0)


def state_line(
    readings: Readings, time_s: float, home_height: float = 0.0, supply: PowerModuleReading | None = None
) -> bytes:
    """Encode one JSON line that begins and ends with a newline: FRD body, NED world, position from home, battery [V, A]."""
    ned_state, _ = ned_frd_state(readings.state, readings.origin)
    north, east, down = ned_state.p_W
    gyro, force = frd_from_flu(readings.omega_B), frd_from_flu(readings.specific_force_B)
    text = (
        f'\n{{"timestamp":{time_s!r},"imu":{{"gyro":{_list(gyro)},"accel_body":{_list(force)}}},'
        f'"position":{_list((north, east, down + home_height))},"quaternion":{_list(ned_state.q_WB)},'
        f'"velocity":{_list(ned_state.v_W)}'
    )
    if supply is not None:
        text += f',"battery":{{"voltage":{round(supply.voltage, 4)!r},"current":{round(supply.current, 4)!r}}}'
    text += "}\n"
    return text.encode()


def _list(numbers: Sequence[float]) -> str:
    return f"[{','.join([repr(round(x, DIGITS) + 0.0) for x in numbers])}]"  # + 0.0 turns −0 into 0


def require_packages() -> None:
    """Raise MissingExtraError if pymavlink is not installed."""
    dialect()


def open_link(context: LinkContext) -> Link:
    """Open the link to one ArduCopter."""
    return ArduPilot(context.autopilot, context.vehicle, context.log_message)


class ArduPilot:
    """The link to one ArduCopter."""

    title = ARDUPILOT.title

    def __init__(self, autopilot: Autopilot, vehicle: Vehicle, log_message: LogMessage) -> None:
        self._autopilot = autopilot
        self._order = rotor_order(vehicle, "ardupilot")
        self._period = 1.0 / autopilot.sensor_rate
        address = (autopilot.host, PORT + PORT_STEP * autopilot.instance)
        mavlink_port = MAVLINK_PORT + PORT_STEP * autopilot.instance
        if autopilot.binary:
            require_free(autopilot.host, other_process_advice("ArduCopter", autopilot.instance), tcp=(mavlink_port,))
        self._socket = bind_socket(*address, other_flight_advice(autopilot.instance))
        self._endpoint = f"on UDP {address[0]}:{address[1]}"
        parameters = {**ardupilot_parameters(vehicle, autopilot.hover), **autopilot.numbers}
        parameter_lines = "".join(f"{name} {value:.9g}\n" for name, value in parameters.items())
        process = None
        if autopilot.binary:
            binary = require_binary(autopilot.binary, "ArduCopter's SITL, bin/arducopter")
            # while it waits for a line, only SIGKILL ends it
            process = Process(
                ardupilot_command(str(binary), autopilot.instance),
                files={PARAMETERS: parameter_lines.encode()},
                sigterm_first=False,
            )
        line = f'exec "$program" {shlex.join(ardupilot_command("", autopilot.instance)[1:])}'
        start = StartScript("arducopter", (line,), files={PARAMETERS: parameter_lines})
        self.watch = AutopilotWatchdog(autopilot, self.title, process, start, log_message)
        wire = GroundStationConnection(autopilot.host, mavlink_port, stream=True)
        self._wire, self.ground = wire, GroundStation(wire, ARDUCOPTER, self.title, log_message, tcp=(mavlink_port,))
        self._peer: tuple[str, int] | None = None
        self._frame, self._last_line = -1, b""
        self._line_at = 0.0
        self._home_height: float | None = None
        self._supply: PowerModuleReading | None = None
        self._outputs = [0.0] * len(self._order)
        self._silent_since = time.monotonic()
        self._once_log = OnceLog(log_message)
        self.sent = self.answered = self.resent = self.restarts = 0
        self.compute_seconds = self.wait_seconds = 0.0

    # The interface ---------------------------------------------------------------------------------------------------

    def begin(self, readings: Readings) -> None:
        """Do nothing: the whole exchange is in `exchange`."""

    def exchange(self, readings: Readings) -> Sequence[float]:
        """Send a line of state; return the outputs of the servo packet that follows."""
        start_time = time.perf_counter()
        self.ground.poll(readings.time_us, readings.origin, readings.state.p_W)
        if self._home_height is None:
            self._home_height = readings.state.p_W.z
        self._supply = readings.supply or self._supply
        line = state_line(readings, readings.time_us / 1e6 + self._period, self._home_height, self._supply)
        self.compute_seconds += time.perf_counter() - start_time
        if self._peer is None:
            self._connect(readings.time_us)
        self._send(line)
        sent = time.perf_counter()
        self._wait(readings.time_us, line)
        self.wait_seconds += time.perf_counter() - sent
        return self._outputs

    def send_order(self, order: Order) -> None:
        """Send the order over MAVLink, as a ground station."""
        self.ground.queue_order(order)

    def closing_report(self) -> Iterator[tuple[str, str]]:
        """Yield the answer count and the repeated messages."""
        yield exchange_summary(self, self.sent - self.answered)
        yield from self._once_log.repetitions()
        yield from self.ground.closing_report()

    def close(self) -> None:
        """Close the sockets and end the process."""
        self._socket.close()
        self.ground.close()
        self.watch.close()

    # The wire --------------------------------------------------------------------------------------------------------

    def _connect(self, time_us: int) -> None:
        def poll_connection(seconds: float) -> bool:
            self._wire.connect()  # ArduPilot may wait for a ground station before it sends
            return self._receive_servos(seconds) is not None

        self.watch.wait_until(poll_connection, self._endpoint)
        self.ground.reset()
        self._silent_since = time.monotonic()

    def _send(self, line: bytes) -> None:
        self._last_line, self._line_at = line, time.monotonic()
        if self._peer is not None:
            try:
                self._socket.sendto(line, self._peer)
            except OSError:
                return  # temporarily unreachable; `_wait` detects a long silence
        self.sent += 1

    def _wait(self, time_us: int, line: bytes) -> None:
        """Wait for the next servo packet; answer repeated packets with the last line."""
        while True:
            servos = self._receive_servos(0.1)
            if servos is not None:
                self.answered += 1
                return
            exit_report = self.watch.process.exit_report if self.watch.process is not None else ""
            is_silent = time.monotonic() - self._silent_since > self._autopilot.patience
            if exit_report or is_silent:
                motors_running = any(self._outputs)
                self._peer, self._outputs = None, [0.0] * len(self._order)
                reason = exit_report or f"{self.title} has not answered for {self._autopilot.patience:g} s"
                self.watch.handle_loss(f"{reason} at {time_us / 1e6:.3f} s", motors_running)
                self._connect(time_us)
                self._send(line)

    def _receive_servos(self, seconds: float) -> Servos | None:
        """Receive a new servo packet within `seconds`; log invalid packets and answer repeated ones."""
        if not select.select([self._socket], [], [], seconds)[0]:
            return None
        try:
            packet, peer = self._socket.recvfrom(4096)
        except OSError:
            return None
        servos = parse_servos(packet)
        if servos is None:
            message = f"a packet of {len(packet)} bytes {self._endpoint} is not a servo output; it was skipped"
            self._once_log.log("warning", message, "nonsense")
            return None
        if self._peer is not None and peer != self._peer:  # a restarted autopilot is accepted when this one is lost
            message = f"a second autopilot sends {self._endpoint} from port {peer[1]}; its packets are ignored"
            self._once_log.log("warning", message, "second")
            return None
        if servos.frame == self._frame and peer == self._peer:
            if time.monotonic() - self._line_at > MIN_RESEND_INTERVAL:
                self.resent += 1
                self._line_at = time.monotonic()
                self._socket.sendto(self._last_line, peer)
            return None
        self._silent_since = time.monotonic()
        if servos.frame < self._frame:
            self.restarts += 1
            message = f"{self.title} restarted: its frame count went from {self._frame} to {servos.frame}"
            self._once_log.log("warning", message, "restarted")
            self.ground.reset()
        self._peer, self._frame = peer, servos.frame
        self._outputs = outputs_by_rotor([output_from_pulse(pulse) for pulse in servos.pulses], self._order)
        return servos


def ardupilot_command(binary: str, instance: int) -> list[str]:
    """Return the command line of arducopter for the JSON backend, with its parameter file."""
    latitude, longitude, altitude = HOME_DEGREES
    home = f"{latitude},{longitude},{altitude:g},0"
    return [
        binary,
        *("--model", "JSON:127.0.0.1", "-I", str(instance), "--home", home, "--wipe"),
        *("--defaults", PARAMETERS, "--serial0", "tcp:0", "--speedup", "100"),  # 1 would limit it to real time
    ]


def ardupilot_parameters(vehicle: Vehicle, hover: float) -> dict[str, float]:
    """Return ArduPilot's parameters: its frame, a linear thrust curve, and its hover output."""
    return {
        "FRAME_CLASS": FRAME_CLASS[FRAME_BY_ROTOR_COUNT[len(vehicle.rotors)]],
        "FRAME_TYPE": 1,
        "MOT_THST_EXPO": 0,
        "MOT_THST_HOVER": round(hover_output(vehicle, hover), 3),
        "MOT_SPIN_ARM": 0,
        "MOT_SPIN_MIN": 0,
        "MOT_SPIN_MAX": 1,
        **battery_parameters(vehicle),
    }


def battery_parameters(vehicle: Vehicle) -> dict[str, float]:
    """Return the parameters for a vehicle with a battery: ArduPilot returns home at low charge, and lands at critical
    charge."""
    if main_battery(vehicle) is None:
        return {}
    return {
        "BATT_MONITOR": 4,
        "BATT_CAPACITY": round(milliampere_hours(vehicle)),
        "BATT_FS_LOW_ACT": 2,
        "BATT_FS_CRT_ACT": 1,
        **failsafe_parameters(ARDUPILOT, vehicle, BatteryFailsafe()),
    }
