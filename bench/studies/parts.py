"""Aircraft from parts lists at random, flown: each is checked, hovers, and flies the figure of eight.

    PYTHONPATH=bench python -m studies.parts --numbers 0-499
    PYTHONPATH=bench python -m studies.parts --numbers 0-499 --every 10 --controllers ilqr

Those that are built alike fly together; a controller that plans ahead flies them one by one. An aircraft whose loops are slower
than those of the figure flies it as much slower.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samara.control.default_gains import gains_for
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory, land, sequence
from samara.record.metrics.recorded import distance_between
from samara.record.run import check_expectations
from samara.scenario.expectations import DroneResult, outcomes
from samara.scenario.file import load_scenario
from samara.scenario.landing import landing_depth
from samara.scenario.scenario import Expect, Scenario
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
AHEAD = ("ilqr",)  # called in Python, at every instant anew
HOVERS = "hover, geometric"
PACE = 1.0  # [rad/s]: a position loop as fast as this flies the figure as it is shipped
STILL = 0.02  # [m]: how far one that hovers may be from its place
LANDED = 0.02  # [m], and [m/s]: above its feet, and moving
_SPEEDS = {"drones.tasks[0].speed": 1.5, "drones.tasks[1].speed": 3.0}
_DURATION = 33.0  # [s]
_HOVER_UNTIL, _HOVER_END = 10.0, 21.0  # [s], times the pace


@dataclass(frozen=True)
class Tried:
    """One aircraft: what it is made of, how much slower it flew, what `samara check` warns of, and of each flight what went
    wrong, "" if nothing did"""

    number: int
    parts: PartsList
    lift: float
    slower: float
    refused: tuple[str, ...]
    warned: tuple[str, ...]
    flights: Mapping[str, str]

    @property
    def good(self) -> bool:
        """Whether it is as it should be and all its flights went well"""
        return not self.warned and not any(self.flights.values())


def slower_by(vehicle: Vehicle) -> float:
    """max(1, 1 rad/s / ω_position)"""
    return max(1.0, PACE / float(gains_for(vehicle).position))


def figure_of_eight(slower: float) -> Scenario:
    """The shipped scenario, flown so much slower"""
    settings = {key: own / slower for key, own in _SPEEDS.items()}
    return load_scenario("figure8", {**settings, "duration": round(_DURATION * slower / PERIOD) * PERIOD})


def campaign(numbers: Sequence[int], controllers: Sequence[str] = CONTROLLERS, hovers: bool = True) -> list[Tried]:
    """The aircraft of all these numbers, each written and read again, checked and flown"""
    drawn = [sensible_list(number) for number in numbers]
    vehicles = [parse_vehicle(vehicle_toml(own.vehicle), f"{own.vehicle.name}.toml", feet=True) for own in drawn]
    slower = [slower_by(vehicle) for vehicle in vehicles]
    flights: list[dict[str, str]] = [{} for _ in numbers]
    for name in controllers:
        fly_one = {i: flown_alone(vehicles[i], slower[i], name) for i in range(len(vehicles))} if name in AHEAD else {}
        told = fly_one or _together(vehicles, slower, name, "figure8")
        for i, text in told.items():
            flights[i][f"figure8, {name}"] = text
    for i, text in (_together(vehicles, slower, "geometric", "hover") if hovers else {}).items():
        flights[i][HOVERS] = text
    return [
        Tried(number, own.parts, thrust_to_weight(vehicle), slow, own.refused, tuple(warnings(vehicle)), told)
        for number, own, vehicle, slow, told in zip(numbers, drawn, vehicles, slower, flights, strict=True)
    ]


def flown_alone(vehicle: Vehicle, slower: float, controller: str) -> str:
    """The figure of eight flown as `samara fly` flies it: what of its expectations did not come true, "" if all did"""
    own = figure_of_eight(slower)
    own = replace(own, drones=tuple(replace(drone, vehicle=vehicle) for drone in own.drones))
    try:
        run = fly(own, controller=controller)
    except (ValueError, FloatingPointError) as error:
        return str(error)
    return "; ".join(checked.text for checked in check_expectations(run, own.expect) if not checked.satisfied)


def _together(vehicles: Sequence[Vehicle], slower: Sequence[float], name: str, what: str) -> dict[int, str]:
    """One flight of all of them, those that are built alike in the lanes of one batch"""
    groups: dict[Any, list[int]] = {}
    for i, vehicle in enumerate(vehicles):
        groups.setdefault(batch_signature(vehicle, name), []).append(i)
    told: dict[int, str] = {}
    for which in groups.values():
        filled = which + which[-1:] * (-len(which) % LANES)  # no code is made for what is left over
        own = [vehicles[i] for i in filled]
        ways = [_hover_way(slower[i], vehicles[i]) if what == "hover" else _eight_way(slower[i]) for i in filled]
        ticks = max(round(end / PERIOD) for _, end in ways)
        time = PERIOD * np.arange(ticks)
        asked = np.stack([np.array(flatten(way.at(np.minimum(time, end)))).T for way, end in ways], axis=2)
        with np.errstate(all="ignore"):
            flight = fly_homogeneous_batch(own, name, asked)
        ends = [round(end / PERIOD) for _, end in ways]
        for lane, i in enumerate(which):
            judged = _hovered if what == "hover" else _flew
            told[i] = judged(flight, lane, ends[lane], asked[:, :3, lane], vehicles[i], slower[i])
    return told


def _eight_way(slower: float) -> tuple[Trajectory, float]:
    own = figure_of_eight(slower)
    return own.drones[0].task, own.duration


def _hover_way(slower: float, vehicle: Vehicle) -> tuple[Trajectory, float]:
    """Up to 1.5 m, hover, and down again, as the event of a scenario lands"""
    own = load_scenario("hover", {"drones.tasks[0].speed": 0.75 / slower, "drones.tasks[1].duration": 5.0 * slower})
    up, until = own.drones[0].task, _HOVER_UNTIL * slower
    down = land(up.at(until).p_W, height=-landing_depth(vehicle), speed=0.4 / slower)
    return sequence(replace(up, duration=until), down), _HOVER_END * slower


def _flew(flight: Flight, lane: int, end: int, asked: Array, vehicle: Vehicle, slower: float) -> str:
    """The expectations of the shipped scenario, of one lane"""
    p_W, expect = flight.p_W[:end, :, lane], load_scenario("figure8").expect
    if not np.isfinite(p_W).all():
        return "its state is not finite"
    off = distance_between(p_W, asked[:end]).max()
    return _unmet(expect, p_W[-1], bool(flight.up[:end, lane].min() < 0.0), float(off))


def _unmet(expect: Expect, p_W: Array, crashed: bool, off: float) -> str:
    result = DroneResult("drone", p_W, False, crashed, {"worst_error": off}.__getitem__)
    return "; ".join(
        f"{outcome.field}: {'' if outcome.value is None else f'{float(outcome.value):.3f} m'}"
        for outcome in outcomes(expect, [result])
        if not outcome.satisfied
    )


def _hovered(flight: Flight, lane: int, end: int, asked: Array, vehicle: Vehicle, slower: float) -> str:
    """Still at its place before it lands, never leaning by more than 10°, and down on its feet"""
    p_W = flight.p_W[:end, :, lane]
    if not np.isfinite(p_W).all():
        return "its state is not finite"
    before = round(_HOVER_UNTIL * slower / PERIOD)
    away = distance_between(p_W[before - 50 : before], asked[before - 50 : before]).max()
    lean = np.degrees(np.arccos(np.clip(flight.up[:end, lane].min(), -1.0, 1.0)))
    wrong = [f"{away:.3f} m from its place"] if away > STILL else []
    wrong += [f"leans {lean:.1f}°"] if lean > 10.0 else []
    high, fast = p_W[-1, 2] - clearance(vehicle), flight.speed[end - 1, lane]
    wrong += [f"{high:.3f} m above its feet at {fast:.2f} m/s"] if abs(high) > LANDED or fast > LANDED else []
    return ", ".join(wrong)


def told(own: Tried) -> str:
    """What is wrong with one of them"""
    parts, wrong = own.parts, [*own.warned, *(f"{name}: {text}" for name, text in own.flights.items() if text)]
    about = f"{parts.mass:g} kg, {parts.layout}, {parts.diagonal:g} m, {parts.motors}, {parts.props}, {parts.battery}"
    return f"{own.number}: {about}, thrust/weight {own.lift:.2f}, {own.slower:.2f} times slower\n  " + "\n  ".join(
        wrong
    )


def summary(tried: Sequence[Tried]) -> str:
    """How many did what"""
    masses, lifts = [own.parts.mass for own in tried], [own.lift for own in tried]
    lines = [
        f"{len(tried)} aircraft of {min(masses):g} to {max(masses):g} kg, thrust/weight {min(lifts):.2f} to {max(lifts):.2f}",
        f"checked without a warning: {sum(not own.warned for own in tried)}",
        f"at the shipped speed: {sum(own.slower == 1.0 for own in tried)}, the slowest {max(own.slower for own in tried):.2f} "
        "times slower",
    ]
    for flight in dict.fromkeys(name for own in tried for name in own.flights):
        flew = [own for own in tried if flight in own.flights]
        lines.append(f"{flight}: {sum(not own.flights[flight] for own in flew)} of {len(flew)}")
    layouts = Counter(own.parts.layout for own in tried)
    lines.append("layouts: " + ", ".join(f"{name} {count}" for name, count in layouts.most_common()))
    lines.append(f"lists refused on the way: {sum(len(own.refused) for own in tried)}")
    return "\n".join(lines)


def main() -> None:
    """Run the campaign, and say how it went"""
    parser = argparse.ArgumentParser(description="Aircraft from parts lists at random, flown.")
    parser.add_argument("--numbers", default="0-499", help="first and last")
    parser.add_argument("--every", type=int, default=1, help="only every so many")
    parser.add_argument("--controllers", nargs="+", default=list(CONTROLLERS))
    parser.add_argument("--no-hover", action="store_true", help="fly the figure of eight alone")
    given = parser.parse_args()
    first, _, last = given.numbers.partition("-")
    tried = campaign(range(int(first), int(last or first) + 1, given.every), given.controllers, not given.no_hover)
    for own in tried:
        if not own.good:
            print(told(own))
    print(summary(tried))


if __name__ == "__main__":
    main()
