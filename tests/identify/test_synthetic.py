"""Synthetic vehicles: plausible, reproducible from their seed, and with logs that match their flights."""

import numpy as np
import pytest
from studies.synthetic import case_volume, prior_vehicle, random_vehicle, simulate_logs

from samara.core.algebra import Vec3
from samara.identify.flight_log import ESTIMATE, MOTION_CAPTURE
from samara.plan.trajectory import figure8, hover, sequence
from samara.vehicles.check import check_vehicle
from samara.vehicles.plausibility import warnings


def test_random_vehicles_are_plausible_and_span_two_decades():
    vehicles = [random_vehicle(7, i) for i in range(60)]
    assert [warning for vehicle in vehicles for warning in warnings(vehicle)] == []
    masses = sorted(vehicle.mass for vehicle in vehicles)
    assert 0.02 <= masses[0] < 0.04 and 2.5 < masses[-1] <= 5.0


def test_a_vehicle_is_decided_by_seed_and_number():
    assert random_vehicle(3, 5) == random_vehicle(3, 5)
    assert random_vehicle(3, 5).mass != random_vehicle(3, 6).mass != random_vehicle(4, 6).mass


def test_what_is_believed_keeps_what_scales_and_rulers_tell():
    """Mass and the distances between hubs are exact; the centre of mass is assumed in the middle, other values differ."""
    truth = random_vehicle(1, 3)
    start = check_vehicle(prior_vehicle(truth, 1, 3))
    assert start.mass == truth.mass
    for a, b in ((0, 1), (1, 2)):
        assert start.rotors[a].r_B - start.rotors[b].r_B == pytest.approx(truth.rotors[a].r_B - truth.rotors[b].r_B)
    assert sum(rotor.r_B.x for rotor in start.rotors) == pytest.approx(0.0, abs=1e-15)
    assert start.rotors[0].k_thrust != truth.rotors[0].k_thrust and start.inertia_B.xx != truth.inertia_B.xx


@pytest.mark.long
@pytest.mark.parametrize("captured", [True, False])
def test_a_log_is_of_the_flight_that_was_flown(captured):
    """Velocity integrates to position, the gyroscope to the attitude, and specific force carries the weight"""
    vehicle = random_vehicle(1, 4)
    home = case_volume(vehicle, 0 if captured else 1).home_W
    task = sequence(hover(home, duration=4.0), figure8(home, half_length=1.5, speed=1.5))
    (log,) = simulate_logs([vehicle], [task], [0 if captured else 1], captured=captured)
    assert log.truth == (MOTION_CAPTURE if captured else ESTIMATE)
    for signal, rate in ((log.command, 250.0), (log.position, 100.0), (log.rate, 500.0 if captured else 250.0)):
        assert np.diff(signal.time) == pytest.approx(1.0 / rate)
        assert signal.time[-1] == pytest.approx(task.duration, abs=0.02)
    reference = np.stack(task.evaluate(log.position.time).p_W)
    assert np.abs(log.position.values - reference).max() < (0.7 if captured else 4.0)
    assert np.median(log.specific_force.values[2]) == pytest.approx(9.81, abs=0.3)
    q = log.attitude.values
    assert np.linalg.norm(q, axis=0) == pytest.approx(1.0)
    half = len(log.attitude.time) // 2
    is_before = log.rate.time <= log.attitude.time[half]
    integrated = _integrate_rates(q[:, 0], log.rate.values[:, is_before], log.rate.time[1])
    assert abs(integrated @ q[:, half]) == pytest.approx(1.0, abs=1e-3)
    if not captured:
        displacement = log.velocity.values[:, :half].sum(axis=1) * 0.01
        assert Vec3(*displacement) == pytest.approx(
            Vec3(*(log.position.values[:, half] - log.position.values[:, 0])), abs=1.0
        )


def _integrate_rates(q, rates, dt):
    """Rotate q with each rate for dt, one after the other."""
    for rate in rates.T:
        w, v = q[0], q[1:]
        half = 0.5 * dt * rate
        q = np.array([w - v @ half, *(v + w * half + np.cross(v, half))])
        q = q / np.linalg.norm(q)
    return q
