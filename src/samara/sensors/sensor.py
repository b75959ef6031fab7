"""A sensor is one function of the instant, with names and units for what it gives.

    def height(state, command, vehicle, environment, normals):
        return (state.p_W.z + 0.05 * normals[0],)

    Sensor("altimeter", ("height",), ("m",), height, normals_needed=1)

A simulation asks it at the sensor axis and records what it says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from samara.algebra import rotate_inverse
from samara.physics.atmosphere import air_pressure
from samara.physics.multirotor import Command, Environment, State, Vehicle, wrench_breakdown
from samara.quantity import Scalar

Measure = Callable[[State, Command, Vehicle, Environment, Sequence[Scalar]], Sequence[Scalar]]


@dataclass(frozen=True)
class Sensor:
    """`measure(state, command, vehicle, environment, normals)` gives one number for each field

    `normals_needed` standard normals are drawn for each drone and tick. A `traced` function uses only `samara.ops` and is
    compiled; any other is called in Python.
    """

    name: str
    fields: tuple[str, ...]
    units: tuple[str, ...]
    measure: Measure
    normals_needed: int = 0
    traced: bool = False

    def __post_init__(self) -> None:
        if len(self.fields) != len(self.units) or not self.fields:
            raise ValueError(
                f"sensor {self.name!r} has {len(self.fields)} fields and {len(self.units)} units; expected one unit for each"
            )


def _imu(
    state: State, command: Command, vehicle: Vehicle, environment: Environment, normals: Any
) -> tuple[Scalar, ...]:
    """a = (Σ f − m g)/m in body axes, the specific force; ω: without error, at the centre of mass  [m/s², rad/s]"""
    felt = [part for name, part in wrench_breakdown(state, command, vehicle, environment).items() if name != "gravity"]
    f_B, f_W = felt[0].f_B, felt[0].f_W
    for part in felt[1:]:
        f_B, f_W = f_B + part.f_B, f_W + part.f_W
    return (*((f_B + rotate_inverse(state.q_WB, f_W)) / vehicle.mass), *state.omega_B)


def _barometer(
    state: State, command: Command, vehicle: Vehicle, environment: Environment, normals: Any
) -> tuple[Scalar, ...]:
    """p of the standard atmosphere at the height above the world's origin  [Pa]"""
    return (air_pressure(state.p_W.z),)


def _position(
    state: State, command: Command, vehicle: Vehicle, environment: Environment, normals: Any
) -> tuple[Scalar, ...]:
    """p, v, without error  [m, m/s]"""
    return (*state.p_W, *state.v_W)


_XYZ = ("x", "y", "z")
IMU = Sensor(
    "imu",
    (*(f"specific_force_B.{axis}" for axis in _XYZ), *(f"omega_B.{axis}" for axis in _XYZ)),
    ("m/s^2",) * 3 + ("rad/s",) * 3,
    _imu,
    traced=True,
)
BAROMETER = Sensor("barometer", ("pressure",), ("Pa",), _barometer, traced=True)
POSITION = Sensor(
    "position",
    (*(f"p_W.{axis}" for axis in _XYZ), *(f"v_W.{axis}" for axis in _XYZ)),
    ("m",) * 3 + ("m/s",) * 3,
    _position,
    traced=True,
)
SENSORS = {sensor.name: sensor for sensor in (IMU, BAROMETER, POSITION)}
