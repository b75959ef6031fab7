"""Betaflight over UDP, in real time: a packet of state and one of RC channels out, four motor outputs in.

Betaflight's simulator does not run in lockstep: between packets its clock continues at the last ratio of simulated to real
time. Packets are therefore sent evenly in real time, even if the simulation could be faster. Betaflight is not given positions
and takes no orders: a pilot's sticks fly it.
"""

import re
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import Quat, Vec3
from samara.link.link import AutopilotWatchdog, Link, LinkContext, LogMessage, OnceLog, exchange_summary
from samara.link.motor_outputs import betaflight_wiring, outputs_by_rotor
from samara.link.ports import Address, bind_socket, network_warning, require_free
from samara.link.process import Process, StartScript, default_binary, require_binary
from samara.link.sensor_snapshot import Readings, ned_frd_state
from samara.link.stick_controller import AutomaticPilot, RadioSticks, StickController
from samara.physics.frames import frd_from_flu
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot, is_loopback
from samara.scenario.autopilot_types import BETAFLIGHT
from samara.scenario.events import Order
from samara.vehicles.exchange.betaflight import is_stick_setting

RAW_PORT, MOTORS_PORT, STATE_PORT, RADIO_PORT, CLI_PORT = 9001, 9002, 9003, 9004, 5761
MOTORS = struct.Struct("<4f")
STATE, RADIO = struct.Struct("<18d"), struct.Struct("<d16H")
MOTOR_COUNT = 4
RAD_TO_DEG = 57.29577951308232
ANSWER_TIMEOUT = 0.25  # [s, wall-clock]
MIN_FIRST_ANSWERS, RESTART_AFTER = 50, 4.0  # answers before the flight begins; [s] without answers before a restart
ARMING_TIMEOUT_US, ARMING_LINES = 10_000_000, 50
MAX_BINARY_BYTES = 1 << 26  # bytes
BOOT_TIMEOUT, BOOT_DELAY = 10.0, 0.6  # [s]
MAX_CATCH_UP_FRACTION = 0.1  # fraction of a period: smaller delays are made up
SPIN_WAIT = 2e-4  # [s]: shorter waits are busy waits
SETTINGS = (
    "aux 0 0 0 1700 2100 0 0",  # arm on AUX1
    "aux 1 1 1 1700 2100 0 0",  # angle mode on AUX2
    "set small_angle = 180",
    "set gyro_calib_noise_limit = 0",
    "set runaway_takeoff_prevention = OFF",
    "feature -GPS",
    # linear sticks: 60° and 200 °/s at full deflection
    "set rates_type = ACTUAL",
    *(
        f"set {axis}_{name} = {value}"
        for axis, rate in (("roll", 67), ("pitch", 67), ("yaw", 20))
        for name, value in (("rc_rate", rate), ("srate", rate), ("expo", 0))
    ),
    "set angle_limit = 60",
)
OTHER_FLIGHT_ADVICE = "is another flight there? End it first: Betaflight's ports are fixed"
ALREADY_RUNNING_ADVICE = "Betaflight is already running; end it, or fly with --connect: its ports are fixed"
PROMPT = b"\n# "
HALF_TURN_X = Quat(0.0, 1.0, 0.0, 0.0)


class Convention(NamedTuple):
    """The differences between versions: the motor of each output, the signs of gyro (FRD) and accelerometer, the attitude."""

    motors: tuple[int, ...]
    gyro: Vec3
    accelerometer: Vec3
    quaternion_flu: bool


CONVENTIONS = {
    "4.6": Convention((1, 2, 3, 0), Vec3(1.0, 1.0, 1.0), Vec3(-1.0, 1.0, 1.0), False),
    "2026.12": Convention((0, 1, 2, 3), Vec3(1.0, 1.0, -1.0), Vec3(-1.0, 1.0, 1.0), True),
}
"""4.6 and 2025.12 send FR, RL, FL, RR, as ArduPilot counts; 2026.12 sends its motors 1 to 4: RR, FR, RL, FL."""
OLDEST_CONVENTION, NEWEST_CONVENTION = CONVENTIONS
LAST_OLDEST_VERSION = (25, 12)  # year − 2000 and month; older versions are numbered up to 4.6


