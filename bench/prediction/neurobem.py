"""Score vehicles on the flights of NeuroBEM, a 5-inch quadrotor to 18 m/s: `python bench/prediction/neurobem.py FOLDER`.

The folder holds `processed_data` of rpg.ifi.uzh.ch/neuro_bem (Bauersfeld et al., RSS 2021). At every sample of the test
segments a model gets velocity, rates and rotor speeds with their derivatives, and predicts force and torque on the body.
Measured are F = m a, with gravity left out, and M = J ω̇ + ω × Jω, with mass and inertia of the data set. The RMSE is over
samples and the three components, as in Table II of the paper: F² = (2 Fxy² + Fz²) / 3.
"""

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from prediction.protocol import (
    SPEED_MARGIN,
    Row,
    Update,
    build_from_parts,
    files_in,
    fly_at_speeds,
    identify_vehicles,
    order_by_rotor,
    run,
    widen_speed_range,
)

from samara.core.algebra import Mat3, Quat, Vec3, rotate
from samara.core.types import Array
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.predicted_wrench import predict_wrench, required_body_torque
from samara.identify.readers.csv_mapping import read_columns, read_heading
from samara.physics.types import Vehicle

MASS, INERTIA = 0.772, (0.0025, 0.0021, 0.0043)  # [kg], [kg m²]: Readme of the data set
ROTORS = [[0.075, -0.1, 0.0, "ccw"], [-0.075, 0.1, 0.0, "ccw"], [0.075, 0.1, 0.0, "cw"], [-0.075, -0.1, 0.0, "cw"]]
PARTS = {
    "mass": MASS,
    "rotors": ROTORS,
    "motors": "2306 2400KV",
    "props": "5.1x4.7x3",
    "battery": "4S1800 120C",
}
"""Parts of Agilicious (Foehn et al. 2022), the same group's quadrotor of that size"""
NUMBERING = "betaflight"  # back right, front right, back left, front left
MOTOR_TIME_CONSTANT = 0.033  # [s]; any: commands are such that rotors have the measured derivative
MIN_SPEED_FOR_CHECK, MAX_DISAGREEMENT = 1.0, 0.5  # [m/s]; of the velocity from the derivative of position, relative
TEST_SEGMENTS = (
    *("2021-02-18-13-44-23_seg_2", "2021-02-18-16-53-35_seg_2", "2021-02-18-17-03-20_seg_2"),
    *("2021-02-18-17-19-08_seg_2", "2021-02-18-17-26-00_seg_1", "2021-02-18-18-08-45_seg_1"),
    *("2021-02-23-10-48-03_seg_2", "2021-02-23-11-41-38_seg_3", "2021-02-23-14-21-48_seg_3"),
    *("2021-02-23-17-27-24_seg_2", "2021-02-23-19-45-06_seg_2", "2021-02-23-22-26-25_seg_2"),
    "2021-02-23-22-54-17_seg_1",
)
"""testset.txt of the data set"""
PUBLISHED = {
    "published, quadratic fit": (1.486, 0.087),
    "published, BEM": (0.982, 0.074),
    "published, PolyFit": (0.606, 0.022),
    "published, BEM+NN": (0.335, 0.012),
}
"""Force [N] and torque [N m]: Table II of the paper"""


class Segment(NamedTuple):
    """Samples of a flight: states (13, n), rotor speeds and their derivatives (4, n), specific force and ω̇ (3, n)."""

    name: str
    time: Array
    body: Array
    speeds: Array
    accelerations: Array
    specific_force: Array
    angular_acceleration: Array
    voltage: Array


def score(arguments: argparse.Namespace, vehicles: dict[str, Vehicle], update: Update) -> list[Row]:
    """Score a model without force, the built vehicle, further vehicles, and those identified from other segments."""
    paths = files_in(arguments.folder, "*_seg_*.csv", "processed_data of NeuroBEM")
    test = [path for path in paths if path.stem.endswith(TEST_SEGMENTS)]
    training = [path for path in paths if path not in test]
    if not test or not training:
        missing = "test" if not test else "training"
        raise ValueError(f"{arguments.folder}: holds no {missing} segment; expected processed_data of NeuroBEM")
    segments = [read_segment(path) for path in test]
    chosen = np.linspace(0, len(training) - 1, min(arguments.training, len(training))).astype(int)
    flown = [read_segment(training[k]) for k in chosen]
    max_speed = SPEED_MARGIN * max(float(segment.speeds.max()) for segment in flown)
    built = build_from_parts(**PARTS)
    inertia_B = Mat3.diagonal(*INERTIA)
    start = widen_speed_range(built, max_speed).replace({"inertia_B": inertia_B})
    identified = identify_vehicles([flight_log(segment, max_speed) for segment in flown], start, update)
    rows = [error_row("no force", segments, None)]
    rows += [{"row": name, "force": force, "torque": torque} for name, (force, torque) in PUBLISHED.items()]
    models = {"from parts": built, **identified, **vehicles}
    return rows + [error_row(label, segments, vehicle) for label, vehicle in models.items()]


