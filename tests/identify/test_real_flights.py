"""Identification on flights of real Crazyflies, against published values and simple baselines."""

import numpy as np
import pytest
from figures.validation import unfitted_crazyflie

from samara.identify.identification import identify
from samara.identify.log_checks import require_usable
from samara.identify.readers.registry import read_log, read_logs
from samara.identify.resampled_log import resample_log
from samara.identify.scores import cross_validate, error_ratios, pool_scores
from samara.physics.rotors.actuator import speed_from_command

pytestmark = pytest.mark.long

PUBLISHED_INERTIA = {"inertia.xx": (1.0286e-5, 1.66e-5), "inertia.yy": (1.1052e-5, 1.66e-5)}
"""[kg m²]: Eschmann, Albani, Loianno (2024) from these logs, and Foerster (2015) on a bifilar pendulum"""
PUBLISHED_LAG = 0.072  # [s]


def published_thrust(u):
    """Of one motor at the PWM ratio u  [N]: Eschmann, Albani, Loianno (arXiv 2404.07837)"""
    return 0.02126557 - 0.01117503 * u + 0.12012994 * u * u


@pytest.fixture(scope="module")
def arpl(request):
    folder = request.getfixturevalue("shared_folder") / "data" / "arpl_crazyflie"
    if not folder.is_dir():
        pytest.skip("no Crazyflie logs in the shared folder")
    start = unfitted_crazyflie()
    return start, identify(
        [log for name in ("log10", "log15") for log in read_log(folder / name)], start, predictor=False
    )


def test_inertia_and_lag_of_the_published_logs(arpl):
    """From IMU and motors only: inertia between the published values, and the published lag between rise and fall."""
    _, identification = arpl
    for name, (low, high) in PUBLISHED_INERTIA.items():
        estimate = identification.physical.estimate(name)
        assert estimate.excited and low < estimate.value < high
    rise, fall = (
        identification.physical.estimate(f"motor.{direction}")
        for direction in ("time_constant_up", "time_constant_down")
    )
    assert rise.value < PUBLISHED_LAG < fall.value
    assert np.sqrt(rise.value * fall.value) == pytest.approx(PUBLISHED_LAG, rel=0.25)


def test_the_thrust_curve_of_the_published_logs(arpl):
    """f(u) over the outputs of a flight: the published curve times one number, the ratio of the two masses"""
    start, identification = arpl
    u = np.linspace(0.45, 0.75, 7)
    rotor = start.rotors[0]
    k_thrust = identification.physical.estimate("k_thrust").value
    speed, curve = np.asarray(speed_from_command(u, rotor.motor)), identification.physical.bare["thrust_curve"]
    identified = k_thrust * (speed + curve.linear * (curve.speed - speed)) * speed
    ratio = identified / published_thrust(u)
    assert ratio.mean() == pytest.approx(1.0, abs=0.15)
    assert ratio == pytest.approx(ratio.mean(), rel=0.06)


def test_seven_flights_of_nanobench_each_predicted_by_the_others(shared_folder):
    """Half a second ahead, over constant velocity: as written, and with one gain for each rotor from the first 5 s."""
    folder = shared_folder / "data" / "nanobench"
    if not folder.is_dir():
        pytest.skip("no NanoBench flights in the shared folder")
    start = unfitted_crazyflie()
    flights = [resample_log(require_usable(log)[0], start) for log in read_logs([folder])]
    assert len(flights) == 7
    scores = pool_scores([prediction.score() for prediction in cross_validate(flights, start)])
    bars = {
        "predictor": {"position": 0.65, "velocity": 0.76, "attitude": 0.60, "rate": 0.72},
        "predictor, trimmed": {"position": 0.42, "velocity": 0.50, "attitude": 0.40, "rate": 0.67},
    }
    for name, bar in bars.items():
        error_ratio = error_ratios(scores, name)
        assert {quantity: error_ratio[quantity] for quantity in bar if error_ratio[quantity] > bar[quantity]} == {}, (
            name
        )
