"""The throttle curve of autopilots, and the closest motor model of Samara.

    t = (1 − e) u + e u²      thrust over full thrust, of the throttle u

ArduPilot calls e MOT_THST_EXPO, PX4 THR_MDL_FAC. A lag motor of Samara turns with Ω = Ω_min + u (Ω_max − Ω_min) and so has
the curve t = (a + (1 − a) u)², a = Ω_min/Ω_max. The a that makes both equal at hover leaves a difference of at most 0.03 of the
full thrust for e = 0.65, 0.06 for e = 0.5, most of it at u = 0, where Samara's motor still turns.

Further helpers for autopilots: the batteries as one pack of cells, the thrust at full output, and a typical propeller for files
with too few parameters.
"""

import math
from functools import lru_cache
from typing import NamedTuple

from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.propulsion import IDEAL_BATTERY, full_voltage
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.physics.types import Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.parts.uncertain import UncertainValue
from samara.vehicles.trim import hover, thrust_to_weight


class HoverThrottle(NamedTuple):
    """In hover: thrust over full thrust, the throttle, and the e of the curve through both."""

    thrust: float
    throttle: float
    expo: float


def thrust_fraction(throttle: float, expo: float) -> float:
    """t = (1 − e) u + e u²"""
    return (1.0 - expo) * throttle + expo * throttle * throttle


def solve_throttle(thrust: float, expo: float) -> float:
    """u = 2 t / ((1 − e) + √((1 − e)² + 4 e t)): the inverse of `thrust_fraction`, also at e = 0"""
    return 2.0 * thrust / ((1.0 - expo) + math.sqrt((1.0 - expo) ** 2 + 4.0 * expo * thrust))


def fit_expo(thrust: float, throttle: float) -> float:
    """e = (u − t) / (u − u²), clamped to [0, 1]: the curve through hover and full thrust"""
    span = throttle * (1.0 - throttle)
    return min(max((throttle - thrust) / span, 0.0), 1.0) if span > 0.0 else 1.0


def idle_speed_fraction(thrust: float, expo: float) -> float:
    """a = (√t − u) / (1 − u): Ω_min/Ω_max of the motor whose curve equals that of e at the thrust t"""
    throttle = solve_throttle(thrust, expo)
    return (math.sqrt(thrust) - throttle) / (1.0 - throttle) if throttle < 1.0 else 0.0


def hover_throttle(vehicle: Vehicle) -> HoverThrottle:
    """t = 1/(thrust to weight), the throttle of hover on a full battery without sag, and the e of the curve through
    both

    The throttle is the mean command in hover; for speed commands, the mean fraction of the highest speed.
    """
    without_sag = _remove_sag(vehicle)
    ratio = thrust_to_weight(without_sag)
    if not 1.0 < ratio < math.inf:
        raise VehicleError(f"{vehicle.name}: lifts {ratio:.3g} times its weight; expected a finite ratio above 1")
    throttle = _hover_command(without_sag)
    return HoverThrottle(1.0 / ratio, throttle, fit_expo(1.0 / ratio, throttle))


def loaded_hover_thrust(vehicle: Vehicle) -> float:
    """t at the hover throttle on the vehicle's own full battery: the hover thrust that an autopilot learns"""
    return min(thrust_fraction(_hover_command(vehicle), hover_throttle(vehicle).expo), 1.0)


def _remove_sag(vehicle: Vehicle) -> Vehicle:
    if not vehicle.has("battery"):
        return vehicle
    return vehicle.with_effect(IDEAL_BATTERY, Ideal(float(full_voltage(vehicle))))


def _hover_command(vehicle: Vehicle) -> float:
    state, command = hover(vehicle)
    if vehicle.structure.actuation.name == "speed":
        command = tuple(
            speed / rotor.motor.speed_max for speed, rotor in zip(state.rotor_speed, vehicle.rotors, strict=True)
        )
    return sum(float(value) for value in command) / len(command)


FULL_CELL_VOLTAGE = 4.2  # [V], full
CELL_VOLTAGE_TOLERANCE = 0.05  # of a cell's voltage: largest deviation from an integer cell count


class Pack(NamedTuple):
    """Full voltage [V], cells in series (0: not an integer), capacity [C] (0: unlimited), resistance [Ω]."""

    voltage: float
    cells: int
    capacity: float
    resistance: float


def battery_pack(vehicle: Vehicle) -> Pack | None:
    """Return all batteries of a vehicle, in parallel, as one pack."""
    if not vehicle.has("battery"):
        return None
    voltage = float(full_voltage(vehicle))
    cells = round(voltage / FULL_CELL_VOLTAGE)
    cells = (
        cells if cells and abs(voltage / cells - FULL_CELL_VOLTAGE) <= CELL_VOLTAGE_TOLERANCE * FULL_CELL_VOLTAGE else 0
    )
    if isinstance(vehicle["battery"], Ideal):
        return Pack(voltage, cells, 0.0, 0.0)
    capacity = sum(float(battery.capacity) for battery in vehicle["battery"])
    conductance = sum(
        1.0 / float(battery.resistance + battery.polarisation_resistance) for battery in vehicle["battery"]
    )
    return Pack(voltage, cells, capacity, 1.0 / conductance)


HOVER_OUTPUT = 0.5


@lru_cache(maxsize=64)
def full_thrust(vehicle: Vehicle, hover_output: float = HOVER_OUTPUT) -> float:
    """T_full = T_hover / u_hover, T_hover the mean over the rotors; limited by the motors  [N]"""
    if not vehicle.rotors:
        raise ValueError(f"vehicle {vehicle.name!r} has no rotors for an autopilot to drive; expected some")
    if not 0.0 < hover_output < 1.0:
        raise ValueError(f"the output at hover is {hover_output!r}; expected a number between 0 and 1")
    speeds = hover(vehicle)[0].rotor_speed
    thrusts = [r.k_thrust * speed * speed for r, speed in zip(vehicle.rotors, speeds, strict=True)]
    return float(sum(thrusts) / len(thrusts)) * min(1.0 / hover_output, thrust_to_weight(vehicle))


def hover_output(vehicle: Vehicle, requested: float = HOVER_OUTPUT) -> float:
    """u = T_hover / T_full: the requested output, or more if the motors cannot lift that much"""
    return max(requested, 1.0 / thrust_to_weight(vehicle))


STATIC_CT = UncertainValue(0.106, 0.20, "static C_T 0.106 ± 20 %, the median of 139 propellers of UIUC's volume 1")
STATIC_CP_CT = UncertainValue(
    0.475, 0.26, "static C_P/C_T 0.475 ± 26 %, the median of 139 propellers of UIUC's volume 1"
)


def typical_k_thrust(radius: float) -> float:
    """kF = C_T ρ₀ D⁴ / (2π)²  [N s²/rad²]"""
    return STATIC_CT.value * SEA_LEVEL_DENSITY * (2.0 * radius) ** 4 / (2.0 * math.pi) ** 2


def typical_torque_ratio(radius: float) -> float:
    """kM/kF = (C_P/C_T) D / (2π)  [m]"""
    return STATIC_CP_CT.value * radius / math.pi


def typical_radius(k_thrust: float) -> UncertainValue:
    """R = ½ (kF (2π)² / (C_T ρ₀))^¼  [m]"""
    radius = 0.5 * (k_thrust * (2.0 * math.pi) ** 2 / (STATIC_CT.value * SEA_LEVEL_DENSITY)) ** 0.25
    return UncertainValue(radius, 0.25 * STATIC_CT.spread, f"not in the file; of k_thrust, by {STATIC_CT.source}")
