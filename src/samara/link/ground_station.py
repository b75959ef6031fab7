"""A ground station over MAVLink: requests arm, take-off, go-to and land, and repeats a request until the autopilot executes it.

It connects separately from the simulator, as any ground station does: to PX4 on the port for onboard computers, which leaves
14550 free for another ground station, and to ArduPilot on its first serial port.
"""

import math
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from samara.core.algebra import Vec3, norm
from samara.core.sanitise import escape_control_characters
from samara.link.link import LogMessage, OnceLog
from samara.link.mavlink import FrameEncoder, FrameParser, MavlinkFrame, dialect, layout
from samara.link.ports import Address, bind_socket, network_warning
from samara.link.sensor_snapshot import PowerModuleReading
from samara.physics.frames import Geodetic, enu_from_geodetic, geodetic_from_enu, ned_from_enu, yaw_ned_from_enu
from samara.physics.types import Reference
from samara.scenario.autopilot import is_loopback
from samara.scenario.events import Order

SYSTEM, COMPONENT = 245, 190  # a system id that other ground stations do not use, and MAV_COMP_ID_MISSIONPLANNER
HEARTBEAT_PERIOD_US = 1_000_000  # period of the heartbeat, in simulated time
REQUEST_PERIOD_US = 1_000_000  # period at which a request is repeated
POLL_PERIOD_US = 20_000  # period at which messages are received
ARMED = 128  # MAV_MODE_FLAG_SAFETY_ARMED
CUSTOM = 1  # MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
ARRIVAL_RADIUS = 1.0  # [m]: distance at which a position counts as reached
RECEIVED_MESSAGES = ("HEARTBEAT", "COMMAND_ACK", "STATUSTEXT", "GPS_GLOBAL_ORIGIN")
LOCAL_NED = 1  # MAV_FRAME
BATTERY = 180  # MAV_COMP_ID_BATTERY
MAX_CELLS, NO_CELL, NO_TEMPERATURE = 10, 65535, 32767
AUTOPILOT = 1  # MAV_COMP_ID_AUTOPILOT1
GLOBAL, GLOBAL_RELATIVE = 0, 3  # MAV_FRAME
ARM, SET_MODE, TAKE_OFF, LAND, REPOSITION = 400, 176, 22, 21, 192  # MAV_CMD
ACCEPTED, IN_PROGRESS = 0, 5  # MAV_RESULT
WARNING = 4  # MAV_SEVERITY; lower is more severe
MAX_STATUS_TEXTS, MAX_STATUS_TEXT_LENGTH = 200, 1000  # stored status texts, and characters in one


class AutopilotModes(NamedTuple):
    """The flight modes of an autopilot, and how it expects orders."""

    guided: tuple[int, int, int]
    land: tuple[int, int, int]
    take_off: tuple[int, int, int]
    custom_mode: Callable[[tuple[int, int, int]], int]
    take_off_by_parameter: bool
    altitude_frame: int
    modes: Mapping[str, tuple[int, int, int]] = {}  # modes that follow a reference, by name


PX4 = AutopilotModes(
    (1, 4, 3),
    (1, 4, 6),
    (1, 4, 2),
    lambda mode: mode[1] << 16 | mode[2] << 24,
    True,
    GLOBAL,
    {"offboard": (1, 6, 0), "raptor": (1, 4, 11)},
)
"""(base, main, sub) of PX4's custom modes: AUTO with LOITER, LAND, TAKEOFF; OFFBOARD, and AUTO with EXTERNAL1, the first mode
that a module registers. Altitudes above mean sea level."""
ARDUCOPTER = AutopilotModes((1, 4, 0), (1, 9, 0), (1, 4, 0), lambda mode: mode[1], False, GLOBAL_RELATIVE)
"""GUIDED is 4 and LAND 9; altitudes above home."""


