"""What the equations are about: the state of a multirotor, the vehicle, and the environment that one step holds constant.

The state refers to the centre of mass. Numbers and structure are apart: a `Structure` is what a trace is made of.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

from samara.core.algebra import IDENTITY, ZERO, Attitude, Mat3, Vec3
from samara.core.lazy_import import present
from samara.core.quantity import AirDensity, Quantity, RotorSpeed, Scalar, Tree
from samara.core.tree import leaf_names
from samara.physics.effect import Actuation, Effect, Wrench
from samara.physics.ground.contact import Ground
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor

if TYPE_CHECKING:
    from samara.core.types import Array

Command: TypeAlias = tuple[Scalar, ...]
"""One number per rotor, of the kind the vehicle's actuation names, and one per servo, from −1 to 1 of its limits or, of
vehicles that take speeds, in radians; or (T, τx, τy, τz) for a body driven by a wrench."""


Position: TypeAlias = Annotated[Vec3, Quantity("m", -100.0, 100.0)]


BODY = 13  # p, v, q, ω: the components of a state that every vehicle has


class State(NamedTuple):
    """Position, velocity (world axes), attitude (body to world), angular velocity (body axes), rotor speeds, and the
    states of the vehicle's effects in their order. SI units."""

    p_W: Position
    v_W: Annotated[Vec3, Quantity("m/s", -20.0, 20.0)]
    q_WB: Attitude
    omega_B: Annotated[Vec3, Quantity("rad/s", -10.0, 10.0)]
    rotor_speed: tuple[RotorSpeed, ...] = ()
    effects: tuple[Tree, ...] = ()

    def to_numpy(self, layout: str = "wxyz") -> "Array":
        """Components first: (n,) for one drone, (n, N) for N. The layout names the order of the quaternion."""
        from samara.core.tree import stacked

        return stacked(self, layout)

    @staticmethod
    def from_numpy(x: object, layout: str | None = None, vehicle: "Vehicle | None" = None) -> "State":
        """The inverse of `to_numpy`. With a vehicle its effects' states are taken too; without one, what is left over is
        rotor speeds."""
        from samara.core.tree import flatten, quaternion_order, rows_in, unstacked

        quaternion_order(layout)
        rows = rows_in(x, "a state")
        if vehicle is None:
            if len(rows) < BODY:
                raise ValueError(f"a state has at least {BODY} components; got {len(rows)}")
            template = State(ZERO, ZERO, IDENTITY, ZERO, (0.0,) * (len(rows) - BODY))
        else:
            template = State(ZERO, ZERO, IDENTITY, ZERO, (0.0,) * len(vehicle.rotors), initial_effects(vehicle))
        expected = len(flatten(template))
        if len(rows) != expected:
            raise ValueError(
                f"a state of {vehicle.name if vehicle else 'this kind'!r} has {expected} components; got {len(rows)}"
            )
        state: State = unstacked(rows, template, layout)
        return state


class Environment(NamedTuple):
    """What one physics step holds constant: air, ground, supply, what presses from outside, and what is left of each motor.

    `hub_wind_W` is the wind at each rotor's hub, and () is `wind_W` at all of them; `pushes` act on vehicles with an effect
    that feels them, such as `PUSHED`. `motor_power` is the fraction of its commanded speed or duty that each motor delivers: 0
    is a failed motor, and () are healthy ones.
    """

    wind_W: Annotated[Vec3, Quantity("m/s", -10.0, 10.0)] = ZERO
    air_density: AirDensity = SEA_LEVEL_DENSITY
    ground: Ground = Ground()
    battery_connected: Annotated[Scalar, Quantity("1", 0.0, 1.0)] = 1.0
    hub_wind_W: tuple[Annotated[Vec3, Quantity("m/s", -10.0, 10.0)], ...] = ()
    pushes: tuple[Wrench, ...] = ()
    motor_power: tuple[Annotated[Scalar, Quantity("1", 0.0, 1.0)], ...] = ()


CALM = Environment()


