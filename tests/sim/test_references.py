"""References from compiled tapes equal those that NumPy evaluates, bit for bit, for any trajectory at any time."""

import math

import numpy as np
import pytest

import samara
from samara.compiler.llvm.tape_interpreter import tabulator
from samara.compiler.trace.tape_scalar import MAX_TAPE_LENGTH, record_tape
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.physics.types import REFERENCE_FIELDS, Reference
from samara.plan.reference import StraightLeg
from samara.plan.trajectory import (
    Trajectory,
    circle,
    figure8,
    helix,
    hover,
    land,
    legs,
    line,
    lissajous,
    minimum_snap,
    race,
    sequence,
    stop,
    take_off,
    transfer,
    waypoints,
)
from samara.scenario.events import DroneSetting
from samara.sim import references
from samara.sim.references import TableFiller
from samara.sim.simulation import Simulation

PLACES = [(0.0, 0.0, 1.0), (5.0, 2.0, 2.0), (9.0, -1.0, 3.0), (6.0, -6.0, 1.5)]
MOVING = Reference(Vec3(1.0, -2.0, 3.0), Vec3(0.7, 0.0, -0.4), Vec3(0.0, 0.3, 0.1), yaw=0.4)
UP = take_off((1.0, 2.0, 0.1), height=3.0, yaw=0.4)
TRAJECTORIES = {
    "hover": hover((1.0, -0.0, 2.0), yaw=-0.3),
    "legs": legs(
        (0.0, 0.0, 0.1),
        [StraightLeg("up", Vec3(0.0, 0.0, 5.0), 4.0, 1.0), StraightLeg("on", Vec3(3.0, 0.0, 5.0), 3.0, 0.0)],
    ),
    "waypoints": waypoints(PLACES, speed=2.0, hold_time=0.5, yaw=1.0),
    "line": line((0.0, 0.0, 1.0), (6.0, 3.0, 2.0), speed=2.0, yaw="along"),
    "take_off": UP,
    "land": land((1.0, 2.0, 3.0)),
    "circle": circle((1.0, 2.0, 3.0), radius=2.0, speed=3.0, laps=2.0, start_angle=0.7, clockwise=True, yaw="along"),
    "endless circle": circle((0.0, 0.0, 0.0), radius=2.0, speed=3.0, laps=math.inf),
    "helix": helix((0.0, 0.0, 1.0), radius=1.5, height_per_turn=0.6, turns=3.0, speed=2.0, yaw="along"),
    "figure8": figure8((0.0, 1.0, 2.0), half_length=3.0, speed=4.0, laps=2.0, yaw="along"),
    "lissajous": lissajous(
        (0.0, 0.0, 3.0), amplitude=(2.0, 1.5, 0.0), frequency=(3, -2, 0), phase=(0.4, 0.0, 1.0), speed=2.5
    ),
    "race": race(PLACES, speed=6.0, yaw="along"),
    "jerk race": race(PLACES, speed=6.0, acceleration=50.0, order=3),
    "closed race": race(PLACES, speed=6.0, acceleration=20.0, closed=True, laps=2.0, yaw="along"),
    "through": minimum_snap(PLACES, [1.0, 2.0, 1.5], order=5, yaw=[0.0, 3.0, -3.0, 1.0]),
    "two points": minimum_snap(PLACES[:2], [1.0], yaw=0.5),
    "transfer": transfer(MOVING, Vec3(2.0, 3.0, 4.0), speed=1.0),
    "stop": stop(MOVING),
    "sequence": sequence(UP, line((1.0, 2.0, 3.0), (4.0, 2.0, 3.0), speed=1.0), hover((4.0, 2.0, 3.0))),
    "moved sequence": sequence(UP.shift(Vec3(1.0, 0.0, 0.0)), hover((2.0, 2.0, 3.0))),
}
FLOWN = {
    f"{name}: {drone.name}": drone.task
    for name in samara.scenario_names()
    for drone in samara.load_scenario(name).drones
}
COMPILED = TableFiller(min_compiled_rows=0)


