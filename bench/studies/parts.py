"""Fly aircraft built from random parts lists: each is checked, hovers, and flies the figure of eight.

    PYTHONPATH=bench python -m studies.parts --numbers 0-499
    PYTHONPATH=bench python -m studies.parts --numbers 0-499 --every 10 --controllers mpc

Aircraft of the same structure fly as one batch; predictive controllers fly them one by one. An aircraft whose position loop is
slower than 1 rad/s flies the figure slower by the same factor.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samara.control.default_gains import default_gains
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory, land, sequence
from samara.record.metrics.recorded import distance_between
from samara.record.run import check_expectations
from samara.scenario.expectations import DroneResult, evaluate_expectations
from samara.scenario.file import load_scenario
from samara.scenario.landing import landing_depth
from samara.scenario.scenario import Expectations, Scenario
from samara.sim.fly import fly
from samara.vehicles.defaults import clearance
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.parts.parts_list import PartsList
from samara.vehicles.plausibility import warnings
from samara.vehicles.trim import thrust_to_weight
from samara.vehicles.writer import vehicle_toml
from studies.homogeneous_batch import LANES, PERIOD, Flight, batch_signature, fly_homogeneous_batch
from studies.random_parts import sensible_list

CONTROLLERS = ("geometric", "pid")
PREDICTIVE_CONTROLLERS = ("mpc",)  # called from Python at every control instant
HOVER_FLIGHT = "hover, geometric"
FULL_SPEED_BANDWIDTH = 1.0  # [rad/s]: bandwidth of the position loop at which the figure is flown as shipped
MAX_HOVER_ERROR = 0.02  # [m]: largest position error in hover
LANDING_TOLERANCE = 0.02  # [m] and [m/s]: largest height of the feet and largest speed after landing
_SPEEDS = {"drones.tasks[0].speed": 1.5, "drones.tasks[1].speed": 3.0}
_DURATION = 33.0  # [s]
_LANDING_TIME, _HOVER_END = 10.0, 21.0  # [s], times the slowdown


@dataclass(frozen=True)
class AircraftResult:
    """One aircraft: its parts, its slowdown, the warnings of `samara check`, and for each flight the failure text, "" if it
    succeeded."""

    number: int
    parts: PartsList
    thrust_ratio: float
    slowdown: float
    rejections: tuple[str, ...]
    check_warnings: tuple[str, ...]
    flights: Mapping[str, str]

    @property
    def passed(self) -> bool:
        """Whether the aircraft has no warnings and all its flights succeeded."""
        return not self.check_warnings and not any(self.flights.values())


def position_slowdown(vehicle: Vehicle) -> float:
    """max(1, 1 rad/s / ω_position)"""
    return max(1.0, FULL_SPEED_BANDWIDTH / float(default_gains(vehicle).position))


def figure_of_eight(slowdown: float) -> Scenario:
    """Load the shipped scenario, flown slower by this factor."""
    settings = {key: speed / slowdown for key, speed in _SPEEDS.items()}
    return load_scenario("figure8", {**settings, "duration": round(_DURATION * slowdown / PERIOD) * PERIOD})


def campaign(
    numbers: Sequence[int], controllers: Sequence[str] = CONTROLLERS, hovers: bool = True
) -> list[AircraftResult]:
    """Build, write, read back, check and fly the aircraft with these numbers."""
    aircraft_list = [sensible_list(number) for number in numbers]
    vehicles = [
        parse_vehicle(vehicle_toml(aircraft.vehicle), f"{aircraft.vehicle.name}.toml", derive_feet=True)
        for aircraft in aircraft_list
    ]
    slowdowns = [position_slowdown(vehicle) for vehicle in vehicles]
    flights: list[dict[str, str]] = [{} for _ in numbers]
    for name in controllers:
        single_results = (
            {i: fly_single(vehicles[i], slowdowns[i], name) for i in range(len(vehicles))}
            if name in PREDICTIVE_CONTROLLERS
            else {}
        )
        results = single_results or _fly_batches(vehicles, slowdowns, name, "figure8")
        for i, text in results.items():
            flights[i][f"figure8, {name}"] = text
    for i, text in (_fly_batches(vehicles, slowdowns, "geometric", "hover") if hovers else {}).items():
        flights[i][HOVER_FLIGHT] = text
    return [
        AircraftResult(
            number,
            aircraft.parts,
            thrust_to_weight(vehicle),
            slowdown,
            aircraft.rejections,
            tuple(warnings(vehicle)),
            flight_texts,
        )
        for number, aircraft, vehicle, slowdown, flight_texts in zip(
            numbers, aircraft_list, vehicles, slowdowns, flights, strict=True
        )
    ]


def fly_single(vehicle: Vehicle, slowdown: float, controller: str) -> str:
    """Fly the figure of eight as `samara fly` does; return the expectations that failed, "" if all are satisfied."""
    scenario = figure_of_eight(slowdown)
    scenario = replace(scenario, drones=tuple(replace(drone, vehicle=vehicle) for drone in scenario.drones))
    try:
        run = fly(scenario, controller=controller)
    except (ValueError, FloatingPointError) as error:
        return str(error)
    return "; ".join(outcome.text for outcome in check_expectations(run, scenario.expect) if not outcome.satisfied)


def _fly_batches(
    vehicles: Sequence[Vehicle], slowdowns: Sequence[float], name: str, flight_name: str
) -> dict[int, str]:
    """Fly all vehicles; those of the same structure fly in one batch."""
    groups: dict[Any, list[int]] = {}
    for i, vehicle in enumerate(vehicles):
        groups.setdefault(batch_signature(vehicle, name), []).append(i)
    results: dict[int, str] = {}
    for indices in groups.values():
        padded_indices = indices + indices[-1:] * (
            -len(indices) % LANES
        )  # full SIMD groups: no code is compiled for a remainder
        batch_vehicles = [vehicles[i] for i in padded_indices]
        trajectories = [
            _hover_task(slowdowns[i], vehicles[i]) if flight_name == "hover" else _figure_task(slowdowns[i])
            for i in padded_indices
        ]
        ticks = max(round(end / PERIOD) for _, end in trajectories)
        time = PERIOD * np.arange(ticks)
        references = np.stack(
            [np.array(flatten(trajectory.evaluate(np.minimum(time, end)))).T for trajectory, end in trajectories],
            axis=2,
        )
        with np.errstate(all="ignore"):
            flight = fly_homogeneous_batch(batch_vehicles, name, references)
        ends = [round(end / PERIOD) for _, end in trajectories]
        for lane, i in enumerate(indices):
            evaluate = _evaluate_hover if flight_name == "hover" else _evaluate_figure
            results[i] = evaluate(flight, lane, ends[lane], references[:, :3, lane], vehicles[i], slowdowns[i])
    return results


def _figure_task(slowdown: float) -> tuple[Trajectory, float]:
    scenario = figure_of_eight(slowdown)
    return scenario.drones[0].task, scenario.duration


def _hover_task(slowdown: float, vehicle: Vehicle) -> tuple[Trajectory, float]:
    """Take off to 1.5 m, hover, and land as the event of a scenario does."""
    scenario = load_scenario(
        "hover", {"drones.tasks[0].speed": 0.75 / slowdown, "drones.tasks[1].duration": 5.0 * slowdown}
    )
    ascent, hover_end = scenario.drones[0].task, _LANDING_TIME * slowdown
    descent = land(ascent.evaluate(hover_end).p_W, height=-landing_depth(vehicle), speed=0.4 / slowdown)
    return sequence(replace(ascent, duration=hover_end), descent), _HOVER_END * slowdown


def _evaluate_figure(
    flight: Flight, lane: int, end: int, references_W: Array, vehicle: Vehicle, slowdown: float
) -> str:
    """Evaluate the expectations of the shipped scenario for one drone of the batch."""
    p_W, expect = flight.p_W[:end, :, lane], load_scenario("figure8").expect
    if not np.isfinite(p_W).all():
        return "its state is not finite"
    max_error = distance_between(p_W, references_W[:end]).max()
    return _failed_expectations(expect, p_W[-1], bool(flight.up[:end, lane].min() < 0.0), float(max_error))


def _failed_expectations(expect: Expectations, p_W: Array, crashed: bool, max_error: float) -> str:
    result = DroneResult("drone", p_W, False, crashed, {"max_error": max_error}.__getitem__)
    return "; ".join(
        f"{outcome.field}: {'' if outcome.value is None else f'{float(outcome.value):.3f} m'}"
        for outcome in evaluate_expectations(expect, [result])
        if not outcome.satisfied
    )


def _evaluate_hover(flight: Flight, lane: int, end: int, references_W: Array, vehicle: Vehicle, slowdown: float) -> str:
    """Check the position before landing, a tilt of at most 10°, and the landing."""
    p_W = flight.p_W[:end, :, lane]
    if not np.isfinite(p_W).all():
        return "its state is not finite"
    landing_tick = round(_LANDING_TIME * slowdown / PERIOD)
    max_error = distance_between(
        p_W[landing_tick - 50 : landing_tick], references_W[landing_tick - 50 : landing_tick]
    ).max()
    max_tilt_deg = np.degrees(np.arccos(np.clip(flight.up[:end, lane].min(), -1.0, 1.0)))
    failures = [f"position error {max_error:.3f} m"] if max_error > MAX_HOVER_ERROR else []
    failures += [f"tilt {max_tilt_deg:.1f}°"] if max_tilt_deg > 10.0 else []
    height, speed = p_W[-1, 2] - clearance(vehicle), flight.speed[end - 1, lane]
    failures += (
        [f"{height:.3f} m above its feet at {speed:.2f} m/s"]
        if abs(height) > LANDING_TOLERANCE or speed > LANDING_TOLERANCE
        else []
    )
    return ", ".join(failures)


def describe_result(result: AircraftResult) -> str:
    """Describe one aircraft and its failures."""
    parts, failures = (
        result.parts,
        [*result.check_warnings, *(f"{name}: {text}" for name, text in result.flights.items() if text)],
    )
    description = (
        f"{parts.mass:g} kg, {parts.layout}, {parts.diagonal:g} m, {parts.motors}, {parts.props}, {parts.battery}"
    )
    return (
        f"{result.number}: {description}, thrust/weight {result.thrust_ratio:.2f}, {result.slowdown:.2f} times slower\n  "
        + "\n  ".join(failures)
    )


def summary(results: Sequence[AircraftResult]) -> str:
    """Summarise the campaign: successes of each flight, masses, slowdowns and layouts."""
    masses, thrust_ratios = [result.parts.mass for result in results], [result.thrust_ratio for result in results]
    slowest = max(result.slowdown for result in results)
    lines = [
        f"{len(results)} aircraft of {min(masses):g} to {max(masses):g} kg, "
        f"thrust/weight {min(thrust_ratios):.2f} to {max(thrust_ratios):.2f}",
        f"checked without a warning: {sum(not result.check_warnings for result in results)}",
        f"at the shipped speed: {sum(result.slowdown == 1.0 for result in results)}, the slowest {slowest:.2f} times slower",
    ]
    for flight in dict.fromkeys(name for result in results for name in result.flights):
        attempted = [result for result in results if flight in result.flights]
        lines.append(f"{flight}: {sum(not result.flights[flight] for result in attempted)} of {len(attempted)}")
    layouts = Counter(result.parts.layout for result in results)
    lines.append("layouts: " + ", ".join(f"{name} {count}" for name, count in layouts.most_common()))
    lines.append(f"rejected parts lists: {sum(len(result.rejections) for result in results)}")
    return "\n".join(lines)


def main() -> None:
    """Run the campaign and print the failures and a summary."""
    parser = argparse.ArgumentParser(description="Fly aircraft built from random parts lists.")
    parser.add_argument("--numbers", default="0-499", metavar="FIRST-LAST", help="range of list numbers")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="fly only every N-th list")
    parser.add_argument("--controllers", nargs="+", default=list(CONTROLLERS))
    parser.add_argument("--no-hover", action="store_true", help="fly only the figure of eight")
    options = parser.parse_args()
    first, _, last = options.numbers.partition("-")
    results = campaign(
        range(int(first), int(last or first) + 1, options.every), options.controllers, not options.no_hover
    )
    for result in results:
        if not result.passed:
            print(describe_result(result))
    print(summary(results))


if __name__ == "__main__":
    main()
