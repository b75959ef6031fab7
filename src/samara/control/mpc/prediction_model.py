"""The prediction model: the vehicle's equations of motion, driven by a wrench, by a thrust at each rotor or by its commands.

Mass, inertia, gravity, drag and damping are the vehicle's. Driven by a wrench or by thrusts, rotors and motors respond
instantly; driven by commands, they follow the vehicle's equations. There are no ground and no air effects except drag (effects
that are not `planned`, or have a state of their own, are left out). A state is (p_W, v_W, q_WB, ω_B, rotor speeds); the
difference of two near states is (δp, δv, δθ, δω, δΩ) with δθ in body axes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from samara.control.allocation import build_allocation
from samara.control.mpc.options import INPUTS, MpcOptions
from samara.control.mpc.problem import InputLimits
from samara.core.algebra import ZERO, Quat, Vec3, conjugate, direction, dot, matrix_from_quat
from samara.core.integrate import RUNGE_KUTTA_INTEGRATORS, find_integrator
from samara.core.ops import logical_and, maximum, safe_norm, safe_sqrt, where
from samara.core.portable_linalg import pseudoinverse
from samara.core.quantity import Scalar
from samara.physics.effect import Effect, Role, Wrench, add_wrenches
from samara.physics.motion.body import angular_acceleration
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.propulsion import COMMANDED_WRENCH, WRENCH
from samara.physics.rotors.rotor import Rotor, RotorLoad, rotor_wrench
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.limits import command_bounds, replace_dc_motors, thrust_limits
from samara.vehicles.trim import effectiveness, hover, select_effective_rotors

MIN_VERTICAL_FRACTION = 0.2  # fraction of g: minimum vertical part of the desired thrust

_NOT_PREDICTED = (Role.THRUST, Role.MOMENTUM, Role.ACTUATOR, Role.SUPPLY, Role.SHAPE)  # the input replaces them


MAX_STEP_RATE = 2.0  # of a step and the rate of a motor, for which RK4 is accurate enough and stable


class Tangent(NamedTuple):
    """A small difference between two states; the rotation δθ is about the body axes."""

    p_W: Vec3
    v_W: Vec3
    theta_B: Vec3
    omega_B: Vec3
    rotor_speed: tuple[Scalar, ...] = ()


DOCUMENTED_LIMITS = InputLimits((0.0, -0.02, -0.02, -0.01), (0.72, 0.02, 0.02, 0.01))
"""The iLQR document's limits for the Crazyflie [N, N·m]: more torque than its motors have."""


