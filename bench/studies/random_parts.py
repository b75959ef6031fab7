"""Random parts lists with the rules of a sensible builder: 10 g to 25 kg, every layout, propellers that carry the weight.

List i does not depend on the other lists. Sizes follow rules of thumb (propeller diameter and motor mass from the weight they
carry, Kv from the speed that the thrust needs), each with random scatter, so lists range from light to heavy builds.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.types import Vehicle
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.layouts import LAYOUTS, layout_hubs, min_rotor_spacing
from samara.vehicles.parts.parts_list import MAX_MASS, MIN_MASS, PartsList, parts_list
from samara.vehicles.parts.propeller import propeller
from samara.vehicles.trim import thrust_to_weight

MIN_THRUST_TO_WEIGHT = 1.5  # thrust over weight
_ATTEMPTS = 40
_FOURS = ("quad_x", "quad_plus", "quad_h", "deadcat")
_ALL = tuple(layout for layout in LAYOUTS if layout != "tricopter")
_FOUR_ROTORS = 0.1  # [kg]: lighter aircraft have four rotors
_THREE_ROTORS = 12  # every twelfth list is a tricopter
_CELLS = ((0.06, (1,)), (0.2, (2, 3)), (0.5, (3, 4)), (2.0, (4, 6)), (6.0, (4, 6)), (math.inf, (6, 12)))
_PACK = 150.0  # [Wh/kg]
_CELL = 3.7  # [V]
_FULL = 4.2  # [V]
_LOADED = 0.68  # speed at full throttle over Kv times the full voltage
_2207 = (22.0, 7.0, 0.033)  # stator diameter and height [mm], mass [kg]


class RandomAircraft(NamedTuple):
    """A parts list, its vehicle, and the reasons why earlier attempts were rejected."""

    parts: PartsList
    vehicle: Vehicle
    rejections: tuple[str, ...]


def sensible_list(index: int) -> RandomAircraft:
    """Return the first attempt of list `index` whose aircraft has a thrust-to-weight ratio of at least 1.5."""
    rejections: list[str] = []
    for attempt in range(_ATTEMPTS):
        parts = random_parts_list(index, attempt)
        try:
            vehicle = assemble(parts)
        except ValueError as error:
            rejections.append(str(error))
            continue
        lift = thrust_to_weight(vehicle)
        if lift >= MIN_THRUST_TO_WEIGHT:
            return RandomAircraft(parts, vehicle, tuple(rejections))
        rejections.append(f"thrust/weight = {lift:.2f}: expected at least {MIN_THRUST_TO_WEIGHT:g}")
    raise ValueError(f"list {index}: all {_ATTEMPTS} attempts were rejected; the last: {rejections[-1]}")


def random_parts_list(index: int, attempt: int = 0) -> PartsList:
    """Draw list `index`; another `attempt` has the same mass and other parts."""
    rng = np.random.default_rng([19, index])
    mass = _round_significant(MIN_MASS * (MAX_MASS / MIN_MASS) ** float(rng.uniform()), 3)
    rng = np.random.default_rng([19, index, attempt])
    layout = str(rng.choice(_FOURS if mass < _FOUR_ROTORS else _ALL))
    if index % _THREE_ROTORS == _THREE_ROTORS - 1 and mass >= _FOUR_ROTORS:
        layout = "tricopter"
    count = len(LAYOUTS[layout].mounts)
    coaxial = any(mount.level for mount in LAYOUTS[layout].mounts)

    carried_mass = (
        mass / count * (0.6 if coaxial else 1.0)
    )  # the lower rotor of a pair adds less thrust than the upper one
    inches = 6.0 * (4.0 * carried_mass / 0.65) ** 0.45 * float(rng.uniform(0.9, 1.4))
    blades = int(rng.choice((2, 3) if inches < 8.0 else (2,)))
    pitch = float(rng.uniform(0.4, 0.8) if inches < 8.0 else rng.uniform(0.3, 0.5))
    props = f"{_round_significant(inches, 2):g}x{_round_significant(pitch * inches, 2):g}" + (
        f"x{blades}" if blades > 2 else ""
    )

    prop = propeller(props)
    spacing = min_rotor_spacing(layout_hubs(LAYOUTS[layout], 1.0, 0.0))
    diagonal = _round_significant(2.0 * prop.radius.value / spacing * float(rng.uniform(1.04, 1.35)) + 0.0005, 3)

    cells = int(rng.choice(next(counts for max_mass, counts in _CELLS if mass < max_mass)))
    energy = float(rng.uniform(0.18, 0.35)) * mass * _PACK
    capacity = _round_significant(1e3 * energy / (_CELL * cells), 2)
    thrust_ratio = float(rng.uniform(1.8, 4.5)) * (1.15 if coaxial else 1.0)
    thrust = thrust_ratio * mass * STANDARD_GRAVITY / count
    speed = math.sqrt(thrust / prop.k_thrust.value)
    kv = _round_significant(60.0 * speed / (2.0 * math.pi) / (_LOADED * _FULL * cells), 2)
    motor_fraction = float(rng.uniform(0.15, 0.26))  # motor mass over total mass
    diameter, height = _stator(motor_fraction * mass / count, float(rng.uniform(2.0, 4.0)))
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


def _stator(mass: float, slenderness: float) -> tuple[int, int]:
    """Return the diameter and height [mm] of the stator of a motor of about this mass [kg]."""
    reference_diameter, reference_height, reference_mass = _2207
    volume = reference_diameter * reference_diameter * reference_height * (mass / reference_mass) ** 1.2
    diameter = (volume * slenderness) ** (1.0 / 3.0)
    return max(5, min(99, round(diameter))), max(2, min(40, round(diameter / slenderness)))


def _round_significant(value: Any, digits: int) -> float:
    return float(f"{value:.{digits}g}")
