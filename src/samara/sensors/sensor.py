"""Sensors: a measurement function of one instant, with the names and units of its values.

    def height(state, command, vehicle, environment, normals):
        return (state.p_W.z + 0.05 * normals[0],)

    Sensor("altimeter", ("height",), ("m",), height, normals_needed=1)

A simulation calls the function at the sensor's rate and records its values. A sensor with state (a drifting bias, a phase) has
`initial`; its function takes two more arguments and returns two results:

    values, sensor_state = measure(state, command, vehicle, environment, normals, sensor_state, dt)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3, rotate_inverse
from samara.core.picklable import picklable_factory
from samara.core.quantity import Scalar, Tree
from samara.core.tree import leaf_names
from samara.physics.air.atmosphere import air_pressure
from samara.physics.effect import Role
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import wrench_breakdown
from samara.physics.types import Command, Environment, State, Vehicle
from samara.sensors.site import Site
from samara.world.obstacles import HeightMap, Solid

Measure = Callable[..., Tree]


class Mounting(NamedTuple):
    """Position of a sensor relative to the centre of mass [m], and its attitude: q_BS rotates its axes into the body's."""

    r_B: Vec3 = ZERO
    q_BS: Quat = IDENTITY


AT_CENTRE = Mounting()


class RayScene(NamedTuple):
    """The surfaces that rays can hit: solids, and the ground; None is the plane below the drone."""

    solids: tuple[Solid, ...] = ()
    ground: Ground | HeightMap | None = None

    @property
    def is_traceable(self) -> bool:
        """Whether rays can be compiled: over a height map their step count is unbounded."""
        return not any(isinstance(solid, HeightMap) for solid in self.solids)

    def surfaces(self, environment: Environment) -> tuple[Solid, ...]:
        """Return the ground and the solids."""
        return (environment.ground if self.ground is None else self.ground, *self.solids)


ONLY_GROUND = RayScene()


