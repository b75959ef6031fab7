"""Types of the equations of motion: the state of a multirotor, the vehicle and the environment that one step holds constant.

The state refers to the centre of mass. A vehicle separates structure from parameters: a trace depends on the `Structure` only.
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
"""One number per rotor, in the unit of the vehicle's actuation, then one per servo: a fraction of its limit from −1 to 1 or,
for vehicles commanded by rotor speed, an angle in radians. A body driven by a wrench takes (T, τx, τy, τz)."""


Position: TypeAlias = Annotated[Vec3, Quantity("m", -100.0, 100.0)]


BODY_STATE_SIZE = 13  # components of p, v, q and ω, which every state has


class State(NamedTuple):
    """Position, velocity (world axes), attitude (body to world), angular velocity (body axes), rotor speeds, and the
    states of the vehicle's effects in their order. SI units."""

    p_W: Position
    v_W: Annotated[Vec3, Quantity("m/s", -20.0, 20.0)]
    q_WB: Attitude
    omega_B: Annotated[Vec3, Quantity("rad/s", -10.0, 10.0)]
    rotor_speed: tuple[RotorSpeed, ...] = ()
    effects: tuple[Tree, ...] = ()

    def in_ned(self) -> "State":
        """Return the state in NED (north, east, down) and FRD (forward, right, down): `state_ned_frd_from_enu_flu`.

        `samara.physics.state_enu_flu_from_ned_frd` converts it back. Rotor speeds and effects stay as they are.
        """
        state: State = present("State.in_ned", self)
        return state

    def to_numpy(self, layout: str = "wxyz") -> "Array":
        """Return the components as an array, (n,) for one drone or (n, N) for N; `layout` is the order of the quaternion."""
        from samara.core.tree import stack_state

        return stack_state(self, layout)

    @staticmethod
    def from_numpy(x: object, layout: str | None = None, vehicle: "Vehicle | None" = None) -> "State":
        """Build a state from an array; the inverse of `to_numpy`.

        With a vehicle, the array includes the states of its effects. Without one, all components after the body's are rotor
        speeds.
        """
        from samara.core.tree import array_rows, flatten, quaternion_order, unstack_state

        quaternion_order(layout)
        rows = array_rows(x, "a state")
        if vehicle is None:
            if len(rows) < BODY_STATE_SIZE:
                raise ValueError(f"a state has at least {BODY_STATE_SIZE} components; got {len(rows)}")
            template = State(ZERO, ZERO, IDENTITY, ZERO, (0.0,) * (len(rows) - BODY_STATE_SIZE))
        else:
            template = State(ZERO, ZERO, IDENTITY, ZERO, (0.0,) * len(vehicle.rotors), initial_effects(vehicle))
        expected = len(flatten(template))
        if len(rows) != expected:
            raise ValueError(
                f"a state of {vehicle.name if vehicle else 'this kind'!r} has {expected} components; got {len(rows)}"
            )
        state: State = unstack_state(rows, template, layout)
        return state


class Environment(NamedTuple):
    """Air, ground, power supply, external wrenches and motor effectiveness: constant during one physics step.

    `hub_wind_W` is the wind at each rotor's hub; () means `wind_W` at all of them. `external_wrenches`
    act on vehicles with an effect that reads them, such as `EXTERNAL_WRENCH`. `motor_effectiveness` is the fraction of its
    commanded speed or duty that each motor delivers: 0 is a failed motor, and () means that all are healthy.
    """

    wind_W: Annotated[Vec3, Quantity("m/s", -10.0, 10.0)] = ZERO
    air_density: AirDensity = SEA_LEVEL_DENSITY
    ground: Ground = Ground()
    battery_connected: Annotated[Scalar, Quantity("1", 0.0, 1.0)] = 1.0
    hub_wind_W: tuple[Annotated[Vec3, Quantity("m/s", -10.0, 10.0)], ...] = ()
    external_wrenches: tuple[Wrench, ...] = ()
    motor_effectiveness: tuple[Annotated[Scalar, Quantity("1", 0.0, 1.0)], ...] = ()


