"""Logs that users have: without commands, with broken sensors, in other units, with one bad file among good ones."""

from dataclasses import replace

import numpy as np
import pytest
from fuzz.flight_logs import PX4_ROWS, dataflash, flight_messages, ulog
from identify.test_checking import FLOWN, codes, replace_signal
from studies.synthetic import prior_vehicle, random_vehicle
from support.command import call
from support.measured_flights import exact_samples, lively_trajectory
from support.repository import RECORDINGS

import samara
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog, Signal
from samara.identify.identification import identify
from samara.identify.log_checks import ERROR, WARNING, airborne_interval, check, require_usable
from samara.identify.readers import read_log, read_logs
from samara.identify.readers.crazyflie import MOTOR_VOLTS, ROTOR_SPEEDS
from samara.identify.readers.registry import complete_command
from samara.identify.resampled_log import resample_log
from samara.identify.rotor_speed_model import simulate_lag
from samara.identify.scores import validate
from samara.identify.signal_agreement import clock_offsets
from samara.identify.start_vehicle import scaled_vehicle
from samara.identify.usable_flights import drop_misscaled_speeds, usable_flights
from samara.link.motor_outputs import rotor_order
from samara.physics.rotors.actuator import command_from_speed, speed_from_command


@pytest.fixture(scope="module")
def flown():
    """A synthetic vehicle, a start vehicle, and its flight with noisy sensors and rotor speeds."""
    truth = random_vehicle(5, 4)
    samples = exact_samples(truth, lively_trajectory(truth), 16.0)
    rng = np.random.default_rng(7)
    motor = truth.rotors[0].motor
    speeds = simulate_lag(samples.commanded, motor.time_constant_up, motor.time_constant_down, samples.period)
    commands = [
        command_from_speed(row, rotor.motor) for row, rotor in zip(samples.commanded, truth.rotors, strict=True)
    ]

    def noisy(rows, sigma):
        return Signal(samples.time, rows + sigma * rng.standard_normal(rows.shape))

    log = FlightLog(
        "lively", "test", "samara", Signal(samples.time, np.stack(commands)),
        rotor_speed=noisy(speeds, 5.0), position=Signal(samples.time, samples.body[:3]),
        velocity=noisy(samples.body[3:6], 0.005), attitude=Signal(samples.time, samples.body[6:10]),
        rate=noisy(samples.body[10:13], 0.02), specific_force=noisy(samples.specific_force, 0.1), truth=MOTION_CAPTURE,
    )  # fmt: skip
    return truth, prior_vehicle(truth, 5, 4), log


# Start vehicles ----------------------------------------------------------------------------------------------------------

INDEPENDENT_OF_THE_SPEED_RANGE = ("inertia", "centre_of_mass", "motor", "drag", "damping")


@pytest.mark.long
def test_two_starts_give_overlapping_intervals():
    """From parameters 20 % off, and from mass and diagonal alone with another range of rotor speeds: what the unknown speed of
    a command does not scale has overlapping intervals. The intervals of the excited inertias hold those of the vehicle that
    flew; the values are within 2 %, and 6 % where the thrust curve stands in for the unknown range."""
    truth = random_vehicle(5, 4)
    samples = exact_samples(truth, lively_trajectory(truth), 24.0)
    rng = np.random.default_rng(7)
    order = list(rotor_order(truth, "betaflight"))
    commands = [
        command_from_speed(row, rotor.motor) for row, rotor in zip(samples.commanded, truth.rotors, strict=True)
    ]

    def noisy(rows, sigma):
        return Signal(samples.time, rows + sigma * rng.standard_normal(rows.shape))

    log = FlightLog(
        "lively", "test", "betaflight", Signal(samples.time, np.stack(commands)[order]),
        position=Signal(samples.time, samples.body[:3]), velocity=noisy(samples.body[3:6], 0.005),
        attitude=Signal(samples.time, samples.body[6:10]), rate=noisy(samples.body[10:13], 0.02),
        specific_force=noisy(samples.specific_force, 0.1), truth=MOTION_CAPTURE,
    )  # fmt: skip
    diagonal = 2.0 * max(np.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in truth.rotors)
    starts = prior_vehicle(truth, 5, 4), scaled_vehicle(4, mass=truth.mass, diagonal=diagonal)
    assert starts[1].rotors[0].motor.speed_max > 1.5 * starts[0].rotors[0].motor.speed_max
    first, second = (identify([log], start, predictor=False).physical for start in starts)
    for a, b in zip(first.estimates, second.estimates, strict=True):
        if a.name.startswith(INDEPENDENT_OF_THE_SPEED_RANGE):
            assert a.low <= b.high and b.low <= a.high, a.name
    for axis in ("xx", "yy"):
        value, name = getattr(truth.inertia_B, axis), f"inertia.{axis}"
        assert first.estimate(name).value == pytest.approx(value, rel=0.02)
        assert second.estimate(name).value == pytest.approx(value, rel=0.06)
        assert all(
            identified.estimate(name).low <= value <= identified.estimate(name).high for identified in (first, second)
        )