def parse_motors(packet: bytes) -> tuple[float, ...] | None:
    """Parse four outputs within 0 … 1; return None for any other packet."""
    if len(packet) != MOTORS.size:
        return None
    values = MOTORS.unpack(packet)
    return values if all(-1e-6 <= u <= 1.0 + 1e-6 for u in values) else None  # False for NaN


def state_packet(readings: Readings, time_s: float, convention: Convention) -> bytes:
    """Encode t, gyro [rad/s], accelerometer [m/s²], quaternion, velocity ENU, lon, lat [°], altitude [m], pressure [Pa]."""
    ned_state, position = ned_frd_state(readings.state, readings.origin)
    gyro, force = frd_from_flu(readings.omega_B), frd_from_flu(readings.specific_force_B)
    q = HALF_TURN_X * readings.state.q_WB * HALF_TURN_X if convention.quaternion_flu else ned_state.q_WB
    return STATE.pack(
        time_s,
        *(s * x for s, x in zip(convention.gyro, gyro, strict=True)),
        *(s * x for s, x in zip(convention.accelerometer, force, strict=True)),
        *q,
        *readings.state.v_W,
        position.longitude * RAD_TO_DEG,
        position.latitude * RAD_TO_DEG,
        position.altitude,
        readings.pressure if readings.pressure is not None else 0.0,
    )


def open_link(context: LinkContext) -> Link:
    """Open the link to one Betaflight."""
    return Betaflight(context.autopilot, context.vehicle, context.log_message, context.controller)


