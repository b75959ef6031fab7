"""A sensor is one function of the instant, with names and units for what it gives.

    def height(state, command, vehicle, environment, normals):
        return (state.p_W.z + 0.05 * normals[0],)

    Sensor("altimeter", ("height",), ("m",), height, normals_needed=1)

A simulation asks it at the sensor axis and records what it says. One that remembers (a bias that drifts, a phase that turns)
has `initial`, and its function takes two more arguments and gives two results:

    values, memory = measure(state, command, vehicle, environment, normals, memory, dt)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3, rotate_inverse
from samara.core.picklable import remade
from samara.core.quantity import Scalar, Tree
from samara.core.tree import leaf_names
from samara.physics.air.atmosphere import air_pressure
from samara.physics.effect import Role
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import wrench_breakdown
from samara.physics.types import Command, Environment, State, Vehicle
from samara.sensors.site import Place
from samara.world.obstacles import HeightMap, Solid

Measure = Callable[..., Tree]


class Mounting(NamedTuple):
    """Where a sensor sits, from the centre of mass [m], and how it is turned: q_BS takes its axes into the body's."""

    r_B: Vec3 = ZERO
    q_BS: Quat = IDENTITY


AT_CENTRE = Mounting()


class Scene(NamedTuple):
    """What rays may meet: solids, and the ground; without one it is the plane below the drone."""

    solids: tuple[Solid, ...] = ()
    ground: Ground | HeightMap | None = None

    @property
    def is_traceable(self) -> bool:
        """Whether a ray can be compiled: over a height map it takes as many steps as it needs"""
        return not any(isinstance(solid, HeightMap) for solid in self.solids)

    def surfaces(self, environment: Environment) -> tuple[Solid, ...]:
        """The ground and the solids"""
        return (environment.ground if self.ground is None else self.ground, *self.solids)


ONLY_GROUND = Scene()


@dataclass(frozen=True)
class Sensor:
    """`measure(state, command, vehicle, environment, normals)` gives one number for each field

    `normals_needed` standard normals are drawn for each drone and sample. A `traced` function uses only
    `samara.core.ops` and is
    compiled; any other is called in Python. With `initial(vehicle, normals)`, which gets `start_normals` of them once,
    `measure` takes (…, normals, memory, dt) and gives (values, memory); dt is the time between samples [s].

    It samples at `rate` [Hz], which divides the sensor axis (0: at each of its ticks), and is heard `delay` [s] later. A field
    called `valid` that is 0 says that there was no sample. `kind`, `reading` (a named tuple of zeros in the shape of the
    values) and `about` (the numbers it was made of) are for the estimators that use it.
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
    kind: str = ""
    reading: Tree = ()
    about: Tree = ()

    def __post_init__(self) -> None:
        if len(self.fields) != len(self.units) or not self.fields:
            raise ValueError(
                f"sensor {self.name!r} has {len(self.fields)} fields and {len(self.units)} units; expected one unit for each"
            )
        for what, value, unit in (("rate", self.rate, "Hz"), ("delay", self.delay, "s")):
            if not 0.0 <= value < 1e6:
                raise ValueError(
                    f"sensor {self.name!r} has a {what} of {value!r} {unit}; expected a finite number that is not negative"
                )


class SensorType(NamedTuple):
    """A type of sensor: everything that its parts share besides their equation.

    `part` is the record of its parameters, which data sheets are read into, and `build(part, mounting, name=…)` the sensor.
    `faults` are the names under which an event may fail it, by default its own name. With `has_site`, `build` takes the site
    on Earth as `where`. A sensor that `detects` "solids", or "terrain" besides, takes a `scene`; the `about` of its sensors has
    `part` and `mounting`. `has_image` means that single pixels or beams can fail. `exact` builds the sensor without error for a
    site.
    """

    name: str
    part: type[Tree]
    build: Callable[..., Sensor]
    faults: tuple[str, ...] = ()
    has_site: bool = False
    detects: Literal["", "solids", "terrain"] = ""
    has_image: bool = False
    exact: Callable[[Place], Sensor] | None = None

    @property
    def fault_names(self) -> frozenset[str]:
        """The faults that silence the sensor"""
        return frozenset(self.faults or (self.name,))


class Sample(NamedTuple):
    """What a sensor's equation may use at one sample: the drone as it is, the draws, what it remembers, and the time between
    samples [s]."""

    state: State
    command: Command
    vehicle: Vehicle
    environment: Environment
    normals: Sequence[Scalar]
    memory: Tree = ()
    dt: Scalar = 0.0


def reading_sensor(
    kind: str, reading: Tree, units: tuple[str, ...], equation: Callable[[Sample], Tree], part: Tree, **more: Any
) -> Sensor:
    """A traced sensor of a part's rate and delay, whose fields are those of its reading, and whose name is its kind by default

    `equation(now)` gives the reading of a `Sample` or, of a sensor that remembers, (reading, memory).
    """
    name, traced = more.pop("name", "") or kind, more.pop("traced", True)

    def measure(*inputs: Tree) -> Tree:
        return equation(Sample(*inputs))

    return Sensor(
        name,
        tuple(leaf_names(reading)),
        units,
        measure,
        traced=traced,
        rate=part.rate,
        delay=part.delay,
        kind=kind,
        reading=reading,
        **more,
    )


def specific_force(state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Vec3:
    """f_B = (Σ forces without the weight) / m, at the centre of mass: 0 in free fall, g upwards at rest  [m/s²]"""
    parts = zip(vehicle.structure.effects, wrench_breakdown(state, command, vehicle, environment).values(), strict=True)
    felt = [part for effect, part in parts if effect.role is not Role.WEIGHT]
    f_B, f_W = felt[0].f_B, felt[0].f_W
    for part in felt[1:]:
        f_B, f_W = f_B + part.f_B, f_W + part.f_W
    return (f_B + rotate_inverse(state.q_WB, f_W)) / vehicle.mass


# Without error ------------------------------------------------------------------------------------------------------


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
@remade
def exact_barometer(home_altitude: float) -> Sensor:
    """A barometer without error: the standard atmosphere's pressure at the altitude h₀ + z of the centre of mass"""

    def pressure(
        state: State, command: Command, vehicle: Vehicle, environment: Environment, normals: Sequence[Scalar]
    ) -> tuple[Scalar, ...]:
        """p_ISA(h₀ + z)  [Pa]"""
        return (air_pressure(home_altitude + state.p_W.z),)

    return Sensor("barometer", ("pressure",), ("Pa",), pressure, traced=True)


def kind_of(sensor: Sensor) -> str:
    """What a sensor is: its kind, or the name of one that has no kind"""
    return sensor.kind or sensor.name
