"""Models against real flights: on a flight of the model itself the machinery is exact, so what it reports is the model's."""

import gzip
import math

import numpy as np
import pytest

import samara
from samara.control.geometric import geometric
from samara.core.algebra import Quat, Vec3, cross, quat_from_euler, rotate
from samara.identify.readers.nanobench import (
    FULL,
    MOTOR_VOLTS,
    SPEEDS,
    Flight,
    commands_from_pwm,
    read_flight,
    read_flights,
    rotor_speed_from_pwm,
)
from samara.identify.validation import (
    GIVEN,
    TRIMMED,
    all_flights,
    moment_of_airspeed,
    score,
    table,
    trimmed_vehicle,
)
from samara.identify.windows import (
    Windows,
    coasted,
    errors,
    held,
    measured,
    predicted,
    rotor_history,
    windows_in,
)
from samara.physics.effect import Effect, Wrench
from samara.physics.rotors.rotor import air_velocity
from samara.physics.types import BODY
from samara.plan.flatness import flat_output, flat_to_state
from samara.plan.trajectory import lissajous

WAY = lissajous(
    (0.0, 0.0, 1.0), amplitude=(1.0, 0.7, 0.2), frequency=(1, 2, 1), phase=(0.3, 0.0, 0.5), speed=1.5, laps=math.inf
)
PERIOD = 0.01
FLAPPING = 4e-4  # [N·m per m/s]


def righted(own, state, command, vehicle, environment):
    """τ = c v_B × e₃: the air turns the nose up, away from where it comes from"""
    v_B = -air_velocity(state.q_WB, state.v_W, environment.wind_W)
    return Wrench(tau_B=cross(v_B, Vec3(0.0, 0.0, FLAPPING)))


def flown(vehicle, seconds=12.0):
    """A closed-loop flight in the form of a measured one: body (13, n), commands held from sample to sample, rotor speeds."""
    control, simulator = geometric(vehicle), samara.compile(vehicle)
    state, _ = flat_to_state(flat_output(WAY, 0.0), vehicle)
    states, commands = [state], []
    for k in range(round(seconds / PERIOD)):
        command, _ = control(state, WAY.at(k * PERIOD), vehicle, ())
        commands.append([float(u) for u in command])
        state = simulator.step(state, commands[-1], 1e-3, 10)
        states.append(state)
    x = np.stack([own.to_numpy() for own in states], axis=1)
    return x[:BODY], tuple(np.array(commands).T), x[BODY : BODY + len(vehicle.rotors)], simulator


@pytest.fixture(scope="module")
def own_flight():
    return flown(samara.vehicle("crazyflie"))


def test_a_model_predicts_its_own_flight(own_flight):
    """Half a second from every state of it to 1e-9, rotor speeds found from the commands alone after three seconds."""
    body, commands, speeds, simulator = own_flight
    usable = np.arange(body.shape[1]) > 300
    windows = windows_in(PERIOD * np.arange(body.shape[1]), usable, period=PERIOD, samples=50, stride=7)
    assert len(windows.starts) > 100
    found = rotor_history(body, commands, simulator, PERIOD)
    assert np.abs(found - speeds)[:, 300:].max() < 1e-9 * speeds.max()
    said = predicted(body, found, commands, windows, simulator)
    for name, own in errors(said, measured(body, windows)).items():
        assert own.max() < 1e-9, name


def test_with_the_attitude_given_it_predicts_the_rest_of_its_own_flight(own_flight):
    body, commands, speeds, simulator = own_flight
    windows = Windows(np.arange(300, 1100, 50), 50, PERIOD)
    said = predicted(body, speeds, commands, windows, simulator, attitude_given=True)
    assert errors(said, measured(body, windows))["position"].max() < 1e-9


def test_a_wrong_mass_falls_as_a_wrong_mass_does(own_flight):
    """Δp = ½ (T/m' − T/m) t² to a few percent: one percent of mass is 12 mm after half a second of hover."""
    body, commands, speeds, simulator = own_flight
    heavier = samara.compile(simulator.vehicle.replace(mass=simulator.vehicle.mass * 1.01))
    windows = Windows(np.arange(300, 1100, 50), 50, PERIOD)
    off = errors(predicted(body, speeds, commands, windows, heavier), measured(body, windows))["position"]
    assert off[-1].mean() == pytest.approx(0.5 * 9.80665 * (1.0 - 1.0 / 1.01) * 0.25, rel=0.1)


def test_windows_avoid_gaps_and_what_is_not_usable():
    time = PERIOD * np.arange(200.0)
    time[100:] += 0.015
    usable = np.ones(200, dtype=bool)
    usable[150] = False
    windows = windows_in(time, usable, period=PERIOD, samples=20, stride=1)
    expected = [k for k in range(180) if not (k <= 99 < k + 20) and not (k <= 150 <= k + 20)]
    assert windows.starts.tolist() == expected


