"""From setpoints to rotor outputs: Samara's geometric control loops replace the firmware's controller.

position: f/m = steered_pull(…);   attitude: f/m = b₃(roll, pitch, ψ) times the commanded thrust, or the one that holds
a height;   rates: ω̇ = 2 ω_n (ω_d − ω)
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from samara.compiler.compiled_step import CompiledStep
from samara.control.allocation import allocation_for, rotor_thrusts
from samara.control.default_gains import OTHER_LAGS, Gains, gains_for
from samara.control.disturbance_torque import Turned, joined, led, motor_lag, nothing_seen, opposed, parted, seen
from samara.control.geometric import DEFAULT_LIMITS, Deviation, drag_at, geometric_wrench, steered_pull, wanted_turn
from samara.core.algebra import UP, ZERO, Vec3, quat_from_euler, rotate
from samara.core.ops import clamp, maximum, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.physics.motion.body import required_torque
from samara.physics.multirotor import at_rest, wrench_of_rotors
from samara.physics.types import Reference, State, Vehicle
from samara.vehicles.exchange.throttle import full_thrust

LEFT = 0.25  # of the motor lag: the fraction that the model does not predict


def state_ahead(state: State, vehicle: Vehicle, observer: Turned | None) -> State:
    """p + T v, v + T v̇, q ⊗ exp(T ω), ω + T ω̇, by the model of rotors and air; the state itself without an observer."""
    if observer is None:
        return state
    lag, g = motor_lag(vehicle), vehicle["gravity"].acceleration
    f_W = rotate(state.q_WB, wrench_of_rotors(state, vehicle).f_B) + drag_at(state.v_W, state, vehicle)
    a_W = f_W / vehicle.mass - Vec3(0.0, 0.0, g)
    return led(state, vehicle, observer)._replace(p_W=state.p_W + state.v_W * lag, v_W=state.v_W + a_W * lag)


def reference_ahead(reference: Reference, vehicle: Vehicle, observer: Turned | None) -> Reference:
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


def gains_ahead(gains: Gains, vehicle: Vehicle) -> Gains:
    """Increase the gains to the bandwidth that the residual lag allows; the yaw gain is unchanged."""
    lag = motor_lag(vehicle)
    factor = (lag + OTHER_LAGS) / (LEFT * lag + OTHER_LAGS)
    x, y, z = gains.attitude
    return Gains(gains.position * factor, Vec3(x * factor, y * factor, z))


OFF, PLACE, ATTITUDE, ATTITUDE_AT_HEIGHT, RATES = range(5)
STEEPEST = 0.5  # least cosine of the tilt by which the thrust that holds a height is divided


class Wanted(NamedTuple):
    """A setpoint by `mode`: a position, or an attitude [rad] or rates [rad/s] with a fraction of the full thrust."""

    mode: int
    reference: Reference
    roll: float = 0.0
    pitch: float = 0.0
    thrust: float = 0.0
    omega_B: Vec3 = ZERO


class Pilot:
    """Computes rotor outputs from 0 to 1, thrust linear in them; call `outputs(state, wanted)` every `period` [s]."""

    def __init__(self, vehicle: Vehicle, hover: float, period: float) -> None:
        self._count, self._machine = len(vehicle.rotors), _code(vehicle, hover, period).machine()
        self._rest, self._still = at_rest(vehicle), [0.0] * len(vehicle.rotors)

    def outputs(self, state: State, setpoint: Wanted) -> Sequence[float]:
        """Compute the rotor outputs for a state with rotor speeds; reset the disturbance estimate while the motors are off."""
        if setpoint.mode == OFF:
            self._machine.carry[:, 0] = 0.0
            return self._still
        self._machine.held[:, 0] = flatten((state._replace(effects=self._rest.effects), setpoint))
        self._machine.run()
        outputs: list[float] = self._machine.carry[: self._count, 0].tolist()
        return outputs


@lru_cache(maxsize=16)
def _code(vehicle: Vehicle, hover: float, period: float) -> CompiledStep:
    """Compile (outputs, controller state) from (state, setpoint)."""
    allocation, full_rotor_thrust, initial_observer = (
        allocation_for(vehicle),
        full_thrust(vehicle, hover),
        nothing_seen(vehicle),
    )
    gains = gains_for(vehicle, lead=0.0)
    if initial_observer is not None:
        gains = gains_ahead(gains, vehicle)
    full_collective_thrust = full_rotor_thrust * len(vehicle.rotors)

    def body(carry: Scalar, inputs: Scalar) -> Scalar:
        (_, controller_state), (state, setpoint) = carry, inputs
        integral_W, observer_before = parted(controller_state)
        observer = seen(state, vehicle, observer_before, period)
        predicted_state = state_ahead(state, vehicle, observer)
        predicted_reference = reference_ahead(setpoint.reference, vehicle, observer)
        position_acceleration_W, integral_W = steered_pull(
            predicted_state, predicted_reference, vehicle, integral_W, gains, DEFAULT_LIMITS, allocation, period
        )
        up_W = rotate(quat_from_euler(setpoint.roll, setpoint.pitch, predicted_reference.yaw), UP)
        commanded_thrust = setpoint.thrust * full_collective_thrust
        specific_thrust = where(
            setpoint.mode == ATTITUDE_AT_HEIGHT,
            position_acceleration_W.z / maximum(up_W.z, STEEPEST),
            commanded_thrust / vehicle.mass,
        )
        desired_acceleration_W = Vec3(
            *(
                where(setpoint.mode == PLACE, p, u * specific_thrust)
                for p, u in zip(position_acceleration_W, up_W, strict=True)
            )
        )
        collective_thrust, tau_B = geometric_wrench(
            desired_acceleration_W, predicted_state, predicted_reference, vehicle, gains, allocation.keeps_yaw
        )
        rate_error = Deviation(ZERO, predicted_state.omega_B - setpoint.omega_B, setpoint.omega_B, ZERO)
        rate_torque_B = required_torque(
            predicted_state.omega_B, wanted_turn(rate_error, gains), inertia_B=vehicle.inertia_B
        )
        is_rate_mode = setpoint.mode == RATES
        desired_torque_B = Vec3(*(where(is_rate_mode, a, b) for a, b in zip(rate_torque_B, tau_B, strict=True)))
        collective_thrust = where(is_rate_mode, commanded_thrust, collective_thrust)
        thrusts = rotor_thrusts(
            collective_thrust, opposed(collective_thrust, desired_torque_B, state, vehicle, observer), allocation
        )
        return tuple(clamp(thrust / full_rotor_thrust, 0.0, 1.0) for thrust in thrusts), joined(integral_W, observer)

    zero_outputs = tuple(0.0 for _ in vehicle.rotors)
    controller_state = joined(ZERO, initial_observer)
    return CompiledStep(body, (zero_outputs, controller_state), (at_rest(vehicle), Wanted(PLACE, Reference(ZERO))))