# Voltage tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "is_brushed"),
    [
        ("crazyflie", True),
        ("crazyflie_brushless", False),
        ((0.029, 0.092), True),
        ((0.037, 0.1), False),  # mass [kg] and diagonal [m]
    ],
)
def test_the_brushed_voltage_table_is_for_brushed_crazyflies(start, is_brushed):
    """A Crazyflie's log at half PWM and 3.8 V: Bitcraze's table for brushed motors, the start's range for brushless ones."""
    vehicle = samara.vehicle(start) if isinstance(start, str) else scaled_vehicle(4, mass=start[0], diagonal=start[1])
    time = np.arange(0.0, 8.0, 0.01)
    log = FlightLog(
        "cf", "test", "crazyflie", Signal(time, np.full((4, len(time)), 0.5)),
        attitude=Signal(time, np.tile([[1.0], [0.0], [0.0], [0.0]], len(time))),
        rate=Signal(time, np.zeros((3, len(time)))), voltage=Signal(time, np.full((1, len(time)), 3.8)),
    )  # fmt: skip
    motor = vehicle.rotors[0].motor
    expected = np.interp(1.9, MOTOR_VOLTS, ROTOR_SPEEDS) if is_brushed else speed_from_command(0.5, motor)
    assert resample_log(log, vehicle).commanded == pytest.approx(expected, rel=0.02)


# Rotor speeds without commands -------------------------------------------------------------------------------------------


def without_commands(log):
    return replace(log, command=Signal(np.empty(0), np.empty((0, 0))))


def test_rotor_speeds_alone_identify_the_forces(flown):
    """k_thrust and inertia as in the vehicle that flew; the lag stays at its start value and is not excited."""
    truth, start, log = flown
    log = complete_command(without_commands(log))
    assert not log.has_command and "no motor commands: motor lag and the speed of a command cannot" in log.notes[-1]
    result = identify([log], start)
    assert result.predictor is None
    for name, value, tolerance in (
        ("k_thrust", np.mean([rotor.k_thrust for rotor in truth.rotors]), 0.01),
        ("inertia.xx", truth.inertia_B.xx, 0.03),
        ("inertia.yy", truth.inertia_B.yy, 0.03),
    ):
        estimate = result.physical.estimate(name)
        assert estimate.excited and estimate.value == pytest.approx(value, rel=tolerance), name
    k_torque = result.physical.estimate("k_torque")
    assert k_torque.low < np.mean([rotor.k_torque for rotor in truth.rotors]) < k_torque.high
    for name in ("motor.time_constant_up", "motor.time_constant_down"):
        estimate = result.physical.estimate(name)
        assert not estimate.excited and estimate.value == estimate.start, name


