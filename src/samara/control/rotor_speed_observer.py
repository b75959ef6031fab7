"""How fast rotors turn that nobody measures: the lag of their motors, followed from the commands they were given.

Policies see the speeds of their rotors, and most flight controllers do not know them. The motors are taken as they are in
hover, those on a battery with its voltage there.
"""

from typing import NamedTuple

from samara.core.quantity import Scalar
from samara.physics.rotors.actuator import Lag, lag_step, saturate_speed, speed_from_command
from samara.physics.rotors.propulsion import lag_motors
from samara.physics.types import CALM, Command, Vehicle
from samara.vehicles.trim import hover


class Turning(NamedTuple):
    """How fast each rotor turns, and how fast it was last told to  [rad/s]"""

    speed: tuple[Scalar, ...]
    target: tuple[Scalar, ...]


def motors_in_hover(vehicle: Vehicle) -> tuple[Lag, ...]:
    """The motors, all with a lag behind their command alone; ValueError with one sentence where they are not"""
    kind = vehicle.structure.actuation.name
    known = kind in ("normalized", "speed") and all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors)
    if not known or vehicle.has("actuator"):
        raise ValueError(
            f"the motors of vehicle {vehicle.name!r} do more than follow their command ({kind}) with a lag, and their speeds "
            "cannot be told from it; expected motors with time constants and no actuator before them"
        )
    return lag_motors(hover(vehicle)[0], vehicle, CALM)


def commanded_speeds(command: Command, vehicle: Vehicle, motors: tuple[Lag, ...]) -> tuple[Scalar, ...]:
    """Ω that each motor comes to under a command  [rad/s]"""
    told = saturate_speed if vehicle.structure.actuation.name == "speed" else speed_from_command
    return tuple(told(u, motor) for u, motor in zip(command, motors, strict=True))


def standing(vehicle: Vehicle) -> Turning:
    """Rotors that stand, and have been told nothing yet"""
    still = tuple(0.0 for _ in vehicle.rotors)
    return Turning(still, still)


def turned(own: Turning, dt: Scalar, motors: tuple[Lag, ...]) -> Turning:
    """A time dt later  [s]"""
    speeds = zip(own.speed, own.target, motors, strict=True)
    return own._replace(speed=tuple(lag_step(speed, target, dt, motor) for speed, target, motor in speeds))
