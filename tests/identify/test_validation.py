"""Vehicles against real flights: a vehicle predicts its own flight, so what is reported of others is theirs."""

import gzip
import math

import numpy as np
import pytest
from support.measured_flights import exact_samples, lively

import samara
from samara.core.algebra import Quat, Vec3, quat_from_euler, rotate
from samara.identify.prediction_error_fit import QUANTITIES, Windows, constant_velocity, errors, hold_state
from samara.identify.readers import read_log, read_logs
from samara.identify.readers.crazyflie import FULL, MOTOR_VOLTS, SPEEDS, rotor_speed_from_pwm
from samara.identify.scores import (
    HORIZONS,
    Model,
    Score,
    at,
    halves,
    held_out,
    predicted,
    ratios,
    scored_windows,
    table,
    together,
    trimmed,
    validate,
)

PERIOD = 0.01


@pytest.fixture(scope="module")
def own_flight():
    vehicle = samara.vehicle("crazyflie")
    return vehicle, exact_samples(vehicle, lively(vehicle), 20.0)


def test_a_vehicle_predicts_its_own_flight(own_flight):
    """To a thousandth of what constant velocity errs by: what the integrator's longer steps leave"""
    vehicle, samples = own_flight
    found = predicted(samples, {"own": Model.of(vehicle, is_trimmed=False)}).score()
    assert found.windows > 100
    assert max(ratios(found, "own").values()) < 1e-2
    assert ratios(found, "constant velocity") == dict.fromkeys(QUANTITIES, 1.0)


def test_a_wrong_mass_falls_as_a_wrong_mass_does(own_flight):
    """Δp = ½ (T/m' − T/m) t² to a few percent: one percent of mass is 12 mm after half a second"""
    vehicle, samples = own_flight
    heavier = Model.of(vehicle.replace(mass=1.01 * vehicle.mass), is_trimmed=False)
    off = predicted(samples, {"heavier": heavier}).score()
    expected = 0.5 * 9.80665 * (1.0 - 1.0 / 1.01) * 0.25
    assert at(off, "heavier", "position", 0.5) == pytest.approx(expected, rel=0.15)


def test_gains_are_those_of_the_reference_voltage(own_flight):
    """With thrust that goes with the voltage a trim at 0.5 V above the reference is divided by what that half volt gives"""
    vehicle, samples = own_flight
    model = Model.of(vehicle)
    above = samples._replace(voltage=np.full(len(samples.time), model.predictor.volts + 0.5))
    plain, with_volts = (
        trimmed(above, model.vehicle, model.predictor, model.before, per_volt=own) for own in (0.0, 0.1)
    )
    assert np.array(plain.gains) / np.array(with_volts.gains) == pytest.approx(1.05)


def test_no_scored_window_begins_in_the_seconds_of_the_trim(own_flight):
    _, samples = own_flight
    usable = samples.time[samples.usable]
    assert samples.time[scored_windows(samples).starts].min() >= usable[0] + 5.0


def test_halves_share_no_sample(own_flight):
    _, samples = own_flight
    first, second = halves(samples)
    assert not (first.usable & second.usable).any()
    assert (first.usable | second.usable).sum() == samples.usable.sum()
    assert abs(int(first.usable.sum()) - int(second.usable.sum())) <= 1
    assert (first.name, second.name) == (f"{samples.name}, first half", f"{samples.name}, second half")


def test_flights_held_out_are_predicted_by_the_others(own_flight, monkeypatch):
    """Each flight by what was identified on all but it; of one flight, each half by the other"""
    import samara.identify.scores as own

    vehicle, samples = own_flight
    seen = []
    true = own.identified

    def spy(flights, start, **more):
        seen.append({each.name for each in flights})
        return true(flights, start, **more | {"predictor": False})

    monkeypatch.setattr(own, "identified", spy)
    names = ("a", "b")
    found = held_out([samples._replace(name=name) for name in names], vehicle)
    assert [each.samples.name for each in found] == list(names) and seen == [{"b"}, {"a"}]
    assert set(found[0].said) == {"crazyflie, trimmed", "physical"}
    seen.clear()
    assert len(held_out([samples], vehicle)) == 2
    assert seen == [{f"{samples.name}, second half"}, {f"{samples.name}, first half"}]


def test_every_window_of_every_flight_counts_alike():
    """√((1·3² + 3·1²)/4)"""
    one, three = (Score(str(n), n, {"m": {q: np.full(10, e) for q in QUANTITIES}}) for n, e in ((1, 3.0), (3, 1.0)))
    whole = together([one, three])
    assert whole.windows == 4
    assert whole.rms["m"]["rate"] == pytest.approx(math.sqrt(3.0))
    text = table([one, three])
    assert text.count("\n") == 2 + 3 and "| all flights (4) | m | 1.73 |" in text
    assert at(whole, "m", "position", HORIZONS[-1]) == pytest.approx(math.sqrt(3.0))


