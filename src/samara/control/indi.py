"""Incremental nonlinear dynamic inversion: measure the acceleration instead of modelling it, and command only its change.

It is applied twice: to the torque, for the angular acceleration, and to the force, for the acceleration of the centre
of mass. Measurements include steady external forces and torques, such as wind or an offset of the centre of mass, so
they leave no error.

E. J. J. Smeur, Q. Chu, G. C. H. E. de Croon, "Adaptive incremental nonlinear dynamic inversion for attitude control of micro
air vehicles", Journal of Guidance, Control, and Dynamics 39, 2016.
E. J. J. Smeur, G. C. H. E. de Croon, Q. Chu, "Cascaded incremental nonlinear dynamic inversion for MAV disturbance rejection",
Control Engineering Practice 73, 2018.
E. Tal, S. Karaman, "Accurate tracking of aggressive quadrotor trajectories using incremental nonlinear dynamic inversion and
differential flatness", IEEE Trans. Control Systems Technology 29, 2021.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.control.allocation import Allocation, build_allocation, command_for_wrench, hover_side_acceleration
from samara.control.controller_type import GAIN_OPTIONS, LIMIT_OPTIONS, ControllerType
from samara.control.default_gains import OTHER_LAG, Gains, default_gains
from samara.control.disturbance_torque import add_rotor_momentum_torque, airborne_flag, anticipation_torque
from samara.control.geometric import (
    DEFAULT_LIMITS,
    FlightLimits,
    add_drag_derivatives,
    attitude_tracking_error,
    desired_angular_acceleration,
    extrapolate_error,
    has_lead,
    limit_acceleration,
    limit_position_error,
    model_drag,
    pop_gains,
    pop_limits,
    project_on_thrust_axis,
    require_controller_state,
    require_plausible,
    tracking_acceleration,
)
from samara.core.algebra import ZERO, Vec3, rotate
from samara.core.ops import clamp, where
from samara.core.quantity import Scalar
from samara.physics.effect import Wrench
from samara.physics.motion.body import angular_acceleration
from samara.physics.multirotor import total_rotor_wrench
from samara.physics.types import Command, Reference, State, Vehicle


class IndiState(NamedTuple):
    """Measurements of the previous call: ω, v, rotor torque and speeds, modelled force; and filtered: ω̇, torque, disturbance

    [rad/s, m/s, N·m, rad/s, N; rad/s², N·m, m/s²]. For a body driven by a wrench, `collective_thrust` [N] and the torque
    are the previous command. `airborne_flag` is 1 from when the rotors carry the weight until they carry less than half
    of it, else 0.
    """

    omega_B: Vec3
    tau_B: Vec3
    rotor_speed: tuple[Scalar, ...]
    filtered_alpha_B: Vec3
    filtered_tau_B: Vec3
    v_W: Vec3 = ZERO
    f_W: Vec3 = ZERO
    collective_thrust: Scalar = 0.0
    disturbance_W: Vec3 = ZERO
    airborne: Scalar = 0.0


@dataclass(frozen=True)
class Indi:
    """INDI controller; `initial_state` is the controller state of the first call."""

    gains: Gains
    limits: FlightLimits
    allocation: Allocation
    period: float
    rotor_count: int

    @property
    def initial_state(self) -> IndiState:
        return IndiState(ZERO, ZERO, tuple(0.0 for _ in range(self.rotor_count)), ZERO, ZERO)

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, controller_state: IndiState
    ) -> tuple[Command, IndiState]:
        """f = m (a_d + g e₃ − d),  τ = τ_r + J (ω̇_d − ω̇_measured), with d and ω̇ from `filter_measurements`

        Args:
            state: estimated state of the vehicle.
            reference: desired position, velocity, acceleration, jerk, snap and yaw.
            vehicle: model of the vehicle.
            controller_state: the state that the previous call returned; `initial_state` at the first call.

        Returns:
            The command and the controller state for the next call.
        """
        require_controller_state(controller_state, self.initial_state, "with a state")
        next_state = filter_measurements(state, vehicle, controller_state, self.period, self.gains)
        limited_e_p = limit_position_error(state.p_W - reference.p_W, vehicle, self.allocation, self.gains, self.limits)
        unlimited_W = (
            tracking_acceleration(limited_e_p, state, reference, vehicle, self.gains) - next_state.disturbance_W
        )
        if self.allocation.hover_side_force_B is not None:
            unlimited_W = unlimited_W - hover_side_acceleration(state, vehicle, self.allocation)
        acceleration_W = limit_acceleration(unlimited_W, vehicle, self.allocation, self.limits)
        error = attitude_tracking_error(
            acceleration_W, state, add_drag_derivatives(reference, state, vehicle), self.allocation.controls_yaw
        )
        if has_lead(self.gains):
            rotor_alpha_B = angular_acceleration(
                ZERO, next_state.tau_B - next_state.filtered_tau_B, inertia_B=vehicle.inertia_B
            )
            error = extrapolate_error(error, next_state.filtered_alpha_B + rotor_alpha_B, self.gains)
        desired_alpha_B = desired_angular_acceleration(error, self.gains)
        alpha_change_B = desired_alpha_B - next_state.filtered_alpha_B
        tau_B = next_state.filtered_tau_B + vehicle.inertia_B @ alpha_change_B
        collective_thrust = project_on_thrust_axis(acceleration_W, state, vehicle)
        tau_B = tau_B + anticipation_torque(collective_thrust, desired_alpha_B, state, vehicle)
        command = command_for_wrench(collective_thrust, tau_B, state, vehicle, self.allocation)
        if vehicle.rotors:
            return command, next_state
        commanded_W = modelled_force(state, vehicle, Wrench(f_B=Vec3(0.0, 0.0, collective_thrust)))
        return command, next_state._replace(tau_B=tau_B, collective_thrust=collective_thrust, f_W=commanded_W)


def indi(
    vehicle: Vehicle,
    gains: Gains | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = DEFAULT_LIMITS,
    period: float = 4e-3,
) -> Indi:
    """Build the INDI controller for a vehicle.

    Args:
        vehicle: model of the vehicle, from which allocation and default gains follow.
        gains: natural frequencies of the loops and lead time; None for `default_gains(vehicle)`.
        healthy: for each rotor, whether it works; None for all.
        limits: limits of tilt and speed.
        period: time between calls [s].

    Returns:
        `controller(state, reference, vehicle, controller_state) → command, controller_state`.
    """
    require_plausible(period, limits)
    return Indi(
        gains or default_gains(vehicle), limits, build_allocation(vehicle, healthy), period, len(vehicle.rotors)
    )


def filter_measurements(
    state: State, vehicle: Vehicle, controller_state: IndiState, period: float, gains: Gains
) -> IndiState:
    """α ← α + k ((ω − ω₋)/dt − α),  τ ← τ + k (½ (τ_r + τ_r₋) + τ_Ω̇ − τ),  k = dt / (T + dt): both with the same delay

    τ_r is the rotors' torque at their measured speeds, τ_Ω̇ the reaction to their spin-up; for a body driven by a wrench, τ_r is
    the previously commanded torque. `update_disturbance` updates the disturbance.
    """
    smoothing = (
        OTHER_LAG if vehicle.rotors else 2.0 / gains.attitude.x
    )  # a commanded wrench is not measured, so it needs more smoothing
    k = period / (smoothing + period)
    commanded = Wrench(f_B=Vec3(0.0, 0.0, controller_state.collective_thrust), tau_B=controller_state.tau_B)
    rotor_wrench = total_rotor_wrench(state, vehicle) if vehicle.rotors else commanded
    alpha_B = (state.omega_B - controller_state.omega_B) / period
    previous_speeds = controller_state.rotor_speed
    if vehicle.servos:  # the spin-up torque of an unpaired rotor, which nothing cancels, is unknown at the first call
        previous_speeds = tuple(
            where(controller_state.airborne > 0.5, previous, current)
            for previous, current in zip(previous_speeds, state.rotor_speed, strict=True)
        )
    mean_tau_B = add_rotor_momentum_torque(
        (rotor_wrench.tau_B + controller_state.tau_B) * 0.5, state, previous_speeds, vehicle, period
    )
    f_W = modelled_force(state, vehicle, rotor_wrench)
    return IndiState(
        state.omega_B,
        rotor_wrench.tau_B,
        state.rotor_speed,
        controller_state.filtered_alpha_B + (alpha_B - controller_state.filtered_alpha_B) * k,
        controller_state.filtered_tau_B + (mean_tau_B - controller_state.filtered_tau_B) * k,
        state.v_W,
        f_W,
        controller_state.collective_thrust,
        update_disturbance(state, f_W, vehicle, controller_state, period, gains),
        airborne_flag(state, vehicle, rotor_wrench, controller_state.airborne),
    )


def modelled_force(state: State, vehicle: Vehicle, rotor_wrench: Wrench) -> Vec3:
    """R f_B + d(v): the force of the rotors and the drag in still air  [N]"""
    return rotate(state.q_WB, rotor_wrench.f_B) + model_drag(state.v_W, state, vehicle)


def update_disturbance(
    state: State, f_W: Vec3, vehicle: Vehicle, controller_state: IndiState, period: float, gains: Gains
) -> Vec3:
    """d ← d + k ((v − v₋)/dt + g e₃ − ½ (f + f₋)/m − d),  k = dt / (1/ω_n + dt), each component within ±g  [m/s²]

    d is the measured acceleration minus that of the modelled forces: wind, a weak rotor, a load. Its filter need not be faster
    than the attitude loop that responds to it. While the rotors do not carry the body, d is 0, because the ground may
    carry it.
    """
    g, rate = vehicle["gravity"].acceleration, gains.attitude.x * period
    k = rate / (1.0 + rate)
    modelled_W = (f_W + controller_state.f_W) * (0.5 / vehicle.mass)
    residual_W = (state.v_W - controller_state.v_W) / period + Vec3(0.0, 0.0, g) - modelled_W
    disturbance_W = controller_state.disturbance_W + (residual_W - controller_state.disturbance_W) * k
    return Vec3(*(where(controller_state.airborne > 0.5, clamp(component, -g, g), 0.0) for component in disturbance_W))


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **options: Any) -> Indi:
    gains, limits = pop_gains(vehicle, options), pop_limits(options)
    return indi(vehicle, gains, healthy, limits, period)


TYPES = (
    ControllerType(
        "indi",
        "Incremental nonlinear dynamic inversion; rejects wind and model errors",
        _build,
        {**GAIN_OPTIONS, **LIMIT_OPTIONS},
    ),
)
