"""Turbulence, boundary layers, fields and logs as winds, each against its formula.

The discrete filters are written by hand; their spectra are found here by two other roads, the autocovariance their own
transition implies, and Welch's estimate of a long series.
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
    DRYDEN_ALOFT,
    VON_KARMAN,
    VON_KARMAN_ALOFT,
    Transverse,
    dryden_across,
    dryden_along,
    transverse_gust,
    transverse_step,
    turbulence_deviations,
    turbulence_lengths,
    von_karman_across,
    von_karman_along,
)
from samara.plan import trajectory
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly
from samara.wind.shear import LogLaw, PowerLaw
from samara.wind.sources import Constant, Gust, OrnsteinUhlenbeck, Sum, is_local, wind_at
from samara.wind.turbulence import Dryden, VonKarman
from samara.wind.wind_field import Field, Replay

FOOT = 0.3048
SPECTRA = {
    "dryden": (DRYDEN, dryden_along, dryden_across),
    "von_karman": (VON_KARMAN, von_karman_along, von_karman_across),
}


# Lengths and strengths ---------------------------------------------------------------------------------------------


def test_the_handbooks_lengths_and_strengths():
    """MIL-HDBK-1797 at 200 ft in 15 knots, at the ends of the blend, and aloft; worked by hand from the printed formulas."""
    base = 0.177 + 0.000823 * 200.0
    along = 200.0 / base**1.2 * FOOT
    assert list(turbulence_lengths(200 * FOOT, aloft=DRYDEN_ALOFT)) == pytest.approx(
        [along, along / 2, 100 * FOOT], rel=1e-12
    )
    knots = 15 * 1852 / 3600
    sigma = turbulence_deviations(200 * FOOT, wind_6m=knots, aloft=2.0)
    assert list(sigma) == pytest.approx([0.1 * knots / base**0.4] * 2 + [0.1 * knots], rel=1e-12)
    assert list(turbulence_lengths(1000 * FOOT, aloft=DRYDEN_ALOFT)) == pytest.approx(
        [1000 * FOOT, 500 * FOOT, 500 * FOOT], rel=1e-12
    )  # 0.177 + 0.823 = 1: isotropic where the low altitudes end
    for height in (2000 * FOOT, 9000.0):
        for aloft, feet in ((DRYDEN_ALOFT, 1750), (VON_KARMAN_ALOFT, 2500)):
            long = feet * FOOT
            assert list(turbulence_lengths(height, aloft=aloft)) == pytest.approx([long, long / 2, long / 2], rel=1e-12)
        assert list(turbulence_deviations(height, wind_6m=knots, aloft=2.0)) == pytest.approx([2.0] * 3)
    halfway = turbulence_lengths(1500 * FOOT, aloft=DRYDEN_ALOFT)
    assert halfway.x == pytest.approx(0.5 * (1000 + 1750) * FOOT, rel=1e-12)
    assert turbulence_lengths(0.5, aloft=DRYDEN_ALOFT) == turbulence_lengths(10 * FOOT, aloft=DRYDEN_ALOFT)


@pytest.mark.parametrize("spectrum", [dryden_along, dryden_across, von_karman_along, von_karman_across])
def test_a_spectrum_integrates_to_the_variance(spectrum):
    """∫₀^∞ Φ dΩ = σ², by Ω = tan φ / L; von Kármán's 1.339 is rounded to four digits."""
    length, sigma = 50.0, 1.7

    def over_angle(phi):
        omega = math.tan(phi) / length
        return spectrum(omega, sigma=sigma, length=length) * (1 + math.tan(phi) ** 2) / length

    whole = quad(over_angle, 0.0, math.pi / 2 - 1e-9, limit=500, points=[1.0, 1.5, 1.57])[0]
    assert whole == pytest.approx(sigma**2, rel=1e-4)