def _rotor_thrust_wrench(
    effect_state: Any, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> Wrench:
    """Sum the wrenches of the rotor thrusts, including the reaction torques T kM/kF."""
    total = Wrench()
    for thrust, rotor in zip(command, vehicle["rotor_thrusts"], strict=True):
        total = add_wrenches(total, rotor_wrench(rotor_thrust_load(thrust, rotor), rotor))
    return total


def rotor_thrust_load(thrust: Scalar, rotor: Rotor) -> RotorLoad:
    """T and Q = T k_Q / k_T"""
    return RotorLoad(thrust, thrust * (rotor.k_torque / rotor.k_thrust))


ROTOR_THRUSTS = Effect("rotor_thrusts", wrench=_rotor_thrust_wrench, role=Role.THRUST)


def _tilting_wrench(
    effect_state: Any, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> Wrench:
    """(T, τ), and the sideways force of tilting rotors, in proportion to the thrust"""
    thrust, *tau_B = command
    return Wrench(f_B=(vehicle["leaning_wrench"] * thrust)._replace(z=thrust), tau_B=Vec3(*tau_B))


TILTING_WRENCH = Effect("leaning_wrench", wrench=_tilting_wrench, role=Role.THRUST)


@dataclass(frozen=True)
class PredictionModel:
    """x' = step(x, u): the predicted body over one `dt`, its inputs and their limits."""

    body: Vehicle
    integrator: str
    dt: float
    input_count: int
    hover_input: tuple[float, ...]
    limits: InputLimits
    hover_speeds: tuple[float, ...] = ()  # of the rotors, if they are part of the state
    thrust_slopes: tuple[float, ...] = ()  # ∂T/∂u of each rotor at hover, if the inputs are commands

    def rate(self, state: State, command: Command) -> State:
        """ẋ, by the equations of motion"""
        return derivative(state, command, self.body)

    def step(self, state: State, command: Command, push_W: Vec3 = ZERO, torque_B: Vec3 = ZERO) -> State:
        """x(t + dt) with a constant input, a constant external acceleration `push_W` and, driven by commands, a constant
        external torque"""
        alpha_B = angular_acceleration(ZERO, torque_B, inertia_B=self.body.inertia_B) if self.takes_commands else ZERO

        def accelerated_rate(x: State) -> State:
            rate = self.rate(x, command)
            if self.takes_commands:
                rate = rate._replace(omega_B=rate.omega_B + alpha_B)
            return rate._replace(v_W=rate.v_W + push_W)

        next_state: State = find_integrator(self.integrator, RUNGE_KUTTA_INTEGRATORS).advance(
            accelerated_rate, state, self.dt
        )
        return next_state

    def wrench(self, command: Command) -> Wrench:
        """Wrench of the inputs on the body, in body axes; of commands, that of their difference from hover"""
        if self.takes_commands:
            deviations = zip(command, self.hover_input, self.thrust_slopes, strict=True)
            total = Wrench()
            for (u, hover_u, slope), rotor in zip(deviations, self.body.rotors, strict=True):
                load = rotor_thrust_load(slope * (u - hover_u), rotor)
                total = add_wrenches(total, rotor_wrench(load, rotor))
            return total
        input_effect = self.body.structure.effects[-1]
        return input_effect.wrench((), self.template, command, self.body, CALM)

    def thrust_and_torque(self, command: Command) -> Command:
        """Return (T, τ_x, τ_y, τ_z) of the inputs, which are a wrench already or one thrust per rotor."""
        if self.takes_wrench:
            return command
        wrench = self.wrench(tuple(command))
        return wrench.f_B.z, *wrench.tau_B

    @property
    def takes_wrench(self) -> bool:
        """Whether the inputs are (T, τ) rather than one thrust per rotor."""
        return self.body.structure.effects[-1] in (COMMANDED_WRENCH, TILTING_WRENCH)

    @property
    def takes_commands(self) -> bool:
        """Whether the inputs are the vehicle's commands."""
        return bool(self.hover_speeds)

    @property
    def template(self) -> State:
        """A state of the body at rest, with the rotor speeds of hover."""
        return state_at_rest(self.body)._replace(rotor_speed=self.hover_speeds)

    def initial_state(self, state: State) -> State:
        """The state of the model for a state of the vehicle."""
        return State(*state[:4], state.rotor_speed if self.takes_commands else (), self.template.effects)


def build_prediction_model(vehicle: Vehicle, options: MpcOptions) -> PredictionModel:
    """Build the prediction model of a vehicle; the default limits are those of the working motors."""
    inputs, limits, healthy = options.inputs, options.limits, options.healthy
    find_integrator(options.integrator, RUNGE_KUTTA_INTEGRATORS)
    if inputs not in INPUTS:
        raise ValueError(f"inputs = {inputs!r}: expected one of {', '.join(INPUTS)}")
    if inputs != "wrench" and not vehicle.rotors:
        raise ValueError(f"inputs = {inputs!r}: vehicle {vehicle.name!r} has no rotors; expected 'wrench'")
    if inputs == "commands":
        return _command_model(vehicle, options)
    vehicle = select_effective_rotors(vehicle)
    if inputs == "rotors" and vehicle.servos:
        raise ValueError(f"inputs = 'rotors': vehicle {vehicle.name!r} has rotors that tilt; expected 'wrench'")
    input_effect: tuple[Effect, Any] = (ROTOR_THRUSTS, vehicle.rotors) if inputs == "rotors" else (COMMANDED_WRENCH, ())
    if vehicle.servos:
        side_B = build_allocation(vehicle, healthy).hover_side_force_B or ZERO
        input_effect = (TILTING_WRENCH, side_B / float(vehicle.mass * vehicle["gravity"].acceleration))
    predicted = [
        (effect, effect_parameters)
        for effect, effect_parameters in zip(vehicle.structure.effects, vehicle.parameters, strict=True)
        if effect.planned and effect.role not in _NOT_PREDICTED and effect.initial(vehicle) == ()
    ]
    effects, parameters = zip(*predicted, input_effect, strict=True)
    structure = replace(vehicle.structure, actuation=WRENCH, effects=tuple(effects), inflow=None)
    body = replace(vehicle, structure=structure, rotors=(), parameters=tuple(parameters))
    hover_input = _hover_input(vehicle, inputs)
    if limits is None:
        limits = _rotor_limits(vehicle, healthy) if inputs == "rotors" else wrench_limits(vehicle, healthy)
        if healthy is not None and not all(healthy):  # plans start from hover, even if it is infeasible
            limits = InputLimits(tuple(map(min, limits.low, hover_input)), tuple(map(max, limits.high, hover_input)))
    if not (len(limits.low) == len(limits.high) == len(hover_input)):
        raise ValueError(f"limits = {limits}: expected {len(hover_input)} numbers for each end")
    for low, value, high in zip(limits.low, hover_input, limits.high, strict=True):
        if not low <= value <= high:
            raise ValueError(f"limits = {limits}: the hover input {value:.6g} is not between {low:.6g} and {high:.6g}")
    return PredictionModel(body, options.integrator, float(options.dt), len(hover_input), hover_input, limits)


def _command_model(vehicle: Vehicle, options: MpcOptions) -> PredictionModel:
    """Build the model that is driven by the vehicle's commands, without effects that have a state.

    The moment of airspeed is among them: nothing else compensates it. The supply is that of hover, and DC motors are the lag
    that they have there. A lag shorter than half a step counts as half a step: the integrator could not follow it.
    """
    if vehicle.servos:
        raise ValueError(f"inputs = 'commands': vehicle {vehicle.name!r} has rotors that tilt; expected 'wrench'")
    vehicle, shortest = replace_dc_motors(vehicle), float(options.dt) / MAX_STEP_RATE
    rotors = []
    for rotor in vehicle.rotors:
        motor = rotor.motor
        if isinstance(motor, Lag):
            up, down = (max(float(tau), shortest) for tau in (motor.time_constant_up, motor.time_constant_down))
            motor = motor._replace(time_constant_up=up, time_constant_down=up if up == down else down)
        rotors.append(rotor._replace(motor=motor))
    vehicle = replace(vehicle, rotors=tuple(rotors))
    parts = [
        (effect, parameters)
        for effect, parameters in zip(vehicle.structure.effects, vehicle.parameters, strict=True)
        if (effect.planned or effect.name == "airspeed_moment")
        and effect.role is not Role.SUPPLY
        and effect.initial(vehicle) == ()
    ]
    effects, parameters = zip(*parts, strict=True)
    body = replace(vehicle, structure=replace(vehicle.structure, effects=tuple(effects)), parameters=tuple(parameters))
    state, command = hover(body)
    bounds = options.limits or InputLimits(*map(tuple, zip(*(command_bounds(body) or ()), strict=True)))
    if options.healthy is not None and not all(options.healthy):
        raise ValueError("inputs = 'commands': a rotor has failed; expected 'wrench' or 'rotors'")
    slopes = [
        2.0 * rotor.k_thrust * speed**2 / u
        for rotor, speed, u in zip(body.rotors, state.rotor_speed, command, strict=True)
    ]
    return PredictionModel(
        body,
        options.integrator,
        float(options.dt),
        len(command),
        tuple(map(float, command)),
        InputLimits(tuple(map(float, bounds.low)), tuple(map(float, bounds.high))),
        tuple(map(float, state.rotor_speed)),
        tuple(map(float, slopes)),
    )


def _hover_input(vehicle: Vehicle, inputs: str) -> tuple[float, ...]:
    if inputs == "wrench":
        return (float(vehicle.mass * vehicle["gravity"].acceleration), 0.0, 0.0, 0.0)
    speeds = hover(vehicle)[0].rotor_speed
    return tuple(float(rotor.k_thrust * speed**2) for rotor, speed in zip(vehicle.rotors, speeds, strict=True))


def _rotor_limits(vehicle: Vehicle, healthy: Sequence[bool] | None) -> InputLimits:
    low, high = _thrust_ranges(vehicle, healthy).T.tolist()
    return InputLimits(tuple(low), tuple(high))


def _thrust_ranges(vehicle: Vehicle, healthy: Sequence[bool] | None) -> Any:
    """Minimum and maximum thrust of each rotor, (n, 2); zero for a failed rotor"""
    thrust_ranges = np.array(thrust_limits(vehicle), dtype=float)
    if healthy is None:
        return thrust_ranges
    is_healthy = np.array([*healthy, *(healthy[i] for i in vehicle.servos)], dtype=float)
    return thrust_ranges * is_healthy[:, None]


def wrench_limits(vehicle: Vehicle, healthy: Sequence[bool] | None = None) -> InputLimits:
    """Range of the collective thrust, and the torque about each axis alone that the rotors can give at hover

    T = T_hover + y τ with the smallest Σ T² stays within the rotors' limits for |τ| up to the minimum of margin/|y|. A body
    driven by a wrench has no motors: it gets the documented accelerations, T/m and τ/J of its Crazyflie. A failed rotor
    removes its thrust, and the torque about z if that can no longer be balanced; roll and pitch are limited by the allocation.
    """
    weight = float(vehicle.mass * vehicle["gravity"].acceleration)
    if not vehicle.rotors:
        thrust_to_weight, alpha = 0.72 / (0.028 * 9.81), (0.02 / 1.4e-5, 0.02 / 1.4e-5, 0.01 / 2.17e-5)
        inertia = (vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz)
        torque = tuple(float(moment) * a for moment, a in zip(inertia, alpha, strict=True))
        return InputLimits((0.0, *(-t for t in torque)), (thrust_to_weight * weight, *torque))
    thrust_ranges, matrix = np.array(thrust_limits(vehicle), dtype=float), effectiveness(vehicle)[2:]
    min_thrust, max_thrust = np.sort(matrix[0][:, None] * _thrust_ranges(vehicle, healthy), axis=1).sum(axis=0).tolist()
    allocation = pseudoinverse(matrix)
    hover_thrusts = weight * allocation[:, 0]
    torques = [
        _max_torque(sign * allocation[:, axis], hover_thrusts, thrust_ranges)
        for axis in (1, 2, 3)
        for sign in (-1.0, 1.0)
    ]
    if healthy is not None and not build_allocation(vehicle, healthy).controls_yaw:
        torques[4:] = [0.0, 0.0]
    return InputLimits((min_thrust, *(-t for t in torques[::2])), (max_thrust, *torques[1::2]))


def _max_torque(per_torque: Any, hover_thrusts: Any, thrust_ranges: Any) -> float:
    """Largest torque whose thrusts stay within their limits; 0 if it needs no thrust or the margin is zero"""
    limits = np.where(per_torque > 0.0, thrust_ranges[:, 1], thrust_ranges[:, 0])
    is_used = np.abs(per_torque) > 1e-9 * np.abs(per_torque).max(initial=1e-12)
    margin = (limits[is_used] - hover_thrusts[is_used]) / per_torque[is_used]
    return max(float(margin.min(initial=np.inf)), 0.0) if is_used.any() else 0.0


# Near a state ------------------------------------------------------------------------------------------------------


def displace(state: State, delta: Tangent) -> State:
    """x ⊕ δ: p + δp, v + δv, q ⊗ (√(1 − |½ δθ|²), ½ δθ), ω + δω: the inverse of `difference` up to half a turn"""
    half = delta.theta_B * 0.5
    rotation = Quat(safe_sqrt(maximum(1.0 - dot(half, half), 0.0)), *half)
    return state._replace(
        p_W=state.p_W + delta.p_W,
        v_W=state.v_W + delta.v_W,
        q_WB=state.q_WB * rotation,
        omega_B=state.omega_B + delta.omega_B,
        rotor_speed=tuple(a + b for a, b in zip(state.rotor_speed, delta.rotor_speed, strict=True)),
    )


def difference(state: State, origin: State) -> Tangent:
    """x ⊖ x₀: δθ = 2 vec(q₀* ⊗ q), the same for q and −q; the inverse of `displace`"""
    rotation = conjugate(origin.q_WB) * state.q_WB
    return Tangent(
        state.p_W - origin.p_W,
        state.v_W - origin.v_W,
        rotation.vector * where(rotation.w < 0, -2.0, 2.0),
        state.omega_B - origin.omega_B,
        tuple(a - b for a, b in zip(state.rotor_speed, origin.rotor_speed, strict=True)),
    )


def level_quat(q_WB: Quat) -> Quat:
    """The upright attitude with the same heading: q ∥ (w, 0, 0, z), or 1 if that is zero"""
    length = safe_norm(q_WB.w, q_WB.z)
    is_valid = length > 1e-6
    safe_length = where(is_valid, length, 1.0)
    return Quat(where(is_valid, q_WB.w / safe_length, 1.0), 0.0, 0.0, where(is_valid, q_WB.z / safe_length, 0.0))


def thrust_axis(state: State) -> Vec3:
    """b₃ = R e₃"""
    return matrix_from_quat(state.q_WB).columns[2]


def turns_over(start: State, state: State) -> Scalar:
    """1 if b₃ points up at the start and down in this state, which no reference asks for; else 0"""
    return where(logical_and(thrust_axis(start).z > 0.0, thrust_axis(state).z < 0.0), 1.0, 0.0)


def heading_axis(state: State) -> Vec3:
    """b₁ = R e₁"""
    return matrix_from_quat(state.q_WB).columns[0]


def thrust_direction(a_W: Vec3, v_W: Vec3, push_W: Vec3, model: PredictionModel) -> Vec3:
    """b₃ ∥ a − a₀(v) − push: the thrust direction for an acceleration a at a velocity v

    a₀ is the acceleration of the level body without thrust: −g e₃ and the drag. Without drag, b₃ ∥ a + g e₃. The vertical part
    is at least a fifth of g: a descent faster than free fall does not turn the body upside down.
    """
    level_state = model.template._replace(v_W=v_W)
    thrust_W = a_W - model.rate(level_state, tuple(0.0 for _ in range(model.input_count))).v_W - push_W
    min_vertical = MIN_VERTICAL_FRACTION * model.body["gravity"].acceleration
    return direction(thrust_W._replace(z=maximum(thrust_W.z, min_vertical)))
