"""The parameters PX4 is started with: those of the vehicle (`samara.vehicles.exchange.px4_write`), of its sensors and
of its battery.

They are handed over as environment variables `PX4_PARAM_…`. Where outputs are thrusts the throttle curve stays a straight line;
where they are the motors' commands PX4 gets what `samara vehicle export --px4` writes.
"""

import math
from dataclasses import replace

from samara.link.rotor_mapping import rotor_of_output
from samara.physics.types import Vehicle
from samara.scenario.autopilot_types import PX4, RAPTOR
from samara.scenario.batteries import BatteryFailsafe
from samara.scenario.supply import battery_of, failsafe_parameters
from samara.vehicles.exchange.px4_write import HOVER_RANGE, airframe_parameters, gain_parameters, rotor_parameters
from samara.vehicles.exchange.throttle_curve import hover_throttle
from samara.vehicles.exchange.thrust_scale import HOVER_OUTPUT, hover_output

MODEL = "none_iris"  # an airframe of PX4 that brings no simulator of its own
NO_BATTERY = {"SIM_BAT_ENABLE": 0, "SIM_BAT_DRAIN": 0}  # that of PX4 until 1.17, and from 1.18 on
DEFAULT_RATE = 250.0  # [Hz], of PX4's own integration


def rate_parameters(rate: float) -> dict[str, float]:
    """What makes PX4 answer every HIL_SENSOR when they come faster than its usual 250 Hz"""
    if rate <= DEFAULT_RATE:
        return {}
    return {"IMU_INTEG_RATE": math.ceil(rate), "IMU_GYRO_RATEMAX": 2 * math.ceil(rate)}


def battery_parameters(vehicle: Vehicle) -> dict[str, float]:
    """Without the battery PX4 invents, where ours empties: it returns when that is critical, and lands in an emergency"""
    if battery_of(vehicle) is None:
        return {}
    return {**NO_BATTERY, "COM_LOW_BAT_ACT": 3, **failsafe_parameters(PX4, vehicle, BatteryFailsafe())}


def px4_parameters(
    vehicle: Vehicle, rate: float = DEFAULT_RATE, hover: float = HOVER_OUTPUT, outputs: str = "thrust", mode: str = ""
) -> dict[str, float]:
    """All that PX4 must know of a vehicle and of how fast its sensors come"""
    if mode == RAPTOR.name:
        return {**policy_parameters(vehicle, rate), **battery_parameters(vehicle)}
    if outputs == "thrust":
        own = {
            **rotor_parameters(vehicle),
            **gain_parameters(vehicle, hover),
            "MPC_THR_HOVER": hover_output(vehicle, hover),
        }
    else:
        own = airframe_parameters(vehicle)
    return {
        **own,
        **rate_parameters(rate),
        **battery_parameters(vehicle),
    }


def policy_parameters(vehicle: Vehicle, rate: float) -> dict[str, float]:
    """For mc_raptor: its motors in the order of PX4's quadrotor in X, commands that no curve bends, and turns to count

    THR_MDL_FAC would bend what the module commands too. Without it PX4's own controllers feel the slope of the motors' curve at
    hover, dt/du = 1 − e + 2 e u, and their gains are made for that. Every IMU_GYRO_RATEMAX/100 turns the module goes on: only
    where that is the rate of the sensors are these 10 ms.
    """
    order, at_hover = rotor_of_output(vehicle, "px4"), hover_throttle(vehicle)
    slope = 1.0 - at_hover.expo + 2.0 * at_hover.expo * at_hover.throttle
    return {
        **rotor_parameters(replace(vehicle, rotors=tuple(vehicle.rotors[k] for k in order))),
        **gain_parameters(vehicle, min(at_hover.thrust / slope, at_hover.throttle)),
        "THR_MDL_FAC": 0,
        "MPC_THR_HOVER": min(max(at_hover.throttle, HOVER_RANGE[0]), HOVER_RANGE[1]),
        "IMU_INTEG_RATE": rate,
        "IMU_GYRO_RATEMAX": rate,
        "MC_RAPTOR_ENABLE": 1,
        "MC_RAPTOR_OFFB": 0,
    }


def px4_environment(parameters: dict[str, float], model: str = MODEL) -> dict[str, str]:
    """The environment PX4 is started with"""
    return {"PX4_SIM_MODEL": model, **{f"PX4_PARAM_{name}": f"{value:.9g}" for name, value in parameters.items()}}