CALM = Environment()


@dataclass(frozen=True)
class Structure:
    """A vehicle without its parameters: name, actuation, effects and inflow model. Hashable; constant in a trace.

    `sources`, `relative_uncertainties` (standard deviation over value), `replaced_parameters` (paths of replaced parameters)
    and `effect_options` (effects from outside the package that a vehicle file may name, see `samara.EffectOption`)
    document the parameters. They do not count in comparisons.
    """

    name: str
    actuation: Actuation
    effects: tuple[Effect, ...]
    inflow: Callable[[Scalar, Scalar, Scalar], Scalar] | None = None
    description: str = field(default="", compare=False)
    sources: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    relative_uncertainties: tuple[tuple[str, float], ...] = field(default=(), compare=False)
    replaced_parameters: tuple[str, ...] = field(default=(), compare=False)
    effect_options: tuple[Any, ...] = field(default=(), compare=False)


@dataclass(frozen=True, repr=False)
class Vehicle:
    """A structure and its parameters: mass, inertia, rotors, and the parameters of each effect in the structure's order."""

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
        """The length of a command: one number per rotor, then one per servo; 4 for a body driven by a wrench."""
        return len(self.rotors) + len(self.servos) or 4

    @property
    def servos(self) -> tuple[int, ...]:
        """The indices of the rotors that a servo tilts."""
        if not self.has("tilt"):
            return ()
        return tuple(i for i, rotor in enumerate(self.rotors) if rotor.servo != ())

    def has(self, effect: str) -> bool:
        """Return whether the vehicle has an effect of that name."""
        return any(candidate.name == effect for candidate in self.structure.effects)

    def reads(self, field: str) -> bool:
        """Return whether an effect reads this optional field of the environment
        (`samara.physics.effect.OPTIONAL_ENVIRONMENT_FIELDS`)."""
        return any(field in effect.reads for effect in self.structure.effects)

    def index(self, effect: str) -> int:
        """Return the index of an effect in the vehicle's order, which is also the index of its state in `State.effects`."""
        names = [candidate.name for candidate in self.structure.effects]
        if effect not in names:
            raise KeyError(f"vehicle {self.name!r} has no effect {effect!r}; it has {', '.join(names)}")
        return names.index(effect)

    def __getitem__(self, effect: str) -> Tree:
        """Return the parameters of a named effect: `vehicle["drag"].linear`."""
        return self.parameters[self.index(effect)]

    def with_effect(self, effect: Effect, parameters: Tree = ()) -> "Vehicle":
        """Return the vehicle with `effect` appended, or in place of the effect of the same name."""
        if self.has(effect.name):
            index = self.index(effect.name)
            effects = (*self.structure.effects[:index], effect, *self.structure.effects[index + 1 :])
            all_parameters = (*self.parameters[:index], parameters, *self.parameters[index + 1 :])
        else:
            effects, all_parameters = (*self.structure.effects, effect), (*self.parameters, parameters)
        return replace(self, structure=replace(self.structure, effects=effects), parameters=all_parameters)

    def without_effect(self, *names: str) -> "Vehicle":
        """Return the vehicle without the named effects."""
        retained = [index for index in range(len(self.parameters)) if self.structure.effects[index].name not in names]
        for name in names:
            self.index(name)
        effects = tuple(self.structure.effects[index] for index in retained)
        parameters = tuple(self.parameters[index] for index in retained)
        return replace(self, structure=replace(self.structure, effects=effects), parameters=parameters)

    def replace(self, changes: Mapping[str, Tree] | None = None, /, **named_changes: Tree) -> "Vehicle":
        """Return the vehicle with changed parameters.

        Examples: `replace(mass=1.6)`, `replace({"rotors.k_thrust": 3e-8, "drag.linear": v})`. `rotors.…` and `battery.…` change
        all of them, `rotors.0.…` the first.

        Raises:
            KeyError: the vehicle has no such parameter.
            ValueError: the mass is not positive. A mass that the rotors are far from carrying warns once.
        """
        all_changes = {**(changes or {}), **named_changes}
        vehicle = replace_parameters(self, all_changes)
        if "mass" in all_changes:
            present("Vehicle.check", vehicle)
        return vehicle

    def __repr__(self) -> str:
        return str(present("Vehicle.text", self))

    def _repr_html_(self) -> str:
        return str(present("Vehicle.html", self))


