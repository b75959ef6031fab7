"""The interface of a run: its attributes, its frames, the files it writes, and how it is printed."""

import csv
import math
import pickle

import numpy as np
import pytest

import samara
from samara.core.algebra import Euler, Quat, Vec3
from samara.physics.frames import (
    euler_ned_from_enu,
    ned_from_enu,
    state_enu_flu_from_ned_frd,
    yaw_ned_from_enu,
)
from samara.record.flight_arrays import FlightArrays, stream_in_ned
from samara.record.recording import RecordingError
from samara.record.run import DroneRecord, Run

ATTRIBUTES = (
    *(
        "time",
        "position",
        "velocity",
        "attitude",
        "euler",
        "angular_velocity",
        "rotor_speed",
        "command_time",
        "command",
    ),
    *("reference_position", "wind", "tilt", "speed", "error", "charge", "charges", "cable", "servo_angle", "ground"),
    *("airborne", "landed", "metrics", "units", "vehicle", "controller", "tables", "clipped_command_count"),
)


@pytest.fixture(scope="module")
def run():
    """Two drones that turn and climb in wind, with sensors and an estimator."""
    return samara.fly("sensors", settings={"duration": 2.0})


@pytest.fixture(scope="module")
def swarm():
    return samara.fly("swarm", settings={"duration": 0.2})


# Attributes --------------------------------------------------------------------------------------------------------------


def test_the_attributes_of_a_run_are_those_of_its_first_drone(swarm):
    """Each is listed by `dir` and explained; arrays are equal to those of the first drone's record."""
    first = swarm.drone_records[0]
    assert {*ATTRIBUTES, "summary", "to_pandas", "plot", "save", "in_ned"} <= set(dir(swarm))
    for name in ATTRIBUTES:
        ours, theirs = getattr(swarm, name), getattr(first, name)
        assert np.array_equal(ours, theirs) if isinstance(ours, np.ndarray) else str(ours) == str(theirs), name
        if isinstance(member := getattr(Run, name, None), property):
            assert member.__doc__, name
    assert str(swarm.summary()) == str(first.summary())


def test_arrays_state_unit_and_shape():
    """Every array's docstring has its unit in brackets and its shape, where it has one."""
    for name in ("position", "velocity", "angular_velocity", "wind", "euler", "tilt", "speed", "error", "rotor_speed"):
        docstring = getattr(FlightArrays, name).__doc__
        assert "(m," in docstring and "[" in docstring, name


def test_an_unknown_attribute_lists_the_nearest(run):
    with pytest.raises(AttributeError, match=r"^a Run has no 'postion'; nearest: position, reference_position"):
        run.postion  # noqa: B018
    with pytest.raises(AttributeError, match=r"^a DroneRecord has no 'velocty'; nearest: velocity, angular_velocity$"):
        run.drone_records[0].velocty  # noqa: B018
    with pytest.raises(AttributeError, match=r"^a Run has no 'zzz'$"):
        run.zzz  # noqa: B018
    assert not hasattr(run, "__array__")


def test_an_error_inside_a_property_is_not_hidden(run, monkeypatch):
    monkeypatch.setattr(FlightArrays, "speed", property(lambda flight: None.magnitude))
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'magnitude'"):
        run.speed  # noqa: B018


def test_a_run_survives_pickling(run):
    copy = pickle.loads(pickle.dumps(run))
    assert repr(copy) == repr(run) and np.array_equal(copy.euler, run.euler)


# Frames ------------------------------------------------------------------------------------------------------------------


