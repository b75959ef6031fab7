"""Score vehicles on the nano-drone benchmark of IDSIA, a brushless Crazyflie: `python bench/prediction/idsia.py FOLDER`.

The folder is github.com/idsia-robotics/nanodrone-sysid-benchmark (Busetto et al. 2025, arXiv 2512.14450) after `git lfs pull`.
Every sample of the test flights starts a window of 50 steps of 10 ms: the model gets the measured state and, for each step,
the measured rotor speeds. MAE_h is the mean over all windows of |Δp|, |Δv|, the angle between the attitudes, and |Δω| after
h steps; SimErr = Σ MAE_h over h = 1 … 50. Vehicles are scored as their files are: no gain, delay or wind of a test flight.
`--test chirp` holds out the chirps instead of the melons, for development.
"""

import argparse
import sys
from collections.abc import Iterator
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

from samara.compiler.simulator import compile as compile_vehicle
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.identify.flight_log import FlightLog
from samara.identify.predicted_wrench import motor_commands
from samara.identify.prediction_error_fit import BASELINES, QUANTITIES, Windows, measured_states, prediction_errors
from samara.identify.readers.registry import read_log
from samara.physics.multirotor import state_at_rest
from samara.physics.types import BODY_STATE_SIZE, Vehicle
from samara.vehicles.loader import vehicle as load_vehicle

STEPS, PERIOD = 50, 0.01  # of a window; [s]
SUBSTEPS = 10  # integration steps of a sample
MOTOR_TIME_CONSTANT = 0.001  # [s]: motors reach the speed that is prescribed for a step within the step
BATCH = 2000  # windows
MASS = 0.045  # [kg], Busetto et al.
PARTS = {
    "layout": "quad_x",
    "mass": MASS,
    "diagonal": 0.1,
    "motors": "0802.8 10000KV",
    "props": "55x35 mm",
    "battery": "1S350 15C",
}
"""Bitcraze's data sheet of the Crazyflie 2.1 Brushless, with the mass of the benchmark"""
NUMBERING = "crazyflie"
MOTORS = [f"m{k}_rads" for k in (1, 2, 3, 4)]
COLUMNS = {
    "time": "t",
    "motors": MOTORS,
    "rotor_speed": MOTORS,
    "position": ["x", "y", "z"],
    "velocity": ["vx", "vy", "vz"],
    "attitude": ["qx", "qy", "qz", "qw"],
    "quaternion": "xyzw",
    "rate": ["wx", "wy", "wz"],
    "specific_force": ["ax_body", "ay_body", "az_body"],
    "numbering": NUMBERING,
}
PUBLISHED = {
    "published, naive": (17.7878, 38.9241, 8.2138, 29.0866),
    "published, physics": (2.3223, 10.6232, 5.1013, 29.0866),
    "published, MLP": (4.0519, 12.5809, 6.0591, 35.5735),
    "published, hybrid": (2.3625, 10.4033, 6.1534, 28.9873),
    "published, LSTM": (5.9711, 16.7207, 5.6525, 35.8353),
}
"""SimErr of p, v, R, ω in results/model_comparison.ipynb of the repository, at commit 2d921b5"""


class Flight(NamedTuple):
    """States (13, n) and rotor speeds [rad/s] (4, n) of a flight at 100 Hz."""

    body: Array
    speeds: Array


def score(arguments: argparse.Namespace, vehicles: dict[str, Vehicle], update: Update) -> list[Row]:
    """Score baselines and vehicles on the test flights; vehicles are identified from all other flights."""
    paths = files_in(arguments.folder, "*_run*.csv", "data/train and data/test of the benchmark")
    test = [path for path in paths if path.name.startswith(f"{arguments.test}_")]
    training = [path for path in paths if not path.name.startswith((f"{arguments.test}_", "melon_"))]
    for group, name in ((test, f"{arguments.test}_*_run*.csv"), (training, "flights to identify from")):
        if not group:
            raise ValueError(f"{arguments.folder}: holds no {name}; expected data/train and data/test of the benchmark")
    flights = [flight_states(read_flight(path, 1.0)) for path in test]
    logs = [read_flight(path, 1.0) for path in training]
    max_speed = SPEED_MARGIN * max(float(log.rotor_speed.values.max()) for log in logs if log.rotor_speed)
    shipped = load_vehicle("crazyflie_brushless").replace({"mass": MASS})
    start = widen_speed_range(shipped, max_speed)
    identified = identify_vehicles([read_flight(path, max_speed) for path in training], start, update)
    rows = [error_row(name, flights, name) for name in BASELINES]
    if arguments.test == "melon":
        rows += [{"row": name, **dict(zip(QUANTITIES, errors, strict=True))} for name, errors in PUBLISHED.items()]
    models = {"from parts": build_from_parts(**PARTS), "shipped": shipped, **identified, **vehicles}
    return rows + [error_row(label, flights, vehicle) for label, vehicle in models.items()]