def critical_times(task: Trajectory) -> np.ndarray:
    """Times before the start, at the knots and their neighbouring floats, after the end, and random ones in between."""
    end = min(task.duration, 30.0)
    knots = np.array([-1.0, -0.0, 0.0, end, *(mark.time for mark in task.waypoints)])
    near = np.concatenate([knots, np.nextafter(knots, -np.inf), np.nextafter(knots, np.inf)])
    return np.concatenate(
        [near, np.random.default_rng(1).uniform(-1.0, 1.2 * end, 400), end + np.array([1.0, 1e3, 1e6])]
    )


def bits(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows).view(np.uint64)


def numpy_rows(function, times: np.ndarray) -> np.ndarray:
    return np.stack(
        [np.broadcast_to(np.asarray(leaf, dtype=float), times.shape) for leaf in flatten(function(times))], 1
    )


@pytest.mark.parametrize("task", (TRAJECTORIES | FLOWN).values(), ids=(TRAJECTORIES | FLOWN).keys())
def test_compiled_references_have_numpys_bits(task):
    times = critical_times(task)
    rows = np.full((len(times), len(REFERENCE_FIELDS)), math.nan)
    record_tape(task.reference)  # raises if it cannot be taped: the comparison is not NumPy with NumPy
    COMPILED.fill(rows, task.reference, times)
    np.testing.assert_array_equal(bits(rows), bits(numpy_rows(task.reference, times)))


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 383, 384, 385, 1000])
def test_a_row_does_not_depend_on_the_row_count_or_on_its_address(n):
    times, task = np.linspace(-1.0, 12.0, 1000)[:n], TRAJECTORIES["figure8"]
    block = np.full((n, len(REFERENCE_FIELDS), 3), math.nan)
    COMPILED.fill(block[:, :, 1], task.reference, times)
    np.testing.assert_array_equal(bits(block[:, :, 1]), bits(numpy_rows(task.reference, times)))
    assert np.isnan(block[:, :, ::2]).all()


def test_tasks_that_differ_in_constants_share_their_code():
    factories = [
        lambda k: hover((k, 0.0, 1.0)),
        lambda k: transfer(MOVING._replace(a_W=Vec3(0.0, k, 0.0)), Vec3(k, 1.0, 2.0), speed=1.0 + k),
        lambda k: sequence(stop(MOVING), land(stop(MOVING).waypoints[-1].p_W, height=-k)),
        lambda k: waypoints([(k, 0.0, 1.0), (2.0, k, 1.0), (0.0, 0.0, k)], speed=k),
        lambda k: race([(k, 0.0, 1.0), (5.0, k, 1.0), (9.0, 9.0, k)], speed=k),
    ]
    for factory in factories:
        (program, constants), (other_program, other_constants) = (
            record_tape(factory(k).reference) for k in (0.5, 1.25)
        )
        assert (
            program == other_program and tabulator(program) is tabulator(other_program) and constants != other_constants
        )


def test_a_function_that_cannot_be_taped_is_evaluated_by_numpy_and_tried_once():
    times_seen = []

    def bang_bang(time):
        times_seen.append(time)
        return Reference(Vec3(np.interp(time, [0.0, 1.0], [0.0, 2.0]), np.abs(time), 1.0))

    times = np.linspace(0.0, 2.0, 50)
    for _ in range(2):
        rows = np.empty((50, len(REFERENCE_FIELDS)))
        COMPILED.fill(rows, bang_bang, times)
        np.testing.assert_array_equal(rows, numpy_rows(bang_bang, times))
    assert sum(not isinstance(time, np.ndarray) for time in times_seen) == 1


