"""Replay: the recorded inputs reproduce the recorded flight bit for bit; on another plant they show the differences."""

import numpy as np
import pytest

import samara
from samara.core.algebra import Quat, quat_from_euler
from samara.core.tree import flatten
from samara.physics.multirotor import state_at_rest
from samara.record.diff import distances, first_difference
from samara.record.load import load_run
from samara.record.recording import RecordingError
from samara.sim.fly import fingerprint
from samara.sim.replay import recorded_timeline, replay

BUSY = """
duration = 3.0
seed = 3
[rates]
control = 400
[[wind]]
model = "turbulence"
mean_W = [1, 0, 0]
sigma = 0.5
tau = 1.0
[[drones]]
name = "a"
vehicle = "crazyflie_documented"
start = [0, 0, 2]
airborne = true
estimator = "noisy"
[[drones]]
name = "b"
vehicle = "iris_documented"
start = [3, 0, 0]
[[drones.tasks]]
type = "take_off"
height = 1.0
[[events]]
at = 0.777777
do = "degrade_motor"
motor = 1
effectiveness = 0.9
[[events]]
at = 1.2
do = "add_payload"
mass = 0.002
r_B = [0.01, 0, -0.02]
[[events]]
at = 1.5
do = "fail_cell"
cells = 8
[[events]]
when = "time > 2"
do = "gust"
amplitude_W = [0, 1, 0]
duration = 0.5
"""


@pytest.fixture(scope="module")
def recorded_flight(tmp_path_factory):
    """A recorded flight of two drones with turbulence, noise, a weak motor, a load and a failed cell.

    The ticks of its autopilot lie between the plant's steps.
    """
    folder = tmp_path_factory.mktemp("replay")
    (folder / "busy.toml").write_text(BUSY)
    return samara.fly(folder / "busy.toml", out=folder / "run.mcap"), folder / "run.mcap"


def test_a_recording_is_the_flight_in_memory(recorded_flight):
    """Every value of every stream, written, read and compared with the same flight in memory."""
    run, path = recorded_flight
    in_memory = samara.fly(path.parent / "busy.toml")
    assert first_difference(run, in_memory) is None
    assert fingerprint(run) == fingerprint(in_memory)
    assert [line.message for line in run.logs] == [line.message for line in in_memory.logs]


def test_replay_is_the_same_bit_for_bit(recorded_flight):
    run, path = recorded_flight
    replayed = replay(path)
    assert first_difference(run, replayed) is None
    assert fingerprint(replayed) == fingerprint(run)
    assert np.ptp(run["b"].position[:, 2]) > 0.5, "it did fly"


def test_replay_of_a_replay_that_was_saved(recorded_flight, tmp_path):
    _, path = recorded_flight
    saved = replay(path).save(tmp_path / "again.mcap")
    assert first_difference(load_run(saved), replay(saved)) is None


def test_another_integrator_is_close_and_not_the_same():
    """RK4 at 1 ms and Dormand–Prince at 1e-8 integrate one vehicle: a millimetre apart in three seconds."""
    run = samara.fly("hover", settings={"duration": 3.0})
    replayed = replay(run, integrator="rk45")
    assert first_difference(run, replayed) is not None
    (distance,) = distances(run, replayed)
    assert 0.0 < distance.position_max < 1e-3


def test_another_plant_has_another_path(recorded_flight, tmp_path):
    """The same commands on a Crazyflie 5 % heavier make it sink."""
    run = samara.fly("hover", settings={"duration": 3.0})
    heavier = samara.vehicle("crazyflie_documented", mass=0.0294)
    replayed = replay(run, vehicle=heavier)
    assert fingerprint(replay(run, vehicle="iris")) == fingerprint(replay(run, vehicle=samara.vehicle("iris")))
    assert distances(run, replayed)[0].position_max > 0.05
    assert replayed.position[-1, 2] < run.position[-1, 2]
    assert load_run(replayed.save(tmp_path / "heavier.mcap")).drone_records[0].vehicle.mass == heavier.mass


def test_a_replay_begins_in_the_recorded_state_and_another_plant_in_its_motion():
    """A half-empty battery starts half empty; with other effects, body and rotors continue, and the effects start at rest."""
    run = samara.fly("hover", settings={"duration": 0.1, "drones.vehicle": "iris"})
    table = run.drone_records[0].tables["state"]
    rows, charge = table.rows.copy(), table.fields.index("battery.charge")
    rows[0, charge] = 0.5
    object.__setattr__(table, "rows", rows)
    assert np.array_equal(replay(run).drone_records[0].tables["state"].rows[0], rows[0])
    other = samara.vehicle("hakoniwa")
    replayed = replay(run, vehicle=other).drone_records[0].tables["state"]
    assert replayed.fields != table.fields
    size = 13 + len(other.rotors)
    assert replayed.fields[:size] == table.fields[:size] and np.ptp(rows[0, :size]) > 0.0
    assert np.array_equal(replayed.rows[0, :size], rows[0, :size])
    assert replayed.rows[0, size:].tolist() == flatten(state_at_rest(other))[size:]