class Betaflight:
    """The link to a Betaflight; its ports are fixed, so only one can fly at a time."""

    title = BETAFLIGHT.title

    def __init__(
        self, autopilot: Autopilot, vehicle: Vehicle, log_message: LogMessage, controller: object = None
    ) -> None:
        """Create the link; a `StickController` as `controller` puts a person at the sticks, else `AutomaticPilot` flies."""
        if autopilot.instance:
            raise ValueError("Betaflight's ports are fixed: only one can fly at a time; expected instance 0")
        self._autopilot, self._log_message = autopilot, log_message
        if len(vehicle.rotors) != MOTOR_COUNT:
            raise ValueError(
                f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; Betaflight's simulator has 4 motors"
            )
        self._wiring = betaflight_wiring(vehicle)
        stick_controller = controller if isinstance(controller, StickController) else None
        self.settings = (*SETTINGS, f"set yaw_motors_reversed = {'ON' if self._wiring.has_props_out else 'OFF'}")
        parameters = parameter_lines(autopilot, by_hand=stick_controller is not None, log_message=log_message)
        self.sticks: AutomaticPilot | RadioSticks
        self.sticks = (
            AutomaticPilot(vehicle, autopilot.hover)
            if stick_controller is None
            else stick_controller.create_radio(vehicle, autopilot.hover)
        )
        binary = require_binary(autopilot.binary, "Betaflight's SITL") if autopilot.binary else None
        has_ip_option = binary is not None and accepts_ip_option(binary)
        self._set_convention(autopilot.convention or (NEWEST_CONVENTION if has_ip_option else OLDEST_CONVENTION))
        self._period = 1.0 / autopilot.sensor_rate
        host = autopilot.host
        if autopilot.binary:
            require_free(host, ALREADY_RUNNING_ADVICE, udp=(STATE_PORT, RADIO_PORT), tcp=(CLI_PORT,))
        self._motors = bind_socket(host, MOTORS_PORT, OTHER_FLIGHT_ADVICE)
        try:
            self._raw = bind_socket(host, RAW_PORT, OTHER_FLIGHT_ADVICE)
        except ValueError:
            self._motors.close()
            raise
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        process = Process([str(binary), *(["--ip"] if has_ip_option else []), host]) if binary is not None else None
        start = StartScript(
            default_binary(BETAFLIGHT) or "betaflight_SITL.elf",
            (f'if grep -q -e --ip "$program"; then exec "$program" --ip {host}; fi', f'exec "$program" {host}'),
            files={"settings.txt": "\n".join((*self.settings, *parameters, "save", ""))},
            note=f"the first time, paste settings.txt beside it into its CLI on TCP {CLI_PORT}",
        )
        self.watch = AutopilotWatchdog(autopilot, self.title, process, start, log_message)
        if process is not None:
            self._configure(process, parameters)
        self._outputs, self._pressure = [0.0] * MOTOR_COUNT, 101325.0
        self._send_time, self._packets = 0.0, 0
        self._answer_time = time.monotonic()
        self._is_connected = self._arming_settled = False
        self._source: Address | None = None  # sender of the motor outputs
        self._once_log, self._arming_us = OnceLog(log_message), -1
        self.sent = self.answered = self.missed = self.late = 0
        self.compute_seconds = self.wait_seconds = self.worst_lateness = 0.0

    def _set_convention(self, convention: str) -> None:
        """Select the signs and the motor order of a version."""
        self.convention = CONVENTIONS[convention]
        self.order = tuple(self._wiring.order[motor] for motor in self.convention.motors)

    def _configure(self, process: Process, parameters: Sequence[str]) -> None:
        """Set its parameters through its CLI; Betaflight exits after `save` and is started again."""
        deadline = time.monotonic() + 20.0
        try:
            with _open_cli(self._autopilot.host, deadline, process) as cli:
                _cli_exchange(cli, b"#")  # enters the CLI; nothing may follow it
                for line in self.settings:
                    _cli_exchange(cli, line.encode() + b"\n")
                for line in parameters:
                    set_parameter(cli, line)
                _cli_exchange(cli, b"save\n")
        except ValueError:
            process.close()
            self.close_sockets()
            raise
        except OSError as error:
            output = process.wait_exit_report() or f"its last output: {' / '.join(process.last_output())}"
            process.close()
            self.close_sockets()
            raise ValueError(
                f"Betaflight's CLI on TCP {CLI_PORT} cannot be used ({error.strerror or error}); {output}"
            ) from None
        while not process.exit_report and time.monotonic() < deadline:
            time.sleep(0.05)
        process.start()

    # The interface ---------------------------------------------------------------------------------------------------

    def begin(self, readings: Readings) -> None:
        """Do nothing: the whole exchange is in `exchange`."""

    def exchange(self, readings: Readings) -> Sequence[float]:
        """Send state and RC channels when they are due in real time; return the motor outputs."""
        if not self._is_connected:
            self._connect(readings)
        self._send(readings)
        sent = time.perf_counter()
        if not self._receive_motors(ANSWER_TIMEOUT):
            self.missed += 1
            self._check_silence(readings.time_us)
        self.wait_seconds += time.perf_counter() - sent
        self._watch_arming(readings.time_us)
        return self._outputs

    def send_order(self, order: Order) -> None:
        """Arm and disarm by the switches; the sticks follow the reference."""
        if order.kind in ("arm", "take_off"):
            self.sticks.armed = True
        elif order.kind == "disarm":
            self.sticks.armed = False

    def closing_report(self) -> Iterator[tuple[str, str]]:
        """Yield the answer count, whether it armed, and the repeated messages."""
        yield exchange_summary(self, self.missed)
        if self._arming_us >= 0 and not self._arming_settled:
            yield "warning", f"{self.title} was asked to arm and never did{self._arming_blocker()}"
        yield from self._once_log.repetitions()

    def close(self) -> None:
        """Close the sockets and end the process."""
        self.close_sockets()
        self.watch.close()

    def close_sockets(self) -> None:
        """Free the ports."""
        for sock in (self._motors, self._raw, self._out):
            sock.close()

    # Arming ----------------------------------------------------------------------------------------------------------

    def _watch_arming(self, time_us: int) -> None:
        """Warn if the motors do not turn for a long time after the arm switch went high."""
        if not self.sticks.armed or self._arming_settled:
            return
        if self._arming_us < 0:
            self._arming_us = time_us
        is_overdue = time_us - self._arming_us >= ARMING_TIMEOUT_US and not any(self._outputs)
        if is_overdue:
            message = f"{self.title} has not armed {ARMING_TIMEOUT_US / 1e6:g} s after it was asked to{self._arming_blocker()}"
            self._log_message("warning", message)
        self._arming_settled = is_overdue or any(self._outputs)

    def _arming_blocker(self) -> str:
        """Return the reason that Betaflight prints for not arming, as versions from 2026 do."""
        output = self.watch.process.last_output(ARMING_LINES) if self.watch.process is not None else []
        reasons = [line.partition("Arming disabled:")[2].strip() for line in output if "Arming disabled:" in line]
        return f"; it reports: arming disabled by {reasons[-1]}" if reasons else ""

    # The wire --------------------------------------------------------------------------------------------------------

    def _connect(self, readings: Readings) -> None:
        """Send packets of a drone at rest at an even rate until Betaflight has answered `MIN_FIRST_ANSWERS` of them.

        A process that this link started gets time to boot first, because a packet in its first half second stops its clock. If
        it does not answer, it is restarted.
        """
        process = self.watch.process
        boot_time, answers_before = self._wait_for_boot(process), self.answered
        if process is not None:  # before the packets, which must be sent evenly from now on
            self._detect_convention()

        def poll_connection(seconds: float) -> bool:
            nonlocal boot_time
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and self.answered - answers_before < MIN_FIRST_ANSWERS:
                self._send(readings)
                self._receive_motors(self._period)
            is_connected = self.answered - answers_before >= MIN_FIRST_ANSWERS
            if not is_connected and process is not None and time.monotonic() - boot_time > RESTART_AFTER:
                process.start()
                boot_time = self._wait_for_boot(process)
            return is_connected

        self.watch.wait_until(poll_connection, f"on UDP {self._autopilot.host}:{MOTORS_PORT}")
        self._is_connected = True
        self._warn_of_open_ports()
        if process is None:
            self._detect_convention()

    def _warn_of_open_ports(self) -> None:
        """Warn about ports on all network interfaces: no version has an option for the address that it binds."""
        warning = network_warning(self.title, udp=(STATE_PORT, RADIO_PORT), tcp=(CLI_PORT,))
        if warning and is_loopback(self._autopilot.host):
            self._once_log.log("warning", warning)

    def _detect_convention(self) -> None:
        """Select the convention of the running version, unless the scenario chooses one."""
        if not self._autopilot.convention and (version := firmware_version(self._autopilot.host)) is not None:
            self._set_convention(OLDEST_CONVENTION if version <= LAST_OLDEST_VERSION else NEWEST_CONVENTION)

    def _wait_for_boot(self, process: Process | None) -> float:
        """Wait until Betaflight has booted, that is until its CLI is open; return that time."""
        if process is not None:
            with suppress(OSError):
                _open_cli(self._autopilot.host, time.monotonic() + BOOT_TIMEOUT, process).close()
            time.sleep(BOOT_DELAY)
        return time.monotonic()

    def _send(self, readings: Readings) -> None:
        due = self._send_time + self._period
        while (remaining := due - time.perf_counter()) > 0.0:
            if remaining > SPIN_WAIT:
                time.sleep(remaining - SPIN_WAIT)
        start_time = time.perf_counter()
        self.worst_lateness = max(self.worst_lateness, start_time - due if self._send_time else 0.0)
        # a late packet shifts the later ones: two packets close together would make Betaflight's clock run ahead
        self._send_time = due if start_time - due < MAX_CATCH_UP_FRACTION * self._period else start_time
        if readings.pressure is not None:
            self._pressure = readings.pressure
        # Betaflight derives its clock from the time stamps: they advance evenly, also while the link waits for it
        self._packets += 1
        time_s = self._packets * self._period
        state = state_packet(readings._replace(pressure=self._pressure), time_s, self.convention)
        radio = RADIO.pack(time_s, *self.sticks.channels(readings, any(self._outputs)))
        while self._receive_motors(0.0):
            self.late += 1
        self.compute_seconds += time.perf_counter() - start_time
        try:
            self._out.sendto(radio, (self._autopilot.host, RADIO_PORT))
            self._out.sendto(state, (self._autopilot.host, STATE_PORT))
        except OSError:
            return  # temporarily unreachable; `_check_silence` detects a long silence
        self.sent += 1

    def _receive_motors(self, seconds: float) -> bool:
        """Receive; return whether a packet of motor outputs arrived within `seconds`."""
        ready = select.select([self._motors, self._raw], [], [], seconds)[0]
        if self._raw in ready:
            _receive_packet(self._raw)  # the same outputs in µs, for airframes with more than four motors; not used
            if self._motors not in ready:
                return self._receive_motors(seconds) if seconds else False
        if self._motors not in ready:
            return False
        packet, source = _receive_packet(self._motors)
        values = parse_motors(packet)
        if values is None:
            self._once_log.log("warning", f"a packet on UDP {MOTORS_PORT} is not a motor output; it was skipped")
            return False
        if self._is_connected and source != self._source:
            message = f"a second autopilot also sends motor outputs on UDP {MOTORS_PORT}; they are ignored"
            self._once_log.log("warning", message)
            return False
        self._source = source
        self._answer_time = time.monotonic()
        self.answered += 1
        self._outputs = outputs_by_rotor([min(max(u, 0.0), 1.0) for u in values], self.order)
        return True

    def _check_silence(self, time_us: int) -> None:
        exit_report = self.watch.process.exit_report if self.watch.process is not None else ""
        if not exit_report and time.monotonic() - self._answer_time < self._autopilot.patience:
            return
        motors_running = any(self._outputs)
        self._outputs, self._is_connected = [0.0] * MOTOR_COUNT, False
        reason = exit_report or f"{self.title} has not answered for {self._autopilot.patience:g} s"
        self.watch.handle_loss(f"{reason} at {time_us / 1e6:.3f} s", motors_running)


