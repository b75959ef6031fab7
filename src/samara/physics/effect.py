"""What acts on a vehicle: a wrench, and the record that names where it comes from.

An effect is one function and one line:

    def tether(own, state, command, vehicle, environment):
        return Wrench(f_W=state.p_W * -3.0)

    vehicle = vehicle.with_effect(Effect("tether", wrench=tether))

It may carry state of its own (`initial`, `derivative`): a battery, an actuator, a contact that sticks. What trims, planners,
sensors and simulations make of it follows from what the record says, never from its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias, TypeVar

from samara.core.algebra import ZERO, Attitude, Vec3, rotate_inverse
from samara.core.quantity import Quantity, Scalar, Tree

if TYPE_CHECKING:
    from samara.physics.rotors.rotor import RotorLoad
    from samara.physics.types import Command, Environment, State, Vehicle

Result = TypeVar("Result")
EffectFunction: TypeAlias = Callable[[Tree, "State", "Command", "Vehicle", "Environment"], Result]
"""Of the effect's own state, and of state, command, vehicle and environment"""
Uncommanded: TypeAlias = Callable[[Tree, "State", "Vehicle", "Environment"], Result]
"""The same of what does not depend on the command"""


class Wrench(NamedTuple):
    """A force and a torque on the centre of mass: the force is f_B (body axes) plus f_W (world axes), the torque τ_B."""

    f_B: Annotated[Vec3, Quantity("N", -20.0, 20.0)] = ZERO
    tau_B: Annotated[Vec3, Quantity("N m", -2.0, 2.0)] = ZERO
    f_W: Annotated[Vec3, Quantity("N", -20.0, 20.0)] = ZERO


def add_wrenches(a: Wrench, b: Wrench) -> Wrench:
    """Forces add, and torques about the same point add"""
    return Wrench(a.f_B + b.f_B, a.tau_B + b.tau_B, a.f_W + b.f_W)


def wrench_in_body_axes(wrench: Wrench, q_WB: Attitude) -> Wrench:
    """f_B + Rᵀ f_W as one force in body axes  [N, N·m]"""
    return Wrench(wrench.f_B + rotate_inverse(q_WB, wrench.f_W), wrench.tau_B)


def _no_state(vehicle: object) -> tuple[()]:
    return ()


def _no_rate(own: object, state: object, command: object, vehicle: object, environment: object) -> tuple[()]:
    return ()


def _as_it_is(own: Tree, state: object, command: object, vehicle: object, environment: object) -> Tree:
    return own


def _no_wrench(own: object, state: object, command: object, vehicle: object, environment: object) -> Wrench:
    return Wrench()


class Role(StrEnum):
    """What part an effect has in a flight."""

    WEIGHT = "weight"  # pulls at every part alike: no accelerometer feels it
    THRUST = "thrust"  # what the command makes the rotors push with, or the body itself
    MOMENTUM = "momentum"  # of the rotors: none while they keep their speeds and the body does not turn
    DRAG = "drag"  # of the airframe, in the air
    CONTACT = "contact"  # with the ground
    ACTUATOR = "actuator"  # stands between the command and the motors
    SUPPLY = "supply"  # feeds the motors
    SHAPE = "shape"  # says what the body is like, and pushes nothing
    ROTOR_AIR = "rotor_air"  # what moving air does to the rotors: a vehicle has at most one of these
    STRUCTURE = "structure"  # follows from the wrenches of all other effects
    FORCE = "force"  # any other


PROVIDED = ("hub_wind_W", "pushes")
"""The fields of an environment that a simulation fills for vehicles with an effect that reads them, and leaves () for others"""


@dataclass(frozen=True)
class Effect:
    """A named source of force and torque, with or without state of its own.

    `initial(vehicle)` gives its state, a named tuple or (); `derivative(own, state, command, vehicle, environment)` the
    rate of that state in the same shape; `wrench(own, state, command, vehicle, environment)` what it does to the body.
    `settled`, of the same arguments, is where its state comes to rest while all others are held. An effect that knows better
    than kF and kM what the air does to the rotors has `loads(own, state, vehicle, environment)`, a load for each; one that
    adds to these, such as what climb takes off the thrust, has `more_loads` of the same arguments. One that does nothing most
    of the time, such as contact in the air, may have `idle(own, state, vehicle, environment)`: a condition under which its
    wrench and its rates are exactly 0, for any finite state and whatever the command. Compiled code then leaves it out where
    that holds (`samara.physics.idle_effects`), and computes the same numbers.

    The rest says how others treat it. `role` is its part in the flight. `reads` names what it needs of the environment besides
    wind, air and ground: "hub_wind_W", "pushes". What is not `planned` is left out by planners, predictions and gain designs,
    what is not `trimmed` by the balance of hover. `counted` is one that leaves the rotors a fixed part of their loads in hover,
    which all of these count on (`samara.vehicles.trim`). `turns` is whether its force depends on the attitude.
    `state_unit` is the unit of a state that is no named tuple, `state_about` a few words on it for exported code.
    """

    name: str
    initial: Callable[["Vehicle"], Tree] = _no_state
    derivative: EffectFunction[Tree] = _no_rate
    wrench: EffectFunction[Wrench] = _no_wrench
    settled: EffectFunction[Tree] = _as_it_is
    loads: Uncommanded[tuple["RotorLoad", ...]] | None = None
    role: Role = Role.FORCE
    reads: tuple[str, ...] = ()
    planned: bool = True
    trimmed: bool = True
    turns: bool = True
    state_unit: str = "1"
    state_about: str = ""
    idle: Uncommanded[Scalar] | None = None
    more_loads: Uncommanded[tuple["RotorLoad", ...]] | None = None
    counted: bool = False

    def __post_init__(self) -> None:
        for field in self.reads:
            if field not in PROVIDED:
                raise ValueError(f"effect {self.name!r} reads {field!r}; expected only {' and '.join(PROVIDED)}")


@dataclass(frozen=True)
class Actuation:
    """What the numbers of a command are, and how they turn the rotors.

    `rotor_acceleration(state, command, vehicle, environment)` gives Ω̇ of every rotor [rad/s²]; `steady_command(state,
    vehicle, environment)` the command that keeps the rotor speeds of the state: its inverse at Ω̇ = 0; and
    `command_for(state, accelerations, vehicle, environment)` its inverse at any Ω̇.
    """

    name: str
    rotor_acceleration: Callable[["State", "Command", "Vehicle", "Environment"], tuple[Scalar, ...]]
    steady_command: Callable[["State", "Vehicle", "Environment"], "Command"]
    command_for: Callable[["State", tuple[Scalar, ...], "Vehicle", "Environment"], "Command"]
