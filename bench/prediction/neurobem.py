"""Score vehicles on the flights of NeuroBEM, a 5-inch quadrotor to 18 m/s: `python bench/prediction/neurobem.py FOLDER`.

The folder holds `processed_data` of rpg.ifi.uzh.ch/neuro_bem (Bauersfeld et al., RSS 2021). At every sample of the test
segments a model gets velocity, rates and rotor speeds with their derivatives, and predicts force and torque on the body.
Measured are F = m a, with gravity left out, and M = J ω̇ + ω × Jω, with mass and inertia of the data set. The RMSE is over
samples and the three components, as in Table II of the paper: F² = (2 Fxy² + Fz²) / 3.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from prediction import protocol
from prediction.protocol import Row, Update
from samara.core.algebra import Quat, Vec3, rotate
from samara.core.types import Array
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.predicted_wrench import predict_wrench
from samara.identify.readers.csv_mapping import read_columns, read_heading
from samara.physics.types import Vehicle

MASS, INERTIA = 0.772, (0.0025, 0.0021, 0.0043)  # [kg], [kg m²]: Readme of the data set
ROTORS = [[0.075, -0.1, 0.0, "ccw"], [-0.075, 0.1, 0.0, "ccw"], [0.075, 0.1, 0.0, "cw"], [-0.075, -0.1, 0.0, "cw"]]
DRIVE = {"motors": "2306 2400KV", "props": "5.1x4.7x3", "battery": "4S1800 120C"}
"""Agilicious (Foehn et al. 2022), the same group's quadrotor of that size"""
NUMBERING = "betaflight"  # back right, front right, back left, front left
MOTOR_TIME_CONSTANT = 0.033  # [s]; any: commands are such that rotors have the measured derivative
MIN_CHECKED_SPEED, MAX_DISAGREEMENT = 1.0, 0.5  # [m/s]; relative, of the velocity and the derivative of position
TEST_SEGMENTS = {
    "2021-02-18": "13-44-23_seg_2 16-53-35_seg_2 17-03-20_seg_2 17-19-08_seg_2 17-26-00_seg_1 18-08-45_seg_1",
    "2021-02-23": "10-48-03_seg_2 11-41-38_seg_3 14-21-48_seg_3 17-27-24_seg_2 19-45-06_seg_2 22-26-25_seg_2 22-54-17_seg_1",
}
"""testset.txt of the data set, by day"""
PUBLISHED = {"fit": (1.486, 0.087), "BEM": (0.982, 0.074), "PolyFit": (0.606, 0.022), "BEM+NN": (0.335, 0.012)}
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


def score(arguments: argparse.Namespace, vehicles: dict[str, Vehicle], update: Update) -> list[Row]:
    """Score a model without force, the built vehicle, further vehicles, and those identified from other segments."""
    paths = protocol.files_in(arguments.folder, "*_seg_*.csv", "processed_data of NeuroBEM")
    held_out = tuple(f"{day}-{time}" for day, times in TEST_SEGMENTS.items() for time in times.split())
    test = [path for path in paths if path.stem.endswith(held_out)]
    training = [path for path in paths if path not in test]
    if not test or not training:
        raise ValueError(
            f"{arguments.folder}: holds {len(test)} test segments of {len(paths)}; expected processed_data"
        )
    chosen = np.linspace(0, len(training) - 1, min(arguments.training, len(training))).astype(int)
    built = protocol.build_from_parts(mass=MASS, rotors=ROTORS, **DRIVE)
    start = protocol.replace_motors(built, speed_min=0.0, speed_max=protocol.MAX_SPEED)
    identified = protocol.identify_vehicles([flight_log(read_segment(training[k])) for k in chosen], start, update)
    segments = [read_segment(path) for path in test]
    models: dict[str, Vehicle | None] = {"no force": None, "from parts": built, **identified, **vehicles}
    rows = [error_row(label, segments, vehicle) for label, vehicle in models.items()]
    return [*protocol.published_rows(PUBLISHED, ("force", "torque")), *rows]