def _receive_packet(sock: socket.socket) -> tuple[bytes, Address | None]:
    try:
        return sock.recvfrom(4096)
    except OSError:
        return b"", None


def accepts_ip_option(binary: Path) -> bool:
    """Whether the program expects its simulator's address as `--ip`, as versions after 2025.12 do; searches the binary."""
    with open(binary, "rb") as program:
        return b"--ip" in program.read(MAX_BINARY_BYTES)


def firmware_version(host: str) -> tuple[int, int] | None:
    """Ask the running Betaflight for its version by MSP: (4, 6) or (year − 2000, month); None if it does not answer."""
    answer = b""
    try:
        with socket.create_connection((host, CLI_PORT), timeout=1.0) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(b"$M<\x00\x03\x03")  # MSP_FC_VERSION: size 0, command 3, checksum
            while len(answer) < 8 and (data := connection.recv(64)):
                answer += data
    except OSError:
        return None
    return (answer[5], answer[6]) if answer[:5] == b"$M>\x03\x03" and len(answer) >= 8 else None


def _open_cli(host: str, deadline: float, process: Process) -> socket.socket:
    while True:
        try:
            cli = socket.create_connection((host, CLI_PORT), timeout=2.0)
            # close with a reset: a port in TIME_WAIT would be unavailable to the next Betaflight for a minute
            cli.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return cli
        except OSError:
            if time.monotonic() > deadline or process.exit_report:
                raise
            time.sleep(0.1)


