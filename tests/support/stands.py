"""Motors and propellers at full throttle on stands (tests/vehicles/full_throttle_data.csv) and the predictions from their sizes
alone.

PYTHONPATH=tests python -m support.stands    prints the table of docs/evidence/own-drone-check.md

Every other motor, in the order of their names, is for fits; the others check them. Motors of 8 to 13 mm
(tests/vehicles/small_stand_data.csv) were added later, and are in no fit.
"""

import csv
import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.vehicles.parts.motor import RPM_PER_RAD_S, MotorPart, motor
from samara.vehicles.parts.operating_point import (
    Drive,
    drive_coefficients,
    full_throttle_propeller,
    hover_duty,
    operating_point,
)
from samara.vehicles.parts.propeller import THRUST_TORQUE_CORRELATION, Propeller, propeller
from samara.vehicles.parts.uncertain import SIGMAS_95, UncertainValue, propagate_uncertainty

DATA = Path(__file__).parents[1] / "vehicles" / "full_throttle_data.csv"
SMALL = DATA.with_name("small_stand_data.csv")


class Stand(NamedTuple):
    """One row: the motor, its propeller, and the measurements in SI units except for rpm."""

    source: str
    name: str
    motor: MotorPart
    propeller: str
    voltage: float
    current: float
    rpm: float
    thrust: float
    half: tuple[float, float] | None  # volts and thrust at half throttle
    for_fits: bool


class StandErrors(NamedTuple):
    """ln(predicted/measured) of speed, thrust and current at full throttle, and of the throttle for the thrust at one half.

    `thrust_score` and `throttle_score` are these ln over their stated standard deviations. NaN if not measured.
    """

    stand: Stand
    speed: float
    thrust: float
    current: float
    throttle: float
    thrust_score: float
    throttle_score: float


@cache
def stands(data: Path = DATA) -> tuple[Stand, ...]:
    """Return every row of the data."""
    lines = [line for line in data.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    names = sorted({row["name"] for row in rows})
    return tuple(
        Stand(
            row["source"],
            row["name"],
            motor(f"{float(row['diameter']):02.0f}{_height(float(row['height']))} {row['kv']}KV"),
            row["propeller"],
            float(row["voltage"]),
            float(row["current"]),
            float(row["rpm"]),
            9.80665e-3 * float(row["thrust"]),
            (float(row["half_voltage"]), 9.80665e-3 * float(row["half_thrust"])) if row["half_thrust"] else None,
            data == DATA and names.index(row["name"]) % 2 == 0,
        )
        for row in rows
    )


def _height(height: float) -> str:
    return f"{height:04.1f}" if height % 1.0 else f"{height:02.0f}"


def derive_estimate(function, motor_model: MotorPart, blades: Propeller) -> UncertainValue:
    """Estimate a function of the drive from the estimates of motor and propeller."""
    return propagate_uncertainty(
        "parts",
        lambda kf, km, k, r, i0, inductance: function(Drive(kf, km, k, r, inductance, i0)),
        blades.k_thrust,
        blades.k_torque,
        motor_model.constant,
        motor_model.resistance,
        motor_model.no_load_current,
        motor_model.inductance,
        correlation=THRUST_TORQUE_CORRELATION,
    )


@cache
def stand_errors(data: Path = DATA) -> tuple[StandErrors, ...]:
    """Predict every row from the sizes of motor and propeller and the voltage alone."""
    return tuple(_compute_errors(stand) for stand in stands(data))


def _compute_errors(stand: Stand) -> StandErrors:
    volts, blades = stand.voltage, full_throttle_propeller(stand.motor, stand.propeller, stand.voltage)
    full_throttle = operating_point(1.0, volts, drive_coefficients(stand.motor, blades))
    thrust = derive_estimate(lambda drive_model: operating_point(1.0, volts, drive_model).thrust, stand.motor, blades)
    throttle, throttle_score = math.nan, math.nan
    if stand.half is not None:
        half_voltage, half_thrust = stand.half
        value = derive_estimate(
            lambda drive_model: hover_duty(half_thrust, half_voltage, drive_model),
            stand.motor,
            propeller(stand.propeller),
        )
        throttle = math.log(value.value / 0.5)
        throttle_score = throttle / value.spread
    error = math.log(thrust.value / stand.thrust)
    speed, current = (
        math.log(full_throttle.speed * RPM_PER_RAD_S / stand.rpm),
        math.log(full_throttle.supply_current / stand.current),
    )
    return StandErrors(stand, speed, error, current, throttle, error / thrust.spread, throttle_score)


def table() -> str:
    """Format Markdown: median error, median and 90 % quantile of its size; for the motors for fits and the others."""
    lines = [
        "| half | motors | rows | speed | thrust | current | throttle of half | thrust inside | throttle inside |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, data, half in (("for fits", DATA, True), ("to check", DATA, False), ("small ones", SMALL, False)):
        rows = [row for row in stand_errors(data) if row.stand.for_fits == half]
        cells = [name, str(len({row.stand.name for row in rows})), str(len(rows))]
        for k in (1, 2, 3, 4):
            errors = np.expm1([row[k] for row in rows if math.isfinite(row[k])])
            size = np.quantile(np.abs(errors), (0.5, 0.9))
            cells.append(f"{100 * np.median(errors):+.0f} %, {100 * size[0]:.0f} %, {100 * size[1]:.0f} %")
        for k in (5, 6):
            is_inside = [abs(row[k]) < SIGMAS_95 for row in rows if math.isfinite(row[k])]
            cells.append(f"{100 * np.mean(is_inside):.0f} %")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
