"""Perturbed worlds of a policy: each with a different mass, inertia, thrust, motor lag, wind and start.

worlds = sample_worlds(scenario, 1000, seed=1)
flights = fly_many(scenario, seeds=worlds.seeds, vary=worlds.vary)
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.campaigns.samplers import INDEPENDENT, flight_seeds, points
from samara.control.policy_file import Policy
from samara.control.registry import controller_spec
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array
from samara.scenario.changes import wind_tables
from samara.scenario.file import document_tables, load_scenario, parse_scenario
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.varied import wind_parameter
from samara.vehicles.parameters import parameter

HOVER = """
name = "policy_check"
duration = 6.0

[wind]
model = "turbulence"
speed = 0.0
sigma = 0.3
tau = 2.0

[[drones]]
name = "drone"
start = [0, 0, 3]
airborne = true
estimator = { type = "noisy", position = 0.005, velocity = 0.02, yaw = 0.01, rate = 0.02, rate_bias = 0.005 }

[[drones.tasks]]
type = "hover"
duration = 6.0

[expect]
final_position = [0, 0, 3]
max_error = 2.0
"""
"""Come to rest at 3 m after a perturbed start, with estimation errors of 5 mm, 2 cm/s and 0.02 rad/s."""
POSITION_TOLERANCE = 0.3  # [m]: tolerance of the final position


class Perturbation(NamedTuple):
    """A perturbation: its range, and the parameters of `fly_many` it varies; a `relative` one multiplies the vehicle's value.

    The range of a direction is independent of the spread.
    """

    name: str
    low: float
    high: float
    unit: str
    paths: tuple[str, ...]
    relative: bool = False
    direction: bool = False


PERTURBATIONS = (
    Perturbation("mass", 0.85, 1.15, "×", ("mass",), True),
    Perturbation("inertia", 0.8, 1.2, "×", ("inertia_B",), True),
    Perturbation("thrust", 0.85, 1.15, "×", ("rotors.k_thrust", "rotors.k_torque"), True),
    Perturbation("lag", 0.7, 1.3, "×", ("rotors.motor.time_constant_up", "rotors.motor.time_constant_down"), True),
    Perturbation("wind", 0.0, 1.5, "m/s", ("wind.mean_W",)),
    Perturbation("wind to", -math.pi, math.pi, "rad", ("wind.mean_W",), direction=True),
    Perturbation("start x", -0.5, 0.5, "m", ("start_W.x",)),
    Perturbation("start y", -0.5, 0.5, "m", ("start_W.y",)),
    Perturbation("start z", -0.5, 0.5, "m", ("start_W.z",)),
    Perturbation("start yaw", -0.5, 0.5, "rad", ("yaw",)),
)


class Worlds(NamedTuple):
    """Perturbed worlds: the perturbations, their values (worlds, perturbations), seeds, and the parameters of `fly_many`."""

    perturbations: tuple[Perturbation, ...]
    values: Array
    seeds: Array
    vary: dict[str, Array]

    def head(self, count: int) -> "Worlds":
        """Return the first `count` worlds."""
        vary = {name: values[:count] for name, values in self.vary.items()}
        return Worlds(self.perturbations, self.values[:count], self.seeds[:count], vary)


def make_policy_scenario(
    policy: Policy,
    vehicle: str,
    scenario: str | Path | None = None,
    position_tolerance: float | None = None,
    wind: float | None = None,
) -> Scenario:
    """Return the scenario of a policy check, with the policy's rate and the given vehicle."""
    rate = MICROSECONDS / int(policy.period * MICROSECONDS + 1e-6)
    settings: dict[str, Scalar] = {"drones.vehicle": vehicle, "rates.control": rate, "rates.estimator": rate}
    if position_tolerance is not None or scenario is None:
        settings["expect.position_tolerance"] = POSITION_TOLERANCE if position_tolerance is None else position_tolerance
    if wind is not None:
        settings |= (
            {"wind.speed": wind}
            if scenario is None
            else {"wind": wind_tables(wind, document_tables(scenario, {}, "wind"))}
        )
    base = parse_scenario(HOVER, "policy check", settings) if scenario is None else load_scenario(scenario, settings)
    if len(base.drones) != 1:
        raise ValueError(f"scenario {scenario} has {len(base.drones)} drones; expected one, which the policy flies")
    (drone,) = base.drones
    controller = controller_spec("policy", file=policy.adapt(drone.vehicle))
    return replace(base, drones=(replace(drone, controller=controller, autopilot=None),))


