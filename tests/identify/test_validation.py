"""Vehicles against real flights: a vehicle predicts its own flight, so errors of other vehicles are due to them."""

import gzip
import math

import numpy as np
import pytest
from support.measured_flights import exact_samples, lively_trajectory

import samara
from samara.core.algebra import Quat, Vec3, quat_from_euler, rotate
from samara.identify.prediction_error_fit import QUANTITIES, Windows, constant_velocity, hold_state, prediction_errors
from samara.identify.readers import read_log, read_logs
from samara.identify.readers.crazyflie import MAX_PWM, MOTOR_VOLTS, ROTOR_SPEEDS, rotor_speed_from_pwm
from samara.identify.scores import (
    HORIZONS,
    PredictionScore,
    ScoredModel,
    cross_validate,
    describe_worse_models,
    error_ratios,
    pool_scores,
    predict_flight,
    rms_error,
    score_table,
    scored_windows,
    split_in_halves,
    validate,
)

PERIOD = 0.01


@pytest.fixture(scope="module")
def own_flight():
    vehicle = samara.vehicle("crazyflie")
    return vehicle, exact_samples(vehicle, lively_trajectory(vehicle), 20.0)


def test_a_vehicle_predicts_its_own_flight(own_flight):
    """To a thousandth of the error of constant velocity: the remainder is due to the longer integration steps."""
    vehicle, samples = own_flight
    score = predict_flight(samples, {"own": ScoredModel.build(vehicle, is_trimmed=False)}).score()
    assert score.windows > 100
    assert max(error_ratios(score, "own").values()) < 1e-2
    assert error_ratios(score, "constant velocity") == dict.fromkeys(QUANTITIES, 1.0)


def test_a_wrong_mass_falls_as_a_wrong_mass_does(own_flight):
    """Δp = ½ (T/m' − T/m) t² to a few percent: one percent of mass is 12 mm after half a second"""
    vehicle, samples = own_flight
    heavier = ScoredModel.build(vehicle.replace(mass=1.01 * vehicle.mass), is_trimmed=False)
    score = predict_flight(samples, {"heavier": heavier}).score()
    expected = 0.5 * 9.80665 * (1.0 - 1.0 / 1.01) * 0.25
    assert rms_error(score, "heavier", "position", 0.5) == pytest.approx(expected, rel=0.15)


def test_models_worse_than_constant_velocity_are_named(own_flight):
    """A vehicle of twice the inertia and half the thrust falls: its sentence names the quantities; the right one has none."""
    vehicle, samples = own_flight
    weak = tuple(rotor._replace(k_thrust=0.5 * rotor.k_thrust) for rotor in vehicle.rotors)
    models = {"own": vehicle, "weak": vehicle.replace(rotors=weak)}
    score = predict_flight(samples, {k: ScoredModel.build(v, is_trimmed=False) for k, v in models.items()}).score()
    (sentence,) = describe_worse_models(score)
    assert sentence.startswith("weak predicts position, velocity") and "own" not in sentence
    assert sentence.endswith("worse than constant velocity and a constant rate")


def test_no_scored_window_begins_in_the_seconds_of_the_trim(own_flight):
    _, samples = own_flight
    usable = samples.time[samples.usable]
    assert samples.time[scored_windows(samples).starts].min() >= usable[0] + 5.0


def test_halves_share_no_sample(own_flight):
    _, samples = own_flight
    first, second = split_in_halves(samples)
    assert not (first.usable & second.usable).any()
    assert (first.usable | second.usable).sum() == samples.usable.sum()
    assert abs(int(first.usable.sum()) - int(second.usable.sum())) <= 1
    assert (first.name, second.name) == (f"{samples.name}, first half", f"{samples.name}, second half")


def test_flights_held_out_are_predicted_by_the_others(own_flight, monkeypatch):
    """Each flight is predicted by the vehicle identified on all others; of one flight, each half by the other."""
    import samara.identify.scores as scores_module

    vehicle, samples = own_flight
    training_sets = []
    original = scores_module.identify_resampled

    def spy(flights, start, **options):
        training_sets.append({flight.name for flight in flights})
        return original(flights, start, **options | {"predictor": False})

    monkeypatch.setattr(scores_module, "identify_resampled", spy)
    names = ("a", "b")
    predictions = cross_validate([samples._replace(name=name) for name in names], vehicle)
    assert [prediction.samples.name for prediction in predictions] == list(names) and training_sets == [{"b"}, {"a"}]
    names = {"crazyflie", "crazyflie, trimmed", "physical", "physical, trimmed"}
    assert set(predictions[0].predictions) == names
    training_sets.clear()
    assert len(cross_validate([samples], vehicle)) == 2
    assert training_sets == [{f"{samples.name}, second half"}, {f"{samples.name}, first half"}]


def test_every_window_of_every_flight_counts_alike():
    """√((1·3² + 3·1²)/4)"""
    one_window, three_windows = (
        PredictionScore(str(n), n, {"m": {q: np.full(10, e) for q in QUANTITIES}}) for n, e in ((1, 3.0), (3, 1.0))
    )
    pooled = pool_scores([one_window, three_windows])
    assert pooled.windows == 4
    assert pooled.rms["m"]["rate"] == pytest.approx(math.sqrt(3.0))
    text = score_table([one_window, three_windows])
    assert text.count("\n") == 2 + 3 and "| all flights (4) | m | 1.73 |" in text
    assert rms_error(pooled, "m", "position", HORIZONS[-1]) == pytest.approx(math.sqrt(3.0))


