"""The throttle curve of autopilots, and the motor of ours that is nearest to it.

    t = (1 − e) u + e u²      thrust over full thrust, of the throttle u

ArduPilot calls e MOT_THST_EXPO, PX4 THR_MDL_FAC. A motor of ours with a lag turns with Ω = Ω_min + u (Ω_max − Ω_min) and so
has the curve t = (a + (1 − a) u)², a = Ω_min/Ω_max. The a that makes both equal at hover leaves at most 0.03 of the full
thrust between them for e = 0.65, 0.06 for e = 0.5, most of it at u = 0, where ours still turns.
"""

import math
from typing import NamedTuple

from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.propulsion import IDEAL_BATTERY, full_voltage
from samara.physics.types import Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.trim import hover, thrust_to_weight


class HoverThrottle(NamedTuple):
    """At hover: thrust over full thrust, the throttle for it, and the e of the curve through both."""

    thrust: float
    throttle: float
    expo: float


def thrust_share(throttle: float, expo: float) -> float:
    """t = (1 − e) u + e u²"""
    return (1.0 - expo) * throttle + expo * throttle * throttle


def throttle_for(thrust: float, expo: float) -> float:
    """u = 2 t / ((1 − e) + √((1 − e)² + 4 e t)): `thrust_share` the other way, also at e = 0"""
    return 2.0 * thrust / ((1.0 - expo) + math.sqrt((1.0 - expo) ** 2 + 4.0 * expo * thrust))


def expo_through(thrust: float, throttle: float) -> float:
    """e = (u − t) / (u − u²), held within [0, 1]: the curve through hover and full thrust"""
    span = throttle * (1.0 - throttle)
    return min(max((throttle - thrust) / span, 0.0), 1.0) if span > 0.0 else 1.0


def idle_share(thrust: float, expo: float) -> float:
    """a = (√t − u) / (1 − u): Ω_min/Ω_max of the motor whose curve meets that of e at the thrust t"""
    throttle = throttle_for(thrust, expo)
    return (math.sqrt(thrust) - throttle) / (1.0 - throttle) if throttle < 1.0 else 0.0


def hover_throttle(vehicle: Vehicle) -> HoverThrottle:
    """t = 1/(thrust to weight) and the throttle of hover on a full battery that does not sag: the e of the motors

    The throttle is the mean command of hover; of a commanded speed it is the share of the highest.
    """
    stiff = _on_stiff_battery(vehicle)
    ratio = thrust_to_weight(stiff)
    if not 1.0 < ratio < math.inf:
        raise VehicleError(f"{vehicle.name}: lifts {ratio:.3g} times its weight; expected rotors that lift more than 1")
    throttle = _throttle(stiff)
    return HoverThrottle(1.0 / ratio, throttle, expo_through(1.0 / ratio, throttle))


def sagged_hover(vehicle: Vehicle) -> float:
    """t of the throttle at which it hovers on its own battery, full: what an autopilot finds its hover thrust to be"""
    return min(thrust_share(_throttle(vehicle), hover_throttle(vehicle).expo), 1.0)


def _on_stiff_battery(vehicle: Vehicle) -> Vehicle:
    if not vehicle.has("battery"):
        return vehicle
    return vehicle.with_effect(IDEAL_BATTERY, Ideal(float(full_voltage(vehicle))))


def _throttle(vehicle: Vehicle) -> float:
    state, command = hover(vehicle)
    if vehicle.structure.actuation.name == "speed":
        command = tuple(
            own / rotor.motor.speed_max for own, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
        )
    return sum(float(own) for own in command) / len(command)
