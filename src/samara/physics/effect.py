"""What acts on a vehicle: a wrench, and the record that names where it comes from.

An effect is one function and one line:

    def tether(own, state, command, vehicle, environment):
        return Wrench(f_W=state.p_W * -3.0)

    vehicle = vehicle.with_effect(Effect("tether", wrench=tether))

It may carry state of its own (`initial`, `derivative`): a battery, an actuator, a contact that sticks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from samara.algebra import ZERO, Attitude, Vec3, rotate_inverse
from samara.quantity import Quantity


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


def _no_state(vehicle: Any) -> tuple[()]:
    return ()


def _no_rate(own: Any, state: Any, command: Any, vehicle: Any, environment: Any) -> tuple[()]:
    return ()


def _as_it_is(own: Any, state: Any, command: Any, vehicle: Any, environment: Any) -> Any:
    return own


def _no_wrench(own: Any, state: Any, command: Any, vehicle: Any, environment: Any) -> Wrench:
    return Wrench()


@dataclass(frozen=True)
class Effect:
    """A named source of force and torque, with or without state of its own.

    `initial(vehicle)` gives its state, a named tuple or (); `derivative(own, state, command, vehicle, environment)` the
    rate of that state in the same shape; `wrench(own, state, command, vehicle, environment)` what it does to the body.
    `settled`, of the same arguments, is where its state comes to rest while all others are held. An effect that knows better
    than kF and kM what the air does to the rotors has `loads(own, state, vehicle, environment)`, a load for each.
    """

    name: str
    initial: Callable[[Any], Any] = _no_state
    derivative: Callable[[Any, Any, Any, Any, Any], Any] = _no_rate
    wrench: Callable[[Any, Any, Any, Any, Any], Wrench] = _no_wrench
    settled: Callable[[Any, Any, Any, Any, Any], Any] = _as_it_is
    loads: Callable[[Any, Any, Any, Any], tuple[Any, ...]] | None = None


@dataclass(frozen=True)
class Actuation:
    """What the numbers of a command are, and how they turn the rotors.

    `rotor_acceleration(state, command, vehicle, environment)` gives Ω̇ of every rotor [rad/s²]; `steady_command(state,
    vehicle, environment)` the command that keeps the rotor speeds of the state: its inverse at Ω̇ = 0; and
    `command_for(state, accelerations, vehicle, environment)` its inverse at any Ω̇.
    """

    name: str
    rotor_acceleration: Callable[[Any, Any, Any, Any], tuple[Any, ...]]
    steady_command: Callable[[Any, Any, Any], tuple[Any, ...]]
    command_for: Callable[[Any, Any, Any, Any], tuple[Any, ...]]