def test_commands_in_place_of_none_turn_the_motors_as_measured(flown):
    """Through the start vehicle's lag, up and down, the measured speeds to rounding."""
    _, start, log = flown
    flights, _ = usable_flights([complete_command(without_commands(log))], start)
    motor = start.rotors[0].motor
    flight = flights[0]
    speeds = simulate_lag(flight.commanded, motor.time_constant_up, motor.time_constant_down, flight.period)
    assert np.abs(speeds - flight.rotor_speed)[:, 200:].max() < 1e-6 * flight.rotor_speed.max()


ROTORS = "t,w1,w2,w3,w4,gx,gy,gz\n"
ROTOR_MAP = {"time": "t", "rotor_speed": ["w1", "w2", "w3", "w4"], "rate": ["gx", "gy", "gz"]}


def test_a_csv_may_hold_rotor_speeds_alone(tmp_path):
    path = tmp_path / "flight.csv"
    path.write_text(ROTORS + "".join(f"{0.01 * k},100,200,300,{400 - k},0,0,0\n" for k in range(50)))
    (log,) = read_log(path, ROTOR_MAP)
    assert not log.has_command and log.rotor_speed.values[:, 0].tolist() == [100.0, 200.0, 300.0, 400.0]
    assert log.command.values[:, 0].tolist() == [0.25, 0.5, 0.75, 1.0]
    with pytest.raises(ValueError, match="motors is missing"):
        read_log(path, {key: value for key, value in ROTOR_MAP.items() if key != "rotor_speed"})


@pytest.mark.parametrize("name", ["px4", "ardupilot"])
def test_autopilots_logs_may_hold_rotor_speeds_alone(name, tmp_path):
    if name == "px4":
        pytest.importorskip("pyulog")
        data = ulog({name: row for name, row in PX4_ROWS.items() if not name.startswith("actuator")})
    else:
        data = dataflash([message for message in flight_messages() if message[0] != "RCOU"])
    path = tmp_path / f"flight.{'ulg' if name == 'px4' else 'bin'}"
    path.write_bytes(data)
    (log,) = read_log(path)
    assert not log.has_command and log.rotor_speed.values.shape[0] == log.command.values.shape[0] >= 3


# Names -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("motors", ["pwm.m{}_pwm", "pwm_m{}_pwm", "motor.m{}", "motor.m{}req"])
@pytest.mark.parametrize("clock", ["timestamp", "Timestamp"])
def test_the_crazyflies_other_names(motors, clock, tmp_path):
    """As written by the firmware's µSD deck, by its client (`Timestamp`), and with underscores."""
    names = [motors.format(i) for i in (1, 2, 3, 4)]
    path = tmp_path / "flight.csv"
    path.write_text(",".join([clock, *names]) + "\n" + "".join(f"{10 * k},65535,0,32768,5\n" for k in range(5)))
    (log,) = read_log(path)
    assert (log.format, log.numbering, log.has_command) == ("crazyflie_csv", "crazyflie", True)
    assert log.command.values[:, 0] == pytest.approx([1.0, 0.0, 32768 / 65535, 5 / 65535])


