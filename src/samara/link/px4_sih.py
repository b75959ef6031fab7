"""Receiver for PX4's built-in simulator (SIH), which sends HIL_STATE_QUATERNION and HIL_ACTUATOR_CONTROLS to displays over UDP.

PX4 with a model `sihsim_…` computes the physics itself and sends instance N's true state to 127.0.0.1:19410 + N, 25 times a
second, and its motor outputs 200 times a second. On the wire: attitude FRD → NED, rates FRD, WGS-84 position, velocity NED.
"""

import math
import select
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from samara.core.algebra import Quat, Vec3
from samara.link.mavlink import FrameParser, layout
from samara.link.ports import bind_socket
from samara.physics.frames import Geodetic, enu_from_geodetic, state_enu_flu_from_ned_frd
from samara.physics.types import State
from samara.scenario.autopilot import LOOPBACK

PORT = 19410
ARMED = 128  # MAV_MODE_FLAG_SAFETY_ARMED
UNIT_TOLERANCE = 0.05  # of |q|: single precision is far better; a larger error is not an attitude
MAX_PACKETS = 512  # read per call, so that a flood leaves time to draw


class SihState(NamedTuple):
    """The latest report of PX4: its clock [µs], the body's state (ENU, FLU), 16 motor outputs 0 … 1, and the arming state."""

    time_us: int
    body: State
    outputs: tuple[Any, ...]
    armed: bool


class SihReceiver:
    """Receives the state of one instance on loopback.

    `received_at` is the arrival time of the latest state (`time.monotonic()`), None before the first. Positions are relative to
    `origin`, which all receivers of a display share: the first position that any of them receives.
    """

    def __init__(self, instance: int = 0, origin: "SharedOrigin | None" = None) -> None:
        self.port = PORT + instance
        advice = "is Hawkeye, jMAVSim or another `samara view --px4-sih` open? End it first"
        self._socket = bind_socket(LOOPBACK, self.port, advice)
        self._socket.setblocking(False)
        self.origin = origin or SharedOrigin()
        self._state_id, self._outputs_id = layout("HIL_STATE_QUATERNION").id, layout("HIL_ACTUATOR_CONTROLS").id
        self._outputs: tuple[Any, ...] = (0.0,) * 16
        self._armed = False
        self.latest: SihState | None = None
        self.received_at: float | None = None
        self.restarts = self.rejected = 0

    def receive(self) -> bool:
        """Read the waiting packets; return whether there is a new state."""
        previous = self.latest
        for data in self._packets():
            listener = FrameParser("HIL_STATE_QUATERNION", "HIL_ACTUATOR_CONTROLS")  # a datagram holds whole frames
            for frame in listener.parse(data):
                if frame.id == self._outputs_id:
                    self._store_outputs(frame.fields)
                else:
                    self._store_state(frame.fields)
            self.rejected += bool(listener.skipped_bytes or listener.pending)
        return self.latest is not previous

    def _packets(self) -> Iterator[bytes]:
        for _ in range(MAX_PACKETS):
            try:
                yield self._socket.recv(4096)
            except OSError:  # nothing is left
                return

    def _store_outputs(self, fields: tuple[Any, ...]) -> None:
        """Store the motor outputs; NaN marks an unused output."""
        self._outputs = tuple(min(max(u, 0.0), 1.0) if math.isfinite(u) else 0.0 for u in fields[2:18])
        self._armed = bool(fields[18] & ARMED)

    def _store_state(self, fields: tuple[Any, ...]) -> None:
        time_us, (q, rates, geodetic, v) = fields[0], (fields[1:5], fields[5:8], fields[8:11], fields[11:14])
        if not any(geodetic[:2]):
            return  # PX4 sends zeros until its simulator has a position
        length = math.hypot(*q)
        finite = all(math.isfinite(x) for x in (*q, *rates))
        if not finite or abs(length - 1.0) > UNIT_TOLERANCE or abs(geodetic[0]) > 900_000_000:
            self.rejected += 1
            return
        position = Geodetic(math.radians(1e-7 * geodetic[0]), math.radians(1e-7 * geodetic[1]), 1e-3 * geodetic[2])
        ned = State(
            Vec3(0.0, 0.0, 0.0), Vec3(*(0.01 * x for x in v)), Quat(*(x / length for x in q)), Vec3(*map(float, rates))
        )
        body = state_enu_flu_from_ned_frd(ned)._replace(p_W=self.origin.local_position(position))
        if self.latest is not None and time_us < self.latest.time_us:
            self.restarts += 1
        self.latest = SihState(time_us, body, self._outputs, self._armed)
        self.received_at = time.monotonic()

    @property
    def silence(self) -> float:
        """Time since the last state  [s, wall-clock]; infinite before the first state."""
        return math.inf if self.received_at is None else time.monotonic() - self.received_at

    def fileno(self) -> int:
        """The file descriptor, for `select`."""
        return self._socket.fileno()

    def close(self) -> None:
        """Free the port."""
        self._socket.close()


class SharedOrigin:
    """Origin of the local frame: the first position that is converted."""

    def __init__(self) -> None:
        self.origin: Geodetic | None = None

    def local_position(self, position: Geodetic) -> Vec3:
        """East, north, up from the origin  [m]."""
        if self.origin is None:
            self.origin = position
        return Vec3(*(float(x) for x in enu_from_geodetic(position, self.origin)))


def wait_for_any(receivers: list[SihReceiver], seconds: float) -> None:
    """Sleep until a receiver has data or `seconds` have passed."""
    select.select(receivers, [], [], seconds)
