"""Incremental dynamic inversion: what the body does is measured, not modelled; only the change of it is asked of the rotors.

E. J. J. Smeur, Q. Chu, G. C. H. E. de Croon, "Adaptive incremental nonlinear dynamic inversion for attitude control of micro
air vehicles", Journal of Guidance, Control, and Dynamics 39, 2016. The outer loop is that of `geometric`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from samara.algebra import ZERO, Vec3
from samara.control.allocation import Allocation, allocation_for, command_for_wrench
from samara.control.gains import OTHER_LAGS, Gains, gains_for
from samara.control.geometric import (
    USUAL_LIMITS,
    FlightLimits,
    deviation,
    lift_along,
    require_memory,
    require_sense,
    steered_pull,
    wanted_turn,
)
from samara.physics.multirotor import CALM, Command, State, Vehicle
from samara.physics.propulsion import ROTORS
from samara.physics.rotor import rotor_momentum_torque
from samara.plan.reference import Reference
from samara.quantity import Scalar


class IndiMemory(NamedTuple):
    """ω, the rotors' torque and speeds one period ago, and the filtered ω̇ and torque  [rad/s, N·m, rad/s, rad/s², N·m]"""

    omega_B: Vec3
    tau_B: Vec3
    rotor_speed: tuple[Scalar, ...]
    filtered_alpha_B: Vec3
    filtered_tau_B: Vec3


@dataclass(frozen=True)
class Indi:
    """`controller(state, reference, vehicle, memory) → command, memory`; the first memory is `initial_memory`"""

    gains: Gains
    limits: FlightLimits
    allocation: Allocation
    period: float

    @property
    def initial_memory(self) -> IndiMemory:
        return IndiMemory(ZERO, ZERO, tuple(0.0 for _ in self.allocation.base), ZERO, ZERO)

    def __call__(
        self, state: State, reference: Reference, vehicle: Vehicle, memory: IndiMemory
    ) -> tuple[Command, IndiMemory]:
        require_memory(memory, self.initial_memory, "with a memory")
        pull_W, _ = steered_pull(state, reference, vehicle, (), self.gains, self.limits, self.allocation, None)
        own = deviation(pull_W, state, reference, self.allocation.keeps_yaw)
        seen = measured(state, vehicle, memory, self.period)
        change = wanted_turn(own, self.gains) - seen.filtered_alpha_B
        tau_B = seen.filtered_tau_B + vehicle.inertia_B @ change
        command = command_for_wrench(lift_along(pull_W, state, vehicle), tau_B, state, vehicle, self.allocation)
        return command, seen if vehicle.rotors else seen._replace(tau_B=tau_B)


def indi(
    vehicle: Vehicle,
    gains: Gains | None = None,
    healthy: Sequence[bool] | None = None,
    limits: FlightLimits = USUAL_LIMITS,
    period: float = 4e-3,
) -> Indi:
    """The controller for a vehicle, called every `period` [s]; `healthy` says which rotors still work"""
    require_sense(period, limits)
    return Indi(gains or gains_for(vehicle), limits, allocation_for(vehicle, healthy), period)


def measured(state: State, vehicle: Vehicle, memory: IndiMemory, period: float) -> IndiMemory:
    """α ← α + k ((ω − ω₋)/dt − α),  τ ← τ + k (½ (τ_r + τ_r₋) + τ_Ω̇ − τ),  k = dt / (T + dt): each as late as the other

    τ_r is the rotors' torque at their measured speeds, τ_Ω̇ the reaction to spinning them up; of a body driven by a wrench, the
    torque it was last told.
    """
    k = period / (OTHER_LAGS + period)
    torque_B = ROTORS.wrench((), state, (), vehicle, CALM).tau_B if vehicle.rotors else memory.tau_B
    alpha_B = (state.omega_B - memory.omega_B) / period
    between_B = (torque_B + memory.tau_B) * 0.5
    if vehicle.has("rotor_momentum"):
        rotors = zip(state.rotor_speed, memory.rotor_speed, vehicle.rotors, strict=True)
        for speed, before, rotor in rotors:
            between_B = between_B + rotor_momentum_torque(state.omega_B, speed, (speed - before) / period, rotor)
    return IndiMemory(
        state.omega_B,
        torque_B,
        state.rotor_speed,
        memory.filtered_alpha_B + (alpha_B - memory.filtered_alpha_B) * k,
        memory.filtered_tau_B + (between_B - memory.filtered_tau_B) * k,
    )
