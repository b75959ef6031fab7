"""Turbulence, boundary layers, fields and logs as winds, each against its formula.

The discrete filters are written by hand; their spectra are computed here in two other ways: from the autocovariance of their
transition, and by Welch's estimate of a long series.
"""

import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm, solve_continuous_lyapunov
from scipy.signal import welch

import samara
from samara.core.algebra import ZERO, Vec3
from samara.core.random import gauss_markov, normals
from samara.core.tree import flatten
from samara.physics.air.atmosphere import log_law, power_law
from samara.physics.air.turbulence import (
    DRYDEN,
    DRYDEN_LENGTH_ALOFT,
    VON_KARMAN,
    VON_KARMAN_LENGTH_ALOFT,
    TransverseFilterState,
    dryden_longitudinal_spectrum,
    dryden_transverse_spectrum,
    transverse_gust,
    transverse_step,
    turbulence_deviations,
    turbulence_lengths,
    von_karman_longitudinal_spectrum,
    von_karman_transverse_spectrum,
)
from samara.plan import trajectory
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly
from samara.wind.shear import LogLaw, PowerLaw
from samara.wind.sources import Constant, Gust, OrnsteinUhlenbeck, WindSum, evaluate_wind, is_local
from samara.wind.turbulence import Dryden, VonKarman
from samara.wind.wind_field import RecordedWind, WindField

FOOT = 0.3048
SPECTRA = {
    "dryden": (DRYDEN, dryden_longitudinal_spectrum, dryden_transverse_spectrum),
    "von_karman": (VON_KARMAN, von_karman_longitudinal_spectrum, von_karman_transverse_spectrum),
}


# Lengths and strengths ---------------------------------------------------------------------------------------------


def test_the_handbooks_lengths_and_strengths():
    """MIL-HDBK-1797 at 200 ft in 15 knots, at the ends of the blend, and aloft; worked by hand from the printed formulas."""
    base = 0.177 + 0.000823 * 200.0
    along = 200.0 / base**1.2 * FOOT
    assert list(turbulence_lengths(200 * FOOT, aloft=DRYDEN_LENGTH_ALOFT)) == pytest.approx(
        [along, along / 2, 100 * FOOT], rel=1e-12
    )
    knots = 15 * 1852 / 3600
    sigma = turbulence_deviations(200 * FOOT, wind_6m=knots, aloft=2.0)
    assert list(sigma) == pytest.approx([0.1 * knots / base**0.4] * 2 + [0.1 * knots], rel=1e-12)
    assert list(turbulence_lengths(1000 * FOOT, aloft=DRYDEN_LENGTH_ALOFT)) == pytest.approx(
        [1000 * FOOT, 500 * FOOT, 500 * FOOT], rel=1e-12
    )  # 0.177 + 0.823 = 1: isotropic at the end of the low altitudes
    for height in (2000 * FOOT, 9000.0):
        for aloft, feet in ((DRYDEN_LENGTH_ALOFT, 1750), (VON_KARMAN_LENGTH_ALOFT, 2500)):
            long = feet * FOOT
            assert list(turbulence_lengths(height, aloft=aloft)) == pytest.approx([long, long / 2, long / 2], rel=1e-12)
        assert list(turbulence_deviations(height, wind_6m=knots, aloft=2.0)) == pytest.approx([2.0] * 3)
    halfway = turbulence_lengths(1500 * FOOT, aloft=DRYDEN_LENGTH_ALOFT)
    assert halfway.x == pytest.approx(0.5 * (1000 + 1750) * FOOT, rel=1e-12)
    assert turbulence_lengths(0.5, aloft=DRYDEN_LENGTH_ALOFT) == turbulence_lengths(
        10 * FOOT, aloft=DRYDEN_LENGTH_ALOFT
    )


