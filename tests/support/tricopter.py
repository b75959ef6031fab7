"""A tricopter: two rotors in front that turn against each other, and one behind that a servo tilts about its boom."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from samara.core.algebra import Vec3
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import Rotor
from samara.physics.rotors.tilt import Servo
from samara.physics.types import Vehicle
from samara.vehicles.build import build_vehicle

ARM, LEVER = 0.25, 0.016  # [m]: hubs from the centre, and k_torque/k_thrust
SERVO = Servo(Vec3(1.0, 0.0, 0.0), -0.6, 0.6, 8.0, 0.04)
MOTOR = Lag(100.0, 1000.0, 0.03, 0.05)


def tricopter(
    actuation: str = "normalized", servo: Servo = SERVO, effects: Mapping[str, object] = MappingProxyType({})
) -> Vehicle:
    rotors = []
    for azimuth, spin, tilts in ((60.0, 1.0, ()), (-60.0, -1.0, ()), (180.0, 1.0, servo)):
        x, y = ARM * math.cos(math.radians(azimuth)), ARM * math.sin(math.radians(azimuth))
        hub_B = Vec3(round(x, 15), round(y, 15), 0.0)
        rotors.append(Rotor(hub_B, Vec3(0.0, 0.0, 1.0), spin, 1.5e-5, LEVER * 1.5e-5, 5e-5, 0.127, MOTOR, tilts))
    return build_vehicle(
        "tricopter", mass=1.2, inertia=(0.012, 0.012, 0.02), rotors=rotors, actuation=actuation, effects=effects
    )