def test_a_run_in_ned_is_that_of_the_frames_functions(run):
    """Positions, velocities and wind as (y, x, −z), rates as (x, −y, −z), angles by `euler_ned_from_enu`."""
    ned = run.in_ned()
    assert run.wind.any() or run.velocity.any()
    for name in ("position", "velocity", "reference_position", "wind"):
        assert np.array_equal(getattr(ned, name), np.stack(ned_from_enu(Vec3(*getattr(run, name).T)), axis=1)), name
    assert np.array_equal(ned.angular_velocity, run.angular_velocity * [1.0, -1.0, -1.0])
    expected = np.stack(euler_ned_from_enu(Euler(*run.euler.T)), axis=1)
    assert np.allclose(np.exp(1j * ned.euler), np.exp(1j * expected), atol=1e-12)
    yaw = yaw_ned_from_enu(run.tables["reference"]["yaw"])
    assert np.array_equal(ned.tables["reference"]["yaw"], yaw)
    assert np.array_equal(ned.tables["reference"]["yaw_rate"], -run.tables["reference"]["yaw_rate"])
    assert np.array_equal(ned.tables["imu"]["specific_force_B"][:, 2], -run.tables["imu"]["specific_force_B"][:, 2])
    for name in ("time", "rotor_speed", "command", "speed", "error"):
        assert np.allclose(getattr(ned, name), getattr(run, name), atol=1e-12), name
    assert np.allclose(ned.tilt, run.tilt, atol=1e-7)
    assert ned.position[-1, 2] == -run.position[-1, 2] != 0.0
    assert not hasattr(ned, "metrics")  # they are those of the run


def test_every_stream_converts_back(run):
    """Every part of the map is its own inverse: twice is nothing, but for the sign of the quaternion and full turns of yaw."""
    for name, table in run.tables.items():
        once, twice = stream_in_ned(table), stream_in_ned(stream_in_ned(table))
        for field, before, after in zip(table.fields, table.rows.T, twice.rows.T, strict=True):
            if "q_WB" in field:
                assert np.allclose(np.abs(after), np.abs(before), atol=1e-12), (name, field)
            elif field == "yaw":
                assert np.allclose(np.exp(1j * after), np.exp(1j * before), atol=1e-12), (name, field)
            else:
                assert np.array_equal(after, before), (name, field)
        assert (once.rows != table.rows).any() == any(part in " ".join(table.fields) for part in ("_W", "_B", "yaw")), (
            name
        )


def test_variances_change_axes_but_no_sign(run):
    before, after = run.tables["variance"], run.in_ned().tables["variance"]
    assert np.array_equal(after["v_W"], before["v_W"][:, [1, 0, 2]])
    assert np.array_equal(after["theta_B"], before["theta_B"]) and (after.rows >= 0.0).all()


def test_a_state_in_ned_and_back():
    """Level and facing east is yaw 90° in NED; the frames function converts it back."""
    iris = samara.vehicle("iris")
    state = samara.hover(iris, Vec3(1.0, 2.0, 3.0))[0]._replace(v_W=Vec3(0.1, 0.2, 0.3), omega_B=Vec3(0.4, 0.5, 0.6))
    ned = state.in_ned()
    assert ned.p_W == (2.0, 1.0, -3.0) and ned.v_W == (0.2, 0.1, -0.3) and ned.omega_B == (0.4, -0.5, -0.6)
    assert ned.q_WB == pytest.approx(Quat(math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5))) or ned.q_WB == pytest.approx(
        Quat(-math.sqrt(0.5), 0.0, 0.0, -math.sqrt(0.5))
    )
    back = state_enu_flu_from_ned_frd(ned)
    assert back.p_W == state.p_W and back.v_W == state.v_W and back.omega_B == state.omega_B
    assert np.abs(np.array(back.q_WB)) == pytest.approx(np.abs(np.array(state.q_WB)))
    assert back.rotor_speed == state.rotor_speed and back.effects == state.effects


# Files -------------------------------------------------------------------------------------------------------------------


def test_a_run_is_saved_as_csv(run, tmp_path):
    """One row for each logged state; the numbers are the same doubles."""
    path = run.save(tmp_path / "flight.csv")
    with path.open(encoding="utf-8", newline="") as file:
        heading, *rows = csv.reader(file)
    assert heading[:3] == ["time [s]", "time_us", "p_W.x [m]"] and len(rows) == len(run.time)
    assert np.array_equal([[float(x) for x in row[2:5]] for row in rows], run.position)
    commands = run.save(tmp_path / "commands.csv", stream="command").read_text().splitlines()
    assert len(commands) == len(run.command) + 1
    with pytest.raises(KeyError, match="no stream 'commands'; there are state, command, "):
        run.save(tmp_path / "other.csv", stream="commands")