def test_the_crazyflies_compressed_estimate(tmp_path):
    """mm, mm/s and mrad/s, with pitch nose down; `stabilizer` gives the attitude; rpm alone are enough."""
    names = [f"rpm.m{i}" for i in (1, 2, 3, 4)]
    names += [
        f"stateEstimateZ.{name}" for name in ("x", "y", "z", "vx", "vy", "vz", "rateRoll", "ratePitch", "rateYaw")
    ]
    names += [f"stabilizer.{name}" for name in ("roll", "pitch", "yaw")]
    path = tmp_path / "flight.csv"
    row = "60,120,180,240,1000,2000,3000,100,200,300,10,20,30,0,-90,0"
    path.write_text(",".join(["timestamp", *names]) + "\n" + "".join(f"{10 * k},{row}\n" for k in range(5)))
    (log,) = read_log(path)
    assert log.rotor_speed.values[:, 0] == pytest.approx(2.0 * np.pi * np.array([1.0, 2.0, 3.0, 4.0]))
    assert log.position.values[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert log.velocity.values[:, 0] == pytest.approx([0.1, 0.2, 0.3])
    assert log.rate.values[:, 0] == pytest.approx([0.01, -0.02, 0.03])
    assert log.attitude.values[:, 0] == pytest.approx([np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0])


# One bad flight among good ones ------------------------------------------------------------------------------------------


def test_a_bad_file_in_a_folder_is_skipped(tmp_path):
    path = tmp_path / "good.csv"
    path.write_text("timestamp,motor.m1,motor.m2,motor.m3,motor.m4\n0,1,2,3,4\n10,1,2,3,4\n")
    (tmp_path / "bad.csv").write_text("timestamp,motor.m1,motor.m2,motor.m3,motor.m4\n0,1,2,x,4\n")
    (tmp_path / "README.txt").write_text("these are words")
    skipped = []
    assert [log.name for log in read_logs([tmp_path], on_skip=skipped.append)] == ["good"]
    assert len(skipped) == 2 and all(sentence.startswith(f"skipped {tmp_path}") for sentence in skipped)
    assert "bad.csv: line 2 is not a row of numbers" in skipped[1]
    with pytest.raises(ValueError, match=r"README.txt: begins with"):
        read_logs([tmp_path])
    path.unlink()
    with pytest.raises(ValueError, match=r"bad.csv: line 2 is not a row of numbers|README.txt: begins with"):
        read_logs([tmp_path], on_skip=skipped.append)


def test_a_flight_that_cannot_be_used_is_left_out(flown):
    """A flight of a second, one of six motors, and one that does not start with motors: named, and the fit uses the other."""
    _, start, log = flown
    short = replace(
        log, name="short", command=Signal(log.command.time, np.where(log.command.time < 1.0, log.command.values, 0.0))
    )
    six = replace(
        log, name="six", command=Signal(log.command.time, np.vstack([log.command.values, log.command.values[:2]]))
    )
    imuless = FlightLog("imuless", "test", "samara", log.command, position=log.position, velocity=log.velocity)
    flights, findings = usable_flights([short, six, log, imuless], start)
    assert [flight.name for flight in flights] == ["lively"]
    errors = {
        name: [found.sentence for found in found_list if found.severity == ERROR]
        for name, found_list in findings.items()
    }
    assert errors["lively"] == []
    assert errors["short"][0] == "is 1.0 s in the air; expected 10 s or more"
    assert errors["six"] == [f"holds 6 motors; expected 4, as vehicle {start.name!r} has"]
    assert errors["imuless"] == ["holds neither rates nor attitudes; expected one of them to identify a vehicle from"]
    with pytest.raises(ValueError, match=r"none of the 2 flights can be used; short: is 1.0 s in the air"):
        usable_flights([short, six], start)
    with pytest.raises(ValueError, match=r"^short: is 1.0 s in the air"):
        usable_flights([short], start)


# Rotor speed sensors -----------------------------------------------------------------------------------------------------


def test_rotor_speeds_in_order_have_no_findings(flown):
    log = flown[2]
    assert check(log) == []
    assert np.array_equal(require_usable(log)[0].rotor_speed.values, log.rotor_speed.values)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda speed, k: np.full_like(speed, 700.0), "rotor speed 2 is stuck for 1"),
        (lambda speed, k: 0.0 * speed, "rotor speed 2 is 0 for 99.5 % of the flight"),
        (lambda speed, k: np.where(k > 3000, speed[3000], speed), "rotor speed 2 is stuck for 4 s"),
        (lambda speed, k: np.where(k % 9, speed, 6.0 * speed), "11.1 % of rotor speed 2 are spikes"),
        (lambda speed, k: speed / 7.0, "rotor speed 2 is 0.1"),
        (lambda speed, k: 2.0 * speed, "rotor speed 2 is "),
        (
            lambda speed, k: 900.0 + 50.0 * np.random.default_rng(2).standard_normal(len(speed)),
            "rotor speed 2 does not",
        ),
    ],
    ids=["constant", "zero", "stuck", "spikes", "pole pairs", "twice", "noise"],
)
def test_a_broken_rotor_speed_sensor_is_noticed_and_dropped(flown, change, sentence):
    """The other signals stay, and the commands drive the fit; without commands the log cannot be used."""
    log = flown[2]
    values = log.rotor_speed.values.copy()
    values[1] = change(values[1], np.arange(values.shape[1]))
    broken = replace(log, rotor_speed=Signal(log.rotor_speed.time, values))
    repaired, findings = require_usable(broken)
    assert {(found.code, found.severity) for found in findings} == {("rotor_speed", WARNING)}
    assert findings[0].sentence.startswith(sentence) and findings[0].sentence.endswith(
        ": the rotor speeds are left out"
    )
    assert repaired.rotor_speed is None and repaired.rate is not None
    if not sentence.endswith("does not"):
        with pytest.raises(ValueError, match=r"lively: .*rotor speed"):
            require_usable(complete_command(without_commands(broken)))