@pytest.mark.parametrize(("along", "across"), [(dryden_along, dryden_across), (von_karman_along, von_karman_across)])
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
    turn = van_loan[2:, 2:].T
    columns = [flatten(transverse_step(Transverse(*unit), 0.0, 0.0, distance, length=length)) for unit in np.eye(2)]
    root = [flatten(transverse_step(Transverse(0.0, 0.0), *unit, distance, length=length)) for unit in np.eye(2)]
    if distance <= 5.0:
        assert pytest.approx(turn, rel=1e-12, abs=1e-15) == np.array(columns).T
        covariance = np.array(root).T @ np.array(root)
        wanted = turn @ van_loan[:2, 2:]
        assert covariance == pytest.approx(wanted, rel=1e-8 if distance > 1e-5 else 1e-6)
    else:
        assert np.array(root).T @ np.array(root) == pytest.approx(stationary, rel=1e-12)


@pytest.mark.parametrize("model", SPECTRA)
@pytest.mark.parametrize("axis", ["along", "across"])
def test_the_spectrum_of_the_discrete_filter_is_the_formula(model, axis):
    """Three decades of Ω, steps of a hundredth of L: the filter's autocovariance, transformed, within 0.2 dB of Φ.

    The sampled series has the spectrum Σ Φ(Ω + 2πm/s), folded at half the sampling rate; the formula is folded alike.
    """
    shares, *formulas = SPECTRA[model]
    formula, length, s = formulas[axis == "across"], 40.0, 0.02
    omega = np.logspace(-4, -1, 60)
    found = np.zeros_like(omega)
    for share in shares:
        own = share.length * length
        if axis == "along":
            keep = gauss_markov(1.0, 0.0, s, sigma=1.0, tau=own)
            noise = gauss_markov(0.0, 1.0, s, sigma=1.0, tau=own)
            response = noise / (1.0 - keep * np.exp(-1j * omega * s))
            power = np.abs(response) ** 2
        else:
            turn = np.array(
                [flatten(transverse_step(Transverse(*unit), 0.0, 0.0, s, length=own)) for unit in np.eye(2)]
            ).T
            root = np.array(
                [flatten(transverse_step(Transverse(0.0, 0.0), *unit, s, length=own)) for unit in np.eye(2)]
            ).T
            output = np.array([transverse_gust(Transverse(*unit)) for unit in np.eye(2)])
            power = np.array(
                [
                    np.sum(np.abs(output @ np.linalg.solve(np.eye(2) - turn * np.exp(-1j * w * s), root)) ** 2)
                    for w in omega
                ]
            )
        found += share.variance * power * s / math.pi
    decibel = 10 * np.log10(found / formula(omega, sigma=1.0, length=length))
    assert np.abs(decibel).max() < (0.01 if model == "dryden" else 0.14)


def test_von_karman_by_four_drydens_is_within_its_promise():
    """The continuous sum against both formulas from 1.339 LΩ = 0.001 to 1000, and shares that add to one."""
    assert sum(share.variance for share in VON_KARMAN) == pytest.approx(1.0, abs=1e-12)
    omega = np.logspace(-3, 3, 2000) / 1.339
    for drydens, formula, length in ((dryden_along, von_karman_along, 1.0), (dryden_across, von_karman_across, 0.5)):
        total = sum(share.variance * drydens(omega, sigma=1.0, length=share.length * length) for share in VON_KARMAN)
        worst = np.abs(10 * np.log10(total / formula(omega, sigma=1.0, length=length))).max()
        assert 0.05 < worst < 0.135


# Turbulence as a wind ----------------------------------------------------------------------------------------------


def series(wind, steps, dt, p_W, v_W, drones=1, seed=1):
    """(steps, 3, drones), the first sample stationary"""
    needed = wind.normals_needed
    memory, winds = wind.initial(), np.empty((steps, 3, drones))
    for block in range(0, steps, 2000):
        ticks = np.arange(block, min(block + 2000, steps))
        drawn = normals(seed, "wind", np.arange(drones)[None, :], ticks[:, None], needed)
        for row, tick in enumerate(ticks):
            blew, memory = wind_at(wind, tick * dt, dt if tick else math.inf, drawn[row].T, memory, p_W, v_W)
            winds[tick] = np.stack(np.broadcast_arrays(*blew, np.zeros(drones))[:3])
    return winds