def test_a_choice_by_if_and_a_power_of_numpys_are_not_taped():
    def by_if(time):
        return Reference(Vec3(time if time < 1.0 else 1.0, 0.0, 1.0))

    with pytest.raises(TypeError, match="neither true nor false"):
        record_tape(by_if)
    with pytest.raises(TypeError, match="powers differ"):
        record_tape(lambda time: Reference(Vec3(time**3, 0.0, 1.0)))


def test_a_task_too_long_for_a_tape_is_evaluated_by_numpy():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(100, 3))
    task = minimum_snap([tuple(point) for point in points.tolist()], [1.0] * 99)
    with pytest.raises(OverflowError, match=str(MAX_TAPE_LENGTH)):
        record_tape(task.reference)
    times, rows = np.linspace(-1.0, 101.0, 300), np.empty((300, len(REFERENCE_FIELDS)))
    COMPILED.fill(rows, task.reference, times)
    np.testing.assert_array_equal(bits(rows), bits(numpy_rows(task.reference, times)))


def test_numpy_computes_the_first_rows_of_a_process():
    time_types = []

    def still(time):
        time_types.append(type(time))
        return Reference(Vec3(1.0, 2.0, 3.0))

    tables, times, rows = TableFiller(min_compiled_rows=15), np.zeros(10), np.empty((10, len(REFERENCE_FIELDS)))
    for _ in range(4):
        tables.fill(rows, still, times)
    assert [time_type is np.ndarray for time_type in time_types] == [True, True, False]


def test_drones_on_one_path_differ_by_position_and_start_time(monkeypatch):
    monkeypatch.setattr(references, "TABLE_FILLER", COMPILED)
    shape = TRAJECTORIES["circle"]
    settings = [DroneSetting(shape.shift(Vec3(k, 0.0, -k)), since_us=100 * (k // 2)) for k in range(4)]
    drones = [DroneSetting(TRAJECTORIES["hover"], since_us=7), settings[0], settings[1], settings[3], settings[2]]
    times_us = np.arange(0, 5_000_000, 10_000)
    table = references.tabulate_references(drones, times_us + 1000)
    rows = references.tabulate_references(drones, times_us, out=table)
    assert rows is table
    for column, (task, since_us, *_) in enumerate(drones):
        expected = numpy_rows(task.reference, (times_us - since_us) / 1e6)
        expected[:, :3] += np.array(task.shift_W)
        np.testing.assert_array_equal(bits(rows[:, :, column]), bits(expected))


def test_drones_on_shifted_paths_share_a_table():
    """One column and a shift per drone, against the table of all; and a table of all drones again after a task changes."""
    scenario = samara.load_scenario("swarm", {"duration": 1.0, "drones.count": 5})
    simulation = Simulation(scenario)
    fleet, group = simulation.fleet, simulation.groups[0]
    times_us = np.arange(3) * fleet.periods["control"]
    expected = references.tabulate_references(fleet.drone_settings(group), times_us)
    assert group.reference_table.rows.shape[2] == 1 and len(np.unique(expected[0], axis=1).T) == 5
    for tick, time_us in enumerate(times_us.tolist()):
        fleet.time_us = time_us
        np.testing.assert_array_equal(references.current_references(fleet, group), expected[tick])
    compiled_simulation = Simulation(scenario)
    references_by_time = {}  # by the compiled flight
    while compiled_simulation.time_us < times_us[-1]:
        compiled_simulation.advance()
        references_by_time[compiled_simulation.time_us] = compiled_simulation.groups[0].reference.copy()
    np.testing.assert_array_equal([references_by_time[time_us] for time_us in times_us.tolist()], expected)
    fleet.time_us = 0
    first, *further = fleet.setting.drones
    fleet.apply_setting(fleet.setting._replace(drones=(first._replace(task=hover((1.0, 2.0, 3.0))), *further)))
    expected = references.tabulate_references(fleet.drone_settings(group), times_us)
    np.testing.assert_array_equal(references.current_references(fleet, group), expected[0])
    assert group.reference_table.rows.shape[2] == 5
