"""What a drone's sensors said at an instant, for an autopilot to know: in body axes and SI units, as everywhere inside."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from samara.compiler.compiled_step import CompiledStep, Machine
from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3, rotate
from samara.core.quantity import Scalar
from samara.physics.frames import Geodetic, geodetic_from_enu, state_ned_frd_from_enu_flu
from samara.physics.types import Reference, State
from samara.sensors.sensor import Mounting, Sensor, kind_of
from samara.sensors.site import HOME


class Fix(NamedTuple):
    """What a GPS receiver said: WGS-84 [rad, m], velocity east, north, up [m/s]."""

    place: Geodetic
    v_W: Vec3


class Supply(NamedTuple):
    """What a power module says of the battery: bus voltage [V], current [A], charge from 1 to 0, cells, capacity [C]."""

    voltage: float
    current: float
    charge: float
    cells: int
    capacity: float


class Readings(NamedTuple):
    """One instant: IMU [m/s², rad/s], and of magnetometer [T], barometer [Pa] and GPS what is new, else None.

    `state` is the truth of the body, without rotor speeds, for protocols that hand it on; `wanted` is where it should be, for a
    pilot's sticks; `origin` is where the world's origin is; `supply` is of a battery that empties, when it is new;
    `rotor_speed` [rad/s] is what motor controllers report, without error. Time in whole microseconds.
    """

    time_us: int
    specific_force_B: Vec3
    omega_B: Vec3
    field_B: Vec3 | None
    pressure: float | None
    fix: Fix | None
    state: State
    wanted: Reference = Reference(ZERO)
    origin: Geodetic = HOME.origin
    supply: Supply | None = None
    rotor_speed: tuple[float, ...] = ()


class Senses:
    """The sensors of one drone of a group: one IMU at least."""

    def __init__(self, sensors: Sequence[Any], lane: int = 0) -> None:
        self._lane = lane
        self._of: dict[str, Any] = {}
        for own in sensors:
            self._of.setdefault(kind_of(own.sensor), own)
        if "imu" not in self._of:
            raise ValueError("an autopilot flies by an IMU, and this drone has none; expected sensors with one")
        self._turn = {kind: _turned(own.sensor) for kind, own in self._of.items()}
        self.origin = getattr(self._of["gps"].sensor.about, "origin", HOME.origin) if "gps" in self._of else HOME.origin

    def read(self, time_us: int, state: Sequence[float], wanted: Sequence[float]) -> Readings:
        """What they said last, and what of it nobody has read yet; state (p, v, q, ω) and reference by their components"""
        imu = self._of["imu"].reading[:, self._lane].tolist()
        f_S, omega_S = Vec3(*imu[:3]), Vec3(*imu[3:6])
        turn = self._turn["imu"]
        if turn is not IDENTITY:
            f_S, omega_S = rotate(turn, f_S), rotate(turn, omega_S)
        field = self._new("magnetometer")
        pressure, fix = self._new("barometer"), self._new("gps")
        return Readings(
            time_us,
            f_S,
            omega_S,
            rotate(self._turn["magnetometer"], Vec3(*field)) if field else None,
            pressure[0] if pressure else None,
            Fix(Geodetic(*fix[:3]), Vec3(*fix[3:6])) if fix else None,
            State(Vec3(*state[:3]), Vec3(*state[3:6]), Quat(*state[6:10]), Vec3(*state[10:13])),
            _reference(wanted),
            self.origin,
        )

    def _new(self, kind: str) -> list[float] | None:
        own = self._of.get(kind)
        if own is None or not own.fresh[self._lane]:
            return None
        own.fresh[self._lane] = 0.0  # read once
        said: list[float] = own.reading[:, self._lane].tolist()
        return said


def _reference(numbers: Sequence[float]) -> Reference:
    """Place, velocity, acceleration, jerk, yaw and its rate, in the order of `Reference`: all that sticks are moved by"""
    p, v, a, j = (Vec3(*numbers[k : k + 3]) for k in (0, 3, 6, 9))
    return Reference(p, v, a, j, numbers[12], numbers[13])


def _turned(sensor: Sensor) -> Quat:
    mounting: Mounting = getattr(sensor.about, "mounting", Mounting(ZERO, IDENTITY))
    return IDENTITY if mounting.q_BS == IDENTITY else mounting.q_BS


@lru_cache(maxsize=1)
def _truth() -> Machine:
    """(state in NED and FRD, place on Earth) from (state, origin), as machine code: autopilots ask every few milliseconds."""
    state = State(ZERO, ZERO, IDENTITY, ZERO)

    def body(own: Scalar, held: Scalar) -> Scalar:
        return state_ned_frd_from_enu_flu(held[0]), geodetic_from_enu(held[0].p_W, held[1])

    return CompiledStep(body, (state, HOME.origin), (state, HOME.origin)).machine()


def outside(state: State, origin: Geodetic) -> tuple[State, Geodetic]:
    """The state in NED and FRD, of its two quaternions the one with w ≥ 0, and its place on Earth: what autopilots take"""
    machine = _truth()
    machine.held[:, 0] = (*state.p_W, *state.v_W, *state.q_WB, *state.omega_B, *origin)
    machine.run()
    x = machine.carry[:, 0].tolist()
    q = x[6:10] if x[6] >= 0.0 else [-part for part in x[6:10]]
    return State(Vec3(*x[:3]), Vec3(*x[3:6]), Quat(*q), Vec3(*x[10:13])), Geodetic(*x[13:])