@pytest.mark.parametrize(
    "spectrum",
    [
        dryden_longitudinal_spectrum,
        dryden_transverse_spectrum,
        von_karman_longitudinal_spectrum,
        von_karman_transverse_spectrum,
    ],
)
def test_a_spectrum_integrates_to_the_variance(spectrum):
    """∫₀^∞ Φ dΩ = σ², by Ω = tan φ / L; von Kármán's 1.339 is rounded to four digits."""
    length, sigma = 50.0, 1.7

    def over_angle(phi):
        omega = math.tan(phi) / length
        return spectrum(omega, sigma=sigma, length=length) * (1 + math.tan(phi) ** 2) / length

    variance = quad(over_angle, 0.0, math.pi / 2 - 1e-9, limit=500, points=[1.0, 1.5, 1.57])[0]
    assert variance == pytest.approx(sigma**2, rel=1e-4)


@pytest.mark.parametrize(
    ("along", "across"),
    [
        (dryden_longitudinal_spectrum, dryden_transverse_spectrum),
        (von_karman_longitudinal_spectrum, von_karman_transverse_spectrum),
    ],
)
def test_the_air_is_incompressible(along, across):
    """Isotropic turbulence: Φ_v = ½ (Φ_u − Ω dΦ_u/dΩ), with L_u = 2 L_v."""
    for omega in np.logspace(-4, 1, 30):
        h = 1e-5 * omega
        slope = (along(omega + h, sigma=1.0, length=100.0) - along(omega - h, sigma=1.0, length=100.0)) / (2 * h)
        expected = 0.5 * (along(omega, sigma=1.0, length=100.0) - omega * slope)
        assert across(omega, sigma=1.0, length=50.0) == pytest.approx(expected, rel=2e-4)


# The filters, exactly ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1e-7, 1e-4, 0.01, 0.3, 0.49, 0.51, 2.0, 30.0])
def test_the_transverse_filter_is_the_matrix_exponential(steps):
    """x' = e^{Ax} x + η, cov η = P − e^{A} P e^{Aᵀ}, with A of two lags in a row and P from Lyapunov's equation (Van Loan)."""
    length, distance = 0.5, steps  # 2L = 1: the distance is k
    a, b = np.array([[-1.0, 0.0], [1.0, -1.0]]), np.array([[math.sqrt(2.0)], [0.0]])
    stationary = solve_continuous_lyapunov(a, -b @ b.T)
    assert stationary == pytest.approx(np.array([[1.0, 0.5], [0.5, 0.5]]), rel=1e-14)
    van_loan = expm(np.block([[-a, b @ b.T], [np.zeros((2, 2)), a.T]]) * min(distance, 5.0))
    transition = van_loan[2:, 2:].T
    columns = [
        flatten(transverse_step(TransverseFilterState(*unit), 0.0, 0.0, distance, length=length)) for unit in np.eye(2)
    ]
    root = [
        flatten(transverse_step(TransverseFilterState(0.0, 0.0), *unit, distance, length=length)) for unit in np.eye(2)
    ]
    if distance <= 5.0:
        assert pytest.approx(transition, rel=1e-12, abs=1e-15) == np.array(columns).T
        covariance = np.array(root).T @ np.array(root)
        expected = transition @ van_loan[:2, 2:]
        assert covariance == pytest.approx(expected, rel=1e-8 if distance > 1e-5 else 1e-6)
    else:
        assert np.array(root).T @ np.array(root) == pytest.approx(stationary, rel=1e-12)


