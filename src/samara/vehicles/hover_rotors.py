"""The rotors as controllers and planners take them: with the thrust and torque that are left to them in hover.

A rotor in the wake of another gives a fixed part of kF Ω² and kM Ω² as long as all turn faster and slower together. So a
vehicle with an effect that takes such a part (`Effect.counted`) is to a controller one without it whose k_thrust and k_torque
are smaller.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from samara.core.portable_linalg import product, pseudoinverse
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import at_rest
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor, RotorLoad, density_ratio, rotor_load
from samara.physics.types import CALM, Vehicle
from samara.vehicles.trim import effectiveness

_ROUNDS = 60  # each leaves a third of the error
_SETTLED = 1e-13
_LEAST = 0.01
_LINEAR_IN_DENSITY = ("drag", "damping", "rotor_drag", "rolling_moment")


def effective(vehicle: Vehicle) -> Vehicle:
    """The vehicle without the effects that are counted, its rotors with the kF and kM that those leave in hover"""
    counted = [effect.name for effect in vehicle.structure.effects if effect.counted]
    return _with(vehicle.without_effect(*counted), loads_left(vehicle)) if counted else vehicle


def at_density(vehicle: Vehicle, density: float) -> Vehicle:
    """The vehicle whose coefficients at sea level are this one's in air of another density: k' = k ρ/ρ₀

    Thrust, torque, drag and damping of a controller's model are linear in their coefficients, so a controller that
    computes with the sea-level density is exact at ρ with these.
    """
    if density == SEA_LEVEL_DENSITY:
        return vehicle
    ratio = density_ratio(density)
    rotors = tuple(
        rotor._replace(k_thrust=rotor.k_thrust * ratio, k_torque=rotor.k_torque * ratio) for rotor in vehicle.rotors
    )
    parameters = tuple(
        unflatten(record, iter([leaf * ratio for leaf in flatten(record)]))
        if effect.name in _LINEAR_IN_DENSITY
        else record
        for effect, record in zip(vehicle.structure.effects, vehicle.parameters, strict=True)
    )
    return replace(vehicle, rotors=rotors, parameters=parameters)


def _with(vehicle: Vehicle, left: Sequence[RotorLoad]) -> Vehicle:
    rotors = tuple(
        rotor._replace(k_thrust=rotor.k_thrust * part.thrust, k_torque=rotor.k_torque * part.torque)
        for rotor, part in zip(vehicle.rotors, left, strict=True)
    )
    return replace(vehicle, rotors=rotors)


@lru_cache(maxsize=64)
def loads_left(vehicle: Vehicle) -> tuple[RotorLoad, ...]:
    """T/(kF Ω²) and Q/(kM Ω²) of every rotor, by what the effects that are counted leave where the smallest Σ T² hovers

    How the rotors share the weight depends on what is left to them, and that on how fast each turns: one after the other, until
    both agree.
    """
    effects = vehicle.structure.effects
    bare = vehicle.without_effect(*(own.name for own in effects if (own.loads or own.more_loads) and not own.counted))
    weight = vehicle.mass * vehicle["gravity"].acceleration if vehicle.has("gravity") else 1.0
    state, left = at_rest(bare), [RotorLoad(1.0, 1.0) for _ in vehicle.rotors]
    for _ in range(_ROUNDS):
        shares = product(pseudoinverse(effectiveness(_with(bare, left))[2:]), np.array([weight, 0.0, 0.0, 0.0]))
        least = 1e-3 * float(np.abs(shares).max())
        gains = [rotor.k_thrust * part.thrust for rotor, part in zip(vehicle.rotors, left, strict=True)]
        thrusts = shares[: len(gains)]
        speeds = tuple(float(np.sqrt(max(own, least) / gain)) for own, gain in zip(thrusts, gains, strict=True))
        loads = rotor_loads(state._replace(rotor_speed=speeds), bare, CALM)
        before, left = left, [_part(*each) for each in zip(loads, speeds, vehicle.rotors, strict=True)]
        if max(abs(a.thrust - b.thrust) for a, b in zip(left, before, strict=True)) < _SETTLED:
            break
    return tuple(left)


def _part(load: RotorLoad, speed: float, rotor: Rotor) -> RotorLoad:
    """Of what the rotor gives without them; a hundredth at least, as a controller divides by it"""
    own = rotor_load(speed, rotor)
    torque = load.torque / own.torque if own.torque else 1.0
    return RotorLoad(max(float(load.thrust / own.thrust), _LEAST), max(float(torque), _LEAST))
