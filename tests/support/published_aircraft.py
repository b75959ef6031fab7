"""The ten aircraft of published_aircraft.toml beside what their parts alone predict: rows, and the table of the page.

PYTHONPATH=tests python -m support.published_aircraft    prints the table of docs/own-drone-check.md
"""

import math
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.battery import battery
from samara.vehicles.parts.motor import motor
from samara.vehicles.parts.operating_point import at_full_throttle, hover_duty, working
from samara.vehicles.parts.parts_list import parts_list
from samara.vehicles.parts.propeller import propeller
from samara.vehicles.parts.uncertain import Estimate
from support.stands import at_work

LIST = Path(__file__).parents[1] / "vehicles" / "published_aircraft.toml"
ROTORS = {"x8": 8, "octo_x": 8}


class Row(NamedTuple):
    """One published number and what is predicted of it, in the same unit."""

    aircraft: str
    what: str
    published: float
    predicted: Estimate
    unit: str

    @property
    def error(self) -> float:
        """Predicted over published, less one"""
        return self.predicted.value / self.published - 1.0

    @property
    def held(self) -> bool:
        """Whether the stated interval holds the published number"""
        return self.predicted.low <= self.published <= self.predicted.high


def aircraft():
    """The list, as it was fixed before any fit"""
    return tomllib.loads(LIST.read_text(encoding="utf-8"))["aircraft"]


def propulsion_rows():
    """Hover throttle, maximum thrust of a rotor, endurance in hover, battery resistance: what needs no airframe"""
    for own in aircraft():
        parts, rotors = own["parts"], ROTORS.get(own["layout"], 4)
        for told in own["published"]:
            if told["kind"] == "battery_resistance":
                value = battery(parts["battery"]).resistance
                yield Row(own["name"], "battery resistance", told["value"], value, "Ω")
            if "motors" not in parts:
                continue
            made, blades = motor(parts["motors"]), propeller(parts["props"])
            weight = parts["mass"] * STANDARD_GRAVITY / rotors
            if told["kind"] == "bench":
                yield from bench_rows(own["name"], told, made, parts["props"], weight)
            if told["kind"] == "hover_throttle":
                value = at_work(lambda at, w=weight, v=told["voltage"]: hover_duty(w, v, at), made, blades)
                yield Row(own["name"], "hover throttle", told["value"], value, "")
            if told["kind"] == "endurance":
                cells, lift = battery(parts["battery"]), told["mass"] * STANDARD_GRAVITY / rotors

                def minutes(at, cells=cells, lift=lift, rotors=rotors):
                    drawn = working(hover_duty(lift, cells.nominal, at), cells.nominal, at).drawn
                    return cells.capacity.value / (60.0 * rotors * drawn)

                what = f"hover time at {told['mass']:g} kg"
                yield Row(own["name"], what, told["minutes"], at_work(minutes, made, blades), "min")


def bench_rows(name, told, made, size, weight):
    """The last row of a stand's table, and the throttle at which the table reaches the weight of a rotor's share"""
    full = told.get("full_throttle_at", 1.0)
    volts = told.get("voltage_by_row") or [told["voltage"]] * len(told["thrust"])
    duty, voltage = min(1.0, told["throttle"][-1] / full), volts[-1]
    value = at_work(lambda at: working(duty, voltage, at).thrust, made, at_full_throttle(made, size, voltage))
    yield Row(name, "max thrust of a rotor", max(told["thrust"]), value, "N")
    if len(told["thrust"]) > 1:
        throttle, there = (float(np.interp(weight, told["thrust"], each)) for each in (told["throttle"], volts))
        value = at_work(lambda at: hover_duty(weight, there, at), made, propeller(size))
        yield Row(name, "hover throttle", throttle / full, value, "")


def inertia_rows():
    """Moments of inertia of the assembled aircraft, at the mass for which they were published"""
    for own in aircraft():
        for told in own["published"]:
            if told["kind"] == "inertia":
                parts = own["parts"] | {"mass": told["mass"], "layout": own["layout"]}
                if "rotors" in own:
                    parts = {key: value for key, value in parts.items() if key not in ("diagonal", "layout")}
                    parts["rotors"] = own["rotors"]
                made = assemble(parts_list(name="published", **parts))
                spread = dict(made.structure.spreads)["body.inertia"]
                tensor = made.inertia_B
                for axis, published, value in zip(
                    "xyz", told["values"], (tensor.xx, tensor.yy, tensor.zz), strict=True
                ):
                    yield Row(
                        own["name"], f"I{axis}{axis}", published, Estimate(float(value), spread, "parts"), "kg m²"
                    )


def table(rows):
    """Markdown, one line a number"""
    lines = [
        "| aircraft | what | published | predicted | 95 % interval | error | |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for own in rows:
        unit = f" {own.unit}" if own.unit else ""
        ends = f"{own.predicted.low:.3g} to {own.predicted.high:.3g}"
        mark = "" if own.held else "outside"
        error = f"{100.0 * own.error:+.0f} %"
        numbers = f"{own.published:.3g}{unit} | {own.predicted.value:.3g}{unit} | {ends}"
        lines.append(f"| {own.aircraft} | {own.what} | {numbers} | {error} | {mark} |")
    return "\n".join(lines)


def median_and_worst(rows, what):
    """Of |error| over the rows of one kind"""
    errors = [abs(own.error) for own in rows if own.what.startswith(what)]
    return float(np.median(errors)), max(errors), math.fsum(own.held for own in rows if own.what.startswith(what))


if __name__ == "__main__":
    print(table([*propulsion_rows(), *inertia_rows()]))