def test_the_baselines_are_what_they_say():
    """Standing still, and p + v t with q ⊗ exp(ω t): a body that turns at ω about z for half a second has yawed ω/2."""
    q = quat_from_euler(0.3, -0.2, 0.5)
    body = np.tile(np.array([[1.0, 2.0, 3.0, 0.5, 0.0, -1.0, *q, 0.0, 0.0, 0.8]]).T, (1, 60))
    windows = Windows(np.array([0, 5]), 50, PERIOD)
    assert (hold_state(body, windows)[-1] == body[:, [0, 5]]).all()
    end = constant_velocity(body, windows)[-1, :, 0]
    assert end[:3] == pytest.approx([1.25, 2.0, 2.5], rel=1e-14)
    expected_q = q * Quat(math.cos(0.2), 0.0, 0.0, math.sin(0.2))
    assert end[6:10] == pytest.approx(np.array(expected_q), rel=1e-14)
    assert prediction_errors(constant_velocity(body, windows), hold_state(body, windows))["attitude"][
        -1, 0
    ] == pytest.approx(math.degrees(0.4))


# From PWM to command -------------------------------------------------------------------------------------------------


def test_pwm_times_battery_is_what_turns_the_motor():
    """Every row of the table separately; half the battery at twice the PWM is the same motor voltage, so the same speed."""
    for volts, speed in zip(MOTOR_VOLTS, ROTOR_SPEEDS, strict=True):
        assert rotor_speed_from_pwm(MAX_PWM * volts / 4.0, 4.0) == pytest.approx(speed, rel=1e-12)
    assert rotor_speed_from_pwm(30000.0, 4.0) == pytest.approx(rotor_speed_from_pwm(40000.0, 3.0), rel=1e-12)
    assert all(np.diff(ROTOR_SPEEDS) > 0)


# Reading ---------------------------------------------------------------------------------------------------------------

HEADING = (
    "t,px,py,pz,qx,qy,qz,qw,vx,vy,vz,wx_vicon,wy_vicon,wz_vicon,motor_motor_m1,motor_motor_m2,motor_motor_m3,"
    "motor_motor_m4,pwr_pm_vbat,imu_acc_x,imu_acc_y,imu_acc_z,imu_gyro_x,imu_gyro_y,imu_gyro_z"
)

IMU = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


def write_log(folder, tilt, rows=80, name="flight.csv.gz"):
    """Write a log of a vehicle at rest whose markers are tilted."""
    q = quat_from_euler(0.0, 0.0, 0.4) * tilt
    rate = rotate(Quat(tilt.w, -tilt.x, -tilt.y, -tilt.z), Vec3(0.1, 0.2, 0.3))
    line = ",".join(
        f"{x:.17g}" for x in (0.1, 0.2, 0.05, q.x, q.y, q.z, q.w, 0.0, 0.0, 0.0, *rate, 1, 2, 3, 4, 3.9, *IMU)
    )
    text = "\n".join([HEADING, *(f"{0.01 * k:.2f},{line}" for k in range(rows))])
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


def test_the_body_stands_level_whichever_way_its_markers_lean(tmp_path):
    tilt = quat_from_euler(0.03, -0.04, 0.0)
    (flight,) = read_log(write_log(tmp_path, tilt))
    q = flight.attitude.values[:, 0]
    assert q == pytest.approx(np.array(quat_from_euler(0.0, 0.0, 0.4)), abs=1e-3)
    assert rotate(Quat(*q), Vec3(0.0, 0.0, 1.0)) == pytest.approx((0.0, 0.0, 1.0), abs=1e-12)
    assert flight.rate.values[:, 0] == pytest.approx((0.1, 0.2, 0.3), abs=1e-3)
    assert flight.command.values[:, 0] == pytest.approx(np.array((1.0, 2.0, 3.0, 4.0)) / MAX_PWM)
    assert flight.name == "flight"


def test_a_folder_is_read_file_by_file_and_no_two_flights_have_one_name(tmp_path):
    level = quat_from_euler(0.0, 0.0, 0.0)
    first = write_log(tmp_path, level, name="flight.csv")
    write_log(tmp_path, level, name="flight.csv.gz")
    (tmp_path / "LICENSE").write_text("words\n")
    (tmp_path / "flight_metadata.yaml").write_text("more: words\n")
    assert [log.name for log in read_logs([tmp_path])] == ["flight", "flight (2)"]
    assert [log.name for log in read_logs([first, tmp_path])] == ["flight", "flight (2)", "flight (3)"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: holds no flight log"):
        read_logs([tmp_path / "empty"])


# Real flights ------------------------------------------------------------------------------------------------------


def test_half_a_second_of_a_real_flight(shared_folder):
    """A flight of NanoBench against the baselines, as in docs/evidence/prediction.md."""
    folder = shared_folder / "data" / "nanobench"
    if not folder.is_dir():
        pytest.skip("no NanoBench flights in the shared folder")
    (score,) = validate(folder / "B9_trefoil_slow_rep2.csv.gz", ["crazyflie"])
    assert rms_error(score, "hold the state", "position", 0.5) == pytest.approx(0.270, abs=0.005)
    assert rms_error(score, "constant velocity", "position", 0.5) == pytest.approx(0.0706, abs=0.002)
    assert rms_error(score, "crazyflie, trimmed", "rate", 0.5) < rms_error(score, "crazyflie", "rate", 0.5)