def read_segment(path: Path) -> Segment:
    """Read a segment; raise ValueError if its velocity is not the derivative of its position."""
    heading = read_heading(path)
    axes, motors = "xyz", "1234"
    quaternion = [f"q{axis}" if f"q{axis}" in heading else f"quat {axis}" for axis in "wxyz"]
    names = ["t", *(f"pos {axis}" for axis in axes), *(f"vel {axis}" for axis in axes), *quaternion]
    names += [f"{what} {axis}" for what in ("ang vel", "acc", "ang acc") for axis in axes]
    names += [f"{what} {motor}" for what in ("mot", "dmot") for motor in motors] + ["vbat"]
    rows = read_columns(path, names, "processed data of NeuroBEM").values
    rows = rows[:, np.isfinite(rows).all(axis=0)]
    if rows.shape[1] < 2:
        raise ValueError(f"{path}: has {rows.shape[1]} complete rows; expected a flight")
    time, position, velocity_B, attitude = rows[0], rows[1:4], rows[4:7], rows[7:11]
    velocity = np.stack(rotate(Quat(*attitude), Vec3(*velocity_B)))
    slope = np.gradient(position, time, axis=1)
    fast = np.linalg.norm(slope, axis=0) > MIN_SPEED_FOR_CHECK
    error = np.linalg.norm(slope - velocity, axis=0)[fast]
    if len(error) and np.median(error / np.linalg.norm(slope[:, fast], axis=0)) > MAX_DISAGREEMENT:
        raise ValueError(f"{path}: its velocity is not the derivative of its position; expected velocity in body axes")
    body = np.concatenate([position, velocity, attitude, rows[11:14]])
    return Segment(path.stem, time, body, rows[20:24], rows[24:28], rows[14:17], rows[17:20], rows[28:29])


def flight_log(segment: Segment, max_speed: float) -> FlightLog:
    """Return the log to identify from; the commands are the fractions of `max_speed` [rad/s] at which the rotors turn."""

    def signal(values: Array) -> Signal:
        return Signal(segment.time - segment.time[0], values)

    return FlightLog(
        segment.name,
        "csv",
        NUMBERING,
        signal(segment.speeds / max_speed),
        rotor_speed=signal(segment.speeds),
        position=signal(segment.body[:3]),
        velocity=signal(segment.body[3:6]),
        attitude=signal(segment.body[6:10]),
        rate=signal(segment.body[10:]),
        specific_force=signal(segment.specific_force),
        voltage=signal(segment.voltage),
        truth=MOTION_CAPTURE,
    )


def error_row(label: str, segments: list[Segment], vehicle: Vehicle | None) -> Row:
    """Return the RMSE of force [N] and torque [N m] over all samples and components; without a vehicle both are 0."""
    errors = [wrench_error(segment, vehicle) for segment in segments]
    force, torque = (np.concatenate([error[k] for error in errors], axis=1) for k in (0, 1))
    return {
        "row": label,
        "force": float(np.sqrt((force**2).mean())),
        "torque": float(np.sqrt((torque**2).mean())),
        "force_z": float(np.sqrt((force[2] ** 2).mean())),
        "samples": force.shape[1],
    }


def wrench_error(segment: Segment, vehicle: Vehicle | None) -> tuple[Array, Array]:
    """Return predicted minus measured force and torque in body axes, (3, n) each  [N, N·m]."""
    inertia = np.array(INERTIA)[:, None]
    omega = segment.body[10:]
    force = MASS * segment.specific_force
    torque = inertia * segment.angular_acceleration + np.cross(omega, inertia * omega, axis=0)
    if vehicle is None:
        return -force, -torque
    vehicle = fly_at_speeds(vehicle, 2.0 * SPEED_MARGIN * float(segment.speeds.max()), MOTOR_TIME_CONSTANT)
    speeds, accelerations = (
        order_by_rotor(rows, vehicle, NUMBERING) for rows in (segment.speeds, segment.accelerations)
    )
    predicted = predict_wrench(vehicle, segment.body, speeds, speeds + MOTOR_TIME_CONSTANT * accelerations)
    return predicted.f_B - force, predicted.tau_B - torque


if __name__ == "__main__":
    settings = {"type": int, "default": 12, "help": "number of training segments to identify from"}
    run("neurobem", __doc__, score, ("--training", settings))
