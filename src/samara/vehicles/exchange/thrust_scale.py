"""What the full output of an autopilot stands for: a thrust of which hover is a given share, or all that the motors give."""

from functools import lru_cache

from samara.physics.types import Vehicle
from samara.vehicles.trim import hover, thrust_to_weight

HOVER_OUTPUT = 0.5


@lru_cache(maxsize=64)
def full_thrust(vehicle: Vehicle, hover_output: float = HOVER_OUTPUT) -> float:
    """T_full = T_hover / u_hover, T_hover the mean over the rotors; less where the motors give less  [N]"""
    if not vehicle.rotors:
        raise ValueError(f"vehicle {vehicle.name!r} has no rotors for an autopilot to drive; expected some")
    if not 0.0 < hover_output < 1.0:
        raise ValueError(f"the output at hover is {hover_output!r}; expected a number between 0 and 1")
    speeds = hover(vehicle)[0].rotor_speed
    thrusts = [r.k_thrust * speed * speed for r, speed in zip(vehicle.rotors, speeds, strict=True)]
    return float(sum(thrusts) / len(thrusts)) * min(1.0 / hover_output, thrust_to_weight(vehicle))


def hover_output(vehicle: Vehicle, wanted: float = HOVER_OUTPUT) -> float:
    """u = T_hover / T_full: what was wanted, or more where the motors cannot lift twice the weight"""
    return max(wanted, 1.0 / thrust_to_weight(vehicle))
