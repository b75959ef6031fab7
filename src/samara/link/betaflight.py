"""Betaflight over UDP, by the clock: a packet of state and one of radio channels out, four motors in.

Betaflight's simulator runs free: between packets its clock goes on at the last ratio of simulated to real time. So packets are
sent evenly in real time, however fast the plant could be. It knows no place and takes no orders: a pilot's sticks fly it.
"""

import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import Quat, Vec3
from samara.link.link import Link, LinkContext, Repeated, Say, Watch, counted
from samara.link.motor_outputs import outputs_by_rotor, rotor_of_output
from samara.link.ports import Address, bound, network_warning, require_free
from samara.link.process import Process, Start, default_binary, require_binary
from samara.link.sensor_snapshot import Readings, outside
from samara.link.stick_controller import AutomaticPilot, RadioSticks, StickController
from samara.physics.frames import frd_from_flu
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot, is_loopback
from samara.scenario.autopilot_types import BETAFLIGHT
from samara.scenario.events import Order

RAW_PORT, MOTORS_PORT, STATE_PORT, RADIO_PORT, CLI_PORT = 9001, 9002, 9003, 9004, 5761
MOTORS = struct.Struct("<4f")
STATE, RADIO = struct.Struct("<18d"), struct.Struct("<d16H")
MOTOR_COUNT = 4
RAD_TO_DEG = 57.29577951308232
MISSED_AFTER = 0.25  # [s], by the clock
FIRST_ANSWERS, STUCK_AFTER = 50, 4.0  # before it is flown; [s]
ARMING_US, ARMING_LINES = 10_000_000, 50
MOST_OF_A_PROGRAM = 1 << 26  # bytes
BOOT_WAIT, BOOT_REST = 10.0, 0.6  # [s]
EVEN = 0.1  # of a period: less than this is made up for
SPIN = 2e-4  # [s]: a shorter wait is not handed to the system
SETTINGS = (
    "aux 0 0 0 1700 2100 0 0",  # arm on AUX1
    "aux 1 1 1 1700 2100 0 0",  # angle mode on AUX2
    "set small_angle = 180",
    "set gyro_calib_noise_limit = 0",
    "set runaway_takeoff_prevention = OFF",
    "feature -GPS",
    # sticks that are linear: 60° and 200 °/s at their ends
    "set rates_type = ACTUAL",
    *(
        f"set {axis}_{name} = {value}"
        for axis, rate in (("roll", 67), ("pitch", 67), ("yaw", 20))
        for name, value in (("rc_rate", rate), ("srate", rate), ("expo", 0))
    ),
    "set angle_limit = 60",
)
OTHER_FLIGHT = "is another flight there? End it first: Betaflight's ports are fixed"
RUNNING = "Betaflight is already running; end it, or fly with --connect: its ports are fixed"
PROMPT = b"\n# "
HALF_TURN_X = Quat(0.0, 1.0, 0.0, 0.0)


class Convention(NamedTuple):
    """What differs between versions: the name of the motors' order, and the signs of gyro (FRD) and accelerometer."""

    system: str
    gyro: Vec3
    accelerometer: Vec3
    quaternion_flu: bool


CONVENTIONS = {
    "4.6": Convention("ardupilot", Vec3(1.0, 1.0, 1.0), Vec3(-1.0, 1.0, 1.0), False),
    "2026.12": Convention("betaflight", Vec3(1.0, 1.0, -1.0), Vec3(-1.0, 1.0, 1.0), True),
}
"""4.6 and 2025.12 send FR, RL, FL, RR, as ArduPilot counts; 2026.12 sends RR, FR, RL, FL."""
OLDEST, NEWEST = CONVENTIONS
LAST_OF_OLDEST = (25, 12)  # year and month; before them 4.6 and less


def parse_motors(packet: bytes) -> tuple[float, ...] | None:
    """Four outputs within 0 … 1; None for anything else"""
    if len(packet) != MOTORS.size:
        return None
    values = MOTORS.unpack(packet)
    return values if all(-1e-6 <= u <= 1.0 + 1e-6 for u in values) else None  # NaN is not within