def replace_parameters(vehicle: Vehicle, changes: Mapping[str, Tree]) -> Vehicle:
    """Return the vehicle with changed parameters, unchecked; see `Vehicle.replace`."""
    replaced = (*vehicle.structure.replaced_parameters, *changes)
    for path, value in changes.items():
        vehicle = _replace_parameter(vehicle, path, value)
    return replace(vehicle, structure=replace(vehicle.structure, replaced_parameters=replaced))


def _replace_parameter(vehicle: Vehicle, path: str, value: Tree) -> Vehicle:
    head, _, subpath = path.partition(".")
    if not subpath and head in {field.name for field in fields(Vehicle)}:
        return replace(vehicle, **{head: value})
    if head == "inertia_B" and subpath:
        return replace(vehicle, inertia_B=_replace_field(vehicle.inertia_B, subpath, value, path, vehicle))
    if head == "rotors" and subpath:
        return replace(vehicle, rotors=_replace_field(vehicle.rotors, subpath, value, path, vehicle))
    if subpath and vehicle.has(head):
        index = vehicle.index(head)
        parameters = _replace_field(vehicle.parameters[index], subpath, value, path, vehicle)
        return replace(vehicle, parameters=(*vehicle.parameters[:index], parameters, *vehicle.parameters[index + 1 :]))
    raise _unknown_parameter_error(path, vehicle)


def _replace_field(record: Tree, path: str, value: Tree, full_path: str, vehicle: Vehicle) -> Tree:
    head, _, subpath = path.partition(".")
    if type(record) is tuple and head.isdecimal() and int(head) < len(record):  # one of several rotors or batteries
        index = int(head)
        inner = _replace_field(record[index], subpath, value, full_path, vehicle) if subpath else value
        return (*record[:index], inner, *record[index + 1 :])
    if type(record) is tuple and record:  # all of them
        return tuple(_replace_field(member, path, value, full_path, vehicle) for member in record)
    if head not in getattr(record, "_fields", ()):
        raise _unknown_parameter_error(full_path, vehicle)
    inner = _replace_field(getattr(record, head), subpath, value, full_path, vehicle) if subpath else value
    return record._replace(**{head: inner})


def _unknown_parameter_error(path: str, vehicle: Vehicle) -> KeyError:
    names = ", ".join(("mass", "inertia_B", "rotors", *(effect.name for effect in vehicle.structure.effects)))
    return KeyError(f"vehicle {vehicle.name!r} has no parameter {path!r}; expected a field of {names}")


def initial_effects(vehicle: Vehicle) -> tuple[Tree, ...]:
    """Return the initial states of the effects, in the vehicle's order."""
    return tuple(effect.initial(vehicle) for effect in vehicle.structure.effects)


class Reference(NamedTuple):
    """Desired position and its derivatives to snap (world axes), desired yaw and its first two derivatives. SI units."""

    p_W: Vec3
    v_W: Vec3 = ZERO
    a_W: Vec3 = ZERO
    j_W: Vec3 = ZERO
    yaw: Scalar = 0.0
    yaw_rate: Scalar = 0.0
    s_W: Vec3 = ZERO
    yaw_acceleration: Scalar = 0.0


REFERENCE_FIELDS = tuple(leaf_names(Reference(ZERO)))
