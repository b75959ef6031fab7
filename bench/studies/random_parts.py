"""Parts lists at random, as a sensible builder writes them: 10 g to 25 kg, every layout, propellers that lift what they must.

List i is the same however many are drawn. Sizes go by rules of thumb (a propeller's diameter and a motor's mass by the weight
they carry, Kv by the speed that the thrust asks for), each blurred, so that some lists are bold and some are timid.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.types import Vehicle
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.layouts import LAYOUTS, hubs_of, nearest_beside
from samara.vehicles.parts.parts_list import HEAVIEST, LIGHTEST, PartsList, parts_list
from samara.vehicles.parts.propeller import propeller
from samara.vehicles.trim import thrust_to_weight

LEAST_LIFT = 1.5  # thrust over weight
_ATTEMPTS = 40
_FOURS = ("quad_x", "quad_plus", "quad_h", "deadcat")
_ALL = tuple(own for own in LAYOUTS if own != "tricopter")
_FOUR_ROTORS = 0.1  # [kg]: lighter ones have four
_THREE_ROTORS = 12  # of so many the last is a tricopter
_CELLS = ((0.06, (1,)), (0.2, (2, 3)), (0.5, (3, 4)), (2.0, (4, 6)), (6.0, (4, 6)), (math.inf, (6, 12)))
_PACK = 150.0  # [Wh/kg]
_CELL = 3.7  # [V]
_FULL = 4.2  # [V]
_LOADED = 0.68  # speed at full throttle over Kv times the full voltage
_2207 = (22.0, 7.0, 0.033)  # stator diameter and height [mm], mass [kg]


class Drawn(NamedTuple):
    """A list, the vehicle that it makes, and why the lists before it were not taken"""

    parts: PartsList
    vehicle: Vehicle
    refused: tuple[str, ...]


def sensible_list(index: int) -> Drawn:
    """The first list of a number that makes an aircraft which lifts 1.5 times its weight"""
    refused: list[str] = []
    for attempt in range(_ATTEMPTS):
        own = random_parts_list(index, attempt)
        try:
            vehicle = assemble(own)
        except ValueError as error:
            refused.append(str(error))
            continue
        lift = thrust_to_weight(vehicle)
        if lift >= LEAST_LIFT:
            return Drawn(own, vehicle, tuple(refused))
        refused.append(f"thrust/weight = {lift:.2f}: a sensible builder wants at least {LEAST_LIFT:g}")
    raise ValueError(f"list {index}: none of {_ATTEMPTS} made an aircraft; the last: {refused[-1]}")


def random_parts_list(index: int, attempt: int = 0) -> PartsList:
    """List number `index`; another `attempt` is another list of about the same mass"""
    dice = np.random.default_rng([19, index])
    mass = _rounded(LIGHTEST * (HEAVIEST / LIGHTEST) ** float(dice.uniform()), 3)
    dice = np.random.default_rng([19, index, attempt])
    layout = str(dice.choice(_FOURS if mass < _FOUR_ROTORS else _ALL))
    if index % _THREE_ROTORS == _THREE_ROTORS - 1 and mass >= _FOUR_ROTORS:
        layout = "tricopter"
    count = len(LAYOUTS[layout].mounts)
    coaxial = any(own.level for own in LAYOUTS[layout].mounts)

    carried = mass / count * (0.6 if coaxial else 1.0)  # the lower of a pair adds less than the upper, and arms are few
    inches = 6.0 * (4.0 * carried / 0.65) ** 0.45 * float(dice.uniform(0.9, 1.4))
    blades = int(dice.choice((2, 3) if inches < 8.0 else (2,)))
    pitch = float(dice.uniform(0.4, 0.8) if inches < 8.0 else dice.uniform(0.3, 0.5))
    props = f"{_rounded(inches, 2):g}x{_rounded(pitch * inches, 2):g}" + (f"x{blades}" if blades > 2 else "")

    own = propeller(props)
    apart = nearest_beside(hubs_of(LAYOUTS[layout], 1.0, 0.0))
    diagonal = _rounded(2.0 * own.radius.value / apart * float(dice.uniform(1.04, 1.35)) + 0.0005, 3)

    cells = int(dice.choice(next(few for below, few in _CELLS if mass < below)))
    energy = float(dice.uniform(0.18, 0.35)) * mass * _PACK
    capacity = _rounded(1e3 * energy / (_CELL * cells), 2)
    lift = float(dice.uniform(1.8, 4.5)) * (1.15 if coaxial else 1.0)
    thrust = lift * mass * STANDARD_GRAVITY / count
    speed = math.sqrt(thrust / own.k_thrust.value)
    kv = _rounded(60.0 * speed / (2.0 * math.pi) / (_LOADED * _FULL * cells), 2)
    share = float(dice.uniform(0.15, 0.26))  # of the mass: what builders spend on motors
    diameter, height = _stator(share * mass / count, float(dice.uniform(2.0, 4.0)))
    return parts_list(
        f"list {index}",
        name=f"random_{index}",
        mass=mass,
        layout=layout,
        diagonal=diagonal,
        props=props,
        motors=f"{diameter:02d}{height:02d} {kv:g}KV",
        battery=f"{cells}S{capacity:.0f}",
    )


def _stator(mass: float, slender: float) -> tuple[int, int]:
    """Diameter and height [mm] of a motor's stator of about that mass  [kg]"""
    wide, high, known = _2207
    volume = wide * wide * high * (mass / known) ** 1.2
    diameter = (volume * slender) ** (1.0 / 3.0)
    return max(5, min(99, round(diameter))), max(2, min(40, round(diameter / slender)))


def _rounded(value: Any, digits: int) -> float:
    return float(f"{value:.{digits}g}")
