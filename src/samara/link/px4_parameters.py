"""PX4's parameters from a vehicle: where its rotors are, how they pull and turn, and how strong they are.

    CA_ROTORi_PX, _PY, _PZ = r in FRD [m],   CA_ROTORi_AX, _AY, _AZ = thrust axis in FRD,   CA_ROTORi_KM = s kM/kF

PX4 takes the torque of a rotor as T (r × a − km a), ours is T (r × a) − s Q a: the ratio s Q/T is its moment coefficient,
positive for one that turns counter-clockwise seen from above. They are handed over as environment variables `PX4_PARAM_…`.
"""

import math

import numpy as np

from samara.link.thrust import HOVER_OUTPUT, full_thrust, hover_output
from samara.physics.frames import frd_from_flu
from samara.physics.types import Vehicle
from samara.scenario.battery_failsafe import BatteryFailsafe
from samara.scenario.supply import battery_of, failsafe_parameters
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.trim import effectiveness

MODEL = "none_iris"  # an airframe of PX4 that brings no simulator of its own
FIRST_MOTOR = 101  # the output function "Motor 1"
MOST_ROTORS = 12
DEFAULT_RATE = 250.0  # [Hz], of PX4's own integration
GAIN_RANGE = (0.01, 5.0)  # of MC_…RATE_K


def rotor_parameters(vehicle: Vehicle) -> dict[str, float]:
    """CA_ROTOR_COUNT, and place, axis and moment coefficient of each rotor in the vehicle's order"""
    if not 0 < len(vehicle.rotors) <= MOST_ROTORS:
        raise ValueError(
            f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; PX4 allocates to 1 to {MOST_ROTORS}"
        )
    numbers: dict[str, float] = {"CA_AIRFRAME": 0, "CA_ROTOR_COUNT": len(vehicle.rotors)}
    for i, rotor in enumerate(vehicle.rotors):
        place, axis = frd_from_flu(rotor.r_B), frd_from_flu(rotor.axis_B)
        for letter, position, along in zip("XYZ", place, axis, strict=True):
            numbers[f"CA_ROTOR{i}_P{letter}"] = float(position) + 0.0  # no −0
            numbers[f"CA_ROTOR{i}_A{letter}"] = float(along) + 0.0
        numbers[f"CA_ROTOR{i}_KM"] = float(rotor.spin * rotor.k_torque / rotor.k_thrust)
        numbers[f"PWM_MAIN_FUNC{i + 1}"] = FIRST_MOTOR + i
    return numbers


def agility(vehicle: Vehicle, hover: float = HOVER_OUTPUT) -> tuple[float, float, float]:
    """T_full |B_τ| √(n/2) / J about each axis: the angular acceleration of one unit of PX4's normalized torque  [rad/s²]

    PX4 scales each column of its mixer to the norm √(n/2).
    """
    arms = np.linalg.norm(effectiveness(vehicle)[3:], axis=1) * math.sqrt(len(vehicle.rotors) / 2.0)
    moments = np.array([vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz])
    roll, pitch, yaw = (float(x) for x in full_thrust(vehicle, hover) * arms / moments)
    return roll, pitch, yaw


def gain_parameters(vehicle: Vehicle, hover: float = HOVER_OUTPUT) -> dict[str, float]:
    """MC_ROLLRATE_K = α_iris / α and so on: PX4's gains fit an Iris, and one that turns k times as hard needs 1/k of them"""
    usual, own = agility(load_vehicle("iris_documented")), agility(vehicle, hover)
    low, high = GAIN_RANGE
    names = ("MC_ROLLRATE_K", "MC_PITCHRATE_K", "MC_YAWRATE_K")
    return {name: min(max(u / a, low), high) if a > 0.0 else 1.0 for name, u, a in zip(names, usual, own, strict=True)}


def rate_parameters(rate: float) -> dict[str, float]:
    """What makes PX4 answer every HIL_SENSOR when they come faster than its usual 250 Hz"""
    if rate <= DEFAULT_RATE:
        return {}
    return {"IMU_INTEG_RATE": math.ceil(rate), "IMU_GYRO_RATEMAX": 2 * math.ceil(rate)}


def battery_parameters(vehicle: Vehicle) -> dict[str, float]:
    """Without the battery PX4 invents, where ours empties: it returns when that is critical, and lands in an emergency"""
    if battery_of(vehicle) is None:
        return {}
    return {"SIM_BAT_ENABLE": 0, "COM_LOW_BAT_ACT": 3, **failsafe_parameters("px4", vehicle, BatteryFailsafe())}


def px4_parameters(vehicle: Vehicle, rate: float = DEFAULT_RATE, hover: float = HOVER_OUTPUT) -> dict[str, float]:
    """All that PX4 must know of a vehicle and of how fast its sensors come"""
    return {
        **rotor_parameters(vehicle),
        **gain_parameters(vehicle, hover),
        "MPC_THR_HOVER": hover_output(vehicle, hover),
        **rate_parameters(rate),
        **battery_parameters(vehicle),
    }


def px4_environment(parameters: dict[str, float], model: str = MODEL) -> dict[str, str]:
    """The environment PX4 is started with"""
    return {"PX4_SIM_MODEL": model, **{f"PX4_PARAM_{name}": f"{value:.9g}" for name, value in parameters.items()}}