@dataclass(frozen=True)
class Structure:
    """What a vehicle is, without its numbers: names, switches, effects. Hashable; resolved when a trace is made.

    Where its numbers come from, how far they may be off (one standard deviation over the value), which were replaced since, and
    which effects from outside the package a file of it may name (`samara.EffectOption`), is carried along and makes no
    difference to what it is.
    """

    name: str
    actuation: Actuation
    effects: tuple[Effect, ...]
    inflow: Callable[[Scalar, Scalar, Scalar], Scalar] | None = None
    description: str = field(default="", compare=False)
    sources: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    spreads: tuple[tuple[str, float], ...] = field(default=(), compare=False)
    replaced: tuple[str, ...] = field(default=(), compare=False)
    options: tuple[Any, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Vehicle:
    """A structure and its numbers: mass, inertia, rotors, and the parameters of each effect in the structure's order."""

    structure: Structure
    mass: Scalar
    inertia_B: Mat3
    rotors: tuple[Rotor, ...]
    parameters: tuple[Tree, ...]

    @property
    def name(self) -> str:
        return self.structure.name

    @property
    def command_size(self) -> int:
        """How many numbers a command has: one for each rotor and then one for each servo; four, (T, τx, τy, τz), for a body
        that a wrench drives."""
        return len(self.rotors) + len(self.servos) or 4

    @property
    def servos(self) -> tuple[int, ...]:
        """The rotors that a servo tilts."""
        if not self.has("tilt"):
            return ()
        return tuple(i for i, rotor in enumerate(self.rotors) if rotor.servo != ())

    def has(self, effect: str) -> bool:
        """Whether an effect of that name is on."""
        return any(own.name == effect for own in self.structure.effects)

    def reads(self, field: str) -> bool:
        """Whether an effect reads a field of the environment that is there only where one does."""
        return any(field in own.reads for own in self.structure.effects)

    def index(self, effect: str) -> int:
        """The place of an effect in the vehicle's order, and so of its state in `State.effects`."""
        names = [own.name for own in self.structure.effects]
        if effect not in names:
            raise KeyError(f"vehicle {self.name!r} has no effect {effect!r}; it has {', '.join(names)}")
        return names.index(effect)

    def __getitem__(self, effect: str) -> Tree:
        """The parameters of a named effect: `vehicle["drag"].linear`."""
        return self.parameters[self.index(effect)]

    def with_effect(self, effect: Effect, parameters: Tree = ()) -> "Vehicle":
        """The vehicle with one more effect, or with another in place of the one of that name."""
        if self.has(effect.name):
            at = self.index(effect.name)
            effects = (*self.structure.effects[:at], effect, *self.structure.effects[at + 1 :])
            numbers = (*self.parameters[:at], parameters, *self.parameters[at + 1 :])
        else:
            effects, numbers = (*self.structure.effects, effect), (*self.parameters, parameters)
        return replace(self, structure=replace(self.structure, effects=effects), parameters=numbers)

    def without_effect(self, *names: str) -> "Vehicle":
        """The vehicle with the named effects off."""
        keep = [at for at in range(len(self.parameters)) if self.structure.effects[at].name not in names]
        for name in names:
            self.index(name)
        effects = tuple(self.structure.effects[at] for at in keep)
        numbers = tuple(self.parameters[at] for at in keep)
        return replace(self, structure=replace(self.structure, effects=effects), parameters=numbers)

    def replace(self, changes: Mapping[str, Tree] | None = None, /, **more: Tree) -> "Vehicle":
        """The vehicle with other numbers: `replace(mass=1.6)`, `replace({"rotors.k_thrust": 3e-8, "drag.linear": v})`

        `rotors.…` and `battery.…` are all of them, `rotors.0.…` is the first.
        """
        vehicle, all_changes = self, {**(changes or {}), **more}
        for path, value in all_changes.items():
            vehicle = _replace_at(vehicle, path, value)
        replaced = (*vehicle.structure.replaced, *all_changes)
        return replace(vehicle, structure=replace(vehicle.structure, replaced=replaced))

    def __str__(self) -> str:
        return str(present("Vehicle.text", self))

    def _repr_html_(self) -> str:
        return str(present("Vehicle.html", self))


def _replace_at(vehicle: Vehicle, path: str, value: Tree) -> Vehicle:
    head, _, rest = path.partition(".")
    if not rest and head in {field.name for field in fields(Vehicle)}:
        return replace(vehicle, **{head: value})
    if head == "inertia_B" and rest:
        return replace(vehicle, inertia_B=_replace_in(vehicle.inertia_B, rest, value, path, vehicle))
    if head == "rotors" and rest:
        return replace(vehicle, rotors=_replace_in(vehicle.rotors, rest, value, path, vehicle))
    if rest and vehicle.has(head):
        at = vehicle.index(head)
        numbers = _replace_in(vehicle.parameters[at], rest, value, path, vehicle)
        return replace(vehicle, parameters=(*vehicle.parameters[:at], numbers, *vehicle.parameters[at + 1 :]))
    raise _no_such_parameter(path, vehicle)


def _replace_in(record: Tree, path: str, value: Tree, whole: str, vehicle: Vehicle) -> Tree:
    head, _, rest = path.partition(".")
    if type(record) is tuple and head.isdecimal() and int(head) < len(record):  # one of several rotors or batteries
        k = int(head)
        inner = _replace_in(record[k], rest, value, whole, vehicle) if rest else value
        return (*record[:k], inner, *record[k + 1 :])
    if type(record) is tuple and record:  # all of them
        return tuple(_replace_in(each, path, value, whole, vehicle) for each in record)
    if head not in getattr(record, "_fields", ()):
        raise _no_such_parameter(whole, vehicle)
    inner = _replace_in(getattr(record, head), rest, value, whole, vehicle) if rest else value
    return record._replace(**{head: inner})


def _no_such_parameter(path: str, vehicle: Vehicle) -> KeyError:
    names = ", ".join(("mass", "inertia_B", "rotors", *(effect.name for effect in vehicle.structure.effects)))
    return KeyError(f"vehicle {vehicle.name!r} has no parameter {path!r}; expected a field of {names}")


def initial_effects(vehicle: Vehicle) -> tuple[Tree, ...]:
    """The effects' own states at the start, in the vehicle's order"""
    return tuple(effect.initial(vehicle) for effect in vehicle.structure.effects)


class Reference(NamedTuple):
    """Position and its derivatives to snap in the world, yaw and its first two. SI units."""

    p_W: Vec3
    v_W: Vec3 = ZERO
    a_W: Vec3 = ZERO
    j_W: Vec3 = ZERO
    yaw: Scalar = 0.0
    yaw_rate: Scalar = 0.0
    s_W: Vec3 = ZERO
    yaw_acceleration: Scalar = 0.0


REFERENCE_FIELDS = tuple(leaf_names(Reference(ZERO)))