@pytest.mark.parametrize(("kind", "model"), [(Dryden, "dryden"), (VonKarman, "von_karman")])
def test_many_drones_feel_its_variance_and_correlation_and_nothing_across(kind, model):
    """σ² within 2 %, the correlation of the formula's cosine transform, axes uncorrelated: 40 000 drones at 50 m in 8 m/s.

    Along the wind and across it by the mean's direction, which is not an axis of the world.
    """
    n, dt, height, speed = 40000, 0.5, 50.0, 8.0
    heading = 0.6
    mean = Vec3(speed * math.cos(heading), speed * math.sin(heading), 0.0)
    blew = series(kind(mean), 5, dt, Vec3(0.0, 0.0, height), ZERO, drones=n)
    turn = np.array([[math.cos(heading), math.sin(heading), 0], [-math.sin(heading), math.cos(heading), 0], [0, 0, 1]])
    x = np.einsum("ij,tjn->tin", turn, blew - np.array(mean)[None, :, None])
    sigma = np.array(turbulence_deviations(height, wind_6m=speed, aloft=1.5))
    lengths = np.array(turbulence_lengths(height, aloft=DRYDEN_ALOFT))
    for tick in (0, 4):
        assert np.abs(x[tick].var(axis=-1) / sigma**2 - 1).max() < 0.02
        assert np.abs(np.corrcoef(x[tick]) - np.eye(3)).max() < 4 / math.sqrt(n)
    _, *formulas = SPECTRA[model]
    for axis in range(3):
        apart = 4 * dt * speed

        def moment(w, axis=axis, apart=apart):
            return formulas[axis > 0](w, sigma=1.0, length=lengths[axis]) * math.cos(w * apart)

        expected = quad(moment, 0, 0.5, limit=2000)[0] + quad(moment, 0.5, 30.0, limit=5000)[0]
        found = (x[0, axis] * x[4, axis]).mean() / sigma[axis] ** 2
        assert found == pytest.approx(expected, abs=4 * math.sqrt(2 / n) + 0.004)


@pytest.mark.parametrize(("kind", "model"), [(Dryden, "dryden"), (VonKarman, "von_karman")])
def test_welch_finds_the_spectrum_in_a_long_flight(kind, model):
    """200 drones fly at 20 m/s through the air at 100 m for 75 s: within 1 dB of the formula over two decades."""
    dt, drones, steps, height = 0.05, 200, 1500, 100.0
    mean, v_W = Vec3(5.0, 0.0, 0.0), Vec3(-15.0, 0.0, 0.0)
    blew = series(kind(mean), steps, dt, Vec3(0.0, 0.0, height), v_W, drones=drones)
    sigma = turbulence_deviations(height, wind_6m=5.0, aloft=1.5)
    lengths = turbulence_lengths(height, aloft=DRYDEN_ALOFT)
    _, *formulas = SPECTRA[model]
    frequency, power = welch(blew - blew.mean(axis=0), 1 / dt, nperseg=1500, axis=0, detrend=False)
    power = power.mean(axis=-1)
    edges = np.logspace(math.log10(0.04), math.log10(4.0), 13)
    for axis in range(3):
        found, wanted = [], []
        folds = 2 * math.pi / dt / 20.0
        wave = 2 * math.pi * frequency / 20.0
        formula = formulas[axis > 0]
        numbers = {"sigma": sigma[axis], "length": lengths[axis]}
        expected = formula(wave, **numbers) + sum(
            formula(m * folds + side * wave, **numbers) for m in range(1, 20) for side in (-1, 1)
        )
        expected = expected * 2 * math.pi / 20.0
        for low, high in pairwise(edges):
            inside = (frequency >= low) & (frequency < high)
            if inside.any():
                found.append(power[inside, axis].mean())
                wanted.append(expected[inside].mean())
        decibel = 10 * np.log10(np.array(found) / np.array(wanted))
        assert len(decibel) >= 12
        assert np.abs(decibel).max() < 1.0, decibel


