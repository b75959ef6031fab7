"""Plausibility of a vehicle's parameters: dimensionless ratios, compared with the ranges of real vehicles.

A parameter in the wrong unit is still a valid number. It shows in a ratio: thrust to weight, propeller torque to thrust
times radius, radius of gyration to arm. Each range is wider than the measurements, so that every real aircraft is inside.
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
REQUIRED_AXES = ("thrust", "roll", "pitch", "yaw")
INDEPENDENCE_TOLERANCE = 1e-6  # relative tolerance of an axis in the column space of the effectiveness


class TypicalRange(NamedTuple):
    """Range of real vehicles, and the source of the range."""

    low: float
    high: float
    source: str


class PlausibilityFigure(NamedTuple):
    """A ratio with its value and typical range; `hint` names the parameters to check if the value is outside."""

    name: str
    value: float
    unit: str
    typical: TypicalRange
    hint: str

    @property
    def is_typical(self) -> bool:
        """Whether the value is within its range; False for NaN."""
        return self.typical.low <= self.value <= self.typical.high

    @property
    def value_text(self) -> str:
        """The value with its unit."""
        return f"{self.value:.3g} {self.unit}".strip()

    @property
    def range_text(self) -> str:
        """The range with its unit."""
        return f"{self.typical.low:g} to {self.typical.high:g} {self.unit}".strip()


UIUC = "UIUC propeller database, volume 1, static"
RANGES = {
    "thrust/weight": TypicalRange(
        1.2, 15.0, "ArduPilot wiki, hover throttle: 0.2 to 0.6, which is 1.7 to 5; racers 8 and more"
    ),
    "thrust coefficient": TypicalRange(0.03, 0.25, f"{UIUC}: 0.048 to 0.165"),
    "torque/(thrust radius)": TypicalRange(0.06, 0.45, f"{UIUC}: 0.11 to 0.26; a Crazyflie 0.32"),
    "figure of merit": TypicalRange(0.25, 0.85, f"{UIUC}: 0.32 to 0.73; momentum theory: below 1"),
    "maximum tip speed": TypicalRange(10.0, 290.0, "Mach 0.85, where propellers lose their efficiency"),
    "inflow in hover": TypicalRange(1.5, 20.0, "momentum theory, √(T/2ρA); the shipped vehicles have 4 to 8 m/s"),
    "radius/distance of rotors": TypicalRange(
        0.1, 0.75, "geometry: discs that touch have 0.5; coaxial ones are left out"
    ),
    "gyration/arm, roll": TypicalRange(
        0.15, 1.0, "geometry: all mass at the rotors has 0.71; the shipped vehicles 0.44 to 0.66"
    ),
    "gyration/arm, pitch": TypicalRange(
        0.15, 1.0, "geometry: all mass at the rotors has 0.71; the shipped vehicles 0.44 to 0.66"
    ),
    "gyration/arm, yaw": TypicalRange(
        0.2, 1.3, "geometry: all mass at the rotors has 1; the shipped vehicles 0.6 to 0.9"
    ),
    "motor time constant": TypicalRange(0.003, 0.5, "shipped vehicles: 0.015 to 0.08 s"),
    "speed at which drag equals weight": TypicalRange(
        5.0, 1000.0, "crazyflie: 37 m/s; crazyflie_documented, with far too much drag: 1.4 m/s"
    ),
}


class HoverPower(NamedTuple):
    """Power in hover [W]: shaft power of the rotors, and the minimum of momentum theory (0 without a radius)."""

    shaft: float
    ideal: float


def controllable_axes(vehicle: Vehicle) -> tuple[int, tuple[str, ...]]:
    """Return the rank of the rotors' effectiveness over force and torque, and the axes that are independent of all others.

    An axis is independent if its unit vector is in the column space of the matrix with normalised rows. Lateral force does not
    count for a vehicle with tilting rotors, which rolls and pitches against it.
    """
    first_axis = AXES.index("thrust") if vehicle.servos else 0
    matrix, axes = effectiveness(vehicle)[first_axis:], AXES[first_axis:]
    row_norms = np.linalg.norm(matrix, axis=1)
    matrix = (
        matrix[row_norms > INDEPENDENCE_TOLERANCE * row_norms.max()]
        / row_norms[row_norms > INDEPENDENCE_TOLERANCE * row_norms.max(), None]
    )
    names = [
        name
        for name, row_norm in zip(axes, row_norms, strict=True)
        if row_norm > INDEPENDENCE_TOLERANCE * row_norms.max()
    ]
    left, values, _ = np.linalg.svd(matrix)
    rank = int((values > INDEPENDENCE_TOLERANCE * values[0]).sum())
    column_space = left[:, :rank]
    return rank, tuple(
        name
        for name, row in zip(names, column_space, strict=True)
        if abs(1.0 - float(row @ row)) < INDEPENDENCE_TOLERANCE
    )


def is_actuated(vehicle: Vehicle, axis: str) -> bool:
    """Return whether the rotors produce any force or torque along one of `AXES`."""
    row_norms = np.linalg.norm(effectiveness(vehicle), axis=1)
    return bool(row_norms[AXES.index(axis)] > INDEPENDENCE_TOLERANCE * row_norms.max())


def hover_power(vehicle: Vehicle) -> HoverPower:
    """Σ Q Ω and Σ T √(T / 2ρA)  [W]"""
    shaft = ideal = 0.0
    state = hover(vehicle)[0]
    loads = rotor_loads(state, vehicle, CALM)
    for rotor, speed, load in zip(vehicle.rotors, state.rotor_speed, loads, strict=True):
        shaft += float(load.torque * speed)
        ideal += (
            float(load.thrust * hover_induced(load.thrust, SEA_LEVEL_DENSITY, rotor.radius)) if rotor.radius else 0.0
        )
    return HoverPower(shaft, ideal)


def plausibility_figures(vehicle: Vehicle) -> list[PlausibilityFigure]:
    """Compute all ratios of a vehicle; of rotors that differ, keep the ratio that is farthest from its typical range."""
    candidates = [
        *_rotor_figures(vehicle),
        *_body_figures(vehicle),
        *_drag_figures(vehicle),
    ]
    farthest: dict[str, PlausibilityFigure] = {}
    for figure in candidates:
        if figure.name not in farthest or _log_deviation(figure) > _log_deviation(farthest[figure.name]):
            farthest[figure.name] = figure
    return list(farthest.values())


def warnings(vehicle: Vehicle) -> list[str]:
    """Return one sentence for each ratio outside its typical range, and for axes that cannot be commanded."""
    messages = []
    if vehicle.rotors:
        rank, independent = controllable_axes(vehicle)
        coupled = [name for name in REQUIRED_AXES if name not in independent]
        if coupled:
            problem = f"{', '.join(coupled)} cannot be commanded alone"
            messages.append(f"rank {rank} of the allocation: {problem}; check the rotors' spin and positions")
        try:
            hover(vehicle)
        except ValueError as error:
            messages.append(str(error))
    for figure in plausibility_figures(vehicle):
        if not figure.is_typical:
            messages.append(
                f"{figure.name} is {figure.value_text}: typical is {figure.range_text} ({figure.typical.source}); "
                f"check {figure.hint}"
            )
    return messages


def _log_deviation(figure: PlausibilityFigure) -> float:
    """Distance from the middle of the range on a logarithmic scale: 1 at either end"""
    low, high = math.log(figure.typical.low), math.log(figure.typical.high)
    return abs(2.0 * (math.log(max(figure.value, 1e-300)) - low) / (high - low) - 1.0)


def _figure(name: str, value: float, unit: str, hint: str) -> PlausibilityFigure:
    return PlausibilityFigure(name, value, unit, RANGES[name], hint)


def _rotor_figures(vehicle: Vehicle) -> list[PlausibilityFigure]:
    figures: list[PlausibilityFigure] = []
    if not vehicle.rotors:
        return figures
    with suppress(ValueError):  # no trim; `warnings` reports why
        figures.append(_figure("thrust/weight", thrust_to_weight(vehicle), "", "mass, k_thrust and the motors' speeds"))
    weight = vehicle.mass * _gravity(vehicle)
    hover_thrust = weight / sum(max(rotor.axis_B.z, 0.1) for rotor in vehicle.rotors)
    for i, rotor in enumerate(vehicle.rotors):
        if isinstance(rotor.motor, Lag):
            for tau in (rotor.motor.time_constant_up, rotor.motor.time_constant_down):
                figures.append(
                    _figure("motor time constant", tau, "s", "motor.time_constant_up and time_constant_down")
                )
        spacing = min(
            (gap for j in range(len(vehicle.rotors)) if j != i and (gap := _hub_distance(vehicle, i, j))), default=0.0
        )
        radius = rotor.radius or 0.42 * spacing
        if not radius:
            continue
        radius_note = (
            "" if rotor.radius else ", and the radius: without one, 0.42 of the distance to the next rotor is assumed"
        )
        speed = math.sqrt(hover_thrust / rotor.k_thrust)
        inflow = float(hover_induced(hover_thrust, SEA_LEVEL_DENSITY, radius))
        coefficient = rotor.k_thrust * (2.0 * math.pi) ** 2 / (SEA_LEVEL_DENSITY * (2.0 * radius) ** 4)
        figures.append(_figure("thrust coefficient", coefficient, "", f"k_thrust and radius{radius_note}"))
        if rotor.k_torque > 0.0:
            torque_ratio = rotor.k_torque / (rotor.k_thrust * radius)
            figure_of_merit = hover_thrust * inflow / (rotor.k_torque * speed**3)
            figures.append(
                _figure("torque/(thrust radius)", torque_ratio, "", f"k_torque, k_thrust and radius{radius_note}")
            )
            figures.append(
                _figure("figure of merit", figure_of_merit, "", f"k_torque, k_thrust and radius{radius_note}")
            )
        figures.append(_figure("inflow in hover", inflow, "m/s", f"mass and radius{radius_note}"))
        if isinstance(rotor.motor, Lag):
            tip_speed = rotor.motor.speed_max * radius
            figures.append(_figure("maximum tip speed", tip_speed, "m/s", f"motor.speed_max and radius{radius_note}"))
        if rotor.radius and spacing:
            figures.append(
                _figure("radius/distance of rotors", radius / spacing, "", "radius and the rotors' positions")
            )
    return figures


def _hub_distance(vehicle: Vehicle, i: int, j: int) -> float:
    """Horizontal distance of two hubs [m]; 0 for coaxial ones."""
    first_hub, second_hub = vehicle.rotors[i].r_B, vehicle.rotors[j].r_B
    gap = math.hypot(first_hub.x - second_hub.x, first_hub.y - second_hub.y)
    return 0.0 if gap < 0.2 * abs(first_hub.z - second_hub.z) or gap < 1e-9 else gap


def _body_figures(vehicle: Vehicle) -> list[PlausibilityFigure]:
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


def _drag_figures(vehicle: Vehicle) -> list[PlausibilityFigure]:
    if not vehicle.has("drag"):
        return []
    weight, drag, figures = vehicle.mass * _gravity(vehicle), vehicle["drag"], []
    for linear, along_axis in zip(drag.linear, drag.quadratic, strict=True):
        quadratic = along_axis + drag.isotropic
        if linear or quadratic:
            # d v + q v² = m g
            speed = 2.0 * weight / (linear + math.sqrt(linear * linear + 4.0 * quadratic * weight))
            figures.append(_figure("speed at which drag equals weight", speed, "m/s", "drag.linear and drag.quadratic"))
    return figures


def _gravity(vehicle: Vehicle) -> float:
    return float(vehicle["gravity"].acceleration) if vehicle.has("gravity") else STANDARD_GRAVITY
