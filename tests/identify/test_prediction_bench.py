"""The prediction benchmarks: their metrics by hand, their readers, and each script on synthetic flights."""

import argparse
import json
import shutil

import numpy as np
import pytest
from prediction import arpl, idsia, nanobench, neurobem, protocol
from support.log_files import LOG_FORMATS
from support.measured_flights import HOME_W, lively_trajectory

import samara
from samara.core.algebra import Mat3, Quat, Vec3, rotate_inverse
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.manoeuvres import FlightVolume, identification_controller
from samara.identify.prediction_error_fit import QUANTITIES
from samara.identify.readers import read_log
from samara.identify.readers.crazyflie import MOTOR_VOLTS, ROTOR_SPEEDS
from samara.identify.scores import ScoredModel, predict_flight
from samara.link.motor_outputs import rotor_order
from samara.physics.rotors.actuator import speed_from_command
from samara.record.streams import concatenate_blocks
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sim.simulation import Simulation
from samara.vehicles.limits import replace_dc_motors

G = 9.80665  # [m/s²]


def arguments(folder, **more):
    return argparse.Namespace(folder=folder, **more)


def free_fall(n):
    """Return states (13, n), 10 ms apart, of a body that falls with standing rotors, turning at 2 rad/s about z."""
    t = 0.01 * np.arange(n)
    body, zero = np.zeros((13, n)), np.zeros(n)
    body[2], body[3], body[0], body[5] = 100.0 - 0.5 * G * t * t, 3.0, 3.0 * t, -G * t
    body[6:10] = np.stack([np.cos(t), zero, zero, np.sin(t)])
    body[12] = 2.0
    return body


def fly(vehicle, seconds, rate):
    """Return states and commands of a lively flight, (components, n)."""
    controller = identification_controller(FlightVolume())
    drone = Drone("d", vehicle, lively_trajectory(vehicle), HOME_W, airborne=True, controller=controller)
    blocks = []
    scenario = Scenario("d", (drone,), seconds, rates=Rates(log=rate))
    Simulation(scenario, lambda new_blocks, lines: blocks.extend(new_blocks)).run()
    tables = concatenate_blocks(blocks)
    return {name: np.ascontiguousarray(tables[f"/d/{name}"][1].T) for name in ("state", "command")}


def specific_force(body, period):
    a_W = np.gradient(body[3:6], period, axis=1)
    return np.stack(rotate_inverse(Quat(*body[6:10]), Vec3(a_W[0], a_W[1], a_W[2] + G)))