def state_packet(readings: Readings, time_s: float, convention: Convention) -> bytes:
    """t, gyro [rad/s], accelerometer [m/s²], quaternion, velocity ENU, longitude, latitude [°], altitude [m], pressure [Pa]"""
    own, place = outside(readings.state, readings.origin)
    gyro, force = frd_from_flu(readings.omega_B), frd_from_flu(readings.specific_force_B)
    q = HALF_TURN_X * readings.state.q_WB * HALF_TURN_X if convention.quaternion_flu else own.q_WB
    return STATE.pack(
        time_s,
        *(s * x for s, x in zip(convention.gyro, gyro, strict=True)),
        *(s * x for s, x in zip(convention.accelerometer, force, strict=True)),
        *q,
        *readings.state.v_W,
        place.longitude * RAD_TO_DEG,
        place.latitude * RAD_TO_DEG,
        place.altitude,
        readings.pressure if readings.pressure is not None else 0.0,
    )


def open_link(context: LinkContext) -> Link:
    """Open the link to one Betaflight."""
    return Betaflight(context.autopilot, context.vehicle, context.say, context.controller)


class Betaflight:
    """The link to the one Betaflight there can be: its ports are fixed."""

    title = BETAFLIGHT.title

    def __init__(self, autopilot: Autopilot, vehicle: Vehicle, say: Say, controller: object = None) -> None:
        """A `StickController` as the drone's controller hands the radio to a person; else an automatic pilot flies."""
        if autopilot.instance:
            raise ValueError("Betaflight's ports are fixed: only one can fly at a time; expected instance 0")
        self._autopilot, self._say, self._vehicle = autopilot, say, vehicle
        if len(vehicle.rotors) != MOTOR_COUNT:
            raise ValueError(
                f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; Betaflight's simulator has 4 motors"
            )
        person = controller if isinstance(controller, StickController) else None
        self.sticks: AutomaticPilot | RadioSticks
        self.sticks = (
            AutomaticPilot(vehicle, autopilot.hover) if person is None else person.radio(vehicle, autopilot.hover)
        )
        binary = require_binary(autopilot.binary, "Betaflight's SITL") if autopilot.binary else None
        newest = binary is not None and takes_options(binary)
        self._speak(autopilot.convention or (NEWEST if newest else OLDEST))
        self._period = 1.0 / autopilot.sensor_rate
        host = autopilot.host
        if autopilot.binary:
            require_free(host, RUNNING, udp=(STATE_PORT, RADIO_PORT), tcp=(CLI_PORT,))
        self._motors = bound(host, MOTORS_PORT, OTHER_FLIGHT)
        try:
            self._raw = bound(host, RAW_PORT, OTHER_FLIGHT)
        except ValueError:
            self._motors.close()
            raise
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        process = Process([str(binary), *(["--ip"] if newest else []), host]) if binary is not None else None
        start = Start(
            default_binary(BETAFLIGHT) or "betaflight_SITL.elf",
            (f'if grep -q -e --ip "$program"; then exec "$program" --ip {host}; fi', f'exec "$program" {host}'),
            files={"settings.txt": "\n".join((*SETTINGS, "save", ""))},
            remark=f"the first time, paste settings.txt beside it into its CLI on TCP {CLI_PORT}",
        )
        self.watch = Watch(autopilot, self.title, process, start, say)
        if process is not None:
            self._configure(process)
        self._outputs, self._pressure = [0.0] * MOTOR_COUNT, 101325.0
        self._sent_at, self._packets = 0.0, 0
        self._heard_at = time.monotonic()
        self._known = self._settled = False
        self._source: Address | None = None  # whom the motors' outputs come from
        self._once, self._asked_us = Repeated(say), -1
        self.sent = self.answered = self.missed = self.late = 0
        self.own_seconds = self.waited_seconds = self.worst_lateness = 0.0

    def _speak(self, convention: str) -> None:
        """Signs and order of motors from now on"""
        self.convention = CONVENTIONS[convention]
        self.order = rotor_of_output(self._vehicle, self.convention.system)

    def _configure(self, process: Process) -> None:
        """Its settings, through its command line; it ends when it has saved them, and is started again"""
        deadline = time.monotonic() + 20.0
        try:
            with _cli(self._autopilot.host, deadline, process) as cli:
                _ask(cli, b"#")  # nothing may follow it
                for line in (*SETTINGS, "save"):
                    _ask(cli, line.encode() + b"\n")
        except OSError as error:
            words = process.ended_soon() or f"its last words: {' / '.join(process.last_words())}"
            process.close()
            self.close_sockets()
            raise ValueError(
                f"Betaflight's command line on TCP {CLI_PORT} cannot be used ({error.strerror or error}); {words}"
            ) from None
        while not process.ended and time.monotonic() < deadline:
            time.sleep(0.05)
        process.start()

    # The interface ---------------------------------------------------------------------------------------------------

    def begin(self, readings: Readings) -> None:
        """Do nothing: the whole exchange is in `exchange`."""

    def exchange(self, readings: Readings) -> Sequence[float]:
        """State and sticks out, when the clock says so; four motors in"""
        if not self._known:
            self._meet(readings)
        self._send(readings)
        sent = time.perf_counter()
        if not self._heard(MISSED_AFTER):
            self.missed += 1
            self._silent(readings.time_us)
        self.waited_seconds += time.perf_counter() - sent
        self._watch_arming(readings.time_us)
        return self._outputs

    def obey(self, order: Order) -> None:
        """By the switches: to arm and disarm; where to fly the sticks know from the reference"""
        if order.kind in ("arm", "take_off"):
            self.sticks.armed = True
        elif order.kind == "disarm":
            self.sticks.armed = False

    def ending(self) -> Iterator[tuple[str, str]]:
        """How often it answered, whether it armed, and what was said more than once"""
        yield counted(self, self.missed)
        if self._asked_us >= 0 and not self._settled:
            yield "warning", f"{self.title} was asked to arm and never did{self._why_not()}"
        yield from self._once.totals()

    def close(self) -> None:
        """Ends it all"""
        self.close_sockets()
        self.watch.close()

    def close_sockets(self) -> None:
        """The ports are free again"""
        for own in (self._motors, self._raw, self._out):
            own.close()

    # Arming ----------------------------------------------------------------------------------------------------------

    def _watch_arming(self, time_us: int) -> None:
        """Says so when it does not arm: its motors do not turn, however long the switch is up"""
        if not self.sticks.armed or self._settled:
            return
        if self._asked_us < 0:
            self._asked_us = time_us
        late = time_us - self._asked_us >= ARMING_US and not any(self._outputs)
        if late:
            words = f"{self.title} has not armed {ARMING_US / 1e6:g} s after it was asked to{self._why_not()}"
            self._say("warning", words)
        self._settled = late or any(self._outputs)

    def _why_not(self) -> str:
        """What it says itself, as versions from 2026 on do"""
        said = self.watch.process.last_words(ARMING_LINES) if self.watch.process is not None else []
        why = [line.partition("Arming disabled:")[2].strip() for line in said if "Arming disabled:" in line]
        return f"; it says: arming disabled by {why[-1]}" if why else ""

    # The wire --------------------------------------------------------------------------------------------------------

    def _meet(self, readings: Readings) -> None:
        """Packets of a drone that stands still, evenly, until it has answered some

        One that was started here is given time to boot first: a packet in its first half second stops its clock. Where it is
        silent all the same it is started again.
        """
        process = self.watch.process
        since, before = self._booted(process), self.answered
        if process is not None:  # before its packets, which come evenly from now on
            self._ask_version()

        def arrived(seconds: float) -> bool:
            nonlocal since
            until = time.monotonic() + seconds
            while time.monotonic() < until and self.answered - before < FIRST_ANSWERS:
                self._send(readings)
                self._heard(self._period)
            there = self.answered - before >= FIRST_ANSWERS
            if not there and process is not None and time.monotonic() - since > STUCK_AFTER:
                process.start()
                since = self._booted(process)
            return there

        self.watch.until(arrived, f"on UDP {self._autopilot.host}:{MOTORS_PORT}")
        self._known = True
        self._warn_of_open_ports()
        if process is None:
            self._ask_version()

    def _warn_of_open_ports(self) -> None:
        """No version has an option for the address that it binds"""
        words = network_warning(self.title, udp=(STATE_PORT, RADIO_PORT), tcp=(CLI_PORT,))
        if words and is_loopback(self._autopilot.host):
            self._once.say("warning", words)

    def _ask_version(self) -> None:
        """Speaks as its version does, where nobody has said how"""
        if not self._autopilot.convention and (version := firmware_version(self._autopilot.host)) is not None:
            self._speak(OLDEST if version <= LAST_OF_OLDEST else NEWEST)

    def _booted(self, process: Process | None) -> float:
        """When it had booted: its command line is open"""
        if process is not None:
            with suppress(OSError):
                _cli(self._autopilot.host, time.monotonic() + BOOT_WAIT, process).close()
            time.sleep(BOOT_REST)
        return time.monotonic()

    def _send(self, readings: Readings) -> None:
        due = self._sent_at + self._period
        while (left := due - time.perf_counter()) > 0.0:
            if left > SPIN:
                time.sleep(left - SPIN)
        begun = time.perf_counter()
        self.worst_lateness = max(self.worst_lateness, begun - due if self._sent_at else 0.0)
        # one that comes late moves all that follow: two close together would make its clock run ahead
        self._sent_at = due if begun - due < EVEN * self._period else begun
        if readings.pressure is not None:
            self._pressure = readings.pressure
        # its clock is the ratio of two packets: their times go on evenly, also while it is waited for
        self._packets += 1
        time_s = self._packets * self._period
        state = state_packet(readings._replace(pressure=self._pressure), time_s, self.convention)
        radio = RADIO.pack(time_s, *self.sticks.channels(readings, any(self._outputs)))
        while self._heard(0.0):
            self.late += 1
        self.own_seconds += time.perf_counter() - begun
        try:
            self._out.sendto(radio, (self._autopilot.host, RADIO_PORT))
            self._out.sendto(state, (self._autopilot.host, STATE_PORT))
        except OSError:
            return  # nobody is there just now; the silence will tell
        self.sent += 1

    def _heard(self, seconds: float) -> bool:
        """Whether a packet of motors came so soon"""
        ready = select.select([self._motors, self._raw], [], [], seconds)[0]
        if self._raw in ready:
            _received(self._raw)  # the same in µs, for airframes with more than four
            if self._motors not in ready:
                return self._heard(seconds) if seconds else False
        if self._motors not in ready:
            return False
        packet, source = _received(self._motors)
        values = parse_motors(packet)
        if values is None:
            self._once.say("warning", f"a packet on UDP {MOTORS_PORT} is no motor output; it was skipped")
            return False
        if self._known and source != self._source:
            words = f"motor outputs on UDP {MOTORS_PORT} come from a second autopilot too; it is not listened to"
            self._once.say("warning", words)
            return False
        self._source = source
        self._heard_at = time.monotonic()
        self.answered += 1
        self._outputs = outputs_by_rotor([min(max(u, 0.0), 1.0) for u in values], self.order)
        return True

    def _silent(self, time_us: int) -> None:
        ended = self.watch.process.ended if self.watch.process is not None else ""
        if not ended and time.monotonic() - self._heard_at < self._autopilot.patience:
            return
        turned = any(self._outputs)
        self._outputs, self._known = [0.0] * MOTOR_COUNT, False
        what = ended or f"{self.title} has not answered for {self._autopilot.patience:g} s"
        self.watch.lost(f"{what} at {time_us / 1e6:.3f} s", turned)