def sample_worlds(scenario: Scenario, count: int, *, seed: int = 1, spread: float = 1.0) -> Worlds:
    """Draw worlds uniformly and independently, each determined by the seed and its index, within `spread` times the ranges.

    Perturbations that do not apply to the scenario are omitted, such as the lag of motors without lag, or the wind in calm air.
    """
    nominal: dict[str, Array] = {}
    perturbed = []
    for perturbation in PERTURBATIONS:
        try:
            values = {path: np.array(flatten(_nominal(scenario, path)), dtype=float) for path in perturbation.paths}
        except ValueError:
            continue
        nominal |= values
        perturbed.append(_spread(perturbation, spread))
    rows = np.arange(count)
    u = points(INDEPENDENT, seed, rows, len(perturbed), block=0, first=0, total=count)
    low, high = (np.array([getattr(perturbation, bound) for perturbation in perturbed]) for bound in ("low", "high"))
    values = low + u * (high - low)
    return Worlds(tuple(perturbed), values, flight_seeds(seed, rows), _varied_parameters(perturbed, values, nominal))


def _spread(perturbation: Perturbation, spread: float) -> Perturbation:
    """Return the perturbation with its range scaled by `spread` about the nominal value: 1 if it is relative, else 0."""
    if perturbation.direction:
        return perturbation
    nominal = 1.0 if perturbation.relative else 0.0
    low, high = (nominal + spread * (bound - nominal) for bound in (perturbation.low, perturbation.high))
    if perturbation.relative and low <= 0.0:
        name = perturbation.name
        raise ValueError(f"spread {spread:g} reduces {name} to {low:g} of the vehicle's; expected above 0")
    return perturbation._replace(low=low, high=high)


def _nominal(scenario: Scenario, path: str) -> Scalar:
    """Return the nominal value of a path; raise ValueError if the scenario has none."""
    (drone,) = scenario.drones
    if path.startswith("wind."):
        return wind_parameter(scenario.wind, path)
    if path != "yaw" and not path.startswith("start_W"):
        return parameter(drone.vehicle, path)
    if not drone.airborne:
        raise ValueError(f"{path}: the drone starts on the ground")
    return drone.yaw if path == "yaw" else drone.start_W


def _varied_parameters(perturbed: list[Perturbation], values: Array, nominal: Mapping[str, Array]) -> dict[str, Array]:
    """Return the parameters of `fly_many`: relative values times the vehicle's, wind by speed and direction, start offsets."""
    vary: dict[str, Array] = {}
    column = {perturbation.name: values[:, k] for k, perturbation in enumerate(perturbed)}
    for perturbation in perturbed:
        factor = column[perturbation.name]
        for path in perturbation.paths:
            nominal_values = nominal[path]
            if perturbation.relative and path.startswith("rotors."):
                names = (f"rotors.{i}.{path.removeprefix('rotors.')}" for i in range(len(nominal_values)))
                vary |= {name: factor * x for name, x in zip(names, nominal_values, strict=True)}
            elif perturbation.relative:
                vary[path] = np.outer(factor, nominal_values) if len(nominal_values) > 1 else factor * nominal_values[0]
            elif path.startswith("start_W."):
                start = vary.setdefault("start_W", np.tile(nominal_values, (len(values), 1)))
                start[:, "xyz".index(path[-1])] += factor
            elif path == "yaw":
                vary[path] = factor + nominal_values[0]
    if "wind" in column:
        speed, direction = column["wind"], column["wind to"]
        horizontal = np.stack([speed * np.cos(direction), speed * np.sin(direction), 0.0 * speed], axis=1)
        vary["wind.mean_W"] = nominal["wind.mean_W"] + horizontal
    return vary
