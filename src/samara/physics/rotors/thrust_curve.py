"""Corrections of T = kF Ω²: a part that is linear in the rotor speed, and a factor that depends on the bus voltage.

Thrust stands and flights show both. Controllers, planners and mixers use kF alone and treat the correction as a disturbance,
which is small near the speed and the voltage at which it vanishes; the hover trim includes both.
"""

from typing import Annotated, NamedTuple

from samara.core.ops import absolute, maximum
from samara.core.quantity import Quantity, RotorSpeed, Scalar, Voltage
from samara.physics.effect import Effect, Wrench, add_wrenches
from samara.physics.rotors.propulsion import rotor_loads, supply_voltage
from samara.physics.rotors.rotor import Factor, Rotor, RotorLoad, density_ratio, rotor_wrench
from samara.physics.types import Command, Environment, State, Vehicle


class ThrustCurve(NamedTuple):
    """`linear` is the part b of thrust and torque that grows with Ω instead of Ω²; the sum is kF Ω² at the `speed` Ω₀."""

    linear: Annotated[Scalar, Quantity("1", -0.9, 0.9)]
    speed: Annotated[Scalar, Quantity("rad/s", 100.0, 3000.0)]


class ThrustScale(NamedTuple):
    """The relative gain of thrust and torque per volt of the bus above the reference voltage."""

    per_volt: Annotated[Scalar, Quantity("1/V", -0.5, 0.5)]
    reference: Annotated[Scalar, Quantity("V", 3.0, 50.0)]


def curve_load(speed: RotorSpeed, rotor: Rotor, curve: ThrustCurve, factor: Factor = 1.0) -> RotorLoad:
    """ΔT = f b kF (Ω₀ − |Ω|) |Ω|,  ΔQ = f b kM (Ω₀ − |Ω|) |Ω|;  f = ρ/ρ₀  [N, N·m]

    Together with kF Ω² this is T = k₂ Ω² + k₁ Ω, the usual fit of thrust stands: kF = k₂ + k₁/Ω₀, b = k₁/(kF Ω₀).
    """
    abs_speed = absolute(speed)
    excess = factor * curve.linear * (curve.speed - abs_speed) * abs_speed
    return RotorLoad(rotor.k_thrust * excess, rotor.k_torque * excess)


def thrust_gain(voltage: Voltage, thrust_scale: ThrustScale) -> Scalar:
    """s (V − V_ref), at least −1: the relative gain of thrust and torque

    The thrust at a measured speed does not depend on the voltage. This gain is for speeds inferred from commands, for logs
    without rotor speeds: about 9 % per volt on a Crazyflie. A motor with a lag on a battery already has its speeds scaled by
    V/V_full, which is 2/V_full of the thrust at a given command: if that fits the vehicle, s is 0. The gain applies neither
    to the power from the battery nor to the load on a DC motor.
    """
    return maximum(thrust_scale.per_volt * (voltage - thrust_scale.reference), -1.0)


def _curve_loads(
    effect_state: object, state: State, vehicle: Vehicle, environment: Environment
) -> tuple[RotorLoad, ...]:
    ratio = density_ratio(environment.air_density)
    return tuple(
        curve_load(speed, rotor, vehicle["thrust_curve"], ratio)
        for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
    )


def _scale_wrench(
    effect_state: object, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> Wrench:
    gain = thrust_gain(supply_voltage(state, command, vehicle, environment), vehicle["thrust_scale"])
    total = Wrench()
    for load, rotor in zip(rotor_loads(state, vehicle, environment), vehicle.rotors, strict=True):
        total = add_wrenches(total, rotor_wrench(RotorLoad(gain * load.thrust, gain * load.torque), rotor))
    return total


THRUST_CURVE = Effect("thrust_curve", additional_loads=_curve_loads, planned=False)
THRUST_SCALE = Effect("thrust_scale", wrench=_scale_wrench, planned=False)
