"""The parameters PX4 is started with: those of the vehicle (`samara.exchange.px4_out`), of its sensors and of its battery.

They are handed over as environment variables `PX4_PARAM_…`. Where outputs are thrusts the throttle curve stays a straight line;
where they are the motors' commands PX4 gets what `samara vehicle export --px4` writes.
"""

import math

from samara.exchange.full_thrust import HOVER_OUTPUT, hover_output
from samara.exchange.px4_out import airframe_parameters, gain_parameters, rotor_parameters
from samara.physics.types import Vehicle
from samara.scenario.battery_failsafe import BatteryFailsafe
from samara.scenario.supply import battery_of, failsafe_parameters

MODEL = "none_iris"  # an airframe of PX4 that brings no simulator of its own
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
    return {"SIM_BAT_ENABLE": 0, "COM_LOW_BAT_ACT": 3, **failsafe_parameters("px4", vehicle, BatteryFailsafe())}


def px4_parameters(
    vehicle: Vehicle, rate: float = DEFAULT_RATE, hover: float = HOVER_OUTPUT, outputs: str = "thrust"
) -> dict[str, float]:
    """All that PX4 must know of a vehicle and of how fast its sensors come"""
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


def px4_environment(parameters: dict[str, float], model: str = MODEL) -> dict[str, str]:
    """The environment PX4 is started with"""
    return {"PX4_SIM_MODEL": model, **{f"PX4_PARAM_{name}": f"{value:.9g}" for name, value in parameters.items()}}