def read_flight(path: Path, max_speed: float) -> FlightLog:
    """Read a flight; the commands of its motors are the fractions of `max_speed` [rad/s] at which the rotors turn."""
    (log,) = read_log(path, COLUMNS | {"motor_range": [0.0, max_speed]})
    return log


def flight_states(log: FlightLog) -> Flight:
    """Return states and rotor speeds of a flight; raise ValueError if it is not sampled evenly, every 10 ms."""
    signals = [log.position, log.velocity, log.attitude, log.rate, log.rotor_speed]
    rows = [signal.values for signal in signals if signal is not None]
    n = min(row.shape[1] for row in rows)
    time = log.command.time
    if len({row.shape[1] for row in rows}) > 1 or n <= STEPS or np.abs(np.diff(time) - PERIOD).max() > 0.1 * PERIOD:
        raise ValueError(f"{log.name}: expected more than {STEPS} complete rows, one every {PERIOD:g} s")
    return Flight(np.concatenate(rows[:4]), rows[4])


def error_row(label: str, flights: list[Flight], model: Vehicle | str) -> Row:
    """Return SimErr of a vehicle or a baseline by quantity; attitudes in rad."""
    parts = []
    for flight in flights:
        windows = Windows(np.arange(flight.body.shape[1] - STEPS), STEPS, PERIOD)
        predicted = BASELINES[model](flight.body, windows)[1:] if isinstance(model, str) else predict(model, flight)
        parts.append(prediction_errors(predicted, measured_states(flight.body, windows)[1:]))
    return {"row": label, **simulation_error(parts)}


def simulation_error(parts: list[dict[str, Array]]) -> dict[str, float]:
    """Σ over h of the mean over all windows of all flights; `parts` has errors (steps, windows) by quantity, angles in °."""
    sums = {name: np.concatenate([part[name] for part in parts], axis=1).mean(axis=1).sum() for name in QUANTITIES}
    return {name: float(np.radians(value) if name == "attitude" else value) for name, value in sums.items()}


def predict(vehicle: Vehicle, flight: Flight) -> Array:
    """Predict the states of every window at the measured rotor speeds, (steps, 13, windows)."""
    vehicle = fly_at_speeds(vehicle, SPEED_MARGIN * float(flight.speeds.max()), MOTOR_TIME_CONSTANT)
    speeds = order_by_rotor(flight.speeds, vehicle, NUMBERING)
    return np.concatenate(list(_predict_batches(vehicle, flight.body, speeds)), axis=2)


def _predict_batches(vehicle: Vehicle, body: Array, speeds: Array) -> Iterator[Array]:
    simulator, rest = compile_vehicle(vehicle), state_at_rest(vehicle)
    effect_states = flatten(rest)[BODY_STATE_SIZE + len(speeds) :]
    count = body.shape[1] - STEPS
    for first in range(0, count, BATCH):
        starts = np.arange(first, min(first + BATCH, count))
        rows = [*body[:, starts], *speeds[:, starts], *(np.full(len(starts), value) for value in effect_states)]
        index = starts[None, :] + np.arange(STEPS)[:, None]
        commands = np.repeat(np.stack(motor_commands(speeds[:, index], vehicle), axis=1), SUBSTEPS, axis=0)
        rollout = simulator.rollout(
            unflatten(rest, iter(np.ascontiguousarray(row) for row in rows)),
            commands,
            PERIOD / SUBSTEPS,
            record_every=SUBSTEPS,
        )
        yield np.stack(flatten(rollout.states)[:BODY_STATE_SIZE], axis=1)


if __name__ == "__main__":
    run("idsia", __doc__, score, ("--test", {"default": "melon", "help": "trajectory to hold out"}))