def test_turbulence_is_frozen_in_the_wind():
    """Who drifts with the mean wind feels no change; who flies twice as fast meets the same gusts in half the time."""
    wind = Dryden(Vec3(6.0, 0.0, 0.0))
    place = Vec3(0.0, 0.0, 30.0)
    drifting = series(wind, 20, 0.1, place, Vec3(6.0, 0.0, 0.0))
    assert np.ptp(drifting, axis=0).max() == 0.0
    slow = series(wind, 50, 0.1, place, Vec3(-4.0, 0.0, 0.0))
    fast = series(wind, 50, 0.05, place, Vec3(-14.0, 0.0, 0.0))
    assert fast == pytest.approx(slow, rel=1e-12)


def test_a_step_of_any_length_is_as_good():
    """Two steps of dt have the law of one of 2 dt: transition and covariance compose (the property of exactness)."""
    length = 7.0
    for s in (1e-3, 0.5, 20.0):

        def matrices(step):
            turn = [flatten(transverse_step(Transverse(*u), 0.0, 0.0, step, length=length)) for u in np.eye(2)]
            root = [flatten(transverse_step(Transverse(0.0, 0.0), *u, step, length=length)) for u in np.eye(2)]
            return np.array(turn).T, np.array(root).T @ np.array(root)

        (turn, noise), (turn2, noise2) = matrices(s), matrices(2 * s)
        assert turn @ turn == pytest.approx(turn2, rel=1e-12, abs=1e-300)
        assert turn @ noise @ turn.T + noise == pytest.approx(noise2, rel=1e-11)


def test_mean_by_height_inside_turbulence():
    """The mean of turbulence may be a boundary layer: its 6 m wind decides the strength, its local wind the airspeed."""
    layer = LogLaw(Vec3(0.0, 8.0, 0.0), at=10.0, roughness=0.05)
    wind = Dryden(layer)
    still = (0.0,) * wind.normals_needed
    for height in (3.0, 40.0):
        blew, _ = wind.sample_at(0.0, 0.0, still, wind.initial(), Vec3(0.0, 0.0, height), ZERO)
        assert list(blew) == pytest.approx([0.0, 8.0 * math.log(height / 0.05) / math.log(10 / 0.05), 0.0], abs=1e-12)
    up, _ = wind.sample_at(0.0, math.inf, (0, 0, 0, 1.0, 0), wind.initial(), Vec3(0.0, 0.0, 40.0), ZERO)
    at_6m = 8.0 * math.log(20 * FOOT / 0.05) / math.log(10 / 0.05)
    # n = 1 on the first normal of the vertical filter: x₁ = 1, x₂ = ½
    assert up.z == pytest.approx(0.1 * at_6m * (math.sqrt(3) + (1 - math.sqrt(3)) / 2) / math.sqrt(2), rel=1e-12)


def test_jax_blows_the_same_wind():
    """A batch under jit, with heights and speeds of its own, against floats one by one."""
    wind = Dryden(PowerLaw(Vec3(7.0, 2.0, 0.0)))
    drones, rng = 5, np.random.default_rng(3)
    p, v = rng.uniform(1.0, 700.0, (3, drones)), rng.uniform(-10.0, 10.0, (3, drones))

    @jax.jit
    def step(dt, drawn, memory, p, v):
        return wind_at(wind, 0.0, dt, drawn, memory, Vec3(*p), Vec3(*v))

    memory = jax.tree.map(lambda x: jnp.full(drones, x), wind.initial())
    alone = [wind.initial() for _ in range(drones)]
    for tick in range(4):
        dt = math.inf if tick == 0 else 0.02
        drawn = normals(1, "wind", np.arange(drones), tick, wind.normals_needed)
        blew, memory = step(dt, tuple(jnp.asarray(drawn.T)), memory, jnp.asarray(p), jnp.asarray(v))
        for drone in range(drones):
            place, speed = Vec3(*p[:, drone].tolist()), Vec3(*v[:, drone].tolist())
            own, alone[drone] = wind_at(wind, 0.0, dt, tuple(drawn[drone].tolist()), alone[drone], place, speed)
            assert [float(x[drone]) for x in blew] == pytest.approx(list(own), rel=1e-11, abs=1e-12)