def test_the_distance_of_two_runs_is_that_of_their_positions_and_attitudes(recorded_flight, tmp_path):
    """Shifted by 3 cm at every other time and rotated by 8° once, with negated quaternions: q and −q are one attitude."""
    run, _ = recorded_flight
    other = samara.load_run(run.save(tmp_path / "copy.mcap"))
    table = other["b"].tables["state"]
    rows, p, q = table.rows.copy(), table.fields.index("p_W.x"), table.fields.index("q_WB.w")
    rows[::2, p : p + 3] += np.array([0.01, -0.02, 0.02])
    rotated = Quat(*rows[100, q : q + 4]) * quat_from_euler(0.0, np.radians(8.0), 0.0)
    rows[100, q : q + 4] = rotated
    rows[:, q : q + 4] *= -1.0
    object.__setattr__(table, "rows", rows)
    equal_drone, changed_drone = distances(run, other)
    assert (equal_drone.drone, equal_drone.position_rms, equal_drone.position_max) == ("a", 0.0, 0.0)
    assert equal_drone.attitude_max_deg < 1e-5
    changed_fraction = len(rows[::2]) / len(rows)
    assert (changed_drone.position_max, changed_drone.position_rms) == pytest.approx(
        (0.03, 0.03 * np.sqrt(changed_fraction)), rel=1e-9
    )
    assert changed_drone.attitude_max_deg == pytest.approx(8.0, rel=1e-9)


def test_a_plant_with_another_rotor_count_is_an_error(recorded_flight):
    _, path = recorded_flight
    with pytest.raises(ValueError, match="vehicle 'hexarotor_x' has 6 rotors; a was recorded with 4"):
        replay(path, vehicle=samara.vehicle("hexarotor_x"))


def test_the_first_difference_is_located(recorded_flight, tmp_path):
    """One bit of one value changed: its drone, stream, field and time are reported."""
    run, _ = recorded_flight
    other = samara.load_run(run.save(tmp_path / "copy.mcap"))
    table = other["b"].tables["state"]
    rows = table.rows.copy()
    column = table.fields.index("v_W.y")
    rows[150, column] = np.nextafter(rows[150, column], np.inf)
    object.__setattr__(table, "rows", rows)
    difference = first_difference(run, other)
    assert (difference.drone, difference.stream, difference.field, difference.time_us) == (
        "b",
        "state",
        "v_W.y",
        1_500_000,
    )
    assert "b state v_W.y at 1.500000 s" in str(difference)


def test_a_shorter_run_differs_where_it_ends(recorded_flight):
    a = samara.fly("hover", settings={"duration": 1.0})
    b = samara.fly("hover", settings={"duration": 1.5})
    difference = first_difference(a, b)
    assert difference.time_us > 1_000_000
    assert "one run ends" in str(difference)


def test_runs_of_other_drones_are_not_compared(recorded_flight):
    run, _ = recorded_flight
    with pytest.raises(ValueError, match="the runs have different drones: a, b and drone"):
        first_difference(run, samara.fly("hover", settings={"duration": 0.1}))


def test_a_run_has_units_and_drones_by_name(recorded_flight):
    run, _ = recorded_flight
    assert run.units["state.p_W.x"] == "m"
    assert run.units["command.motor[0]"] == "1"
    assert run["b"].vehicle.name == "iris_documented"
    with pytest.raises(KeyError, match="no drone 'c'; there are a, b"):
        run["c"]
    with pytest.raises(AttributeError, match="a Run has no 'heading'"):
        run.heading  # noqa: B018


@pytest.mark.parametrize("rates", ["[" * 100_000, '{"physics": 5e-324}', '{"speed": 1}', "[1]", "\x1b" * 5000])
def test_forged_times_are_an_error_in_one_short_sentence(rates):
    """Metadata with a valid checksum may contain anything; quotes of it stay short."""
    forged = {"rates": rates, "instants_us": "[]", "duration": "1.0"}
    with pytest.raises(RecordingError, match="lacks its rates, instants or duration") as caught:
        recorded_timeline(forged)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300