@pytest.mark.parametrize("model", SPECTRA)
@pytest.mark.parametrize("axis", ["along", "across"])
def test_the_spectrum_of_the_discrete_filter_is_the_formula(model, axis):
    """Three decades of Ω, steps of a hundredth of L: the filter's autocovariance, transformed, within 0.2 dB of Φ.

    The sampled series has the spectrum Σ Φ(Ω + 2πm/s), folded at half the sampling rate; the formula is folded likewise.
    """
    components, *formulas = SPECTRA[model]
    formula, length, s = formulas[axis == "across"], 40.0, 0.02
    omega = np.logspace(-4, -1, 60)
    spectrum = np.zeros_like(omega)
    for component in components:
        filter_length = component.length * length
        if axis == "along":
            decay = gauss_markov(1.0, 0.0, s, sigma=1.0, tau=filter_length)
            noise = gauss_markov(0.0, 1.0, s, sigma=1.0, tau=filter_length)
            response = noise / (1.0 - decay * np.exp(-1j * omega * s))
            power = np.abs(response) ** 2
        else:
            transition = np.array(
                [
                    flatten(transverse_step(TransverseFilterState(*unit), 0.0, 0.0, s, length=filter_length))
                    for unit in np.eye(2)
                ]
            ).T
            root = np.array(
                [
                    flatten(transverse_step(TransverseFilterState(0.0, 0.0), *unit, s, length=filter_length))
                    for unit in np.eye(2)
                ]
            ).T
            output = np.array([transverse_gust(TransverseFilterState(*unit)) for unit in np.eye(2)])
            power = np.array(
                [
                    np.sum(np.abs(output @ np.linalg.solve(np.eye(2) - transition * np.exp(-1j * w * s), root)) ** 2)
                    for w in omega
                ]
            )
        spectrum += component.variance * power * s / math.pi
    decibel = 10 * np.log10(spectrum / formula(omega, sigma=1.0, length=length))
    assert np.abs(decibel).max() < (0.01 if model == "dryden" else 0.14)


def test_von_karman_by_four_drydens_is_within_its_promise():
    """The continuous sum against both formulas from 1.339 LΩ = 0.001 to 1000; the variances add to one."""
    assert sum(component.variance for component in VON_KARMAN) == pytest.approx(1.0, abs=1e-12)
    omega = np.logspace(-3, 3, 2000) / 1.339
    for drydens, formula, length in (
        (dryden_longitudinal_spectrum, von_karman_longitudinal_spectrum, 1.0),
        (dryden_transverse_spectrum, von_karman_transverse_spectrum, 0.5),
    ):
        total = sum(
            component.variance * drydens(omega, sigma=1.0, length=component.length * length) for component in VON_KARMAN
        )
        worst = np.abs(10 * np.log10(total / formula(omega, sigma=1.0, length=length))).max()
        assert 0.05 < worst < 0.135


# Turbulence as a wind ----------------------------------------------------------------------------------------------


def series(wind, steps, dt, p_W, v_W, drones=1, seed=1):
    """(steps, 3, drones), the first sample stationary"""
    count = wind.normals_needed
    wind_state, winds = wind.initial(), np.empty((steps, 3, drones))
    for block in range(0, steps, 2000):
        ticks = np.arange(block, min(block + 2000, steps))
        block_normals = normals(seed, "wind", np.arange(drones)[None, :], ticks[:, None], count)
        for row, tick in enumerate(ticks):
            wind_W, wind_state = evaluate_wind(
                wind, tick * dt, dt if tick else math.inf, block_normals[row].T, wind_state, p_W, v_W
            )
            winds[tick] = np.stack(np.broadcast_arrays(*wind_W, np.zeros(drones))[:3])
    return winds


@pytest.mark.parametrize(("source_type", "model"), [(Dryden, "dryden"), (VonKarman, "von_karman")])
def test_many_drones_feel_its_variance_and_correlation_and_nothing_across(source_type, model):
    """σ² within 2 %, the correlation of the formula's cosine transform, axes uncorrelated: 40 000 drones at 50 m in 8 m/s.

    Along the wind and across it by the mean's direction, which is not an axis of the world.
    """
    n, dt, height, speed = 40000, 0.5, 50.0, 8.0
    heading = 0.6
    mean = Vec3(speed * math.cos(heading), speed * math.sin(heading), 0.0)
    wind_W = series(source_type(mean), 5, dt, Vec3(0.0, 0.0, height), ZERO, drones=n)
    rotation = np.array(
        [[math.cos(heading), math.sin(heading), 0], [-math.sin(heading), math.cos(heading), 0], [0, 0, 1]]
    )
    x = np.einsum("ij,tjn->tin", rotation, wind_W - np.array(mean)[None, :, None])
    sigma = np.array(turbulence_deviations(height, wind_6m=speed, aloft=1.5))
    lengths = np.array(turbulence_lengths(height, aloft=DRYDEN_LENGTH_ALOFT))
    for tick in (0, 4):
        assert np.abs(x[tick].var(axis=-1) / sigma**2 - 1).max() < 0.02
        assert np.abs(np.corrcoef(x[tick]) - np.eye(3)).max() < 4 / math.sqrt(n)
    _, *formulas = SPECTRA[model]
    for axis in range(3):
        separation = 4 * dt * speed

        def moment(w, axis=axis, separation=separation):
            return formulas[axis > 0](w, sigma=1.0, length=lengths[axis]) * math.cos(w * separation)

        expected = quad(moment, 0, 0.5, limit=2000)[0] + quad(moment, 0.5, 30.0, limit=5000)[0]
        correlation = (x[0, axis] * x[4, axis]).mean() / sigma[axis] ** 2
        assert correlation == pytest.approx(expected, abs=4 * math.sqrt(2 / n) + 0.004)


