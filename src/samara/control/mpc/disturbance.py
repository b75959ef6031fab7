"""What pushes the vehicle beside its own equations: wind above all, and whatever else the model does not know.

    d ← d + (1 − e^{−dt/τ}) ((v − v₋)/dt − ½ (a₋ + a) − d)

The mean acceleration between two calls, less what the equations of motion say of the two states, rotors as they turn: d is the
rest, smoothed over τ. It is added to the prediction, so that a steady push leaves no offset.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from samara.compiler.compiled_step import CompiledStep
from samara.control.allocation import Allocation, command_for_wrench
from samara.control.disturbance_torque import Turned, led, opposed, seen
from samara.core.algebra import ZERO, Quat, Vec3
from samara.core.ops import clamp, where
from samara.core.quantity import Scalar
from samara.physics.multirotor import derivative
from samara.physics.types import Command, State, Vehicle
from samara.vehicles.trim import hover


class Observed(NamedTuple):
    """The push d [m/s²], and the velocity and modelled acceleration of the call before."""

    push_W: Vec3
    v_W: Vec3
    a_W: Vec3


NOTHING = Observed(ZERO, ZERO, ZERO)


def observed(before: Observed, state: State, command: Command, vehicle: Vehicle, share: Scalar, dt: Scalar) -> Observed:
    """d ← d + share ((v − v₋)/dt − ½ (a₋ + a) − d), each component within ±g"""
    a_W, g = derivative(state, command, vehicle).v_W, vehicle["gravity"].acceleration
    left_over = (state.v_W - before.v_W) / dt - (before.a_W + a_W) * 0.5
    push_W = before.push_W + (left_over - before.push_W) * share
    return Observed(Vec3(*(clamp(each, -g, g) for each in push_W)), state.v_W, a_W)


def share_of(period: float, smoothing: float) -> float:
    """1 − e^{−dt/τ}"""
    return -math.expm1(-period / smoothing)


def confirmed_push(push_W: Vec3, confirmed: Scalar) -> Vec3:
    """Return the push, or 0 at the first tick (`confirmed` 0), which has no earlier velocity to compare with."""
    return Vec3(*(where(confirmed > 0.0, x, 0.0) for x in push_W))


def body_of(state: State) -> State:
    """p, v, q and ω alone"""
    return State(state.p_W, state.v_W, state.q_WB, state.omega_B, (), ())


def unit_body(body: State, size: Scalar) -> State:
    """Return the body with q / |q| for its attitude; `size` is |q|."""
    return body._replace(q_WB=Quat(*(x / size for x in body.q_WB)))


def led_body(body: State, state: State, turned: Turned, vehicle: Vehicle) -> State:
    """A body as it would be without its motors' lag; the state has the speeds of its rotors"""
    return body_of(led(body._replace(rotor_speed=state.rotor_speed, effects=state.effects), vehicle, turned))


def given_command(
    wrench: Sequence[Scalar], state: State, before: Any, vehicle: Vehicle, allocation: Allocation, period: float
) -> tuple[Command, Any]:
    """The command for (T, τ), with what opposes that which turns the body beside its rotors; and what is seen of it

    Damping is opposed in the plan already. Without a memory, (), only what the model knows is opposed.
    """
    lift, *torques = wrench
    turned = seen(state, vehicle, before or None, period)
    tau_B = opposed(lift, Vec3(*torques), state, vehicle, turned, resisted=True)
    return command_for_wrench(lift, tau_B, state, vehicle, allocation), () if turned is None else turned


@lru_cache(maxsize=16)
def observer_code(vehicle: Vehicle) -> CompiledStep:
    """carry: what was observed; held: state, command, share, dt"""
    state, command = hover(vehicle)
    return CompiledStep(
        lambda own, held: observed(own, held[0], held[1], vehicle, held[2], held[3]),
        NOTHING,
        (state, command, 0.0, 1.0),
    )
