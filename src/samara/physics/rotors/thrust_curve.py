"""How thrust departs from kF Ω²: a part that is linear in the rotor's speed, and a factor that moves with the bus voltage.

Both are corrections that thrust stands and flights ask for. Controllers, planners and mixers go by kF alone and take the rest
for a disturbance, which is small about the speed and the voltage at which it vanishes; the trim of hover knows both.
"""

from typing import Annotated, NamedTuple

from samara.core.ops import absolute, maximum
from samara.core.quantity import Quantity, RotorSpeed, Scalar, Voltage
from samara.physics.effect import Effect, Wrench, add_wrenches
from samara.physics.rotors.propulsion import rotor_loads, supply_voltage
from samara.physics.rotors.rotor import Factor, Rotor, RotorLoad, density_ratio, rotor_wrench
from samara.physics.types import Command, Environment, State, Vehicle


class ThrustCurve(NamedTuple):
    """`linear` is the part b of thrust and torque that goes with Ω instead of Ω², at the `speed` Ω₀ where the sum is kF Ω²."""

    linear: Annotated[Scalar, Quantity("1", -0.9, 0.9)]
    speed: Annotated[Scalar, Quantity("rad/s", 100.0, 3000.0)]


class ThrustScale(NamedTuple):
    """How much thrust and torque gain with each volt of the bus above the reference."""

    per_volt: Annotated[Scalar, Quantity("1/V", -0.5, 0.5)]
    reference: Annotated[Scalar, Quantity("V", 3.0, 50.0)]


def curve_load(speed: RotorSpeed, rotor: Rotor, curve: ThrustCurve, factor: Factor = 1.0) -> RotorLoad:
    """ΔT = f b kF (Ω₀ − |Ω|) |Ω|,  ΔQ = f b kM (Ω₀ − |Ω|) |Ω|;  f = ρ/ρ₀  [N, N·m]

    With kF Ω² it is T = k₂ Ω² + k₁ Ω, as thrust stands write it: kF = k₂ + k₁/Ω₀, b = k₁/(kF Ω₀).
    """
    turning = absolute(speed)
    more = factor * curve.linear * (curve.speed - turning) * turning
    return RotorLoad(rotor.k_thrust * more, rotor.k_torque * more)


def scaled_share(voltage: Voltage, scaled: ThrustScale) -> Scalar:
    """s (V − V_ref), the gain of thrust and torque, which does not take more than all of them

    A rotor at a known speed does not know its voltage. This is for speeds that were inferred from commands, as logs without
    them need it: about 9 % for each volt on a Crazyflie. A motor with a lag on a battery has its speeds scaled with
    V/V_full already, which is 2/V_full of the thrust at a given command: where that is true to the aircraft, s is 0. Neither
    the power drawn from the battery nor the load on a DC motor has this gain.
    """
    return maximum(scaled.per_volt * (voltage - scaled.reference), -1.0)


def _curved(own: object, state: State, vehicle: Vehicle, environment: Environment) -> tuple[RotorLoad, ...]:
    ratio = density_ratio(environment.air_density)
    return tuple(
        curve_load(speed, rotor, vehicle["thrust_curve"], ratio)
        for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
    )


def _gained(own: object, state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    share = scaled_share(supply_voltage(state, command, vehicle, environment), vehicle["thrust_scale"])
    total = Wrench()
    for load, rotor in zip(rotor_loads(state, vehicle, environment), vehicle.rotors, strict=True):
        total = add_wrenches(total, rotor_wrench(RotorLoad(share * load.thrust, share * load.torque), rotor))
    return total


THRUST_CURVE = Effect("thrust_curve", more_loads=_curved, planned=False)
THRUST_SCALE = Effect("thrust_scale", wrench=_gained, planned=False)