@pytest.mark.parametrize(("source_type", "model"), [(Dryden, "dryden"), (VonKarman, "von_karman")])
def test_welch_finds_the_spectrum_in_a_long_flight(source_type, model):
    """200 drones fly at 20 m/s through the air at 100 m for 75 s: within 1 dB of the formula over two decades."""
    dt, drones, steps, height = 0.05, 200, 1500, 100.0
    mean, v_W = Vec3(5.0, 0.0, 0.0), Vec3(-15.0, 0.0, 0.0)
    wind_W = series(source_type(mean), steps, dt, Vec3(0.0, 0.0, height), v_W, drones=drones)
    sigma = turbulence_deviations(height, wind_6m=5.0, aloft=1.5)
    lengths = turbulence_lengths(height, aloft=DRYDEN_LENGTH_ALOFT)
    _, *formulas = SPECTRA[model]
    frequency, power = welch(wind_W - wind_W.mean(axis=0), 1 / dt, nperseg=1500, axis=0, detrend=False)
    power = power.mean(axis=-1)
    edges = np.logspace(math.log10(0.04), math.log10(4.0), 13)
    for axis in range(3):
        estimated, predicted = [], []
        folds = 2 * math.pi / dt / 20.0
        wave = 2 * math.pi * frequency / 20.0
        formula = formulas[axis > 0]
        arguments = {"sigma": sigma[axis], "length": lengths[axis]}
        expected = formula(wave, **arguments) + sum(
            formula(m * folds + side * wave, **arguments) for m in range(1, 20) for side in (-1, 1)
        )
        expected = expected * 2 * math.pi / 20.0
        for low, high in pairwise(edges):
            in_band = (frequency >= low) & (frequency < high)
            if in_band.any():
                estimated.append(power[in_band, axis].mean())
                predicted.append(expected[in_band].mean())
        decibel = 10 * np.log10(np.array(estimated) / np.array(predicted))
        assert len(decibel) >= 12
        assert np.abs(decibel).max() < 1.0, decibel


def test_turbulence_is_frozen_in_the_wind():
    """A drone that drifts with the mean wind meets no change; at twice the airspeed the same gusts take half the time."""
    wind = Dryden(Vec3(6.0, 0.0, 0.0))
    position = Vec3(0.0, 0.0, 30.0)
    drifting = series(wind, 20, 0.1, position, Vec3(6.0, 0.0, 0.0))
    assert np.ptp(drifting, axis=0).max() == 0.0
    slow = series(wind, 50, 0.1, position, Vec3(-4.0, 0.0, 0.0))
    fast = series(wind, 50, 0.05, position, Vec3(-14.0, 0.0, 0.0))
    assert fast == pytest.approx(slow, rel=1e-12)


