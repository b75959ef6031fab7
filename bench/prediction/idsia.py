"""Score vehicles on the nano-drone benchmark of IDSIA, a brushless Crazyflie: `python bench/prediction/idsia.py FOLDER`.

The folder is github.com/idsia-robotics/nanodrone-sysid-benchmark (Busetto et al. 2025, arXiv 2512.14450) after `git lfs pull`.
Every sample of the test flights starts a window of 50 steps of 10 ms: the model gets the measured state and, for each step,
the measured rotor speeds. MAE_h is the mean over all windows of |Δp|, |Δv|, the angle between the attitudes, and |Δω| after
h steps; SimErr = Σ MAE_h over h = 1 … 50. Vehicles are scored as their files are: no gain, delay or wind of a test flight.
`--test chirp` holds out the chirps instead of the melons, for development.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from prediction import protocol
from prediction.protocol import Row, Update
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

STEPS, PERIOD, SUBSTEPS = 50, 0.01, 10  # samples of a window, their period [s], integration steps of a sample
MOTOR_TIME_CONSTANT = 0.001  # [s]: rotors follow the measured speeds, joined by straight lines; the last one is held
SUBSTEP_FRACTIONS = ((np.arange(SUBSTEPS) + 0.5) / SUBSTEPS + MOTOR_TIME_CONSTANT / PERIOD)[:, None]
BATCH = 2000  # windows
MASS = 0.045  # [kg], Busetto et al.
AIRFRAME = {"layout": "quad_x", "mass": MASS, "diagonal": 0.1}  # Bitcraze's data sheet of the Crazyflie 2.1 Brushless
DRIVE = {"motors": "0802.8 10000KV", "props": "55x35 mm", "battery": "1S350 15C"}
NUMBERING = "crazyflie"
MOTORS = "m1_rads m2_rads m3_rads m4_rads"
VECTORS = {"position": "x y z", "velocity": "vx vy vz", "attitude": "qx qy qz qw", "rate": "wx wy wz"}
SIGNALS = {**VECTORS, "motors": MOTORS, "rotor_speed": MOTORS, "specific_force": "ax_body ay_body az_body"}
COLUMNS: dict[str, object] = {key: names.split() for key, names in SIGNALS.items()}
# the commands of the motors are the speeds at which the rotors turn
SETTINGS = {"time": "t", "quaternion": "xyzw", "numbering": NUMBERING, "motor_range": [0.0, protocol.MAX_SPEED]}
PUBLISHED = {
    "naive": (17.7878, 38.9241, 8.2138, 29.0866),
    "physics": (2.3223, 10.6232, 5.1013, 29.0866),
    "MLP": (4.0519, 12.5809, 6.0591, 35.5735),
    "hybrid": (2.3625, 10.4033, 6.1534, 28.9873),
    "LSTM": (5.9711, 16.7207, 5.6525, 35.8353),
}
"""SimErr of p, v, R, ω in results/model_comparison.ipynb of the repository, at commit 2d921b5"""


Flight = tuple[Array, Array]  # states (13, n) and rotor speeds [rad/s] (4, n) at 100 Hz


def score(arguments: argparse.Namespace, vehicles: dict[str, Vehicle], update: Update) -> list[Row]:
    """Score baselines and vehicles on the test flights; vehicles are identified from all other flights."""
    paths = protocol.files_in(arguments.folder, "*_run*.csv", "data/train and data/test of the benchmark")
    test = [path for path in paths if path.name.startswith(f"{arguments.test}_")]
    training = [path for path in paths if not path.name.startswith((f"{arguments.test}_", "melon_"))]
    if not test or not training:
        raise ValueError(f"{arguments.folder}: holds {len(test)} test flights of {len(paths)}; expected train and test")
    flights = [flight_states(read_log(path, COLUMNS | SETTINGS)[0]) for path in test]
    shipped = load_vehicle("crazyflie_brushless").replace({"mass": MASS})
    start = protocol.replace_motors(shipped, speed_min=0.0, speed_max=protocol.MAX_SPEED)
    logs = [log for path in training for log in read_log(path, COLUMNS | SETTINGS)]
    identified = protocol.identify_vehicles(logs, start, update)
    rows = [error_row(name, flights, name) for name in BASELINES]
    rows += protocol.published_rows(PUBLISHED, QUANTITIES) if arguments.test == "melon" else []
    built = protocol.build_from_parts(**AIRFRAME, **DRIVE)
    models = {"from parts": built, "shipped": shipped, **identified, **vehicles}
    return rows + [error_row(label, flights, vehicle) for label, vehicle in models.items()]


def flight_states(log: FlightLog) -> Flight:
    """Return states and rotor speeds of a flight; raise ValueError if it is not sampled evenly, every 10 ms."""
    signals = [log.position, log.velocity, log.attitude, log.rate, log.rotor_speed]
    rows = [signal.values for signal in signals if signal is not None]
    n = min(row.shape[1] for row in rows)
    time = log.command.time
    if len({row.shape[1] for row in rows}) > 1 or n <= STEPS or np.abs(np.diff(time) - PERIOD).max() > 0.1 * PERIOD:
        raise ValueError(f"{log.name}: expected more than {STEPS} complete rows, one every {PERIOD:g} s")
    return np.concatenate(rows[:4]), rows[4]


def error_row(label: str, flights: list[Flight], model: Vehicle | str) -> Row:
    """Return SimErr of a vehicle or a baseline by quantity; attitudes in rad."""
    parts = []
    for body, speeds in flights:
        windows = Windows(np.arange(body.shape[1] - STEPS), STEPS, PERIOD)
        predicted = BASELINES[model](body, windows)[1:] if isinstance(model, str) else predict(model, body, speeds)
        parts.append(prediction_errors(predicted, measured_states(body, windows)[1:]))
    return {"row": label, **simulation_error(parts)}


def simulation_error(parts: list[dict[str, Array]]) -> dict[str, float]:
    """Σ over h of the mean over all windows of all flights; `parts` has errors (steps, windows) by quantity, angles in °."""
    sums = {name: np.concatenate([part[name] for part in parts], axis=1).mean(axis=1).sum() for name in QUANTITIES}
    return {name: float(np.radians(value) if name == "attitude" else value) for name, value in sums.items()}


def predict(vehicle: Vehicle, body: Array, speeds: Array) -> Array:
    """Predict the states of every window of a flight at the measured rotor speeds, (steps, 13, windows)."""
    vehicle = protocol.follow_speeds(vehicle, MOTOR_TIME_CONSTANT)
    speeds = protocol.order_by_rotor(speeds, vehicle, NUMBERING)
    simulator, rest, count = compile_vehicle(vehicle), state_at_rest(vehicle), body.shape[1] - STEPS
    effect_states, parts = flatten(rest)[BODY_STATE_SIZE + len(speeds) :], []
    for first in range(0, count, BATCH):
        starts = np.arange(first, min(first + BATCH, count))
        rows = [*body[:, starts], *speeds[:, starts], *(np.full(len(starts), value) for value in effect_states)]
        given = speeds[:, starts[None, :] + np.arange(STEPS)[:, None]]
        slope = np.diff(given, axis=1, append=given[:, -1:])
        ramps = (given[:, :, None] + slope[:, :, None] * SUBSTEP_FRACTIONS).reshape(len(speeds), -1, len(starts))
        commands = np.stack(motor_commands(ramps, vehicle), axis=1)
        state = unflatten(rest, iter(np.ascontiguousarray(row) for row in rows))
        rollout = simulator.rollout(state, commands, PERIOD / SUBSTEPS, record_every=SUBSTEPS)
        parts.append(np.stack(flatten(rollout.states)[:BODY_STATE_SIZE], axis=1))
    return np.concatenate(parts, axis=2)


if __name__ == "__main__":
    protocol.run("idsia", __doc__, score, ("--test", {"default": "melon", "help": "trajectory to hold out"}))