def test_which_winds_are_local():
    everywhere = [Constant(ZERO), Gust(ZERO, 0.0, 1.0), OrnsteinUhlenbeck(ZERO, 1.0, 1.0), Sum((Constant(ZERO),))]
    here = [Dryden(ZERO), VonKarman(ZERO), PowerLaw(ZERO), LogLaw(ZERO), Sum((Constant(ZERO), PowerLaw(ZERO)))]
    assert not any(map(is_local, everywhere)) and all(map(is_local, here))


def test_a_flight_in_turbulence_is_the_same_again():
    """Through the simulation as it is: the wind of a drone that hovers at `height`, seeded."""

    def winds(seed):
        above = Vec3(0.0, 0.0, 10.0)
        drone = Drone("one", samara.vehicle("crazyflie_documented"), trajectory.hover(above), above, airborne=True)
        run = fly(Scenario("gusty", (drone,), 0.2, wind=Dryden(Vec3(2.0, 0.0, 0.0)), seed=seed))
        return run.wind.tolist()

    assert winds(1) == winds(1) != winds(2)


# Boundary layers ---------------------------------------------------------------------------------------------------


def test_boundary_layers():
    """Both are 1 at the reference height; a power law has dW/dh · h/W = α; a log law gains as much from 1 to 2 m as from 50
    to 100; at the ground it is calm."""
    for law in (
        lambda h: power_law(h, at=10.0, exponent=0.2),
        lambda h: log_law(h, at=10.0, roughness=0.03),
    ):
        assert law(10.0) == pytest.approx(1.0, rel=1e-15)
    h = 37.0
    slope = (power_law(h + 1e-4, at=10.0, exponent=0.2) - power_law(h - 1e-4, at=10.0, exponent=0.2)) / 2e-4
    assert slope * h / power_law(h, at=10.0, exponent=0.2) == pytest.approx(0.2, rel=1e-8)
    gained = [log_law(2 * h, at=10.0, roughness=0.03) - log_law(h, at=10.0, roughness=0.03) for h in (1.0, 50.0)]
    assert gained[0] == pytest.approx(gained[1], rel=1e-12) == pytest.approx(math.log(2) / math.log(10 / 0.03))
    assert log_law(0.01, at=10.0, roughness=0.03) == 0.0 == log_law(-3.0, at=10.0, roughness=0.03)
    over_a_hill = PowerLaw.from_direction(5.0, math.radians(270), at=10.0, exponent=0.2, ground=100.0)
    blew, _ = over_a_hill.sample_at(0.0, 0.1, (), (), Vec3(0.0, 0.0, 110.0), ZERO)
    assert list(blew) == pytest.approx([5.0, 0.0, 0.0], abs=1e-14)


# A field, and a log ------------------------------------------------------------------------------------------------


def affine(p):
    x, y, z = p
    return np.array([1.0 + 2 * x - y + 0.5 * z, 0.3 * x, -1.0 + z])


def grid(tmp_path, kind):
    x, y, z = np.array([0.0, 1.0, 4.0]), np.array([-2.0, 2.0]), np.array([0.0, 0.5, 1.0, 9.0])
    wind = np.array([[[affine((a, b, c)) for c in z] for b in y] for a in x])
    path = tmp_path / f"field.{kind}"
    if kind == "npz":
        np.savez(path, x=x, y=y, z=z, wind=wind)
    else:
        rows = [(a, b, c, *affine((a, b, c))) for a in x for b in y for c in z]
        np.random.default_rng(1).shuffle(rows)
        np.savetxt(path, rows, delimiter=",", header="x,y,z,wind_x,wind_y,wind_z", comments="")
    return path


@pytest.mark.parametrize("kind", ["npz", "csv"])
def test_a_field_is_linear_between_its_corners(tmp_path, kind):
    """It gives back any wind that is linear in place, everywhere in the grid; outside, that of the nearest place inside."""
    field = Field.from_file(grid(tmp_path, kind))
    p = np.random.default_rng(2).uniform([0, -2, 0], [4, 2, 9], (200, 3)).T
    blew, _ = field.sample_at(0.0, 0.1, (), (), Vec3(*p), ZERO)
    assert np.stack(blew) == pytest.approx(affine(p), rel=1e-12, abs=1e-12)
    outside, _ = field.sample_at(0.0, 0.1, (), (), Vec3(9.0, 0.0, -3.0), ZERO)
    assert list(outside) == pytest.approx(affine((4.0, 0.0, 0.0)).tolist(), abs=1e-12)
    assert all(type(component) is float for component in outside)
    lost, _ = field.sample_at(0.0, 0.1, (), (), Vec3(math.nan, 0.0, 1.0), ZERO)
    assert all(math.isnan(component) for component in lost)