def test_a_step_of_any_length_is_as_good():
    """Two steps of dt have the law of one of 2 dt: transition and covariance compose (the property of exactness)."""
    length = 7.0
    for s in (1e-3, 0.5, 20.0):

        def matrices(step):
            transition = [
                flatten(transverse_step(TransverseFilterState(*u), 0.0, 0.0, step, length=length)) for u in np.eye(2)
            ]
            root = [
                flatten(transverse_step(TransverseFilterState(0.0, 0.0), *u, step, length=length)) for u in np.eye(2)
            ]
            return np.array(transition).T, np.array(root).T @ np.array(root)

        (transition, noise), (double_transition, double_noise) = matrices(s), matrices(2 * s)
        assert transition @ transition == pytest.approx(double_transition, rel=1e-12, abs=1e-300)
        assert transition @ noise @ transition.T + noise == pytest.approx(double_noise, rel=1e-11)


def test_mean_by_height_inside_turbulence():
    """The mean of turbulence may be a boundary layer: its 6 m wind sets the intensity, its local wind the airspeed."""
    layer = LogLaw(Vec3(0.0, 8.0, 0.0), reference_height=10.0, roughness=0.05)
    wind = Dryden(layer)
    still = (0.0,) * wind.normals_needed
    for height in (3.0, 40.0):
        wind_W, _ = wind.sample_at(0.0, 0.0, still, wind.initial(), Vec3(0.0, 0.0, height), ZERO)
        assert list(wind_W) == pytest.approx([0.0, 8.0 * math.log(height / 0.05) / math.log(10 / 0.05), 0.0], abs=1e-12)
    up, _ = wind.sample_at(0.0, math.inf, (0, 0, 0, 1.0, 0), wind.initial(), Vec3(0.0, 0.0, 40.0), ZERO)
    at_6m = 8.0 * math.log(20 * FOOT / 0.05) / math.log(10 / 0.05)
    # n = 1 on the first normal of the vertical filter: x₁ = 1, x₂ = ½
    assert up.z == pytest.approx(0.1 * at_6m * (math.sqrt(3) + (1 - math.sqrt(3)) / 2) / math.sqrt(2), rel=1e-12)


def test_jax_blows_the_same_wind():
    """A batch under jit, with its own heights and speeds, against floats one by one."""
    wind = Dryden(PowerLaw(Vec3(7.0, 2.0, 0.0)))
    drones, rng = 5, np.random.default_rng(3)
    p, v = rng.uniform(1.0, 700.0, (3, drones)), rng.uniform(-10.0, 10.0, (3, drones))

    @jax.jit
    def step(dt, tick_normals, wind_state, p, v):
        return evaluate_wind(wind, 0.0, dt, tick_normals, wind_state, Vec3(*p), Vec3(*v))

    wind_state = jax.tree.map(lambda x: jnp.full(drones, x), wind.initial())
    single_states = [wind.initial() for _ in range(drones)]
    for tick in range(4):
        dt = math.inf if tick == 0 else 0.02
        tick_normals = normals(1, "wind", np.arange(drones), tick, wind.normals_needed)
        wind_W, wind_state = step(dt, tuple(jnp.asarray(tick_normals.T)), wind_state, jnp.asarray(p), jnp.asarray(v))
        for drone in range(drones):
            position, speed = Vec3(*p[:, drone].tolist()), Vec3(*v[:, drone].tolist())
            single_wind, single_states[drone] = evaluate_wind(
                wind, 0.0, dt, tuple(tick_normals[drone].tolist()), single_states[drone], position, speed
            )
            assert [float(x[drone]) for x in wind_W] == pytest.approx(list(single_wind), rel=1e-11, abs=1e-12)


def test_which_winds_are_local():
    shared = [Constant(ZERO), Gust(ZERO, 0.0, 1.0), OrnsteinUhlenbeck(ZERO, 1.0, 1.0), WindSum((Constant(ZERO),))]
    local = [Dryden(ZERO), VonKarman(ZERO), PowerLaw(ZERO), LogLaw(ZERO), WindSum((Constant(ZERO), PowerLaw(ZERO)))]
    assert not any(map(is_local, shared)) and all(map(is_local, local))


def test_a_flight_in_turbulence_is_the_same_again():
    """Through the simulation: the wind of a hovering drone at `height`, seeded."""

    def winds(seed):
        above = Vec3(0.0, 0.0, 10.0)
        drone = Drone("one", samara.vehicle("crazyflie_documented"), trajectory.hover(above), above, airborne=True)
        run = fly(Scenario("gusty", (drone,), 0.2, wind=Dryden(Vec3(2.0, 0.0, 0.0)), seed=seed))
        return run.wind.tolist()

    assert winds(1) == winds(1) != winds(2)


