"""A ground station of our own: arm, take off, go to and land, asked of a running autopilot over MAVLink until it obeys.

It speaks beside the simulator's connection, as any ground station would: to PX4 on the port for onboard computers, so that
14550 stays free for a person's, to ArduPilot on its first serial port.
"""

import math
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from samara.algebra import Vec3, norm
from samara.frames import Geodetic, geodetic_from_enu
from samara.link.autopilot import Say
from samara.link.mavlink import Frame, Listener, Speaker, dialect, layout
from samara.link.ports import bound
from samara.sim.setting import Order

SYSTEM, COMPONENT = 245, 190  # a ground station that is nobody else's, and MAV_COMP_ID_MISSIONPLANNER
BEAT_US = 1_000_000  # of simulated time
AGAIN_US = 1_000_000  # an order that was not obeyed is asked again
LOOK_US = 20_000  # how often it listens
ARMED = 128  # MAV_MODE_FLAG_SAFETY_ARMED
CUSTOM = 1  # MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
REACHED = 1.0  # [m]: near enough to a place to go on to the next
AUTOPILOT = 1  # MAV_COMP_ID_AUTOPILOT1
GLOBAL, GLOBAL_RELATIVE = 0, 3  # MAV_FRAME
ARM, SET_MODE, TAKE_OFF, LAND, REPOSITION = 400, 176, 22, 21, 192  # MAV_CMD
ACCEPTED, IN_PROGRESS = 0, 5  # MAV_RESULT
WARNING = 4  # MAV_SEVERITY; worse is less
MOST_WORDS, LONGEST_LINE = 200, 1000  # lines of the autopilot's that are kept, letters in one


class Dialect(NamedTuple):
    """How an autopilot names its modes, and what it wants to be told."""

    guided: tuple[int, int, int]
    land: tuple[int, int, int]
    take_off: tuple[int, int, int]
    mode_of: Callable[[tuple[int, int, int]], int]
    take_off_by_parameter: bool
    altitude_frame: int


PX4 = Dialect((1, 4, 3), (1, 4, 6), (1, 4, 2), lambda mode: mode[1] << 16 | mode[2] << 24, True, GLOBAL)
"""(base, main, sub) of PX4's custom modes: AUTO with LOITER, LAND, TAKEOFF; altitudes above mean sea level."""
ARDUCOPTER = Dialect((1, 4, 0), (1, 9, 0), (1, 4, 0), lambda mode: mode[1], False, GLOBAL_RELATIVE)
"""GUIDED is 4 and LAND 9; altitudes above home."""