def write_csv(path, names, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(path, np.stack(rows, axis=1), delimiter=",", header=names, comments="", fmt="%.9g")


IDSIA_NAMES = (
    "t,x,y,z,vx,vy,vz,qw,qx,qy,qz,wx,wy,wz,m1_rads,m2_rads,m3_rads,m4_rads,ax_body,ay_body,az_body"  # in any order
)


def write_idsia(path, body, speeds):
    time = 0.01 * np.arange(body.shape[1])
    write_csv(path, IDSIA_NAMES, [time, *body, *speeds, *specific_force(body, 0.01)])


def neurobem_rows(body, speeds, accelerations, force, angular_acceleration, period):
    time = period * np.arange(body.shape[1])
    v_B = np.stack(rotate_inverse(Quat(*body[6:10]), Vec3(*body[3:6])))
    rows = [time, *angular_acceleration, *body[10:13], *body[7:10], body[6], *force, *v_B, *body[:3]]
    return [*rows, *speeds, *accelerations, np.full(len(time), 16.0)]


def neurobem_names(quaternion="q"):
    vectors = [f"{what} {axis}" for what in ("ang acc", "ang vel") for axis in "xyz"]
    vectors += [f"{quaternion}{axis}" for axis in "xyzw"]
    vectors += [f"{what} {axis}" for what in ("acc", "vel", "pos") for axis in "xyz"]
    return ",".join(["t", *vectors, *(f"{what} {k}" for what in ("mot", "dmot") for k in "1234"), "vbat"])


# Metrics by hand -------------------------------------------------------------------------------------------------------


def test_simerr_of_a_fall_is_that_of_the_sums():
    """Constant velocity errs by ½ g t² and g t, holding by 2 rad/s t too; Σ h = 1275 and Σ h² = 42925 over 50 steps."""
    flight = (free_fall(60), np.zeros((4, 60)))
    row = idsia.error_row("constant velocity", [flight, flight], "constant velocity")
    fallen = {"position": 0.5 * G * 1e-4 * 42925, "velocity": G * 0.01 * 1275, "attitude": 0.0, "rate": 0.0}
    for quantity, expected in fallen.items():
        assert row[quantity] == pytest.approx(expected, rel=1e-9, abs=1e-5), quantity
    held = idsia.error_row("hold the state", [flight], "hold the state")
    assert held["attitude"] == pytest.approx(2.0 * 0.01 * 1275, rel=1e-9)
    assert held["velocity"] == pytest.approx(fallen["velocity"], rel=1e-9)


def test_simerr_is_a_mean_over_all_windows_and_a_sum_over_steps():
    """Flights of one and three windows: (1·4 + 3·2)/4 in each of two steps."""
    parts = [{name: np.full((2, n), error) for name in QUANTITIES} for n, error in ((1, 4.0), (3, 2.0))]
    result = idsia.simulation_error(parts)
    assert result["position"] == pytest.approx(5.0) and result["attitude"] == pytest.approx(np.radians(5.0))


def test_a_vehicle_without_thrust_falls_as_the_fall():
    """No drag, standing rotors: the prediction is the flight."""
    vehicle = samara.vehicle("crazyflie_brushless").without_effect("drag", "airspeed_moment")
    row = idsia.error_row("itself", [(free_fall(60), np.zeros((4, 60)))], vehicle)
    assert max(row[quantity] for quantity in QUANTITIES) < 1e-6


def test_rmse_of_force_and_torque_is_over_components(monkeypatch):
    """Errors (0, 0, 0.3) N and (0.02, 0, 0) N m at every sample: 0.3/√3 and 0.02/√3."""
    error = np.zeros((3, 5)), np.zeros((3, 5))
    error[0][2], error[1][0] = 0.3, 0.02
    monkeypatch.setattr(neurobem, "wrench_error", lambda segment, vehicle: error)
    row = neurobem.error_row("x", ["one", "two"], None)
    assert (row["force"], row["torque"]) == pytest.approx((0.3 / 3**0.5, 0.02 / 3**0.5)) and row["samples"] == 10


def test_the_published_groups_of_neurobem_are_such_means():
    """Table II: F² = (2 Fxy² + Fz²)/3, from Fxy and Fz of four models."""
    groups = {"fit": (1.536, 1.381), "BEM": (0.803, 1.265), "PolyFit": (0.453, 0.832), "BEM+NN": (0.204, 0.504)}
    for name, (lateral, axial) in groups.items():
        expected = ((2.0 * lateral**2 + axial**2) / 3.0) ** 0.5
        assert neurobem.PUBLISHED[name][0] == pytest.approx(expected, abs=1.5e-3), name


def test_force_and_torque_of_neurobem_by_hand(tmp_path):
    """Four rotors at known speeds: Σ kF Ω² along z, (y, −x) kF Ω² about x and y, on a body without air."""
    vehicle = samara.vehicle("crazyflie_brushless").without_effect(
        "drag", "airspeed_moment", "thrust_curve", "rotor_momentum"
    )
    speeds = np.array([1500.0, 1600.0, 1700.0, 1800.0])[:, None] * np.ones((1, 4))  # BR, FR, BL, FL
    body = free_fall(4)
    body[10:13] = 0.0
    angular = np.array([[10.0], [20.0], [30.0]]) * np.ones((1, 4))
    force = np.array([[0.0], [0.0], [5.0]]) * np.ones((1, 4))
    path = tmp_path / "merged_a_seg_1.csv"
    write_csv(path, neurobem_names("quat "), neurobem_rows(body, speeds, 0.0 * speeds, force, angular, 0.01))
    f_error, tau_error = neurobem.wrench_error(neurobem.read_segment(path), vehicle)
    rotor = vehicle.rotors[0]
    thrusts = rotor.k_thrust * speeds[:, 0] ** 2
    x, y = abs(rotor.r_B.x), abs(rotor.r_B.y)
    torque = (
        y * (-thrusts[0] - thrusts[1] + thrusts[2] + thrusts[3]),
        x * (thrusts[0] - thrusts[1] + thrusts[2] - thrusts[3]),
    )
    assert f_error[:, 0] == pytest.approx([0.0, 0.0, thrusts.sum() - neurobem.MASS * 5.0], abs=1e-12)
    assert tau_error[:2, 0] == pytest.approx(
        [torque[0] - 10.0 * neurobem.INERTIA[0], torque[1] - 20.0 * neurobem.INERTIA[1]], rel=1e-9
    )


# Files and messages ----------------------------------------------------------------------------------------------------


def test_rows_are_replaced_by_benchmark_and_kept_otherwise(tmp_path):
    path = tmp_path / "out" / "prediction.json"
    protocol.write_rows("a", [{"row": "x", "position": 1.0}], path)
    protocol.write_rows("b", [{"row": "x", "position": 2.0}], path)
    protocol.write_rows("a", [{"row": "y", "position": 3.0}], path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert [row["row"] for name in "ab" for row in document[name]] == ["a, y", "b, x"]
    assert document["a"][0]["date"] == document["date"] and document["a"][0]["machine"] == document["machine"]


def test_a_column_of_idsia_and_a_velocity_in_world_axes_are_noticed(tmp_path):
    body = free_fall(60)
    path = tmp_path / "melon_20251017_run1.csv"
    write_idsia(path, body, np.full((4, 60), 1000.0))
    columns = idsia.COLUMNS | idsia.SETTINGS
    read_body, speeds = idsia.flight_states(read_log(path, columns)[0])
    assert read_body == pytest.approx(body, abs=1e-6) and speeds == pytest.approx(np.full((4, 60), 1000.0))
    path.write_text(path.read_text().replace("m2_rads", "m2"))
    with pytest.raises(ValueError, match="m2_rads"):
        read_log(path, columns)
    rows = neurobem_rows(body, np.ones((4, 60)), np.zeros((4, 60)), np.zeros((3, 60)), np.zeros((3, 60)), 0.01)
    rows[14:17] = [-row for row in rows[14:17]]
    segment = tmp_path / "merged_a_seg_1.csv"
    write_csv(segment, neurobem_names(), rows)
    with pytest.raises(ValueError, match="velocity is not the derivative of its position"):
        neurobem.read_segment(segment)


@pytest.mark.parametrize("script", [arpl, idsia, nanobench, neurobem])
def test_missing_files_are_one_sentence(script, tmp_path, monkeypatch):
    name = script.__name__.rpartition(".")[2]
    for folder, expected in ((tmp_path / "none", "is not a directory"), (tmp_path, "holds no ")):
        monkeypatch.setattr("sys.argv", [name, str(folder)])
        with pytest.raises(SystemExit) as raised:
            protocol.run(name, script.__doc__, script.score)
        assert str(raised.value).startswith(f"{folder}: {expected}") and "\n" not in str(raised.value)


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    (tmp_path / "melon_20251017_run1.csv").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(ValueError, match=r"is a Git LFS pointer; expected its data: run `git lfs pull`"):
        idsia.score(arguments(tmp_path, test="melon"), {}, lambda fraction: None)


# Whole scripts ---------------------------------------------------------------------------------------------------------


def run_score(script, folder, **more):
    return {row["row"]: row for row in script.score(arguments(folder, **more), {}, lambda fraction: None)}


@pytest.mark.long
def test_idsia_of_a_vehicle_that_is_the_shipped_one(tmp_path):
    """It predicts its flights to a hundredth of constant velocity, and so does the identified predictor."""
    vehicle = samara.vehicle("crazyflie_brushless").replace({"mass": idsia.MASS})
    states = fly(vehicle, 30.0, 100.0)["state"]
    order = list(rotor_order(vehicle, "crazyflie"))
    for name, part in (("train/square", slice(0, 2000)), ("test/melon", slice(2000, 3000))):
        path = tmp_path / "data" / f"{name}_20251017_run1.csv"
        write_idsia(path, states[:13, part], states[13:17, part][order])
    rows = run_score(idsia, tmp_path, test="melon")
    for quantity in QUANTITIES:
        bar = rows["constant velocity"][quantity]
        assert rows["shipped"][quantity] < 0.01 * bar
        assert rows["identified, predictor"][quantity] < 0.1 * bar
    assert rows["published, physics"]["position"] == 2.3223


@pytest.mark.long
def test_neurobem_of_a_vehicle_that_is_the_built_one(tmp_path):
    """Differences of a flight at 200 Hz leave a hundredth of the force; identification finds it again."""
    vehicle = replace_dc_motors(
        protocol.build_from_parts(mass=neurobem.MASS, rotors=neurobem.ROTORS, **neurobem.DRIVE)
    ).without_effect("battery", "contact")
    vehicle = vehicle.replace({"inertia_B": Mat3(*np.diag(neurobem.INERTIA).ravel().tolist())})
    states = fly(vehicle, 30.0, 200.0)["state"]
    speeds = states[13:17][list(rotor_order(vehicle, "betaflight"))]
    derivatives = [np.gradient(rows, 0.005, axis=1) for rows in (speeds, states[10:13])]
    rows = neurobem_rows(states[:13], speeds, derivatives[0], specific_force(states, 0.005), derivatives[1], 0.005)
    for number, part in ((1, slice(0, 4000)), (2, slice(4000, 6000))):
        path = tmp_path / f"merged_2021-02-18-13-44-23_seg_{number}.csv"
        write_csv(path, neurobem_names(), [row[part] for row in rows])
    scores = run_score(neurobem, tmp_path, training=12)
    for name in ("from parts", "identified, physical", "identified, predictor"):
        assert scores[name]["force"] < 0.02 * scores["no force"]["force"], name
        assert scores[name]["torque"] < 0.05 * scores["no force"]["torque"], name


@pytest.mark.long
def test_nanobench_of_synthetic_flights(tmp_path, monkeypatch):
    """Two flights of the shipped vehicle: as it is, it predicts them; identified vehicles are scored on the same windows."""
    crazyflie = samara.vehicle("crazyflie")
    found = {"physical": ScoredModel.build(crazyflie, is_trimmed=False)}
    monkeypatch.setattr(
        nanobench, "cross_validate", lambda flights, *_, **__: [predict_flight(f, found) for f in flights]
    )
    tables = fly(crazyflie, 40.0, 250.0)  # as often as the controller runs
    states, commands, volts = tables["state"][:, :10000], tables["command"][:, :10000], 3.9
    time = 0.004 * np.arange(10000)
    commanded = [speed_from_command(u, rotor.motor) for u, rotor in zip(commands, crazyflie.rotors, strict=True)]
    motor_volts = np.interp(commanded, ROTOR_SPEEDS, MOTOR_VOLTS)[list(rotor_order(crazyflie, "crazyflie"))]
    signals = {"position": states[:3], "velocity": states[3:6], "attitude": states[6:10], "rate": states[10:13]}
    signals |= {"specific_force": specific_force(states, 0.004), "command": motor_volts / volts}
    for number, part in ((1, slice(0, 5000)), (2, slice(5000, 10000))):
        parts = {name: Signal(time[part] - time[part][0], rows[:, part]) for name, rows in signals.items()}
        log = FlightLog("a", "nanobench", "crazyflie", truth=MOTION_CAPTURE, **parts)
        path, _ = LOG_FORMATS["nanobench"].write(log, tmp_path)
        path.rename(tmp_path / f"B2_circle_rep{number}.csv")
    rows = run_score(nanobench, tmp_path)
    assert {row["windows"] for row in rows.values()} == {rows["shipped"]["windows"]}
    for quantity in QUANTITIES:
        assert rows["constant velocity"][f"{quantity}_ratio"] == 1.0
        assert rows["shipped"][f"{quantity}_ratio"] < 0.1
        assert rows["identified, physical"][quantity] == pytest.approx(rows["shipped"][quantity], rel=1e-9)


@pytest.mark.long
def test_nanobench_of_real_flights(shared_folder, tmp_path):
    """As a user runs it, on two of the flights: one draft with the rows of the page."""
    source = shared_folder / "data" / "nanobench"
    if not source.is_dir():
        pytest.skip("no NanoBench flights in the shared folder")
    for path in source.glob("B*_slow_*.csv.gz"):
        shutil.copy(path, tmp_path)
    rows = run_score(nanobench, tmp_path)
    labels = ["hold the state", "constant velocity", "from parts", "from parts, trimmed", "shipped", "shipped, trimmed"]
    identified = [f"identified, {name}{suffix}" for name in ("physical", "predictor") for suffix in ("", ", trimmed")]
    assert list(rows) == [*labels, *identified]
    for quantity in QUANTITIES:
        for row in rows.values():
            assert row[f"{quantity}_ratio"] == pytest.approx(row[quantity] / rows["constant velocity"][quantity])
    assert rows["identified, predictor, trimmed"]["position_ratio"] < 1.0


@pytest.mark.long
def test_arpl_of_real_logs(shared_folder):
    """The published moments of inertia and lag are within a third of those identified; hover thrust within the masses."""
    folder = shared_folder / "data" / "arpl_crazyflie"
    if not folder.is_dir():
        pytest.skip("no Crazyflie logs in the shared folder")
    rows = run_score(arpl, folder)
    assert rows["thrust at 0.6"]["published"] == pytest.approx(57.81, abs=0.01)  # 21.266 - 6.705 + 43.247 mN
    for row in rows.values():
        assert row["low"] < row["value"] < row["high"]
    for axis in "xy":
        row = rows[f"inertia.{axis}{axis}"]
        assert row["value"] == pytest.approx(row["published"], rel=0.35)