def _received(own: socket.socket) -> tuple[bytes, Address | None]:
    try:
        return own.recvfrom(4096)
    except OSError:
        return b"", None


def takes_options(binary: Path) -> bool:
    """Whether it wants its simulator's address as `--ip`, as versions after 2025.12 do: the word is in the program"""
    with open(binary, "rb") as program:
        return b"--ip" in program.read(MOST_OF_A_PROGRAM)


def firmware_version(host: str) -> tuple[int, int] | None:
    """(4, 6) or (year − 2000, month) of the one that runs, by MSP; None where it does not say"""
    heard = b""
    try:
        with socket.create_connection((host, CLI_PORT), timeout=1.0) as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.sendall(b"$M<\x00\x03\x03")  # MSP_FC_VERSION: no data, number 3, checksum
            while len(heard) < 8 and (data := wire.recv(64)):
                heard += data
    except OSError:
        return None
    return (heard[5], heard[6]) if heard[:5] == b"$M>\x03\x03" and len(heard) >= 8 else None


def _cli(host: str, deadline: float, process: Process) -> socket.socket:
    while True:
        try:
            cli = socket.create_connection((host, CLI_PORT), timeout=2.0)
            # closed with a reset: a port that lingers on its side would be closed to the next Betaflight for a minute
            cli.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return cli
        except OSError:
            if time.monotonic() > deadline or process.ended:
                raise
            time.sleep(0.1)


def _ask(cli: socket.socket, words: bytes) -> bytes:
    """Says something to its command line, and hears what it says up to its next prompt"""
    heard = b""
    cli.settimeout(5.0)
    cli.sendall(words)
    try:
        while len(heard) < 1 << 16 and not heard.endswith(PROMPT):
            data = cli.recv(4096)
            if not data:
                break
            heard += data
    except (TimeoutError, ConnectionResetError):
        return heard
    return heard
