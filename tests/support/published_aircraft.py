"""The ten aircraft of published_aircraft.toml and the predictions from their parts alone: rows, and the table of the page.

PYTHONPATH=tests python -m support.published_aircraft    prints the table of docs/evidence/own-drone-check.md
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
from samara.vehicles.parts.operating_point import full_throttle_propeller, hover_duty, operating_point
from samara.vehicles.parts.parts_list import parts_list
from samara.vehicles.parts.propeller import propeller
from samara.vehicles.parts.uncertain import UncertainValue
from support.stands import derive_estimate

LIST = Path(__file__).parents[1] / "vehicles" / "published_aircraft.toml"
ROTORS = {"x8": 8, "octo_x": 8}


class Row(NamedTuple):
    """One published number and its prediction, in the same unit."""

    aircraft: str
    quantity: str
    published: float
    predicted: UncertainValue
    unit: str

    @property
    def error(self) -> float:
        """Predicted over published, minus one."""
        return self.predicted.value / self.published - 1.0

    @property
    def is_inside(self) -> bool:
        """Whether the stated interval contains the published number."""
        return self.predicted.low <= self.published <= self.predicted.high


def aircraft():
    """Return the list, as it was fixed before any fit."""
    return tomllib.loads(LIST.read_text(encoding="utf-8"))["aircraft"]


def propulsion_rows():
    """Yield hover throttle, maximum thrust of a rotor, hover endurance and battery resistance: these need no airframe."""
    for entry in aircraft():
        parts, rotors = entry["parts"], ROTORS.get(entry["layout"], 4)
        for publication in entry["published"]:
            if publication["kind"] == "battery_resistance":
                value = battery(parts["battery"]).resistance
                yield Row(entry["name"], "battery resistance", publication["value"], value, "Ω")
            if "motors" not in parts:
                continue
            motor_model, blades = motor(parts["motors"]), propeller(parts["props"])
            weight = parts["mass"] * STANDARD_GRAVITY / rotors
            if publication["kind"] == "bench":
                yield from bench_rows(entry["name"], publication, motor_model, parts["props"], weight)
            if publication["kind"] == "hover_throttle":
                value = derive_estimate(
                    lambda drive, w=weight, v=publication["voltage"]: hover_duty(w, v, drive), motor_model, blades
                )
                yield Row(entry["name"], "hover throttle", publication["value"], value, "")
            if publication["kind"] == "endurance":
                cells, rotor_thrust = battery(parts["battery"]), publication["mass"] * STANDARD_GRAVITY / rotors

                def minutes(drive, cells=cells, rotor_thrust=rotor_thrust, rotors=rotors):
                    current = operating_point(
                        hover_duty(rotor_thrust, cells.nominal, drive), cells.nominal, drive
                    ).supply_current
                    return cells.capacity.value / (60.0 * rotors * current)

                quantity = f"hover time at {publication['mass']:g} kg"
                yield Row(
                    entry["name"],
                    quantity,
                    publication["minutes"],
                    derive_estimate(minutes, motor_model, blades),
                    "min",
                )


def bench_rows(name, publication, motor_model, size, weight):
    """Yield the last row of a stand's table, and the throttle at which the table reaches a rotor's share of the weight."""
    full = publication.get("full_throttle_at", 1.0)
    volts = publication.get("voltage_by_row") or [publication["voltage"]] * len(publication["thrust"])
    duty, voltage = min(1.0, publication["throttle"][-1] / full), volts[-1]
    value = derive_estimate(
        lambda drive: operating_point(duty, voltage, drive).thrust,
        motor_model,
        full_throttle_propeller(motor_model, size, voltage),
    )
    yield Row(name, "max thrust of a rotor", max(publication["thrust"]), value, "N")
    if len(publication["thrust"]) > 1:
        throttle, voltage_at_weight = (
            float(np.interp(weight, publication["thrust"], column)) for column in (publication["throttle"], volts)
        )
        value = derive_estimate(
            lambda drive: hover_duty(weight, voltage_at_weight, drive), motor_model, propeller(size)
        )
        yield Row(name, "hover throttle", throttle / full, value, "")


def inertia_rows():
    """Yield moments of inertia of the assembled aircraft, at the mass for which they were published."""
    for entry in aircraft():
        for publication in entry["published"]:
            if publication["kind"] == "inertia":
                parts = entry["parts"] | {"mass": publication["mass"], "layout": entry["layout"]}
                if "rotors" in entry:
                    parts = {key: value for key, value in parts.items() if key not in ("diagonal", "layout")}
                    parts["rotors"] = entry["rotors"]
                vehicle = assemble(parts_list(name="published", **parts))
                spread = dict(vehicle.structure.relative_uncertainties)["body.inertia"]
                tensor = vehicle.inertia_B
                for axis, published, value in zip(
                    "xyz", publication["values"], (tensor.xx, tensor.yy, tensor.zz), strict=True
                ):
                    yield Row(
                        entry["name"],
                        f"I{axis}{axis}",
                        published,
                        UncertainValue(float(value), spread, "parts"),
                        "kg m²",
                    )


def table(rows):
    """Format the rows as Markdown, one line per number."""
    lines = [
        "| aircraft | what | published | predicted | 95 % interval | error | |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        unit = f" {row.unit}" if row.unit else ""
        ends = f"{row.predicted.low:.3g} to {row.predicted.high:.3g}"
        mark = "" if row.is_inside else "outside"
        error = f"{100.0 * row.error:+.0f} %"
        numbers = f"{row.published:.3g}{unit} | {row.predicted.value:.3g}{unit} | {ends}"
        lines.append(f"| {row.aircraft} | {row.quantity} | {numbers} | {error} | {mark} |")
    return "\n".join(lines)


def median_and_worst(rows, quantity):
    """Return median and maximum of |error| over the rows of one quantity, and the count inside their intervals."""
    errors = [abs(row.error) for row in rows if row.quantity.startswith(quantity)]
    return (
        float(np.median(errors)),
        max(errors),
        math.fsum(row.is_inside for row in rows if row.quantity.startswith(quantity)),
    )


if __name__ == "__main__":
    print(table([*propulsion_rows(), *inertia_rows()]))