def test_the_drones_of_a_run_are_told_apart_in_one_table(swarm, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for frame in (
        pandas.read_csv(swarm.save(tmp_path / "swarm.csv")).rename(columns=lambda name: name.split(" [")[0]),
        pandas.read_parquet(swarm.save(tmp_path / "swarm.parquet")),
    ):
        assert list(frame.drone.unique()) == [record.name for record in swarm.drone_records]
        assert np.array_equal(frame[frame.drone == "cf7"]["p_W.y"], swarm["cf7"].position[:, 1])


def test_drones_with_different_states_have_no_common_table(tmp_path):
    run = samara.fly("motor_failure", settings={"duration": 0.1})
    with pytest.raises(RecordingError, match=r"the drones' streams 'state' have different fields; expected \.mcap"):
        run.save(tmp_path / "both.csv")


@pytest.mark.parametrize("name", ["run.txt", "run", "run.bag"])
def test_other_files_are_refused(run, tmp_path, name):
    with pytest.raises(RecordingError, match=r"expected \.mcap, \.csv or \.parquet"):
        run.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["csv", "mcap"])
def test_an_existing_file_is_replaced_on_request_only(run, tmp_path, suffix):
    path = run.save(tmp_path / f"run.{suffix}")
    with pytest.raises(RecordingError, match="exists; expected a new file, or overwrite=True"):
        run.save(path)
    assert run.save(path, overwrite=True) == path


# Printed -----------------------------------------------------------------------------------------------------------------


def test_a_run_is_printed_in_a_few_lines(run, swarm):
    lines = repr(run).splitlines()
    assert lines[0] == "Run sensors: 1 drone, 2.0 s, no crash, 1 line of log"
    assert "flown by geometric, ends at " in lines[1] and len(lines) == 2
    assert len(repr(swarm).splitlines()) == 8 and repr(swarm).endswith("and 14 more drones")
    assert repr(run.in_ned()) == f"NedFlight drone: {len(run.time)} states in NED and FRD, 2.0 s"


def test_a_crash_is_printed():
    assert "crashed: quad" in repr(samara.fly("motor_failure"))


@pytest.mark.parametrize("name", samara.vehicle_names())
def test_a_vehicle_is_printed_in_a_few_lines(name):
    vehicle = samara.vehicle(name)
    lines = repr(vehicle).splitlines()
    assert len(lines) < 10 and lines[0].startswith(f"{name}: ") and str(vehicle) == repr(vehicle)
    assert {"mass", "source"} <= {line.split()[0] for line in lines[1:]}
    if vehicle.rotors:
        assert any(line.startswith(f"  rotors           {len(vehicle.rotors)}, arm ") for line in lines)
        assert any(line.startswith("  hover  ") and " at " in line for line in lines)


def test_a_vehicle_of_arrays_is_printed():
    """A batch has no hover trim to print; a traced one has no numbers."""
    iris = samara.vehicle("iris")
    assert "batch of         3 vehicles" in repr(iris.replace(mass=np.array([1.0, 1.5, 2.0])))
    assert "hover" in repr(iris.replace(mass=10.0))


@pytest.mark.parametrize("name", samara.scenario_names())
def test_a_scenario_is_printed_in_a_few_lines(name):
    scenario = samara.load_scenario(name)
    lines = repr(scenario).splitlines()
    assert len(lines) < 10 and lines[0].startswith(f"Scenario {scenario.name}: ")
    rows = {line.split()[0]: line for line in lines[1:]}
    assert f"{scenario.duration:g} s" in rows["duration"] and {"drones", "wind", "sensors"} <= set(rows)
    assert all(len(repr(drone).splitlines()) == 1 for drone in scenario.drones)


def test_a_record_of_a_drone_is_a_track(run):
    assert isinstance(run.drone_records[0], DroneRecord)
    assert repr(run.drone_records[0]).startswith("DroneRecord drone: iris flown by geometric, ends at ")
