"""What a vehicle's numbers say together: dimensionless figures beside the range in which real ones lie.

A number in the wrong unit is a legal number. It shows in a ratio: of thrust to weight, of a propeller's torque to its thrust
and radius, of the radius of gyration to the arm. Each range is wider than what was measured, so that whatever flies is inside.
"""

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.inflow import hover_induced
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.physics.types import CALM, Vehicle
from samara.vehicles.trim import effectiveness, hover, thrust_to_weight

AXES = ("x force", "y force", "thrust", "roll", "pitch", "yaw")
NEEDED = ("thrust", "roll", "pitch", "yaw")
INDEPENDENT = 1e-6  # of an axis: the part that may be missing from what the rotors can do


class Range(NamedTuple):
    """Where real vehicles lie, and who says so"""

    low: float
    high: float
    source: str


class Figure(NamedTuple):
    """One figure: what it is, how much, and what is typical; `hint` is what to look at where it is not."""

    name: str
    value: float
    unit: str
    typical: Range
    hint: str

    @property
    def fine(self) -> bool:
        """Whether it is in its range; a number that is none is not"""
        return self.typical.low <= self.value <= self.typical.high

    @property
    def shown(self) -> str:
        """The value with its unit"""
        return f"{self.value:.3g} {self.unit}".strip()

    @property
    def expected(self) -> str:
        """The range with its unit"""
        return f"{self.typical.low:g} to {self.typical.high:g} {self.unit}".strip()


UIUC = "UIUC propeller database, volume 1, standing"
RANGES = {
    "thrust/weight": Range(
        1.2, 15.0, "ArduPilot wiki, hover throttle: 0.2 to 0.6, which is 1.7 to 5; racers 8 and more"
    ),
    "thrust coefficient": Range(0.03, 0.25, f"{UIUC}: 0.048 to 0.165"),
    "torque/(thrust radius)": Range(0.06, 0.45, f"{UIUC}: 0.11 to 0.26; a Crazyflie 0.32"),
    "figure of merit": Range(0.25, 0.85, f"{UIUC}: 0.32 to 0.73; momentum theory: below 1"),
    "tip speed at most": Range(10.0, 290.0, "Mach 0.85, where propellers lose their efficiency"),
    "inflow in hover": Range(1.5, 20.0, "momentum theory, √(T/2ρA); the shipped vehicles have 4 to 8 m/s"),
    "radius/distance of rotors": Range(0.1, 0.75, "geometry: discs that touch have 0.5; coaxial ones are left out"),
    "gyration/arm, roll": Range(
        0.15, 1.0, "geometry: all mass at the rotors has 0.71; the shipped vehicles 0.44 to 0.66"
    ),
    "gyration/arm, pitch": Range(
        0.15, 1.0, "geometry: all mass at the rotors has 0.71; the shipped vehicles 0.44 to 0.66"
    ),
    "gyration/arm, yaw": Range(0.2, 1.3, "geometry: all mass at the rotors has 1; the shipped vehicles 0.6 to 0.9"),
    "motor time constant": Range(0.003, 0.5, "shipped vehicles: 0.015 to 0.08 s"),
    "speed at which drag is the weight": Range(
        5.0, 1000.0, "crazyflie: 37 m/s; crazyflie_documented, with far too much drag: 1.4 m/s"
    ),
}


class Power(NamedTuple):
    """In hover [W]: what the rotors take, and the least that momentum theory allows (0 without a radius)"""

    shaft: float
    ideal: float


def controllable(vehicle: Vehicle) -> tuple[int, tuple[str, ...]]:
    """The rank of the rotors' effectiveness over force and torque, and the axes they command independently of all others

    An axis is free where its unit vector is in the range of the matrix, with rows made equally large. A vehicle with rotors
    that tilt leans against what they push sideways: that does not count as another axis.
    """
    first = AXES.index("thrust") if vehicle.servos else 0
    matrix, axes = effectiveness(vehicle)[first:], AXES[first:]
    size = np.linalg.norm(matrix, axis=1)
    matrix = matrix[size > INDEPENDENT * size.max()] / size[size > INDEPENDENT * size.max(), None]
    names = [name for name, own in zip(axes, size, strict=True) if own > INDEPENDENT * size.max()]
    left, values, _ = np.linalg.svd(matrix)
    rank = int((values > INDEPENDENT * values[0]).sum())
    reach = left[:, :rank]
    return rank, tuple(
        name for name, row in zip(names, reach, strict=True) if abs(1.0 - float(row @ row)) < INDEPENDENT
    )


def reached(vehicle: Vehicle, axis: str) -> bool:
    """Whether the rotors push or turn the body along one of `AXES` at all"""
    size = np.linalg.norm(effectiveness(vehicle), axis=1)
    return bool(size[AXES.index(axis)] > INDEPENDENT * size.max())


def hover_power(vehicle: Vehicle) -> Power:
    """Σ Q Ω beside Σ T √(T / 2ρA)  [W]"""
    shaft = ideal = 0.0
    state = hover(vehicle)[0]
    loads = rotor_loads(state, vehicle, CALM)
    for rotor, speed, load in zip(vehicle.rotors, state.rotor_speed, loads, strict=True):
        shaft += float(load.torque * speed)
        ideal += (
            float(load.thrust * hover_induced(load.thrust, SEA_LEVEL_DENSITY, rotor.radius)) if rotor.radius else 0.0
        )
    return Power(shaft, ideal)


