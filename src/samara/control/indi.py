"""Incremental dynamic inversion: what the body does is measured, not modelled; only the change of it is asked of the rotors.

Twice: of the torque, for the angular acceleration, and of the force, for the acceleration of the centre of mass. A steady push
or turn from outside, wind or a centre of mass that is not where it should be, is in what is measured: it leaves no offset.

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

from samara.control.allocation import Allocation, allocation_for, command_for_wrench, side_pull
from samara.control.controller_type import LIMITS, LOOPS, ControllerType
from samara.control.default_gains import OTHER_LAGS, Gains, gains_for
from samara.control.disturbance_torque import aloft, anticipation, with_spin_up
from samara.control.geometric import (
    DEFAULT_LIMITS,
    FlightLimits,
    chosen_limits,
    chosen_loops,
    deviation,
    drag_at,
    leads,
    led_error,
    lift_along,
    limited_error,
    limited_pull,
    require_memory,
    require_plausible,
    wanted_pull,
    wanted_turn,
    with_drag,
)
from samara.core.algebra import ZERO, Vec3, rotate
from samara.core.ops import clamp, where
from samara.core.quantity import Scalar
from samara.physics.effect import Wrench
from samara.physics.motion.body import angular_acceleration
from samara.physics.multirotor import wrench_of_rotors
from samara.physics.types import Command, Reference, State, Vehicle


class IndiMemory(NamedTuple):
    """ω, v, the rotors' torque and speeds and the force that is known of, one period ago; and, filtered, ω̇, torque and push

    [rad/s, m/s, N·m, rad/s, N; rad/s², N·m, m/s²]. `lift` [N] and the torque are what a body driven by a wrench was last told;
    `aloft` is 1 from when the rotors carry the weight until they carry less than half of it, else 0.
    """

    omega_B: Vec3
    tau_B: Vec3
    rotor_speed: tuple[Scalar, ...]
    filtered_alpha_B: Vec3
    filtered_tau_B: Vec3
    v_W: Vec3 = ZERO
    f_W: Vec3 = ZERO
    lift: Scalar = 0.0
    push_W: Vec3 = ZERO
    aloft: Scalar = 0.0


@dataclass(frozen=True)
class Indi:
    """`controller(state, reference, vehicle, memory) → command, memory`; the first memory is `initial_memory`"""

    gains: Gains
    limits: FlightLimits
    allocation: Allocation
    period: float
    rotors: int

    @property
    def initial_memory(self) -> IndiMemory:
        return IndiMemory(ZERO, ZERO, tuple(0.0 for _ in range(self.rotors)), ZERO, ZERO)

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, memory: IndiMemory
    ) -> tuple[Command, IndiMemory]:
        """f = m (a_wanted + g e₃ − d),  τ = τ_r + J (ω̇_wanted − ω̇_measured), d and ω̇ as `measured`"""
        require_memory(memory, self.initial_memory, "with a memory")
        seen = measured(state, vehicle, memory, self.period, self.gains)
        near = limited_error(state.p_W - reference.p_W, vehicle, self.allocation, self.gains, self.limits)
        wanted_W = wanted_pull(near, state, reference, vehicle, self.gains) - seen.push_W
        if self.allocation.side_B is not None:
            wanted_W = wanted_W - side_pull(state, vehicle, self.allocation)
        pull_W = limited_pull(wanted_W, vehicle, self.allocation, self.limits)
        error = deviation(pull_W, state, with_drag(reference, state, vehicle), self.allocation.keeps_yaw)
        if leads(self.gains):
            more_B = angular_acceleration(ZERO, seen.tau_B - seen.filtered_tau_B, inertia_B=vehicle.inertia_B)
            error = led_error(error, seen.filtered_alpha_B + more_B, self.gains)
        wanted_B = wanted_turn(error, self.gains)
        change = wanted_B - seen.filtered_alpha_B
        tau_B = seen.filtered_tau_B + vehicle.inertia_B @ change
        lift = lift_along(pull_W, state, vehicle)
        tau_B = tau_B + anticipation(lift, wanted_B, state, vehicle)
        command = command_for_wrench(lift, tau_B, state, vehicle, self.allocation)
        if vehicle.rotors:
            return command, seen
        told_W = known_force(state, vehicle, Wrench(f_B=Vec3(0.0, 0.0, lift)))
        return command, seen._replace(tau_B=tau_B, lift=lift, f_W=told_W)


def indi(
    vehicle: Vehicle,
    gains: Gains | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = DEFAULT_LIMITS,
    period: float = 4e-3,
) -> Indi:
    """The controller for a vehicle, called every `period` [s]; `healthy` says which rotors still work"""
    require_plausible(period, limits)
    return Indi(gains or gains_for(vehicle), limits, allocation_for(vehicle, healthy), period, len(vehicle.rotors))


def measured(state: State, vehicle: Vehicle, memory: IndiMemory, period: float, gains: Gains) -> IndiMemory:
    """α ← α + k ((ω − ω₋)/dt − α),  τ ← τ + k (½ (τ_r + τ_r₋) + τ_Ω̇ − τ),  k = dt / (T + dt): each as late as the other

    τ_r is the rotors' torque at their measured speeds, τ_Ω̇ the reaction to spinning them up; of a body driven by a wrench, the
    torque it was last told. The push is `next_push`.
    """
    smoothing = (
        OTHER_LAGS if vehicle.rotors else 2.0 / gains.attitude.x
    )  # a wrench is commanded, and nobody measures it
    k = period / (smoothing + period)
    told = Wrench(f_B=Vec3(0.0, 0.0, memory.lift), tau_B=memory.tau_B)
    given = wrench_of_rotors(state, vehicle) if vehicle.rotors else told
    alpha_B = (state.omega_B - memory.omega_B) / period
    earlier = memory.rotor_speed
    if vehicle.servos:  # an odd rotor's spinning up, which nothing cancels, is not known before there is a memory
        earlier = tuple(
            where(memory.aloft > 0.5, own, now) for own, now in zip(earlier, state.rotor_speed, strict=True)
        )
    between_B = with_spin_up((given.tau_B + memory.tau_B) * 0.5, state, earlier, vehicle, period)
    f_W = known_force(state, vehicle, given)
    return IndiMemory(
        state.omega_B,
        given.tau_B,
        state.rotor_speed,
        memory.filtered_alpha_B + (alpha_B - memory.filtered_alpha_B) * k,
        memory.filtered_tau_B + (between_B - memory.filtered_tau_B) * k,
        state.v_W,
        f_W,
        memory.lift,
        next_push(state, f_W, vehicle, memory, period, gains),
        aloft(state, vehicle, given, memory.aloft),
    )


def known_force(state: State, vehicle: Vehicle, given: Wrench) -> Vec3:
    """R f_B + d(v): what the rotors give, and the drag in still air  [N]"""
    return rotate(state.q_WB, given.f_B) + drag_at(state.v_W, state, vehicle)


def next_push(state: State, f_W: Vec3, vehicle: Vehicle, memory: IndiMemory, period: float, gains: Gains) -> Vec3:
    """d ← d + k ((v − v₋)/dt + g e₃ − ½ (f + f₋)/m − d),  k = dt / (1/ω_n + dt), each component within ±g  [m/s²]

    What the body accelerates more than the forces that are known say: wind, a rotor that gives less, a load. It need not be
    known sooner than the attitude, which answers it, turns. Where the rotors do not carry the body the ground may, and d is 0.
    """
    g, rate = vehicle["gravity"].acceleration, gains.attitude.x * period
    k = rate / (1.0 + rate)
    between_W = (f_W + memory.f_W) * (0.5 / vehicle.mass)
    unknown_W = (state.v_W - memory.v_W) / period + Vec3(0.0, 0.0, g) - between_W
    moved = memory.push_W + (unknown_W - memory.push_W) * k
    return Vec3(*(where(memory.aloft > 0.5, clamp(new, -g, g), 0.0) for new in moved))


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Indi:
    gains, limits = chosen_loops(vehicle, chosen), chosen_limits(chosen)
    return indi(vehicle, gains, healthy, limits, period)


TYPES = (ControllerType("indi", _build, {**LOOPS, **LIMITS}),)
