"""From setpoints to rotor outputs: Samara's geometric control loops replace the firmware's controller.

position: f/m = desired_acceleration(…);   attitude: f/m = b₃(roll, pitch, ψ) times the commanded thrust, or the one
that holds a height;   rates: ω̇ = 2 ω_n (ω_d − ω)
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from samara.compiler.compiled_step import CompiledStep
from samara.control.allocation import build_allocation, rotor_thrusts
from samara.control.default_gains import OTHER_LAG, Gains, default_gains
from samara.control.disturbance_torque import (
    DisturbanceObserver,
    compensate,
    initial_observer_state,
    lead_state,
    merge_state,
    motor_lag,
    observe,
    split_state,
)
from samara.control.geometric import (
    DEFAULT_LIMITS,
    AttitudeTrackingError,
    desired_acceleration,
    desired_angular_acceleration,
    geometric_wrench,
    model_drag,
)
from samara.core.algebra import UP, ZERO, Vec3, quat_from_euler, rotate
from samara.core.ops import clamp, maximum, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.physics.motion.body import required_torque
from samara.physics.multirotor import state_at_rest, total_rotor_wrench
from samara.physics.types import Reference, State, Vehicle
from samara.vehicles.exchange.throttle import full_thrust

RESIDUAL_LAG_FRACTION = 0.25  # fraction of the motor lag that the model does not predict


def predict_state(state: State, vehicle: Vehicle, observer: DisturbanceObserver | None) -> State:
    """p + T v, v + T v̇, q ⊗ exp(T ω), ω + T ω̇, by the model of rotors and air; the state itself without an observer."""
    if observer is None:
        return state
    lag, g = motor_lag(vehicle), vehicle["gravity"].acceleration
    f_W = rotate(state.q_WB, total_rotor_wrench(state, vehicle).f_B) + model_drag(state.v_W, state, vehicle)
    a_W = f_W / vehicle.mass - Vec3(0.0, 0.0, g)
    return lead_state(state, vehicle, observer)._replace(p_W=state.p_W + state.v_W * lag, v_W=state.v_W + a_W * lag)


def predict_reference(reference: Reference, vehicle: Vehicle, observer: DisturbanceObserver | None) -> Reference:
    """p + T v, v + T a, a + T j, j + T s, ψ + T ψ̇, ψ̇ + T ψ̈; the reference itself without an observer."""
    if observer is None:
        return reference
    lag = motor_lag(vehicle)
    return reference._replace(
        p_W=reference.p_W + reference.v_W * lag,
        v_W=reference.v_W + reference.a_W * lag,
        a_W=reference.a_W + reference.j_W * lag,
        j_W=reference.j_W + reference.s_W * lag,
        yaw=reference.yaw + reference.yaw_rate * lag,
        yaw_rate=reference.yaw_rate + reference.yaw_acceleration * lag,
    )


def scale_gains(gains: Gains, vehicle: Vehicle) -> Gains:
    """Increase the gains to the bandwidth that the residual lag allows; the yaw gain is unchanged."""
    lag = motor_lag(vehicle)
    factor = (lag + OTHER_LAG) / (RESIDUAL_LAG_FRACTION * lag + OTHER_LAG)
    x, y, z = gains.attitude
    return Gains(gains.position * factor, Vec3(x * factor, y * factor, z))


OFF, POSITION, ATTITUDE, ATTITUDE_AT_HEIGHT, RATES = range(5)
MIN_TILT_COSINE = 0.5  # smallest cosine of the tilt by which the height-holding thrust is divided


class ControllerSetpoint(NamedTuple):
    """A setpoint by `mode`: a position, or an attitude [rad] or rates [rad/s] with a fraction of the full thrust."""

    mode: int
    reference: Reference
    roll: float = 0.0
    pitch: float = 0.0
    thrust: float = 0.0
    omega_B: Vec3 = ZERO


class CrazyflieLinkController:
    """Computes rotor outputs from 0 to 1, thrust linear in them; call `outputs(state, setpoint)` every `period` [s]."""

    def __init__(self, vehicle: Vehicle, hover: float, period: float) -> None:
        self._count, self._machine = len(vehicle.rotors), _compiled_controller(vehicle, hover, period).machine()
        self._rest_state, self._zero_outputs = state_at_rest(vehicle), [0.0] * len(vehicle.rotors)

    def outputs(self, state: State, setpoint: ControllerSetpoint) -> Sequence[float]:
        """Compute the rotor outputs for a state with rotor speeds; reset the disturbance estimate while the motors are off."""
        if setpoint.mode == OFF:
            self._machine.carry[:, 0] = 0.0
            return self._zero_outputs
        self._machine.held_inputs[:, 0] = flatten((state._replace(effects=self._rest_state.effects), setpoint))
        self._machine.run()
        outputs: list[float] = self._machine.carry[: self._count, 0].tolist()
        return outputs


@lru_cache(maxsize=16)
def _compiled_controller(vehicle: Vehicle, hover: float, period: float) -> CompiledStep:
    """Compile (outputs, controller state) from (state, setpoint)."""
    allocation, full_rotor_thrust, initial_observer = (
        build_allocation(vehicle),
        full_thrust(vehicle, hover),
        initial_observer_state(vehicle),
    )
    gains = default_gains(vehicle, lead=0.0)
    if initial_observer is not None:
        gains = scale_gains(gains, vehicle)
    full_collective_thrust = full_rotor_thrust * len(vehicle.rotors)

    def body(carry: Scalar, inputs: Scalar) -> Scalar:
        (_, controller_state), (state, setpoint) = carry, inputs
        integral_W, observer_before = split_state(controller_state)
        observer = observe(state, vehicle, observer_before, period)
        predicted_state = predict_state(state, vehicle, observer)
        predicted_reference = predict_reference(setpoint.reference, vehicle, observer)
        position_acceleration_W, integral_W = desired_acceleration(
            predicted_state, predicted_reference, vehicle, integral_W, gains, DEFAULT_LIMITS, allocation, period
        )
        up_W = rotate(quat_from_euler(setpoint.roll, setpoint.pitch, predicted_reference.yaw), UP)
        commanded_thrust = setpoint.thrust * full_collective_thrust
        specific_thrust = where(
            setpoint.mode == ATTITUDE_AT_HEIGHT,
            position_acceleration_W.z / maximum(up_W.z, MIN_TILT_COSINE),
            commanded_thrust / vehicle.mass,
        )
        desired_acceleration_W = Vec3(
            *(
                where(setpoint.mode == POSITION, p, u * specific_thrust)
                for p, u in zip(position_acceleration_W, up_W, strict=True)
            )
        )
        collective_thrust, tau_B = geometric_wrench(
            desired_acceleration_W, predicted_state, predicted_reference, vehicle, gains, allocation.controls_yaw
        )
        rate_error = AttitudeTrackingError(ZERO, predicted_state.omega_B - setpoint.omega_B, setpoint.omega_B, ZERO)
        rate_torque_B = required_torque(
            predicted_state.omega_B, desired_angular_acceleration(rate_error, gains), inertia_B=vehicle.inertia_B
        )
        is_rate_mode = setpoint.mode == RATES
        desired_torque_B = Vec3(*(where(is_rate_mode, a, b) for a, b in zip(rate_torque_B, tau_B, strict=True)))
        collective_thrust = where(is_rate_mode, commanded_thrust, collective_thrust)
        thrusts = rotor_thrusts(
            collective_thrust, compensate(collective_thrust, desired_torque_B, state, vehicle, observer), allocation
        )
        return tuple(clamp(thrust / full_rotor_thrust, 0.0, 1.0) for thrust in thrusts), merge_state(
            integral_W, observer
        )

    zero_outputs = tuple(0.0 for _ in vehicle.rotors)
    controller_state = merge_state(ZERO, initial_observer)
    return CompiledStep(
        body, (zero_outputs, controller_state), (state_at_rest(vehicle), ControllerSetpoint(POSITION, Reference(ZERO)))
    )
