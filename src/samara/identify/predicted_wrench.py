"""The wrench that a candidate vehicle predicts along a measured flight, evaluated at all samples in one compiled batch."""

from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

import numpy as np

from samara.compiler.scan import CompiledScan, Templates
from samara.compiler.stepper import Scan, compile_scan
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.identify.parameters import VARIED_PATHS
from samara.physics.effect import wrench_in_body_axes
from samara.physics.motion.body import required_torque
from samara.physics.multirotor import state_at_rest, wrench
from samara.physics.rotors.actuator import command_from_speed
from samara.physics.types import BODY_STATE_SIZE, CALM, State, Vehicle
from samara.vehicles.parameters import parameter, with_parameters


class PredictedWrench(NamedTuple):
    """Force and torque on the body without gravity, in body axes, (3, n) each  [N, N·m]."""

    f_B: Array
    tau_B: Array


def motor_commands(commanded: Scalar, vehicle: Vehicle) -> tuple[Scalar, ...]:
    """Return the commands that correspond to commanded rotor speeds, in the vehicle's actuation."""
    if vehicle.structure.actuation.name == "speed":
        return tuple(commanded)
    return tuple(command_from_speed(speed, rotor.motor) for speed, rotor in zip(commanded, vehicle.rotors, strict=True))


def predict_wrench(
    vehicle: Vehicle, body: Array, speeds: Array, commanded: Array, wind_W: Vec3 = ZERO
) -> PredictedWrench:
    """Predict f_B and τ_B at the measured states `body` (13, n).

    Args:
        vehicle: the candidate.
        body: position, velocity, attitude and angular velocity, in the order of `State`.
        speeds: rotor speeds (rotors, n) [rad/s].
        commanded: commanded rotor speeds (rotors, n) [rad/s].
        wind_W: steady wind [m/s].
    """
    n = body.shape[1]
    varied = tuple(parameter(vehicle, path) for path in VARIED_PATHS)
    ones = unflatten(varied, repeat(1.0))
    run = _compile_wrench(with_parameters(vehicle, VARIED_PATHS, ones))
    constants = [*body[3:BODY_STATE_SIZE], *speeds, *motor_commands(commanded, vehicle), *wind_W, *flatten(varied)]
    rows = [float(value) if np.ndim(value) == 0 else np.ascontiguousarray(value) for value in constants]
    _, outputs = run(np.zeros((1, n)), rows, None, 1, 1)
    return PredictedWrench(outputs[0, :3], outputs[0, 3:])


def required_body_torque(body: Array, angular_acceleration: Array, vehicle: Vehicle) -> Array:
    """J ω̇ + ω × Jω  [N·m]"""
    return np.stack(
        required_torque(Vec3(*body[10:BODY_STATE_SIZE]), Vec3(*angular_acceleration), inertia_B=vehicle.inertia_B)
    )


@lru_cache(maxsize=16)
def _compile_wrench(vehicle: Vehicle) -> CompiledScan:
    """Compile the wrench once for all vehicles that differ in `VARIED_PATHS` only; those parameters are inputs."""
    weightless = vehicle.without_effect("gravity")
    effects = state_at_rest(weightless).effects

    def body(carry: Scalar, constants: Scalar, inputs: Scalar) -> Scalar:
        v_W, q_WB, omega_B, speeds, command, wind_W, varied = constants
        candidate = with_parameters(weightless, VARIED_PATHS, varied)
        state = State(ZERO, v_W, q_WB, omega_B, speeds, effects)
        total = wrench_in_body_axes(wrench(state, command, candidate, CALM._replace(wind_W=wind_W)), q_WB)
        return carry, (total.f_B, total.tau_B)

    per_rotor = tuple(0.5 for _ in vehicle.rotors)
    varied = tuple(parameter(vehicle, path) for path in VARIED_PATHS)
    constants = (ZERO, IDENTITY, ZERO, per_rotor, per_rotor, ZERO, varied)
    return compile_scan("llvm", Scan(body, Templates((0.0,), constants, ())))
