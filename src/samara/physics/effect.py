"""Effects: the physical phenomena that act on a vehicle by a wrench, a state or both.

An effect is one function and one line:

    def tether(effect_state, state, command, vehicle, environment):
        return Wrench(f_W=state.p_W * -3.0)

    vehicle = vehicle.with_effect(Effect("tether", wrench=tether))

It may add its state to the vehicle's (`initial`, `derivative`): a battery, an actuator, a contact that sticks. Trim, planners,
sensors and simulations treat it by the fields of its `Effect` record, never by its name.
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
"""A function of the effect's state and of the vehicle's state, command, vehicle and environment."""
CommandFreeFunction: TypeAlias = Callable[[Tree, "State", "Vehicle", "Environment"], Result]
"""An `EffectFunction` that does not depend on the command."""


class Wrench(NamedTuple):
    """A force and a torque on the centre of mass: the force is f_B (body axes) plus f_W (world axes), the torque τ_B."""

    f_B: Annotated[Vec3, Quantity("N", -20.0, 20.0)] = ZERO
    tau_B: Annotated[Vec3, Quantity("N m", -2.0, 2.0)] = ZERO
    f_W: Annotated[Vec3, Quantity("N", -20.0, 20.0)] = ZERO


def add_wrenches(a: Wrench, b: Wrench) -> Wrench:
    """F = F_a + F_b,  τ = τ_a + τ_b, about the same point  [N, N·m]"""
    return Wrench(a.f_B + b.f_B, a.tau_B + b.tau_B, a.f_W + b.f_W)


def wrench_in_body_axes(wrench: Wrench, q_WB: Attitude) -> Wrench:
    """f_B + Rᵀ f_W as one force in body axes  [N, N·m]"""
    return Wrench(wrench.f_B + rotate_inverse(q_WB, wrench.f_W), wrench.tau_B)


def _no_state(vehicle: object) -> tuple[()]:
    return ()


def _no_rate(effect_state: object, state: object, command: object, vehicle: object, environment: object) -> tuple[()]:
    return ()


def _unchanged_state(effect_state: Tree, state: object, command: object, vehicle: object, environment: object) -> Tree:
    return effect_state


def _no_wrench(effect_state: object, state: object, command: object, vehicle: object, environment: object) -> Wrench:
    return Wrench()


class Role(StrEnum):
    """The role of an effect in a flight."""

    WEIGHT = "weight"  # accelerates all parts equally: no accelerometer measures it
    THRUST = "thrust"  # the wrench that the command controls: of the rotors, or directly on the body
    MOMENTUM = "momentum"  # torque of the rotors' angular momentum: 0 at constant rotor speeds without body rotation
    DRAG = "drag"  # drag of the airframe
    CONTACT = "contact"  # contact with the ground
    ACTUATOR = "actuator"  # dynamics between the command and the motors
    SUPPLY = "supply"  # power supply of the motors
    SHAPE = "shape"  # geometry of the body; no wrench
    ROTOR_AIR = "rotor_air"  # effect of moving air on the rotors; at most one per vehicle
    STRUCTURE = "structure"  # response to the wrenches of all other effects
    FORCE = "force"  # any other wrench


OPTIONAL_ENVIRONMENT_FIELDS = ("hub_wind_W", "external_wrenches")
"""Environment fields that a simulation fills only for vehicles with an effect that reads them; () for all others"""


@dataclass(frozen=True)
class Effect:
    """A named source of force and torque, with an optional state.

    Functions:
        initial(vehicle): the initial state of the effect, a named tuple or ().
        derivative(effect_state, state, command, vehicle, environment): the rate of that state, in the same shape.
        wrench(effect_state, state, command, vehicle, environment): the wrench on the body.
        steady_state(effect_state, state, command, vehicle, environment): the state at which it comes to rest while all other
            states are constant.
        loads(effect_state, state, vehicle, environment): the load of each rotor, in place of kF Ω² and kM Ω².
        additional_loads(effect_state, state, vehicle, environment): an increment on the load of each rotor, such as the loss
            of thrust in a climb.
        idle(effect_state, state, vehicle, environment): a condition under which wrench and rates are exactly 0 for every finite
            state and every command, such as contact in the air. Compiled code then skips the effect and computes the same bits
            (`samara.physics.idle_effects`).

    Properties:
        role: its role in the flight.
        reads: the optional fields of the environment it needs: "hub_wind_W", "external_wrenches".
        planned: whether planners, predictions and gain designs include it.
        trimmed: whether the hover trim includes it.
        scales_hover_loads: whether it scales the rotor loads by a fixed factor in hover, which trim, planners and gain designs
            include (`samara.vehicles.trim`).
        attitude_dependent: whether its force depends on the attitude.
        state_unit: the unit of a state that is not a named tuple.
        state_description: a short description of the state for exported code.
    """

    name: str
    initial: Callable[["Vehicle"], Tree] = _no_state
    derivative: EffectFunction[Tree] = _no_rate
    wrench: EffectFunction[Wrench] = _no_wrench
    steady_state: EffectFunction[Tree] = _unchanged_state
    loads: CommandFreeFunction[tuple["RotorLoad", ...]] | None = None
    role: Role = Role.FORCE
    reads: tuple[str, ...] = ()
    planned: bool = True
    trimmed: bool = True
    attitude_dependent: bool = True
    state_unit: str = "1"
    state_description: str = ""
    idle: CommandFreeFunction[Scalar] | None = None
    additional_loads: CommandFreeFunction[tuple["RotorLoad", ...]] | None = None
    scales_hover_loads: bool = False

    def __post_init__(self) -> None:
        for field in self.reads:
            if field not in OPTIONAL_ENVIRONMENT_FIELDS:
                raise ValueError(
                    f"effect {self.name!r} reads {field!r}; expected only {' and '.join(OPTIONAL_ENVIRONMENT_FIELDS)}"
                )


@dataclass(frozen=True)
class Actuation:
    """The meaning of a command, and the rotor dynamics it drives.

    `rotor_acceleration(state, command, vehicle, environment)` returns Ω̇ of every rotor [rad/s²].
    `command_from_acceleration(state, accelerations, vehicle, environment)` is its inverse, and
    `steady_command(state, vehicle, environment)` its inverse at Ω̇ = 0.
    """

    name: str
    rotor_acceleration: Callable[["State", "Command", "Vehicle", "Environment"], tuple[Scalar, ...]]
    steady_command: Callable[["State", "Vehicle", "Environment"], "Command"]
    command_from_acceleration: Callable[["State", tuple[Scalar, ...], "Vehicle", "Environment"], "Command"]
