"""The readings of a drone's sensors at one instant, as a link sends them to an autopilot; body axes (FLU), SI units."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from samara.compiler.compiled_step import CompiledStep, Machine
from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3, rotate
from samara.core.quantity import Scalar
from samara.physics.frames import Geodetic, geodetic_from_enu, state_ned_frd_from_enu_flu
from samara.physics.types import Reference, State
from samara.sensors.sensor import Mounting, Sensor, sensor_type_name
from samara.sensors.site import HOME


class Fix(NamedTuple):
    """Position and velocity of a GPS receiver: WGS-84 [rad, m], velocity east, north, up [m/s]."""

    position: Geodetic
    v_W: Vec3


class PowerModuleReading(NamedTuple):
    """Readings of a power module: bus voltage [V], current [A], charge from 1 to 0, cell count, capacity [C]."""

    voltage: float
    current: float
    charge: float
    cells: int
    capacity: float


class Readings(NamedTuple):
    """Readings at one instant: IMU [m/s², rad/s]; magnetometer [T], barometer [Pa] and GPS if they are new, else None.

    time_us      time [µs]
    state        true state of the body without rotor speeds, for protocols that transmit it
    reference    reference, for a pilot's sticks and for setpoints
    origin       geodetic position of the world's origin
    supply       state of the battery, if it is modelled and new
    rotor_speed  rotor speeds as motor controllers report them, without error [rad/s]
    """

    time_us: int
    specific_force_B: Vec3
    omega_B: Vec3
    field_B: Vec3 | None
    pressure: float | None
    fix: Fix | None
    state: State
    reference: Reference = Reference(ZERO)
    origin: Geodetic = HOME.origin
    supply: PowerModuleReading | None = None
    rotor_speed: tuple[float, ...] = ()


class SensorReader:
    """Reads the sensors of one drone of a group, which must include an IMU."""

    def __init__(self, sensors: Sequence[Any], lane: int = 0) -> None:
        self._lane = lane
        self._sensors: dict[str, Any] = {}
        for group_sensor in sensors:
            self._sensors.setdefault(sensor_type_name(group_sensor.sensor), group_sensor)
        if "imu" not in self._sensors:
            raise ValueError("an autopilot flies by an IMU, and this drone has none; expected sensors with one")
        self._mounting_rotations = {
            kind: _mounting_rotation(group_sensor.sensor) for kind, group_sensor in self._sensors.items()
        }
        self.origin = (
            getattr(self._sensors["gps"].sensor.model, "origin", HOME.origin) if "gps" in self._sensors else HOME.origin
        )

    def read(self, time_us: int, state: Sequence[float], reference: Sequence[float]) -> Readings:
        """Return the latest readings; those of slower sensors only once. `state` is (p, v, q, ω), `reference` a flat
        reference."""
        imu = self._sensors["imu"].reading[:, self._lane].tolist()
        f_S, omega_S = Vec3(*imu[:3]), Vec3(*imu[3:6])
        q_BS = self._mounting_rotations["imu"]
        if q_BS is not IDENTITY:
            f_S, omega_S = rotate(q_BS, f_S), rotate(q_BS, omega_S)
        magnetic_field = self._read_once("magnetometer")
        pressure, fix = self._read_once("barometer"), self._read_once("gps")
        return Readings(
            time_us,
            f_S,
            omega_S,
            rotate(self._mounting_rotations["magnetometer"], Vec3(*magnetic_field)) if magnetic_field else None,
            pressure[0] if pressure else None,
            Fix(Geodetic(*fix[:3]), Vec3(*fix[3:6])) if fix else None,
            State(Vec3(*state[:3]), Vec3(*state[3:6]), Quat(*state[6:10]), Vec3(*state[10:13])),
            _reference(reference),
            self.origin,
        )

    def _read_once(self, kind: str) -> list[float] | None:
        group_sensor = self._sensors.get(kind)
        if group_sensor is None or not group_sensor.fresh[self._lane]:
            return None
        group_sensor.fresh[self._lane] = 0.0  # read once
        reading: list[float] = group_sensor.reading[:, self._lane].tolist()
        return reading


def _reference(components: Sequence[float]) -> Reference:
    """Build the reference from its components in the order of `Reference`, without snap and yaw acceleration."""
    p, v, a, j = (Vec3(*components[k : k + 3]) for k in (0, 3, 6, 9))
    return Reference(p, v, a, j, components[12], components[13])


def _mounting_rotation(sensor: Sensor) -> Quat:
    mounting: Mounting = getattr(sensor.model, "mounting", Mounting(ZERO, IDENTITY))
    return IDENTITY if mounting.q_BS == IDENTITY else mounting.q_BS


@lru_cache(maxsize=1)
def _compiled_ned_frd_state() -> Machine:
    """Compile (state in NED and FRD, geodetic position) from (state, origin): links call it every few milliseconds."""
    state = State(ZERO, ZERO, IDENTITY, ZERO)

    def body(carry: Scalar, inputs: Scalar) -> Scalar:
        return state_ned_frd_from_enu_flu(inputs[0]), geodetic_from_enu(inputs[0].p_W, inputs[1])

    return CompiledStep(body, (state, HOME.origin), (state, HOME.origin)).machine()


def ned_frd_state(state: State, origin: Geodetic) -> tuple[State, Geodetic]:
    """Convert a state to NED and FRD, with the quaternion of w ≥ 0, and to its geodetic position."""
    machine = _compiled_ned_frd_state()
    machine.held_inputs[:, 0] = (*state.p_W, *state.v_W, *state.q_WB, *state.omega_B, *origin)
    machine.run()
    x = machine.carry[:, 0].tolist()
    q = x[6:10] if x[6] >= 0.0 else [-component for component in x[6:10]]
    return State(Vec3(*x[:3]), Vec3(*x[3:6]), Quat(*q), Vec3(*x[10:13])), Geodetic(*x[13:])