# Boundary layers ---------------------------------------------------------------------------------------------------


def test_boundary_layers():
    """Both are 1 at the reference height; a power law has dW/dh · h/W = α; a log law grows as much from 1 to 2 m as from 50
    to 100; it is calm at the ground."""
    for law in (
        lambda h: power_law(h, reference_height=10.0, exponent=0.2),
        lambda h: log_law(h, reference_height=10.0, roughness=0.03),
    ):
        assert law(10.0) == pytest.approx(1.0, rel=1e-15)
    h = 37.0
    slope = (
        power_law(h + 1e-4, reference_height=10.0, exponent=0.2)
        - power_law(h - 1e-4, reference_height=10.0, exponent=0.2)
    ) / 2e-4
    assert slope * h / power_law(h, reference_height=10.0, exponent=0.2) == pytest.approx(0.2, rel=1e-8)
    gained = [
        log_law(2 * h, reference_height=10.0, roughness=0.03) - log_law(h, reference_height=10.0, roughness=0.03)
        for h in (1.0, 50.0)
    ]
    assert gained[0] == pytest.approx(gained[1], rel=1e-12) == pytest.approx(math.log(2) / math.log(10 / 0.03))
    assert (
        log_law(0.01, reference_height=10.0, roughness=0.03)
        == 0.0
        == log_law(-3.0, reference_height=10.0, roughness=0.03)
    )
    over_a_hill = PowerLaw.from_direction(5.0, math.radians(270), reference_height=10.0, exponent=0.2, ground=100.0)
    wind_W, _ = over_a_hill.sample_at(0.0, 0.1, (), (), Vec3(0.0, 0.0, 110.0), ZERO)
    assert list(wind_W) == pytest.approx([5.0, 0.0, 0.0], abs=1e-14)


# A field, and a log ------------------------------------------------------------------------------------------------


def affine(p):
    x, y, z = p
    return np.array([1.0 + 2 * x - y + 0.5 * z, 0.3 * x, -1.0 + z])


def grid(tmp_path, suffix):
    x, y, z = np.array([0.0, 1.0, 4.0]), np.array([-2.0, 2.0]), np.array([0.0, 0.5, 1.0, 9.0])
    wind = np.array([[[affine((a, b, c)) for c in z] for b in y] for a in x])
    path = tmp_path / f"field.{suffix}"
    if suffix == "npz":
        np.savez(path, x=x, y=y, z=z, wind=wind)
    else:
        rows = [(a, b, c, *affine((a, b, c))) for a in x for b in y for c in z]
        np.random.default_rng(1).shuffle(rows)
        np.savetxt(path, rows, delimiter=",", header="x,y,z,wind_x,wind_y,wind_z", comments="")
    return path


@pytest.mark.parametrize("suffix", ["npz", "csv"])
def test_a_field_is_linear_between_its_corners(tmp_path, suffix):
    """It reproduces any wind that is linear in position inside the grid; outside, the wind at the nearest inside position."""
    field = WindField.from_file(grid(tmp_path, suffix))
    p = np.random.default_rng(2).uniform([0, -2, 0], [4, 2, 9], (200, 3)).T
    wind_W, _ = field.sample_at(0.0, 0.1, (), (), Vec3(*p), ZERO)
    assert np.stack(wind_W) == pytest.approx(affine(p), rel=1e-12, abs=1e-12)
    outside, _ = field.sample_at(0.0, 0.1, (), (), Vec3(9.0, 0.0, -3.0), ZERO)
    assert list(outside) == pytest.approx(affine((4.0, 0.0, 0.0)).tolist(), abs=1e-12)
    assert all(type(component) is float for component in outside)
    at_nan, _ = field.sample_at(0.0, 0.1, (), (), Vec3(math.nan, 0.0, 1.0), ZERO)
    assert all(math.isnan(component) for component in at_nan)


