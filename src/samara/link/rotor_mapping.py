"""Which rotor of a vehicle each output of an autopilot drives, found by where rotors sit and which way they turn."""

import math

from samara.physics.types import Vehicle
from samara.vehicles.rotor_numbering import NUMBERINGS

FRAMES = {4: "quad_x", 6: "hexa_x", 8: "octo_x"}
NEAR = math.radians(22.0)  # less than half the angle between two rotors of an octorotor


def rotor_of_output(vehicle: Vehicle, system: str) -> tuple[int, ...]:
    """order[channel] is the rotor of the vehicle that sits where the system has that motor, and turns the same way"""
    frame = FRAMES.get(len(vehicle.rotors))
    if frame is None or system not in NUMBERINGS[frame]:
        known = ", ".join(str(n) for n, name in FRAMES.items() if system in NUMBERINGS[name])
        raise ValueError(f"vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors; {system} is wired for {known}")
    order = []
    for place in NUMBERINGS[frame][system].places:
        at = math.radians(place.azimuth_deg)
        found = [
            i
            for i, rotor in enumerate(vehicle.rotors)
            if abs(_between(math.atan2(rotor.r_B.y, rotor.r_B.x), at)) < NEAR and i not in order
        ]
        if len(found) != 1:
            raise ValueError(f"vehicle {vehicle.name!r} has no rotor {place.name} for {system}'s {frame}; expected one")
        if vehicle.rotors[found[0]].spin != place.spin:
            turns = "clockwise" if place.spin < 0 else "counter-clockwise"
            raise ValueError(
                f"rotor {place.name} of vehicle {vehicle.name!r} turns the other way than {system}'s; expected {turns}"
            )
        order.append(found[0])
    return tuple(order)


def _between(a: float, b: float) -> float:
    return math.remainder(a - b, 2.0 * math.pi)


def outputs_by_rotor(values: list[float], order: tuple[int, ...]) -> list[float]:
    """The values of the channels, sorted to the vehicle's rotors"""
    by_rotor = [0.0] * len(order)
    for channel, rotor in enumerate(order):
        by_rotor[rotor] = values[channel]
    return by_rotor