def test_a_missing_rotor_speed_is_noticed(flown):
    log = flown[2]
    three = replace(log, rotor_speed=Signal(log.rotor_speed.time, log.rotor_speed.values[:3]))
    assert [found.sentence for found in check(three)] == ["3 rotor speeds of 4 motors: the rotor speeds are left out"]


def test_a_few_spikes_are_removed(flown):
    """Signs are those of the direction of rotation: speeds are their sizes."""
    log = flown[2]
    values = log.rotor_speed.values * np.array([[1.0], [-1.0], [1.0], [-1.0]])
    values[2, 500:3000:500] *= 4.0
    repaired, findings = require_usable(replace(log, rotor_speed=Signal(log.rotor_speed.time, values)))
    assert [(found.code, found.severity) for found in findings] == [("rotor_speed_spikes", WARNING)]
    assert len(repaired.rotor_speed.time) == len(log.rotor_speed.time) - 5
    assert (
        repaired.rotor_speed.values.min() > 0.0
        and repaired.rotor_speed.values.max() < 2.0 * log.rotor_speed.values.max()
    )


@pytest.mark.parametrize("factor", [7.0, 1.0 / 7.0, 30.0 / np.pi])
def test_rotor_speeds_of_another_unit_are_noticed(flown, factor):
    """Electrical for mechanical speeds, or rpm for rad/s, do not carry the start vehicle's weight."""
    _, start, log = flown
    scaled = replace(log, rotor_speed=Signal(log.rotor_speed.time, factor * log.rotor_speed.values))
    repaired, (finding,) = drop_misscaled_speeds(scaled, start)
    assert repaired.rotor_speed is None and finding.severity == WARNING
    assert finding.sentence.endswith("expected rad/s of the rotor (unit or pole pairs?): left out")
    assert drop_misscaled_speeds(log, start) == (log, [])
    assert drop_misscaled_speeds(replace(scaled, has_command=False), start)[1][0].severity == ERROR


# Units and signs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volts", "factor", "text"),
    [
        (11.1, 1.0, ""),
        (3700.0, 1e-3, "the voltages are 3700 (median): millivolts, converted"),
        (16200.0, 1e-3, "the voltages are 1.62e+04 (median): millivolts, converted"),
        (1620.0, None, "the voltages are 1620 (median): expected 2 to 120 V: left out"),
        (0.0, None, "the voltages are 0 (median): expected 2 to 120 V: left out"),
    ],
)
def test_millivolts_are_noticed(volts, factor, text):
    log = replace(FLOWN, voltage=Signal(FLOWN.command.time[::50], np.full((1, 100), volts)))
    repaired, findings = require_usable(log)
    assert [found.sentence for found in findings] == ([text] if text else [])
    if factor is None:
        assert repaired.voltage is None
    else:
        assert repaired.voltage.values == pytest.approx(factor * log.voltage.values)