def parameter_lines(autopilot: Autopilot, *, by_hand: bool, log_message: LogMessage) -> list[str]:
    """Return the CLI lines of `autopilot.parameters`; the automatic pilot needs its own stick curves (`SETTINGS`)."""
    names = [name for name, _ in autopilot.parameters]
    ignored = [] if by_hand else [name for name in names if is_stick_setting(name)]
    if ignored:
        log_message("info", f"the automatic pilot has its own rates; with --sticks these apply: {', '.join(ignored)}")
    values = {name: value if isinstance(value, str) else f"{value:.9g}" for name, value in autopilot.parameters}
    return [f"set {name} = {value}" for name, value in values.items() if name not in ignored]


def set_parameter(cli: socket.socket, line: str) -> None:
    """Set one parameter through the CLI; raise ValueError with the nearest names or Betaflight's answer if it is refused."""
    answer = _cli_exchange(cli, line.encode() + b"\n").decode(errors="replace")
    if "ERROR" not in answer and "nvalid" not in answer:
        return
    name, _, value = line.removeprefix("set ").partition(" = ")
    names = re.findall(
        r"^(\w+) = ", _cli_exchange(cli, b"set\n").decode(errors="replace").replace("\r", ""), re.MULTILINE
    )
    if name in names:
        reason = " ".join(answer.removesuffix(PROMPT.decode()).partition("ERROR")[2].split())
        raise ValueError(f"autopilot.parameters.{name} = {value}: Betaflight refuses it ({reason:.120})")
    nearest = get_close_matches(name, names, 3)
    expected = f"; expected {' or '.join(nearest)}" if nearest else ""
    raise ValueError(f"autopilot.parameters has {name!r}, which this Betaflight does not know{expected}")


def _cli_exchange(cli: socket.socket, text: bytes) -> bytes:
    """Send text to its CLI; return the output up to the next prompt."""
    output = b""
    cli.settimeout(5.0)
    cli.sendall(text)
    try:
        while len(output) < 1 << 16 and not output.endswith(PROMPT):
            data = cli.recv(4096)
            if not data:
                break
            output += data
    except (TimeoutError, ConnectionResetError):
        return output
    return output