class Wire:
    """A UDP port or a TCP connection that never blocks."""

    def __init__(self, host: str, port: int, *, stream: bool) -> None:
        self._address, self._stream = (host, port), stream
        self._peer: Any = None
        self._socket: socket.socket | None = None
        if not stream:
            self._socket = bound(host, port, "is another flight or MAVSDK there? End it first")
            self._socket.setblocking(False)

    def connect(self) -> bool:
        """Whether somebody is there"""
        if not self._stream or self._socket is not None:
            return self._socket is not None
        try:
            self._socket = socket.create_connection(self._address, timeout=0.05)
            self._socket.setblocking(False)
        except OSError:
            return False
        return True

    def receive(self) -> bytes:
        """What has come since, b"" when nothing has"""
        if not self.connect() or self._socket is None:
            return b""
        heard = b""
        try:
            while len(heard) < 1 << 16:
                data, peer = self._socket.recvfrom(1 << 14)
                if not data and self._stream:
                    self._drop()
                    break
                heard, self._peer = heard + data, peer
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            if self._stream:
                self._drop()
        return heard

    def send(self, data: bytes) -> None:
        """To whom it hears from"""
        if self._socket is None or (not self._stream and self._peer is None):
            return
        try:
            if self._stream:
                self._socket.send(data)
            else:
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
    """Orders one after the other, each asked again every second until the autopilot has obeyed it."""

    def __init__(self, wire: Wire, speaks: Dialect, title: str, say: Say) -> None:
        self._wire, self._speaks, self._title, self._say = wire, speaks, title, say
        self._speaker = Speaker(SYSTEM, COMPONENT)
        self._listener = Listener("HEARTBEAT", "COMMAND_ACK", "STATUSTEXT")
        self._ids = {name: layout(name).id for name in ("HEARTBEAT", "COMMAND_ACK", "STATUSTEXT")}
        self._orders: deque[Order] = deque()
        self._accepted: set[int] = set()
        self._refused: set[str] = set()
        self.words: deque[str] = deque(maxlen=MOST_WORDS)
        self.reset()

    def reset(self) -> None:
        """The autopilot began anew"""
        self.armed, self.mode, self.target, self._line = False, -1, 1, ""
        self._beat_us = self._asked_us = self._look_us = -AGAIN_US

    def obey(self, order: Order) -> None:
        """One order more; to land, or to disarm, drops those still waiting"""
        if order.kind in ("land", "disarm"):
            self._orders.clear()
        self._orders.append(order)
        self._asked_us = -AGAIN_US
        self._accepted.clear()

    @property
    def waiting(self) -> int:
        """How many orders are not obeyed yet"""
        return len(self._orders)

    def look(self, time_us: int, origin: Geodetic, p_W: Vec3) -> None:
        """Once in a while: listens, and asks for what is not done yet; `p_W` is where the drone is"""
        if 0 <= time_us - self._look_us < LOOK_US:
            return
        self._look_us = time_us
        for frame in self._listener.hear(self._wire.receive()):
            self._hear(frame)
        if time_us - self._beat_us >= BEAT_US:
            self._beat_us = time_us
            self._wire.send(self._speaker.frame("HEARTBEAT", 0, 6, 8, 0, 4, 3))
        while self._orders and self._done(self._orders[0], p_W):
            self._say("info", f"{self._title} obeys: {_named(self._orders.popleft())}")
            self._accepted.clear()
            self._asked_us = -AGAIN_US
        if self._orders and time_us - self._asked_us >= AGAIN_US:
            self._asked_us = time_us
            self._ask(self._orders[0], origin)

    def _hear(self, frame: Frame) -> None:
        if frame.id == self._ids["HEARTBEAT"] and frame.component == AUTOPILOT:
            self.target = frame.system
            self.mode, self.armed = int(frame.fields[0]), bool(frame.fields[3] & ARMED)
        elif frame.id == self._ids["COMMAND_ACK"]:
            command, result = int(frame.fields[0]), int(frame.fields[1])
            if result in (ACCEPTED, IN_PROGRESS):
                self._accepted.add(command)
            else:
                names = dialect().enums["MAV_RESULT"]
                why = names[result].name.removeprefix("MAV_RESULT_").lower() if result in names else str(result)
                self._tell(f"{self._title} does not take command {command} yet: {why.replace('_', ' ')}")
        elif frame.id == self._ids["STATUSTEXT"]:
            self._read(frame)

    def _read(self, frame: Frame) -> None:
        """A line in pieces of 50 letters: one that is full and has a number is continued"""
        severity, letters, number = int(frame.fields[0]), bytes(frame.fields[1]), int(frame.fields[2])
        self._line = (self._line if number else "") + letters.split(b"\0")[0].decode(errors="replace")
        if number and b"\0" not in letters and len(self._line) < LONGEST_LINE:
            return
        text, self._line = self._line.strip(), ""
        if text:
            self.words.append(text)
            if severity <= WARNING:
                self._tell(f"{self._title} says: {text}")

    def _tell(self, sentence: str) -> None:
        """Each sentence once"""
        if sentence not in self._refused and len(self._refused) < MOST_WORDS:
            self._refused.add(sentence)
            self._say("info", sentence)

    def _done(self, order: Order, p_W: Vec3) -> bool:
        if order.kind == "arm":
            return self.armed
        if order.kind == "disarm":
            return not self.armed and self.mode >= 0
        if order.kind == "land":
            return self.mode == self._speaks.mode_of(self._speaks.land)
        if order.kind == "take_off":
            up = len(self._orders) < 2 or self._orders[1].kind != "reach" or p_W.z > order.p_W.z - REACHED
            return self.armed and up and (TAKE_OFF in self._accepted or self._speaks.take_off_by_parameter)
        if order.kind == "reach" and norm(p_W - order.p_W) > REACHED:
            return False
        return REPOSITION in self._accepted

    def _ask(self, order: Order, origin: Geodetic) -> None:
        if self.mode < 0:
            return  # not a word from it yet
        own = self._speaks
        if order.kind in ("arm", "disarm"):
            self._command(ARM, float(order.kind == "arm"))
        elif order.kind == "land":
            self._set_mode(own.land)
        elif order.kind == "take_off" and TAKE_OFF not in self._accepted:
            if own.take_off_by_parameter and not self.armed:
                self._wire.send(
                    self._speaker.frame("PARAM_SET", order.p_W.z, self.target, AUTOPILOT, b"MIS_TAKEOFF_ALT", 9)
                )
            if self.mode != own.mode_of(own.take_off) and not self.armed:
                self._set_mode(own.take_off)
            if not self.armed:
                self._command(ARM, 1.0)
            elif not own.take_off_by_parameter:
                self._command(TAKE_OFF, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, order.p_W.z)
        elif order.kind in ("go_to", "reach") and REPOSITION not in self._accepted:
            if not own.take_off_by_parameter and self.mode != own.mode_of(own.guided):
                self._set_mode(own.guided)
            self._go_to(order.p_W, order.speed, origin)

    def _command(self, command: int, *numbers: float) -> None:
        seven = (*numbers, *(0.0,) * (7 - len(numbers)))
        self._wire.send(self._speaker.frame("COMMAND_LONG", *seven, command, self.target, AUTOPILOT, 0))

    def _set_mode(self, mode: tuple[int, int, int]) -> None:
        self._command(SET_MODE, float(CUSTOM), *(float(x) for x in mode[1:]))

    def _go_to(self, p_W: Vec3, speed: float, origin: Geodetic) -> None:
        place = geodetic_from_enu(p_W, origin)
        altitude = place.altitude if self._speaks.altitude_frame == GLOBAL else p_W.z
        self._wire.send(
            self._speaker.frame(
                "COMMAND_INT",
                speed or -1.0,
                1.0,  # and change to the mode that goes there
                0.0,
                math.nan,  # the heading it has
                round(math.degrees(place.latitude) * 1e7),
                round(math.degrees(place.longitude) * 1e7),
                altitude,
                REPOSITION,
                self.target,
                AUTOPILOT,
                self._speaks.altitude_frame,
                0,
                0,
            )
        )

    def close(self) -> None:
        """Stops listening"""
        self._wire.close()


def _named(order: Order) -> str:
    if order.kind in ("go_to", "reach"):
        return f"go to ({order.p_W.x:g}, {order.p_W.y:g}, {order.p_W.z:g})"
    return f"take off to {order.p_W.z:g} m" if order.kind == "take_off" else order.kind