def test_the_baselines_are_what_they_say():
    """Standing still, and p + v t with q ⊗ exp(ω t): a body that turns at ω about z for half a second has yawed ω/2."""
    q = quat_from_euler(0.3, -0.2, 0.5)
    body = np.tile(np.array([[1.0, 2.0, 3.0, 0.5, 0.0, -1.0, *q, 0.0, 0.0, 0.8]]).T, (1, 60))
    windows = Windows(np.array([0, 5]), 50, PERIOD)
    assert (held(body, windows)[-1] == body[:, [0, 5]]).all()
    end = coasted(body, windows)[-1, :, 0]
    assert end[:3] == pytest.approx([1.25, 2.0, 2.5], rel=1e-14)
    turned = q * Quat(math.cos(0.2), 0.0, 0.0, math.sin(0.2))
    assert end[6:10] == pytest.approx(np.array(turned), rel=1e-14)
    assert errors(coasted(body, windows), held(body, windows))["attitude"][-1, 0] == pytest.approx(math.degrees(0.4))


# From PWM to command -------------------------------------------------------------------------------------------------


def test_pwm_times_battery_is_what_turns_the_motor():
    """Every row of the table by itself; half the battery at twice the PWM is the same motor voltage, so the same speed."""
    for volts, speed in zip(MOTOR_VOLTS, SPEEDS, strict=True):
        assert rotor_speed_from_pwm(FULL * volts / 4.0, 4.0) == pytest.approx(speed, rel=1e-12)
    assert rotor_speed_from_pwm(30000.0, 4.0) == pytest.approx(rotor_speed_from_pwm(40000.0, 3.0), rel=1e-12)
    assert all(np.diff(SPEEDS) > 0)


def test_motors_are_matched_by_their_place():
    """m1 front right … m4 front left, whatever order a vehicle numbers its rotors in."""
    pwm = np.repeat(np.array([[20000.0], [30000.0], [40000.0], [50000.0]]), 3, axis=1)
    flight = Flight("four", np.arange(3.0), np.zeros((13, 3)), pwm, np.full(3, 3.8))
    for name in ("crazyflie_documented", "crazyflie"):
        vehicle = samara.vehicle(name)
        commands = commands_from_pwm(flight, vehicle)
        order = sorted(range(4), key=lambda i: commands[i][0])
        places = [(vehicle.rotors[i].r_B.x > 0, vehicle.rotors[i].r_B.y > 0) for i in order]
        assert places == [(True, False), (False, False), (False, True), (True, True)]
    with pytest.raises(ValueError, match="rotor 0 is not driven by a normalized command"):
        commands_from_pwm(flight, samara.vehicle("iris_documented"))


def test_trim_makes_each_rotor_hold_its_share():
    vehicle = samara.vehicle("crazyflie")
    speeds = np.array([[1800.0, 1900.0], [2000.0, 2000.0], [1700.0, 1750.0], [2100.0, 2050.0]])
    trimmed = trimmed_vehicle(vehicle, speeds)
    lifts = [rotor.k_thrust * np.mean(own**2) for rotor, own in zip(trimmed.rotors, speeds, strict=True)]
    assert lifts == pytest.approx([vehicle.mass * 9.80665 / 4.0] * 4, rel=1e-12)


@pytest.mark.long
def test_a_moment_of_the_airspeed_is_found_where_there_is_one(monkeypatch):
    """A flight of the model with τ = c v × e₃ added gives c back; the model's own flight gives none."""
    import samara.identify.validation as own

    vehicle = samara.vehicle("crazyflie")
    for extra, coefficient in ((Effect("righting", wrench=righted), FLAPPING), (Effect("righting"), 0.0)):
        body, commands, _, _ = flown(vehicle.with_effect(extra))
        monkeypatch.setattr(own, "commands_from_pwm", lambda flight, vehicle, told=commands: told)
        n = body.shape[1]
        flight = Flight("own", PERIOD * np.arange(n), body, np.ones((4, n)), np.ones(n))
        found = moment_of_airspeed(flight, samara.compile(vehicle))
        assert (found.roll, found.pitch) == pytest.approx((coefficient, coefficient), abs=2e-5)
        assert coefficient == 0.0 or found.explained > 0.95


# Reading ---------------------------------------------------------------------------------------------------------------

HEADING = (
    "t,px,py,pz,qx,qy,qz,qw,vx,vy,vz,wx_vicon,wy_vicon,wz_vicon,motor_motor_m1,motor_motor_m2,motor_motor_m3,"
    "motor_motor_m4,pwr_pm_vbat"
)