def figures(vehicle: Vehicle) -> list[Figure]:
    """All that can be said of a vehicle; of rotors that differ the figure that is farthest out"""
    found = [
        *_rotor_figures(vehicle),
        *_body_figures(vehicle),
        *_drag_figures(vehicle),
    ]
    farthest: dict[str, Figure] = {}
    for own in found:
        if own.name not in farthest or _outside(own) > _outside(farthest[own.name]):
            farthest[own.name] = own
    return list(farthest.values())


def warnings(vehicle: Vehicle) -> list[str]:
    """One sentence about each figure that is far from real vehicles', and about axes that cannot be commanded"""
    said = []
    if vehicle.rotors:
        rank, free = controllable(vehicle)
        bound = [name for name in NEEDED if name not in free]
        if bound:
            alone = f"{', '.join(bound)} cannot be commanded alone"
            said.append(f"rank {rank} of the allocation: {alone}; look at the rotors' spin and places")
        try:
            hover(vehicle)
        except ValueError as error:
            said.append(str(error))
    for own in figures(vehicle):
        if not own.fine:
            said.append(
                f"{own.name} is {own.shown}: typical is {own.expected} ({own.typical.source}); look at {own.hint}"
            )
    return said


def _outside(own: Figure) -> float:
    """How far out: 1 at either end of the range, on a logarithmic scale"""
    low, high = math.log(own.typical.low), math.log(own.typical.high)
    return abs(2.0 * (math.log(max(own.value, 1e-300)) - low) / (high - low) - 1.0)


def _figure(name: str, value: float, unit: str, hint: str) -> Figure:
    return Figure(name, value, unit, RANGES[name], hint)


def _rotor_figures(vehicle: Vehicle) -> list[Figure]:
    found: list[Figure] = []
    if not vehicle.rotors:
        return found
    with suppress(ValueError):  # no balance; `hover` says why
        found.append(_figure("thrust/weight", thrust_to_weight(vehicle), "", "mass, k_thrust and the motors' speeds"))
    weight = vehicle.mass * _gravity(vehicle)
    share = weight / sum(max(rotor.axis_B.z, 0.1) for rotor in vehicle.rotors)
    for i, rotor in enumerate(vehicle.rotors):
        if isinstance(rotor.motor, Lag):
            for tau in (rotor.motor.rise, rotor.motor.fall):
                found.append(_figure("motor time constant", tau, "s", "motor.rise and fall"))
        apart = min((gap for j in range(len(vehicle.rotors)) if j != i and (gap := _apart(vehicle, i, j))), default=0.0)
        size = rotor.radius or 0.42 * apart
        if not size:
            continue
        assumed = (
            "" if rotor.radius else ", and at the radius: without one, 0.42 of the distance to the next rotor is taken"
        )
        speed = math.sqrt(share / rotor.k_thrust)
        inflow = float(hover_induced(share, SEA_LEVEL_DENSITY, size))
        coefficient = rotor.k_thrust * (2.0 * math.pi) ** 2 / (SEA_LEVEL_DENSITY * (2.0 * size) ** 4)
        found.append(_figure("thrust coefficient", coefficient, "", f"k_thrust and radius{assumed}"))
        if rotor.k_torque > 0.0:
            lever = rotor.k_torque / (rotor.k_thrust * size)
            merit = share * inflow / (rotor.k_torque * speed**3)
            found.append(_figure("torque/(thrust radius)", lever, "", f"k_torque, k_thrust and radius{assumed}"))
            found.append(_figure("figure of merit", merit, "", f"k_torque, k_thrust and radius{assumed}"))
        found.append(_figure("inflow in hover", inflow, "m/s", f"mass and radius{assumed}"))
        if isinstance(rotor.motor, Lag):
            tip = rotor.motor.speed_max * size
            found.append(_figure("tip speed at most", tip, "m/s", f"motor.speed_max and radius{assumed}"))
        if rotor.radius and apart:
            found.append(_figure("radius/distance of rotors", size / apart, "", "radius and the rotors' places"))
    return found


def _apart(vehicle: Vehicle, i: int, j: int) -> float:
    """The distance of two hubs across their axes [m]; 0 of coaxial ones"""
    one, other = vehicle.rotors[i].r_B, vehicle.rotors[j].r_B
    gap = math.hypot(one.x - other.x, one.y - other.y)
    return 0.0 if gap < 0.2 * abs(one.z - other.z) or gap < 1e-9 else gap


def _body_figures(vehicle: Vehicle) -> list[Figure]:
    arms = [math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors]
    arm = sum(arms) / len(arms) if arms else 0.0
    if not arm:
        return []
    moments = (vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz)
    return [
        _figure(
            f"gyration/arm, {axis}", math.sqrt(moment / vehicle.mass) / arm, "", "body.inertia, body.mass and the arms"
        )
        for axis, moment in zip(("roll", "pitch", "yaw"), moments, strict=True)
    ]


def _drag_figures(vehicle: Vehicle) -> list[Figure]:
    if not vehicle.has("drag"):
        return []
    weight, drag, found = vehicle.mass * _gravity(vehicle), vehicle["drag"], []
    for linear, along_axis in zip(drag.linear, drag.quadratic, strict=True):
        quadratic = along_axis + drag.isotropic
        if linear or quadratic:
            # d v + q v² = m g
            speed = 2.0 * weight / (linear + math.sqrt(linear * linear + 4.0 * quadratic * weight))
            found.append(_figure("speed at which drag is the weight", speed, "m/s", "drag.linear and drag.quadratic"))
    return found


def _gravity(vehicle: Vehicle) -> float:
    return float(vehicle["gravity"].acceleration) if vehicle.has("gravity") else STANDARD_GRAVITY