class GroundStationConnection:
    """A non-blocking UDP port or TCP connection."""

    def __init__(self, host: str, port: int, *, stream: bool) -> None:
        self.host, self._address, self._stream = host, (host, port), stream
        self._peer: Address | None = None
        self.foreign_packets = 0  # packets from other senders
        self._socket: socket.socket | None = None
        if not stream:
            self._socket = bind_socket(host, port, "is another flight or MAVSDK there? End it first")
            self._socket.setblocking(False)

    def connect(self) -> bool:
        """Connect if necessary; return whether the socket is open."""
        if not self._stream or self._socket is not None:
            return self._socket is not None
        try:
            self._socket = socket.create_connection(self._address, timeout=0.05)
            self._socket.setblocking(False)
        except OSError:
            return False
        return True

    def receive(self) -> Iterator[tuple[bytes, Address]]:
        """Yield the received data and their sender: any sender until a peer is set."""
        received_bytes = 0
        while self.connect() and self._socket is not None and received_bytes < 1 << 16:
            try:
                data, peer = self._socket.recvfrom(1 << 14)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data, peer = b"", None
            if not data and self._stream:
                self._drop()
            if not data:
                return
            received_bytes += len(data)
            if self._stream or self._peer in (None, peer):
                yield data, peer
            else:
                self.foreign_packets += 1

    @property
    def has_peer(self) -> bool:
        """Whether the peer is known."""
        return self._stream or self._peer is not None

    def set_peer(self, peer: Address | None) -> None:
        """Exchange data with this peer only; None accepts the next sender."""
        self._peer = peer

    def send(self, data: bytes) -> None:
        """Send to the peer; do nothing if it is not known."""
        if self._socket is None or not self.has_peer:
            return
        try:
            if self._stream:
                self._socket.send(data)
            elif self._peer is not None:
                self._socket.sendto(data, self._peer)
        except OSError:
            return

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def close(self) -> None:
        self._drop()