def test_a_field_in_jax(tmp_path):
    field = WindField.from_file(grid(tmp_path, "npz"))
    p = np.random.default_rng(2).uniform(-1, 5, (3, 50))
    by_jax = jax.jit(lambda p: field.sample_at(0.0, 0.1, (), (), Vec3(*p), ZERO)[0])(jnp.asarray(p))
    by_numpy, _ = field.sample_at(0.0, 0.1, (), (), Vec3(*p), ZERO)
    assert np.stack(by_jax) == pytest.approx(np.stack(by_numpy), rel=1e-12, abs=1e-12)


def test_a_log_is_blown_again(tmp_path):
    """Held from entry to entry, or linear; constant before the first and after the last."""
    path = tmp_path / "log.csv"
    path.write_text("time,wind_x,wind_y,wind_z,note\n0.5,1,0,0,a\n1.0,3,-1,0,b\n2.0,3,5,1,c\n")
    stepwise, interpolated = RecordedWind.from_file(path), RecordedWind.from_file(path, linear=True)

    def wind_components(source, time):
        return list(source.sample(time, 0.02, (), ())[0])

    assert [wind_components(stepwise, t) for t in (0.0, 0.5, 0.999, 1.0, 7.0)] == [
        [1, 0, 0], [1, 0, 0], [1, 0, 0], [3, -1, 0], [3, 5, 1]
    ]  # fmt: skip
    assert [wind_components(interpolated, t) for t in (0.0, 0.75, 1.5, 9.0)] == [
        [1, 0, 0],
        [2, -0.5, 0],
        [3, 2, 0.5],
        [3, 5, 1],
    ]
    for source in (stepwise, interpolated):
        assert all(math.isnan(x) for x in wind_components(source, math.nan))
        by_jax = jax.jit(lambda t, source=source: source.sample(t, 0.02, (), ())[0])(jnp.asarray([0.75, 1.5]))
        assert (
            pytest.approx(np.array([wind_components(source, 0.75), wind_components(source, 1.5)]), rel=1e-14)
            == np.stack(by_jax).T
        )


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda _: Dryden(OrnsteinUhlenbeck(ZERO, 1.0, 1.0)), "Dryden.mean is OrnsteinUhlenbeck, which is random"),
        (lambda _: Dryden(ZERO, sigma_aloft=-1.0), "sigma_aloft is -1.0; expected a number that is not negative"),
        (lambda _: VonKarman(ZERO).sample(0, 0.1, (0.0,), ()), "VonKarman.sample got 1 normals; expected 20"),
        (
            lambda _: LogLaw(ZERO, reference_height=1.0, roughness=2.0),
            "LogLaw.reference_height is 1.0; expected more than the roughness length 2.0",
        ),
        (lambda _: RecordedWind([0.0, 0.0], [[0, 0, 0]] * 2), "RecordedWind.times do not increase"),
        (
            lambda _: RecordedWind([0.0], [[0, math.nan, 0]]),
            r"RecordedWind.wind_W\[0, 1\] is nan; expected a finite number",
        ),
        (lambda _: WindField([0.0], [0.0], [0.0], [[[[0.0, 0.0]]]]), r"WindField.wind_W has shape \(1, 1, 1, 2\)"),
        (lambda d: _file(d, "time,wind_x\n", RecordedWind), "column 'wind_y' is missing; expected time, wind_x"),
        (lambda d: _file(d, "time,wind_x,wind_y,wind_z\n0,1,two,3\n", RecordedWind), "line 2 is .*; expected numbers"),
        (
            lambda d: _file(d, "x,y,z,wind_x,wind_y,wind_z\n0,0,0,1,1,1\n1,1,0,1,1,1\n", WindField),
            "2 rows; expected one for each of the 2 × 2 × 1 corners",
        ),
    ],
)
def test_it_is_refused_in_one_sentence(tmp_path, build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build(tmp_path)


def _file(folder, text, source_type):
    path = folder / "table.csv"
    path.write_text(text)
    return source_type.from_file(path)