def read_segment(path: Path) -> Segment:
    """Read a segment; raise ValueError if its velocity is not the derivative of its position."""
    heading = read_heading(path)
    quaternion = "q" if "qw" in heading else "quat "
    groups = {"pos ": "xyz", "vel ": "xyz", quaternion: "wxyz", "ang vel ": "xyz", "acc ": "xyz", "ang acc ": "xyz"}
    groups |= {"mot ": "1234", "dmot ": "1234"}
    names = ["t", *(f"{name}{part}" for name, parts in groups.items() for part in parts)]
    rows = read_columns(path, names, "processed data of NeuroBEM").values
    rows = rows[:, np.isfinite(rows).all(axis=0)]
    time, position, velocity_B, attitude = rows[0], rows[1:4], rows[4:7], rows[7:11]
    velocity = np.stack(rotate(Quat(*attitude), Vec3(*velocity_B)))
    slope = np.gradient(position, time, axis=1)
    speed, error = np.linalg.norm(slope, axis=0), np.linalg.norm(slope - velocity, axis=0)
    if np.median(error / np.maximum(speed, MIN_CHECKED_SPEED)) > MAX_DISAGREEMENT:
        raise ValueError(f"{path}: its velocity is not the derivative of its position; expected velocity in body axes")
    body = np.concatenate([position, velocity, attitude, rows[11:14]])
    return Segment(path.stem, time, body, rows[20:24], rows[24:28], rows[14:17], rows[17:20])


def flight_log(segment: Segment) -> FlightLog:
    """Return the log to identify from; the commands of its motors are the speeds at which the rotors turn."""
    p_W, v_W, q_WB, omega_B = np.split(segment.body, (3, 6, 10))
    rows = {"position": p_W, "velocity": v_W, "attitude": q_WB, "rate": omega_B}
    rows |= {"specific_force": segment.specific_force, "rotor_speed": segment.speeds}
    time = segment.time - segment.time[0]
    signals: dict[str, Any] = {name: Signal(time, values) for name, values in rows.items()}
    command = Signal(time, segment.speeds / protocol.MAX_SPEED)
    return FlightLog(segment.name, "csv", NUMBERING, command, truth=MOTION_CAPTURE, **signals)


def error_row(label: str, segments: list[Segment], vehicle: Vehicle | None) -> Row:
    """Return the RMSE of force [N] and torque [N m] over all samples and components; without a vehicle both are 0."""
    errors = [wrench_error(segment, vehicle) for segment in segments]
    force, torque = (np.concatenate([error[k] for error in errors], axis=1) for k in (0, 1))
    rms = {name: float(np.sqrt((error**2).mean())) for name, error in (("force", force), ("torque", torque))}
    return {"row": label, **rms, "samples": force.shape[1]}


def wrench_error(segment: Segment, vehicle: Vehicle | None) -> tuple[Array, Array]:
    """Return predicted minus measured force and torque in body axes, (3, n) each  [N, N·m]."""
    inertia, omega, force = np.array(INERTIA)[:, None], segment.body[10:], MASS * segment.specific_force
    torque = inertia * segment.angular_acceleration + np.cross(omega, inertia * omega, axis=0)
    if vehicle is None:
        return -force, -torque
    vehicle = protocol.follow_speeds(vehicle, MOTOR_TIME_CONSTANT)
    motors = (segment.speeds, segment.accelerations)
    speeds, accelerations = (protocol.order_by_rotor(rows, vehicle, NUMBERING) for rows in motors)
    predicted = predict_wrench(vehicle, segment.body, speeds, speeds + MOTOR_TIME_CONSTANT * accelerations)
    return predicted.f_B - force, predicted.tau_B - torque


if __name__ == "__main__":
    settings = {"type": int, "default": 12, "help": "number of training segments to identify from"}
    protocol.run("neurobem", __doc__, score, ("--training", settings))