@pytest.mark.parametrize(
    ("name", "factor", "code", "sentence"),
    [
        ("rate", np.degrees(1.0), "unit", "the rates are 57.3 times as large as the attitudes turn (°/s?)"),
        ("rate", np.array([[1.0], [-1.0], [-1.0]]), "sign", "the rates along y, z have the opposite sign of"),
        ("specific_force", 1.0 / 9.80665, "unit", "in flight (g?); expected 9.81 m/s²"),
        ("specific_force", np.array([[1.0], [-1.0], [-1.0]]), "sign", "m/s² in flight; expected z up"),
        ("velocity", np.array([[1.0], [-1.0], [-1.0]]), "sign", "the velocities along y, z have the opposite"),
        ("position", 1000.0, "unit", "as large as the positions move (mm?)"),
        ("attitude", np.array([[1.0], [-1.0], [-1.0], [-1.0]]), "sign", "opposite sign of how the attitudes turn"),
        ("attitude", [1, 2, 3, 0], "sign", "opposite sign of how the attitudes turn"),
        ("attitude", [1, 0, 3, 2], "sign", "expected w, x, y, z from FLU to a world with z up"),
    ],
)  # fmt: skip
def test_wrong_units_and_signs_are_noticed(flown, name, factor, code, sentence):
    """°/s, g, mm, FRD and NED axes, conjugate quaternions, and x, y, z, w: each is an error that names the signal."""
    log = flown[2]
    time, values = getattr(log, name)
    changed = replace(log, **{name: Signal(time, values[factor] if isinstance(factor, list) else factor * values)})
    errors = [found for found in check(changed) if found.severity == ERROR]
    assert any(found.code == code and sentence in found.sentence for found in errors), errors
    with pytest.raises(ValueError, match=r"^lively: "):
        require_usable(changed)


@pytest.mark.parametrize("has_velocity", [True, False])
def test_a_motion_in_millimetres_is_noticed(flown, has_velocity):
    """By the accelerometer, or without a velocity by its speed."""
    log = flown[2]
    noise = 0.0005 * np.random.default_rng(5).standard_normal(log.position.values.shape)
    position = Signal(log.position.time, log.position.values + noise)
    velocity = log.velocity if has_velocity else None
    assert check(replace(log, position=position, velocity=velocity)) == []
    position, velocity = (signal and Signal(signal.time, 1000.0 * signal.values) for signal in (position, velocity))
    sentences = [found.sentence for found in check(replace(log, position=position, velocity=velocity))]
    expected = "times as large as the velocities accelerate (mm?)" if has_velocity else "m/s (median; mm?)"
    assert any(expected in sentence for sentence in sentences), sentences


def test_a_world_with_z_down_is_noticed(flown):
    """Position and velocity agree with each other, but not with the accelerometer."""
    log = flown[2]
    down = {
        name: Signal(getattr(log, name).time, getattr(log, name).values * [[1], [-1], [-1]])
        for name in ("position", "velocity")
    }
    sentences = [found.sentence for found in check(replace(log, **down)) if found.severity == ERROR]
    assert sentences == ["the accelerometer's samples along z have the opposite sign of how the velocities accelerate"]


def test_times_in_another_unit_are_noticed():
    """Seconds that are read as milliseconds."""
    log = replace_signal("rate", time=1e-3 * FLOWN.rate.time)
    assert ("time_unit", ERROR, "rate") in codes(log)