def written(folder, lean, rows=80, name="flight.csv.gz"):
    """A vehicle at rest, its markers put on askew, in a file."""
    q = quat_from_euler(0.0, 0.0, 0.4) * lean
    rate = rotate(Quat(lean.w, -lean.x, -lean.y, -lean.z), Vec3(0.1, 0.2, 0.3))
    line = ",".join(f"{x:.17g}" for x in (0.1, 0.2, 0.05, q.x, q.y, q.z, q.w, 0.0, 0.0, 0.0, *rate, 1, 2, 3, 4, 3.9))
    text = "\n".join([HEADING, *(f"{0.01 * k:.2f},{line}" for k in range(rows))])
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


def test_the_body_stands_level_whichever_way_its_markers_lean(tmp_path):
    lean = quat_from_euler(0.03, -0.04, 0.0)
    flight = read_flight(written(tmp_path, lean))
    assert flight.body[6:10, 0] == pytest.approx(np.array(quat_from_euler(0.0, 0.0, 0.4)), abs=1e-3)
    rolled = Quat(*flight.body[6:10, 0])
    assert rotate(rolled, Vec3(0.0, 0.0, 1.0)) == pytest.approx((0.0, 0.0, 1.0), abs=1e-12)
    assert flight.body[10:13, 0] == pytest.approx((0.1, 0.2, 0.3), abs=1e-3)
    assert (flight.pwm[:, 0] == (1.0, 2.0, 3.0, 4.0)).all()
    assert read_flights(tmp_path)[0].name == "flight"


def test_bad_files_are_named(tmp_path, monkeypatch):
    level = quat_from_euler(0.0, 0.0, 0.0)
    path = written(tmp_path, level, name="flight.csv")
    lines = path.read_text().splitlines()

    def changed(column, number, value):
        """The file with another value in one column of one line, counted as an editor counts them"""
        cells = lines[number - 1].split(",")
        cells[lines[0].split(",").index(column)] = value
        return "\n".join([*lines[: number - 1], ",".join(cells), *lines[number:]])

    for text, message in (
        ("\n".join(["t,px", "0,1"]), "has no column 'py'"),
        ("\n".join([*lines[:5], "0.04,abc", *lines[6:]]), "line 6 is not a row of numbers"),
        ("\n".join(lines[:20]), "19 rows; expected more than 50"),
        (changed("motor_motor_m2", 7, "65536"), "line 7: motor_motor_m2 is 65536; expected a PWM from 0 to 65535"),
        (changed("motor_motor_m4", 7, "-1"), "line 7: motor_motor_m4 is -1; expected a PWM from 0 to 65535"),
        (changed("vx", 9, "nan"), "line 9: vx is nan; expected a finite number"),
        (changed("t", 9, "0.0"), "line 9: t is 0; expected a time after that of the line before"),
        (changed("qw", 12, "0.5"), r"line 12: \|q\| is .*; expected a quaternion of length 1"),
        (changed("pwr_pm_vbat", 12, "0"), "line 12: pwr_pm_vbat is 0; expected a voltage above 0"),
        (lines[0] + ",px\n", "has more than one column 'px'"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_flight(path)
    packed = tmp_path / "packed.csv.gz"
    for data, message in (
        (gzip.compress(path.read_bytes())[:-20], "packed.csv.gz: cannot be unpacked"),
        (b"t,px", "cannot be unpacked"),
        (gzip.compress(bytes(2 << 20)), "holds more than 1 MB"),
    ):
        monkeypatch.setattr("samara.identify.readers.csv_columns.MOST", 1 << 20)
        packed.write_bytes(data)
        with pytest.raises(ValueError, match=message):
            read_flight(packed)
    with pytest.raises(ValueError, match="holds no"):
        (tmp_path / "empty").mkdir()
        read_flights(tmp_path / "empty")


# Real flights ------------------------------------------------------------------------------------------------------


def test_half_a_second_of_a_real_flight(shared_folder):
    """A flight of NanoBench. Trimmed, the measured vehicle is nearer than constant velocity for a tenth of a second, and told
    the attitude for all of it; as it is, it is not: the numbers of docs/validation.md."""
    folder = shared_folder / "data" / "nanobench"
    if not folder.is_dir():
        pytest.skip("no NanoBench flights in the shared folder")
    vehicle = samara.vehicle("crazyflie")
    trimmed = samara.compile(vehicle, vary=("rotors.k_thrust", "rotors.k_torque"))
    flight = read_flight(folder / "B9_trefoil_slow_rep2.csv.gz")
    found = score(flight, {vehicle.name: samara.compile(vehicle)}, trimmed)
    position = {name: rms["position"] for name, rms in found.rms.items()}
    assert position[GIVEN][50] < 0.6 * position["constant velocity"][50]
    assert position[TRIMMED][10] < position["constant velocity"][10]
    assert position[vehicle.name][50] > position["constant velocity"][50]
    assert position["hold the state"][50] == pytest.approx(0.270, abs=0.001)
    assert "trefoil" in table([found])
    assert all_flights([found]).windows == found.windows
    assert moment_of_airspeed(flight, samara.compile(vehicle)).explained > 0.8
