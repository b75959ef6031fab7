"""Small worlds the tests share: long flights made fast by tracing the source through CasADi."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import casadi
import numpy as np
from scipy.spatial.transform import Rotation

from samara import build_vehicle
from samara.core.algebra import Mat3, Vec3
from samara.core.integrate import rk4
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import CALM, Environment, State, Vehicle


@lru_cache(maxsize=4)  # a flight is often resumed: settle, then measure
def traced_step(
    vehicle: Vehicle, dt: float, environment: Environment = CALM, method: Callable = rk4
) -> casadi.Function:
    """(components, command) → components after one step: the source as a flat list of instructions."""
    state = state_at_rest(vehicle)
    n, m = len(flatten(state)), vehicle.command_size
    x, u = casadi.SX.sym("x", n), casadi.SX.sym("u", m)
    symbolic = unflatten(state, iter(x[i] for i in range(n)))
    inputs = tuple(u[i] for i in range(m))
    advanced = method(lambda s: derivative(s, inputs, vehicle, environment), symbolic, dt)
    return casadi.Function("step", [x, u], [casadi.cse(casadi.vertcat(*flatten(advanced)))])


def fly(
    vehicle: Vehicle,
    state: State,
    command: tuple,
    seconds: float,
    environment: Environment = CALM,
    dt: float = 1e-3,
    every: int = 1,
) -> np.ndarray:
    """Every `every`-th state of a flight under a constant command, the first included: (records, components).

    The step writes alternately from one buffer into the other, so that a minute at 1 kHz takes a second.
    """
    step = traced_step(vehicle, dt, environment)
    even_buffer, odd_buffer = np.array(flatten(state), dtype=float), np.empty(len(flatten(state)))
    constant_command = np.array(command, dtype=float)
    step_forth, step_back = (
        _buffer_step(step, source, constant_command, target)
        for source, target in ((even_buffer, odd_buffer), (odd_buffer, even_buffer))
    )
    records = [even_buffer.copy()]
    for i in range(1, round(seconds / dt) + 1):
        (step_forth if i % 2 else step_back)()
        if i % every == 0:
            records.append((odd_buffer if i % 2 else even_buffer).copy())
    return np.array(records)


def _buffer_step(step: casadi.Function, x: np.ndarray, u: np.ndarray, result: np.ndarray) -> Callable[[], None]:
    buffer, evaluate = step.buffer()
    buffer.set_arg(0, memoryview(x))
    buffer.set_arg(1, memoryview(u))
    buffer.set_res(0, memoryview(result))

    def evaluate_once(_keep: tuple = (buffer, x, u, result)) -> None:
        evaluate()

    return evaluate_once


def record_state(vehicle: Vehicle, components: np.ndarray) -> State:
    """Convert one record of `fly` to a state."""
    return unflatten(state_at_rest(vehicle), (float(x) for x in components))


def record_states(vehicle: Vehicle, records: np.ndarray) -> State:
    """Convert all records of `fly` to one batched state."""
    return unflatten(state_at_rest(vehicle), iter(records.T))


def rotation(q_WB: tuple) -> Rotation:
    """SciPy's rotation for (w, x, y, z): an independent implementation of attitudes."""
    w, x, y, z = q_WB
    return Rotation.from_quat(np.stack([x, y, z, w], axis=-1))


def make_rotor(tilt: float = 0.0, spin: int = 1, **changes: Any) -> Rotor:
    """A rotor at the front left, its axis tilted sideways [rad]."""
    axis_B = Vec3(0.0, -math.sin(tilt), math.cos(tilt))
    rotor = Rotor(
        Vec3(0.2, 0.15, 0.03),
        axis_B,
        spin,
        k_thrust=1.1e-5,
        k_torque=1.8e-7,
        inertia=6e-5,
        motor=Lag(0.0, 2000.0, 0.05, 0.05),
    )
    return rotor._replace(**changes)


def make_body(**options: Any) -> Vehicle:
    """A body driven by thrust and torques, without air: mass 2 kg, three different moments of inertia."""
    return build_vehicle("body", **{"mass": 2.0, "inertia": (0.02, 0.03, 0.04), "actuation": "wrench", **options})


def free_body(rotors: tuple[Rotor, ...]) -> Vehicle:
    """A body that carries rotors through empty space: no weight, no thrust, only the rotors' angular momentum."""
    inertia = Mat3(0.012, 0.001, -0.002, 0.001, 0.017, 0.0015, -0.002, 0.0015, 0.021)
    vehicle = build_vehicle("free body", mass=1.3, inertia=inertia, rotors=rotors, actuation="speed")
    return vehicle.without_effect("gravity", "rotors")


def world_angular_momentum(state: State, vehicle: Vehicle) -> np.ndarray:
    """R (J ω + Σ s J_r Ω a), in NumPy."""
    inertia = np.array(vehicle.inertia_B, dtype=float).reshape(3, 3)
    rotor_momentum_B = sum(
        rotor.spin * rotor.inertia * speed * np.array(rotor.axis_B)
        for rotor, speed in zip(vehicle.rotors, state.rotor_speed, strict=True)
    )
    return rotation(state.q_WB).apply(inertia @ np.array(state.omega_B) + rotor_momentum_B)