def test_the_baselines_are_what_they_say():
    """Standing still, and p + v t with q ⊗ exp(ω t): a body that turns at ω about z for half a second has yawed ω/2."""
    q = quat_from_euler(0.3, -0.2, 0.5)
    body = np.tile(np.array([[1.0, 2.0, 3.0, 0.5, 0.0, -1.0, *q, 0.0, 0.0, 0.8]]).T, (1, 60))
    windows = Windows(np.array([0, 5]), 50, PERIOD)
    assert (hold_state(body, windows)[-1] == body[:, [0, 5]]).all()
    end = constant_velocity(body, windows)[-1, :, 0]
    assert end[:3] == pytest.approx([1.25, 2.0, 2.5], rel=1e-14)
    turned = q * Quat(math.cos(0.2), 0.0, 0.0, math.sin(0.2))
    assert end[6:10] == pytest.approx(np.array(turned), rel=1e-14)
    assert errors(constant_velocity(body, windows), hold_state(body, windows))["attitude"][-1, 0] == pytest.approx(
        math.degrees(0.4)
    )


# From PWM to command -------------------------------------------------------------------------------------------------


def test_pwm_times_battery_is_what_turns_the_motor():
    """Every row of the table by itself; half the battery at twice the PWM is the same motor voltage, so the same speed."""
    for volts, speed in zip(MOTOR_VOLTS, SPEEDS, strict=True):
        assert rotor_speed_from_pwm(FULL * volts / 4.0, 4.0) == pytest.approx(speed, rel=1e-12)
    assert rotor_speed_from_pwm(30000.0, 4.0) == pytest.approx(rotor_speed_from_pwm(40000.0, 3.0), rel=1e-12)
    assert all(np.diff(SPEEDS) > 0)


# Reading ---------------------------------------------------------------------------------------------------------------

HEADING = (
    "t,px,py,pz,qx,qy,qz,qw,vx,vy,vz,wx_vicon,wy_vicon,wz_vicon,motor_motor_m1,motor_motor_m2,motor_motor_m3,"
    "motor_motor_m4,pwr_pm_vbat,imu_acc_x,imu_acc_y,imu_acc_z,imu_gyro_x,imu_gyro_y,imu_gyro_z"
)

IMU = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


def written(folder, lean, rows=80, name="flight.csv.gz"):
    """A vehicle at rest, its markers put on askew, in a file."""
    q = quat_from_euler(0.0, 0.0, 0.4) * lean
    rate = rotate(Quat(lean.w, -lean.x, -lean.y, -lean.z), Vec3(0.1, 0.2, 0.3))
    line = ",".join(
        f"{x:.17g}" for x in (0.1, 0.2, 0.05, q.x, q.y, q.z, q.w, 0.0, 0.0, 0.0, *rate, 1, 2, 3, 4, 3.9, *IMU)
    )
    text = "\n".join([HEADING, *(f"{0.01 * k:.2f},{line}" for k in range(rows))])
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


def test_the_body_stands_level_whichever_way_its_markers_lean(tmp_path):
    lean = quat_from_euler(0.03, -0.04, 0.0)
    (flight,) = read_log(written(tmp_path, lean))
    q = flight.attitude.values[:, 0]
    assert q == pytest.approx(np.array(quat_from_euler(0.0, 0.0, 0.4)), abs=1e-3)
    assert rotate(Quat(*q), Vec3(0.0, 0.0, 1.0)) == pytest.approx((0.0, 0.0, 1.0), abs=1e-12)
    assert flight.rate.values[:, 0] == pytest.approx((0.1, 0.2, 0.3), abs=1e-3)
    assert flight.command.values[:, 0] == pytest.approx(np.array((1.0, 2.0, 3.0, 4.0)) / FULL)
    assert flight.name == "flight"


def test_a_folder_is_read_file_by_file_and_no_two_flights_have_one_name(tmp_path):
    level = quat_from_euler(0.0, 0.0, 0.0)
    first = written(tmp_path, level, name="flight.csv")
    written(tmp_path, level, name="flight.csv.gz")
    (tmp_path / "LICENSE").write_text("words\n")
    (tmp_path / "flight_metadata.yaml").write_text("more: words\n")
    assert [own.name for own in read_logs([tmp_path])] == ["flight", "flight (2)"]
    assert [own.name for own in read_logs([first, tmp_path])] == ["flight", "flight (2)", "flight (3)"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: holds no flight log"):
        read_logs([tmp_path / "empty"])


# Real flights ------------------------------------------------------------------------------------------------------


def test_half_a_second_of_a_real_flight(shared_folder):
    """A flight of NanoBench beside the baselines: what docs/validation.md says of it"""
    folder = shared_folder / "data" / "nanobench"
    if not folder.is_dir():
        pytest.skip("no NanoBench flights in the shared folder")
    (found,) = validate(folder / "B9_trefoil_slow_rep2.csv.gz", ["crazyflie"])
    assert at(found, "hold the state", "position", 0.5) == pytest.approx(0.270, abs=0.005)
    assert at(found, "constant velocity", "position", 0.5) == pytest.approx(0.0706, abs=0.002)
    assert at(found, "crazyflie, trimmed", "rate", 0.5) < at(found, "crazyflie", "rate", 0.5)