def test_a_field_in_jax(tmp_path):
    field = Field.from_file(grid(tmp_path, "npz"))
    p = np.random.default_rng(2).uniform(-1, 5, (3, 50))
    by_jax = jax.jit(lambda p: field.sample_at(0.0, 0.1, (), (), Vec3(*p), ZERO)[0])(jnp.asarray(p))
    by_numpy, _ = field.sample_at(0.0, 0.1, (), (), Vec3(*p), ZERO)
    assert np.stack(by_jax) == pytest.approx(np.stack(by_numpy), rel=1e-12, abs=1e-12)


def test_a_log_is_blown_again(tmp_path):
    """Held from entry to entry, or along lines; before the first and after the last as there."""
    path = tmp_path / "log.csv"
    path.write_text("time,wind_x,wind_y,wind_z,note\n0.5,1,0,0,a\n1.0,3,-1,0,b\n2.0,3,5,1,c\n")
    held, lines = Replay.from_file(path), Replay.from_file(path, linear=True)

    def blown(source, time):
        return list(source.sample(time, 0.02, (), ())[0])

    assert [blown(held, t) for t in (0.0, 0.5, 0.999, 1.0, 7.0)] == [
        [1, 0, 0], [1, 0, 0], [1, 0, 0], [3, -1, 0], [3, 5, 1]
    ]  # fmt: skip
    assert [blown(lines, t) for t in (0.0, 0.75, 1.5, 9.0)] == [[1, 0, 0], [2, -0.5, 0], [3, 2, 0.5], [3, 5, 1]]
    for source in (held, lines):
        assert all(math.isnan(x) for x in blown(source, math.nan))
        by_jax = jax.jit(lambda t, source=source: source.sample(t, 0.02, (), ())[0])(jnp.asarray([0.75, 1.5]))
        assert pytest.approx(np.array([blown(source, 0.75), blown(source, 1.5)]), rel=1e-14) == np.stack(by_jax).T


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda _: Dryden(OrnsteinUhlenbeck(ZERO, 1.0, 1.0)), "Dryden.mean is OrnsteinUhlenbeck, which is random"),
        (lambda _: Dryden(ZERO, sigma_aloft=-1.0), "sigma_aloft is -1.0; expected a number that is not negative"),
        (lambda _: VonKarman(ZERO).sample(0, 0.1, (0.0,), ()), "VonKarman.sample got 1 normals; expected 20"),
        (
            lambda _: LogLaw(ZERO, at=1.0, roughness=2.0),
            "LogLaw.at is 1.0; expected more than the roughness length 2.0",
        ),
        (lambda _: Replay([0.0, 0.0], [[0, 0, 0]] * 2), "Replay.times do not increase"),
        (lambda _: Replay([0.0], [[0, math.nan, 0]]), r"Replay.wind_W\[0, 1\] is nan; expected a finite number"),
        (lambda _: Field([0.0], [0.0], [0.0], [[[[0.0, 0.0]]]]), r"Field.wind_W has shape \(1, 1, 1, 2\)"),
        (lambda d: _file(d, "time,wind_x\n", Replay), "column 'wind_y' is missing; expected time, wind_x"),
        (lambda d: _file(d, "time,wind_x,wind_y,wind_z\n0,1,two,3\n", Replay), "line 2 is .*; expected numbers"),
        (
            lambda d: _file(d, "x,y,z,wind_x,wind_y,wind_z\n0,0,0,1,1,1\n1,1,0,1,1,1\n", Field),
            "2 rows; expected one for each of the 2 × 2 × 1 corners",
        ),
    ],
)
def test_it_is_refused_in_one_sentence(tmp_path, build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build(tmp_path)


def _file(folder, text, kind):
    path = folder / "table.csv"
    path.write_text(text)
    return kind.from_file(path)