class ImageOutput(NamedTuple):
    """An image that a sensor delivers beside its reading: its name, shape (rows, columns, …), dtype and unit."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    unit: str = "1"


@dataclass(frozen=True)
class Sensor:
    """A sensor: `measure(state, command, vehicle, environment, normals)` returns one number per field.

    Each sample of each drone gets `normals_needed` standard normal numbers. A `traced` function uses only `samara.core.ops` and
    is compiled; any other is called in Python. With `initial(vehicle, normals)`, which gets `start_normals` of them once,
    `measure` takes (…, normals, sensor_state, dt) and returns (values, sensor_state); dt is the time between samples [s].

    The sensor samples at `rate` [Hz], which divides the sensor rate of the simulation (0: at each of its ticks); its values
    arrive `delay` [s] later. A field `valid` of 0 marks a missing sample. `type_name`, `reading` (a named tuple of zeros
    with the shape of the values) and `model` (the sensor's model) are for the estimators that use it. `images` are arrays
    that arrive with its values.
    """

    name: str
    fields: tuple[str, ...]
    units: tuple[str, ...]
    measure: Measure
    normals_needed: int = 0
    traced: bool = False
    initial: Callable[[Vehicle, Sequence[Scalar]], Tree] | None = None
    start_normals: int = 0
    rate: float = 0.0
    delay: float = 0.0
    type_name: str = ""
    reading: Tree = ()
    model: Tree = ()
    images: tuple[ImageOutput, ...] = ()

    def __post_init__(self) -> None:
        if len(self.fields) != len(self.units) or not self.fields:
            raise ValueError(
                f"sensor {self.name!r} has {len(self.fields)} fields and {len(self.units)} units; expected one unit for each"
            )
        for label, value, unit in (("rate", self.rate, "Hz"), ("delay", self.delay, "s")):
            if not 0.0 <= value < 1e6:
                raise ValueError(
                    f"sensor {self.name!r} has a {label} of {value!r} {unit}; expected a finite number that is not negative"
                )


class SensorType(NamedTuple):
    """A type of sensor: the properties that its parts share.

    `part` is the named tuple of its parameters, read from data sheets, and `build(part, mounting, name=…)` returns the
    sensor. `faults` are the names under which an event can fail it; () means the type's name. With `has_site`, `build` takes
    the site on Earth as `where`. A sensor that `detects` "solids", or also "terrain", takes a `scene`; the `model` of its
    sensors has `part` and `mounting`. One that detects the "view" takes a `CameraScene`. `has_image` means that single pixels
    or beams can fail. `exact` builds the sensor without error for a site.
    """

    name: str
    part: type[Tree]
    build: Callable[..., Sensor]
    faults: tuple[str, ...] = ()
    has_site: bool = False
    detects: Literal["", "solids", "terrain", "view"] = ""
    has_image: bool = False
    exact: Callable[[Site], Sensor] | None = None

    @property
    def fault_names(self) -> frozenset[str]:
        """The names of the faults that silence the sensor."""
        return frozenset(self.faults or (self.name,))


class MeasurementInputs(NamedTuple):
    """Inputs of a measurement equation at one sample: the true state and its conditions, random numbers, the sensor state, and
    the time between samples [s]."""

    state: State
    command: Command
    vehicle: Vehicle
    environment: Environment
    normals: Sequence[Scalar]
    sensor_state: Tree = ()
    dt: Scalar = 0.0


def reading_sensor(
    type_name: str,
    reading: Tree,
    units: tuple[str, ...],
    equation: Callable[[MeasurementInputs], Tree],
    part: Tree,
    **options: Any,
) -> Sensor:
    """Create a sensor whose fields are those of its reading, with the rate and delay of its part.

    Args:
        type_name: name of the sensor type, and the default name of the sensor.
        reading: a reading of zeros, which gives shape and field names.
        units: unit of each field.
        equation: returns the reading for a `MeasurementInputs` or, for a sensor with state, (reading, sensor state).
        part: parameters of the sensor.
        options: further fields of `Sensor`; `traced` is True by default.
    """
    name, traced = options.pop("name", "") or type_name, options.pop("traced", True)

    def measure(*inputs: Tree) -> Tree:
        return equation(MeasurementInputs(*inputs))

    return Sensor(
        name,
        tuple(leaf_names(reading)),
        units,
        measure,
        traced=traced,
        rate=part.rate,
        delay=part.delay,
        type_name=type_name,
        reading=reading,
        **options,
    )


def specific_force(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Vec3:
    """f_B = (Σ forces without the weight) / m, at the centre of mass: 0 in free fall, g upwards at rest  [m/s²]"""
    parts = zip(vehicle.structure.effects, wrench_breakdown(state, command, vehicle, environment).values(), strict=True)
    measured = [part for effect, part in parts if effect.role is not Role.WEIGHT]
    f_B, f_W = measured[0].f_B, measured[0].f_W
    for part in measured[1:]:
        f_B, f_W = f_B + part.f_B, f_W + part.f_W
    return (f_B + rotate_inverse(state.q_WB, f_W)) / vehicle.mass


# Sensors without error ---------------------------------------------------------------------------------------------


def _imu(
    state: State, command: Command, vehicle: Vehicle, environment: Environment, normals: Sequence[Scalar]
) -> tuple[Scalar, ...]:
    """a = (Σ f − m g)/m in body axes, the specific force; ω: without error, at the centre of mass  [m/s², rad/s]"""
    return (*specific_force(state, command, vehicle, environment), *state.omega_B)


def _position(
    state: State, command: Command, vehicle: Vehicle, environment: Environment, normals: Sequence[Scalar]
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
POSITION = Sensor(
    "position",
    (*(f"p_W.{axis}" for axis in _XYZ), *(f"v_W.{axis}" for axis in _XYZ)),
    ("m",) * 3 + ("m/s",) * 3,
    _position,
    traced=True,
)


@lru_cache(maxsize=64)
@picklable_factory
def exact_barometer(home_altitude: float) -> Sensor:
    """Create a barometer without error: the pressure of the standard atmosphere at the centre of mass, altitude h₀ + z."""

    def pressure(
        state: State, command: Command, vehicle: Vehicle, environment: Environment, normals: Sequence[Scalar]
    ) -> tuple[Scalar, ...]:
        """p_ISA(h₀ + z)  [Pa]"""
        return (air_pressure(home_altitude + state.p_W.z),)

    return Sensor("barometer", ("pressure",), ("Pa",), pressure, traced=True)


def sensor_type_name(sensor: Sensor) -> str:
    """Return the sensor's type name, or its name if it has no type."""
    return sensor.type_name or sensor.name