# Clocks ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [-0.2, -0.07, 0.0, 0.03, 0.2])
def test_the_clock_of_motion_capture_is_found_to_ten_milliseconds(flown, late):
    """Relative to the motors and the IMU, with noisy signals at 100 Hz that begin between the samples of the IMU."""
    log = flown[2]
    rng = np.random.default_rng(11)

    def capture(signal, sigma):
        time, values = signal.time[1::3], signal.values[:, 1::3]
        return Signal(time + late, values + sigma * rng.standard_normal(values.shape))

    captured = replace(
        log, rotor_speed=None, position=capture(log.position, 0.001), velocity=capture(log.velocity, 0.03),
        attitude=capture(log.attitude, 0.002), specific_force=Signal(log.specific_force.time, log.specific_force.values
        + 1.0 * rng.standard_normal(log.specific_force.values.shape)), rate=Signal(log.rate.time, log.rate.values
        + 0.1 * rng.standard_normal(log.rate.values.shape)),
    )  # fmt: skip
    offsets = clock_offsets(captured, 0.0, 16.0)
    for name, truth in (("velocity", late), ("rate", 0.0), ("specific_force", 0.0)):
        assert offsets[name].delay == pytest.approx(truth, abs=0.01), name
    found = [finding for finding in check(captured) if finding.code == "clock"]
    assert [finding.sentence.endswith("the IMU: moved onto its clock") for finding in found] == [True] * (
        abs(late) > 0.02
    )
    repaired, _ = require_usable(captured)
    moved = captured.attitude.time[0] - repaired.attitude.time[0]
    assert moved == pytest.approx(late if abs(late) > 0.02 else 0.0, abs=0.005)
    assert repaired.rate.time[0] == captured.rate.time[0]


@pytest.mark.parametrize("late", [-0.15, 0.15])
def test_the_clock_of_a_real_flight_is_shifted_by_what_it_is_shifted(late, shared_folder):
    """NanoBench's motion capture, moved by a known time relative to motors and accelerometer."""
    path = shared_folder / "data" / "nanobench" / "B9_trefoil_fast_rep4.csv.gz"
    if not path.exists():
        pytest.skip("no flights in the shared folder")
    (log,) = read_log(path)
    log, _ = require_usable(log)
    moved = {name: getattr(log, name) for name in ("position", "velocity", "attitude", "rate")}
    moved = {name: Signal(signal.time + late, signal.values) for name, signal in moved.items()}
    before, after = (clock_offsets(flight, *airborne_interval(log)) for flight in (log, replace(log, **moved)))
    for name, shift in (("velocity", late), ("rate", late), ("specific_force", 0.0)):
        assert after[name].delay - before[name].delay == pytest.approx(shift, abs=0.01), name
        assert abs(before[name].delay) < 0.05


def test_the_command_skips_a_short_session_and_a_bad_file(tmp_path, monkeypatch, capsys):
    """A blackbox file with a session of a second before the flight, and a file of words: one sentence each, and a vehicle."""
    whole = (RECORDINGS / "betaflight.bbl").read_bytes()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "flown.bbl").write_bytes(whole[:12000] + whole)
    (tmp_path / "logs" / "words.txt").write_text("these are words")
    words = ("identify", str(tmp_path / "logs"), "--vehicle", "hakoniwa", "--outputs", "thrust", "--no-scores")
    out = ("--no-predictor", "-o", str(tmp_path / "mine.toml"))
    status, output, err = call(monkeypatch, capsys, *words, *out)
    assert (status, err) == (0, "")
    text = " ".join(output.split())
    assert "words.txt: begins with b'these are words'" in text and "! flown-1: skipped: " in text
    assert "! flown-2: skipped" not in text and (tmp_path / "mine.toml").exists()
    (tmp_path / "logs" / "flown.bbl").write_bytes(whole[:12000])
    status, _, err = call(monkeypatch, capsys, *words, *out)
    assert (status, err.count("\n")) == (2, 1) and err.startswith("samara: flown: ")
    (tmp_path / "logs" / "flown.bbl").unlink()
    status, _, err = call(monkeypatch, capsys, *words, *out)
    assert (status, err.count("\n")) == (2, 1) and "words.txt: begins with" in err


def test_a_validation_skips_a_flight_that_cannot_be_scored(flown):
    truth, _, log = flown
    blind = replace(log, name="blind", position=None, velocity=None)
    skipped = []
    (score,) = validate([blind, log], [truth], on_skip=skipped.append)
    assert score.flight == "lively" and skipped == [
        "skipped blind: holds no velocity; expected a log with the motion of the vehicle"
    ]
    with pytest.raises(ValueError, match="blind: holds no velocity"):
        validate([blind], [truth], on_skip=skipped.append)
