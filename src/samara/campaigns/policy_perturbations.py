"""Worlds that are not quite the one a policy was trained in: each with its own mass, inertia, thrust, lag, wind and start.

worlds = worlds_of(scenario, 1000, seed=1)
flights = fly_many(scenario, seeds=worlds.seeds, vary=worlds.vary)
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.campaigns.samplers import INDEPENDENT, points, seeds_of
from samara.control.policy_file import Policy
from samara.control.registry import tuned
from samara.core.tree import flatten
from samara.core.types import Array
from samara.scenario.file import load_scenario, parse_scenario
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.varied import wind_number
from samara.vehicles.parameters import parameter

HOVER = """
name = "policy_check"
duration = 6.0

[wind]
kind = "turbulence"
speed = 0.0
sigma = 0.3
tau = 2.0

[[drones]]
name = "drone"
start = [0, 0, 3]
airborne = true
estimator = { kind = "noisy", position = 0.005, velocity = 0.02, yaw = 0.01, rate = 0.02, rate_bias = 0.005 }

[[drones.tasks]]
kind = "hover"
duration = 6.0

[expect]
final_position = [0, 0, 3]
max_error = 2.0
"""
"""Come to rest at 3 m from where the wind and a start beside it have one, knowing it to 5 mm, 2 cm/s and 0.02 rad/s."""
WITHIN = 0.3  # [m] of the place to hover at, at the end


class Perturbed(NamedTuple):
    """What differs from world to world, from its least to its most: names of `fly_many`; a `share` multiplies the vehicle's

    A direction stays as it is, however far the others are spread.
    """

    name: str
    low: float
    high: float
    unit: str
    places: tuple[str, ...]
    share: bool = False
    direction: bool = False


PERTURBED = (
    Perturbed("mass", 0.85, 1.15, "×", ("mass",), True),
    Perturbed("inertia", 0.8, 1.2, "×", ("inertia_B",), True),
    Perturbed("thrust", 0.85, 1.15, "×", ("rotors.k_thrust", "rotors.k_torque"), True),
    Perturbed("lag", 0.7, 1.3, "×", ("rotors.motor.rise", "rotors.motor.fall"), True),
    Perturbed("wind", 0.0, 1.5, "m/s", ("wind.mean_W",)),
    Perturbed("wind to", -math.pi, math.pi, "rad", ("wind.mean_W",), direction=True),
    Perturbed("start x", -0.5, 0.5, "m", ("start_W.x",)),
    Perturbed("start y", -0.5, 0.5, "m", ("start_W.y",)),
    Perturbed("start z", -0.5, 0.5, "m", ("start_W.z",)),
    Perturbed("start yaw", -0.5, 0.5, "rad", ("yaw",)),
)


class Worlds(NamedTuple):
    """What differs and in which range, a row of its values for each world, and the same as `fly_many` takes it"""

    perturbed: tuple[Perturbed, ...]
    values: Array
    seeds: Array
    vary: dict[str, Array]

    def some(self, count: int) -> "Worlds":
        """The first of them"""
        vary = {name: own[:count] for name, own in self.vary.items()}
        return Worlds(self.perturbed, self.values[:count], self.seeds[:count], vary)


def scenario_for(
    policy: Policy, vehicle: str, scenario: str | Path | None = None, within: float | None = None
) -> Scenario:
    """The scenario that a policy is checked in, flown at the policy's own rate; it knows the vehicle's file, and no world"""
    rate = MICROSECONDS / int(policy.period * MICROSECONDS + 1e-6)
    settings: dict[str, Any] = {"drones.vehicle": vehicle, "rates.autopilot": rate, "rates.estimator": rate}
    if scenario is None:
        settings["expect.within"] = WITHIN if within is None else within
        own = parse_scenario(HOVER, "policy check", settings)
    else:
        if within is not None:
            settings["expect.within"] = within
        own = load_scenario(scenario, settings)
    if len(own.drones) != 1:
        raise ValueError(f"scenario {scenario} has {len(own.drones)} drones; expected one, which the policy flies")
    drone = own.drones[0]
    return replace(
        own, drones=(replace(drone, controller=tuned("policy", file=policy.fitted(drone.vehicle)), autopilot=None),)
    )


def worlds_of(scenario: Scenario, count: int, *, seed: int = 1, spread: float = 1.0) -> Worlds:
    """Worlds drawn evenly and independently, each decided by the seed and its number; `spread` times the usual ranges

    What a scenario has not is left as it is: the lag of motors without one, a wind that does not blow.
    """
    drone = scenario.drones[0]
    nominal: dict[str, Any] = {}
    chosen = []
    for own in PERTURBED:
        try:
            found = {place: _nominal(scenario, place) for place in own.places}
        except ValueError:
            continue
        if any(place.startswith("start_W") or place == "yaw" for place in own.places) and not drone.airborne:
            continue
        nominal |= found
        chosen.append(_spread(own, spread))
    rows = np.arange(count)
    u = points(INDEPENDENT, seed, rows, len(chosen), block=0, first=0, total=count)
    values = np.array([own.low for own in chosen]) + u * np.array([own.high - own.low for own in chosen])
    return Worlds(tuple(chosen), values, seeds_of(seed, rows), _as_varied(chosen, values, nominal))


def _spread(own: Perturbed, spread: float) -> Perturbed:
    """So many times as far from what is usual: from 1 of a share, else from 0"""
    if own.direction:
        return own
    usual = 1.0 if own.share else 0.0
    low, high = (usual + spread * (end - usual) for end in (own.low, own.high))
    if own.share and low <= 0.0:
        raise ValueError(f"spread {spread:g} takes {own.name} down to {low:g} of the vehicle's; expected above 0")
    return own._replace(low=low, high=high)


def _nominal(scenario: Scenario, place: str) -> Any:
    """What there is at a place; ValueError where there is nothing"""
    drone = scenario.drones[0]
    if place.startswith("wind."):
        return wind_number(scenario.wind, place)
    if place.startswith("start_W"):
        return drone.start_W
    return drone.yaw if place == "yaw" else parameter(drone.vehicle, place)


def _as_varied(chosen: list[Perturbed], values: Array, nominal: Mapping[str, Any]) -> dict[str, Array]:
    """Shares times what the vehicle has, winds as they are, and starts beside the scenario's"""
    vary: dict[str, Array] = {}
    for k, own in enumerate(chosen):
        for place in own.places:
            usual = np.array(flatten(nominal[place]), dtype=float)
            if own.share and place.startswith("rotors."):
                each = (f"rotors.{i}.{place.removeprefix('rotors.')}" for i in range(len(usual)))
                vary |= {name: values[:, k] * x for name, x in zip(each, usual, strict=True)}
            elif own.share:
                vary[place] = np.outer(values[:, k], usual) if len(usual) > 1 else values[:, k] * usual[0]
            elif place.startswith("wind."):
                continue
            elif place.startswith("start_W."):
                start = vary.setdefault("start_W", np.tile(usual, (len(values), 1)))
                start[:, "xyz".index(place[-1])] += values[:, k]
            else:
                vary[place] = values[:, k] + usual[0]
    column = {own.name: values[:, k] for k, own in enumerate(chosen)}
    if "wind" in column:
        speed, along, mean = column["wind"], column["wind to"], np.array(flatten(nominal["wind.mean_W"]))
        vary["wind.mean_W"] = (
            mean + np.outer(speed * np.cos(along), (1, 0, 0)) + np.outer(speed * np.sin(along), (0, 1, 0))
        )
    return vary