class GroundStation:
    """Executes orders one after the other; repeats each request every second until the autopilot has executed it."""

    def __init__(
        self,
        wire: GroundStationConnection,
        modes: AutopilotModes,
        title: str,
        say: LogMessage,
        *,
        udp: Sequence[int] = (),
        tcp: Sequence[int] = (),
    ) -> None:
        """Create a ground station; a warning names those of the autopilot's ports `udp` and `tcp` that the network reaches."""
        self._ports = {"udp": udp, "tcp": tcp}
        self._wire, self._modes, self._title, self._log_message = wire, modes, title, say
        self._encoder = FrameEncoder(SYSTEM, COMPONENT)
        self._battery_encoder: FrameEncoder | None = None
        self._parser = FrameParser(*RECEIVED_MESSAGES)
        self._ids = {name: layout(name).id for name in RECEIVED_MESSAGES}
        self._orders: deque[Order] = deque()
        self._accepted: set[int] = set()
        self._once_log = OnceLog(say, MAX_STATUS_TEXTS)
        self.status_texts: deque[str] = deque(maxlen=MAX_STATUS_TEXTS)
        self.reset()

    def reset(self) -> None:
        """Forget the state of the autopilot after a restart."""
        self.armed, self.mode, self.target, self._line = False, -1, 1, ""
        self._local_origin: Geodetic | None = None  # of the autopilot's local frame, once received
        self._local_origin_W: Vec3 | None = None
        self._wire.set_peer(None)
        self._heartbeat_us = self._request_us = self._poll_us = -REQUEST_PERIOD_US

    def queue_order(self, order: Order) -> None:
        """Append an order; an order to land or to disarm replaces all waiting orders."""
        if order.kind in ("land", "disarm"):
            self._orders.clear()
        self._orders.append(order)
        self._request_us = -REQUEST_PERIOD_US
        self._accepted.clear()

    @property
    def pending_orders(self) -> int:
        """Count of pending orders."""
        return len(self._orders)

    def poll(self, time_us: int, origin: Geodetic, p_W: Vec3) -> None:
        """Receive messages and repeat the pending request, at most every 20 ms; `p_W` is the position of the drone."""
        if 0 <= time_us - self._poll_us < POLL_PERIOD_US:
            return
        self._poll_us = time_us
        for data, peer in self._wire.receive():
            for frame in self._parser.parse(data):
                self._handle_frame(frame, peer)
        if time_us - self._heartbeat_us >= HEARTBEAT_PERIOD_US:
            self._heartbeat_us = time_us
            self._wire.send(self._encoder.frame("HEARTBEAT", 0, 6, 8, 0, 4, 3))
        while self._orders and self._is_done(self._orders[0], p_W):
            self._log_message("info", f"{self._title} executes: {_describe_order(self._orders.popleft())}")
            self._accepted.clear()
            self._request_us = -REQUEST_PERIOD_US
        if self._orders and time_us - self._request_us >= REQUEST_PERIOD_US:
            self._request_us = time_us
            self._request(self._orders[0], origin)

    def send_setpoint(self, reference: Reference, origin: Geodetic) -> None:
        """Send SET_POSITION_TARGET_LOCAL_NED: position, velocity, acceleration and yaw relative to the autopilot's origin."""
        if self._local_origin is None:
            return
        if self._local_origin_W is None:
            self._local_origin_W = enu_from_geodetic(self._local_origin, origin)
        self._wire.send(
            self._encoder.frame(
                "SET_POSITION_TARGET_LOCAL_NED",
                0,
                *ned_from_enu(reference.p_W - self._local_origin_W),
                *ned_from_enu(reference.v_W),
                *ned_from_enu(reference.a_W),
                yaw_ned_from_enu(reference.yaw),
                -reference.yaw_rate,
                0,  # type mask: use all fields
                self.target,
                AUTOPILOT,
                LOCAL_NED,
            )
        )

    def send_battery_status(self, supply: PowerModuleReading) -> None:
        """Send BATTERY_STATUS as a battery component of the autopilot's system; PX4 ignores it from other systems."""
        if self.mode < 0:
            return  # no heartbeat received
        if self._battery_encoder is None or self._battery_encoder.system != self.target:
            self._battery_encoder = FrameEncoder(self.target, BATTERY)
        self._wire.send(self._battery_encoder.frame("BATTERY_STATUS", *battery_fields(supply)))

    def _handle_frame(self, frame: MavlinkFrame, peer: Address) -> None:
        if frame.id == self._ids["HEARTBEAT"] and frame.component == AUTOPILOT:
            if (
                self.mode < 0
                and is_loopback(self._wire.host)
                and (message := network_warning(self._title, **self._ports))
            ):
                self._once_log.log("warning", message)
            self._wire.set_peer(peer)
            self.target = frame.system
            self.mode, self.armed = int(frame.fields[0]), bool(frame.fields[3] & ARMED)
        elif not self._wire.has_peer:
            return  # the sender is unknown before its first heartbeat
        elif frame.id == self._ids["COMMAND_ACK"]:
            command, result = int(frame.fields[0]), int(frame.fields[1])
            if result in (ACCEPTED, IN_PROGRESS):
                self._accepted.add(command)
            else:
                names = dialect().enums["MAV_RESULT"]
                reason = names[result].name.removeprefix("MAV_RESULT_").lower() if result in names else str(result)
                self._once_log.log("info", f"{self._title} rejects command {command}: {reason.replace('_', ' ')}")
        elif frame.id == self._ids["GPS_GLOBAL_ORIGIN"]:
            self._handle_origin(*(float(x) for x in frame.fields[:3]))
        elif frame.id == self._ids["STATUSTEXT"]:
            self._handle_status_text(frame)

    def _handle_origin(self, latitude: float, longitude: float, altitude: float) -> None:
        """Store the autopilot's origin, given in 1e-7 degrees and mm: a resolution of 1 cm."""
        origin = Geodetic(math.radians(1e-7 * latitude), math.radians(1e-7 * longitude), 1e-3 * altitude)
        if origin != self._local_origin:
            self._local_origin, self._local_origin_W = origin, None

    def _handle_status_text(self, frame: MavlinkFrame) -> None:
        """Assemble a status text from chunks of 50 characters: a full chunk with a non-zero id is continued."""
        severity, chunk, chunk_id = int(frame.fields[0]), bytes(frame.fields[1]), int(frame.fields[2])
        self._line = (self._line if chunk_id else "") + chunk.split(b"\0")[0].decode(errors="replace")
        if chunk_id and b"\0" not in chunk and len(self._line) < MAX_STATUS_TEXT_LENGTH:
            return
        text, self._line = " ".join(escape_control_characters(self._line).split()), ""
        if text:
            self.status_texts.append(text)
            if severity <= WARNING:
                self._once_log.log("info", f"{self._title} reports: {text}")

    def _is_done(self, order: Order, p_W: Vec3) -> bool:
        if order.kind == "arm":
            return self.armed
        if order.kind == "disarm":
            return not self.armed and self.mode >= 0
        if order.kind == "land":
            return self.mode == self._modes.custom_mode(self._modes.land)
        if order.kind in self._modes.modes:
            return self.mode == self._modes.custom_mode(self._modes.modes[order.kind])
        if order.kind == "take_off":
            next_order = self._orders[1].kind if len(self._orders) > 1 else ""
            has_climbed = next_order != "reach" or p_W.z > order.p_W.z - ARRIVAL_RADIUS
            if next_order in self._modes.modes:  # it holds its position after the take-off
                has_climbed = self.mode == self._modes.custom_mode(self._modes.guided)
            return self.armed and has_climbed and (TAKE_OFF in self._accepted or self._modes.take_off_by_parameter)
        if order.kind == "reach" and norm(p_W - order.p_W) > ARRIVAL_RADIUS:
            return False
        return REPOSITION in self._accepted

    def _request(self, order: Order, origin: Geodetic) -> None:
        if self.mode < 0:
            return  # no heartbeat received
        modes = self._modes
        if order.kind in ("arm", "disarm"):
            self._command(ARM, float(order.kind == "arm"))
        elif order.kind == "land":
            self._set_mode(modes.land)
        elif order.kind in modes.modes:
            self._set_mode(modes.modes[order.kind])
        elif order.kind == "take_off" and TAKE_OFF not in self._accepted:
            if modes.take_off_by_parameter and not self.armed:
                self._wire.send(
                    self._encoder.frame("PARAM_SET", order.p_W.z, self.target, AUTOPILOT, b"MIS_TAKEOFF_ALT", 9)
                )
            if self.mode != modes.custom_mode(modes.take_off) and not self.armed:
                self._set_mode(modes.take_off)
            if not self.armed:
                self._command(ARM, 1.0)
            elif not modes.take_off_by_parameter:
                self._command(TAKE_OFF, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, order.p_W.z)
        elif order.kind in ("go_to", "reach") and REPOSITION not in self._accepted:
            if not modes.take_off_by_parameter and self.mode != modes.custom_mode(modes.guided):
                self._set_mode(modes.guided)
            self._request_reposition(order.p_W, order.speed, origin)

    def _command(self, command: int, *parameters: float) -> None:
        padded = (*parameters, *(0.0,) * (7 - len(parameters)))
        self._wire.send(self._encoder.frame("COMMAND_LONG", *padded, command, self.target, AUTOPILOT, 0))

    def _set_mode(self, mode: tuple[int, int, int]) -> None:
        self._command(SET_MODE, float(CUSTOM), *(float(x) for x in mode[1:]))

    def _request_reposition(self, p_W: Vec3, speed: float, origin: Geodetic) -> None:
        position = geodetic_from_enu(p_W, origin)
        altitude = position.altitude if self._modes.altitude_frame == GLOBAL else p_W.z
        self._wire.send(
            self._encoder.frame(
                "COMMAND_INT",
                speed or -1.0,
                1.0,  # MAV_DO_REPOSITION_FLAGS_CHANGE_MODE
                0.0,
                math.nan,  # no change of yaw
                round(math.degrees(position.latitude) * 1e7),
                round(math.degrees(position.longitude) * 1e7),
                altitude,
                REPOSITION,
                self.target,
                AUTOPILOT,
                self._modes.altitude_frame,
                0,
                0,
            )
        )

    def closing_report(self) -> Iterator[tuple[str, str]]:
        """Yield the repeated refusals, the orders that were not executed, and the packets from other senders."""
        yield from self._once_log.repetitions()
        for order in self._orders:
            yield "warning", f"{self._title} has not executed: {_describe_order(order)}"
        if self._wire.foreign_packets:
            yield (
                "warning",
                f"{self._wire.foreign_packets} packets to {self._title}'s ground station came from other senders; skipped",
            )

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


def battery_fields(supply: PowerModuleReading) -> tuple[int, ...]:
    """Return the fields of BATTERY_STATUS: mA h, energy and °C unknown, mV per cell (65535: no cell), cA, …, %."""
    cells = min(supply.cells, MAX_CELLS)
    cell_voltage = min(max(round(1000.0 * supply.voltage / cells), 0), NO_CELL - 1)
    current = min(max(round(100.0 * supply.current), -32768), 32767)
    consumed = round((1.0 - supply.charge) * supply.capacity / 3.6)
    percent = min(max(round(100.0 * supply.charge), 0), 100)
    voltages = (*(cell_voltage,) * cells, *(NO_CELL,) * (MAX_CELLS - cells))
    return (consumed, -1, NO_TEMPERATURE, *voltages, current, 0, 0, 0, percent, *(0,) * 8)


def _describe_order(order: Order) -> str:
    if order.kind in ("go_to", "reach"):
        return f"go to ({order.p_W.x:g}, {order.p_W.y:g}, {order.p_W.z:g})"
    return f"take off to {order.p_W.z:g} m" if order.kind == "take_off" else order.kind
