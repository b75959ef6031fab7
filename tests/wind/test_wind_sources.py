"""Wind sources against their closed forms: the time of a step, the impulse of a gust, the correlation of turbulence."""

import dataclasses
import math

import casadi
import numpy as np
import pytest
from scipy.integrate import quad

import samara
from samara.core.algebra import ZERO, Vec3
from samara.core.random import normals
from samara.core.tree import flatten
from samara.wind.sources import Constant, Gust, NoWind, OrnsteinUhlenbeck, WindStep, WindSum

WEST = math.radians(270.0)
EVERY = [
    NoWind(),
    Constant(Vec3(1.0, -2.0, 0.5)),
    WindStep(Vec3(3.0, 0.0, 1.0), at=2.0, before_W=Vec3(0.0, 1.0, 0.0)),
    Gust(Vec3(4.0, -1.0, 2.0), start=1.0, duration=3.0),
    OrnsteinUhlenbeck(Vec3(2.0, 0.0, 0.0), sigma=Vec3(1.0, 0.7, 0.3), tau=Vec3(2.0, 1.0, 0.5)),
    WindSum((Constant(Vec3(1.0, 0.0, 0.0)), Gust(Vec3(2.0, 0.0, 0.0), 1.0, 3.0), OrnsteinUhlenbeck(ZERO, 0.4, 1.5))),
]


def sample_stateless(wind, time):
    """Sample a source without state."""
    return wind.sample(time, 0.01, (), wind.initial())[0]


def series(wind, steps, dt, drones=1, seed=1):
    """(steps, 3, drones) of a source sampled every dt, the first from its stationary distribution."""
    draws = normals(seed, "wind", np.arange(drones), np.arange(steps)[:, None], wind.normals_needed)
    wind_state, winds = wind.initial(), []
    for tick in range(steps):
        wind_W, wind_state = wind.sample(tick * dt, dt if tick else math.inf, draws[tick].T, wind_state)
        winds.append(np.stack(np.broadcast_arrays(*wind_W, np.zeros(drones))[:3]))
    return np.array(winds)


# Steady, step, gust ------------------------------------------------------------------------------------------------


def test_no_wind_and_constant_wind():
    assert sample_stateless(NoWind(), 3.0) == (0.0, 0.0, 0.0)
    assert sample_stateless(Constant(Vec3(1.0, 2.0, 3.0)), 3.0) == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    "wind",
    [
        Constant.from_direction(5.0, WEST),
        WindStep.from_direction(5.0, WEST, at=1.0),
        Gust.from_direction(5.0, WEST, start=0.0, duration=4.0),
        OrnsteinUhlenbeck.from_direction(5.0, WEST, sigma=1.0, tau=2.0),
    ],
    ids=lambda wind: type(wind).__name__,
)
def test_a_west_wind_carries_things_east(wind):
    """Meteorologists name the origin; the source gives the velocity of the air. After two seconds, all four blow 5 m/s."""
    still = tuple(0.0 for _ in range(wind.normals_needed))
    wind_W, _ = wind.sample(2.0, 0.01, still, wind.initial())
    assert np.array(wind_W) == pytest.approx([5.0, 0.0, 0.0], abs=1e-14)


def test_it_is_the_wind_a_vehicle_feels():
    """Air that moves east over a hovering iris pushes it east."""
    vehicle = samara.vehicle("iris_documented")
    state, command = samara.hover(vehicle)
    wind_W = sample_stateless(Constant.from_direction(8.0, WEST), 0.0)
    push = samara.wrench_breakdown(state, command, vehicle, samara.Environment(wind_W=wind_W))["drag"]
    assert (push.f_B + push.f_W).x > 0.0


@pytest.mark.parametrize("moment", [1, 3, 300_000, 700_000, 1_100_000, 2_345_678, 599_999_999])
def test_a_step_comes_at_its_microsecond(moment):
    """The first sample at or after the time in seconds is the new wind; one microsecond before, the old."""
    step = WindStep(Vec3(1.0, 0.0, 0.0), at=float(f"{moment}e-6"), before_W=Vec3(0.0, 1.0, 0.0))
    assert sample_stateless(step, moment / 1e6) == (1.0, 0.0, 0.0)
    assert sample_stateless(step, (moment - 1) / 1e6) == (0.0, 1.0, 0.0)
    assert sample_stateless(step, (moment + 1) / 1e6) == (1.0, 0.0, 0.0)


def test_a_time_that_is_no_number_gives_no_wind_that_is_one():
    for wind in EVERY[2:4]:
        assert all(math.isnan(component) for component in sample_stateless(wind, math.nan))


def test_a_gust_is_the_cosine_and_carries_half_its_peak():
    """w = A sin²(πx); ∫w dt = ½AT; zero before and after; the peak A at half time; no kink at either end."""
    gust = Gust(Vec3(4.0, -1.0, 2.0), start=1.0, duration=3.0)
    time = np.linspace(1.0, 4.0, 301)
    x = np.array(sample_stateless(gust, time).x)
    assert x == pytest.approx(4.0 * np.sin(math.pi * (time - 1.0) / 3.0) ** 2, abs=1e-14)
    carried = [
        quad(lambda t, k=k: sample_stateless(gust, t)[k], 0.0, 5.0, points=[1.0, 4.0], epsabs=1e-12)[0]
        for k in range(3)
    ]
    assert carried == pytest.approx([6.0, -1.5, 3.0], rel=1e-12)
    assert sample_stateless(gust, 2.5) == (4.0, -1.0, 2.0)
    for outside in (-7.0, 0.0, 1.0, 4.0, 4.0 + 1e-9, 1e6):
        assert np.array(sample_stateless(gust, outside)) == pytest.approx(np.zeros(3), abs=1e-16)
    slope = (sample_stateless(gust, 1.0 + 1e-6).x - sample_stateless(gust, 1.0).x) / 1e-6
    assert abs(slope) < 5e-6  # ½A (2π/T)² · 10⁻⁶ / 2


# Turbulence --------------------------------------------------------------------------------------------------------


def test_turbulence_keeps_its_variance_and_forgets_exponentially():
    """Mean, variance σ² and correlation e^{−t/τ} on each axis, from 40 000 drones, within four standard errors."""
    n, dt, wind = 40000, 0.25, EVERY[4]
    winds = series(wind, 17, dt, drones=n)
    x = winds - np.array(wind.mean_W)[:, None]
    sigma, tau = np.array(wind.sigma), np.array(wind.tau)
    for tick in (0, 1, 16):
        assert np.abs(x[tick].mean(axis=-1) / sigma).max() < 4.0 / math.sqrt(n)
        assert np.abs(x[tick].var(axis=-1) / sigma**2 - 1.0).max() < 4.0 * math.sqrt(2.0 / n)
    for lag in (1, 4, 8, 16):
        correlation = (x[0] * x[lag]).mean(axis=-1) / sigma**2
        assert np.abs(correlation - np.exp(-lag * dt / tau)).max() < 4.0 * math.sqrt(2.0 / n)
    axis_correlation = np.corrcoef(x[8])
    assert np.abs(axis_correlation - np.eye(3)).max() < 4.0 / math.sqrt(n)


def test_turbulence_in_time_is_turbulence_across_drones():
    """Ergodic: 15 000 samples of one drone, with 2τ/dt samples per independent one, have the same variance and correlation."""
    wind, dt, steps = OrnsteinUhlenbeck(ZERO, sigma=1.5, tau=0.4), 0.1, 15000
    x = series(wind, steps, dt)[:, :, 0]
    independent = steps * 3 * dt / (2.0 * 0.4)
    assert (x**2).mean() / 1.5**2 == pytest.approx(1.0, abs=4.0 * math.sqrt(2.0 / independent))
    assert (x[3:] * x[:-3]).mean() / (x**2).mean() == pytest.approx(math.exp(-0.75), abs=4.0 / math.sqrt(independent))


def test_it_starts_from_the_mean_or_settled():
    """dt = 0 gives the mean for any normals; dt = ∞ gives mean + σ n."""
    wind, sample_normals = EVERY[4], (1.0, -2.0, 3.0)
    assert wind.sample(0.0, 0.0, sample_normals, wind.initial())[0] == wind.mean_W
    settled, wind_state = wind.sample(0.0, math.inf, sample_normals, wind.initial())
    assert np.array(settled) == pytest.approx([2.0 + 1.0, -1.4, 0.9], rel=1e-15)
    assert np.array(wind_state) == pytest.approx([1.0, -1.4, 0.9], rel=1e-15)


def test_the_same_seed_blows_the_same_wind():
    assert (series(EVERY[5], 50, 0.02, seed=4) == series(EVERY[5], 50, 0.02, seed=4)).all()
    assert (series(EVERY[5], 50, 0.02, seed=4) != series(EVERY[5], 50, 0.02, seed=5)).any()


# Sums, batches, symbols --------------------------------------------------------------------------------------------


def test_winds_add():
    """A sum is the sum of its sources, each with its own normals and its own state."""
    first, second = OrnsteinUhlenbeck(ZERO, 0.4, 1.5), OrnsteinUhlenbeck(Vec3(1.0, 0.0, 0.0), 2.0, 0.3)
    total = WindSum((first, Gust(Vec3(2.0, 0.0, 0.0), 0.0, 1.0), second))
    assert total.normals_needed == 6
    wind_state, first_state, second_state = total.initial(), first.initial(), second.initial()
    for tick in range(20):
        tick_normals = normals(1, "wind", 0, tick, 6)
        wind_W, wind_state = total.sample(tick * 0.05, 0.05, tick_normals, wind_state)
        a_W, first_state = first.sample(tick * 0.05, 0.05, tick_normals[:3], first_state)
        b_W, second_state = second.sample(tick * 0.05, 0.05, tick_normals[3:], second_state)
        gust_W = Vec3(2.0 * math.sin(math.pi * tick * 0.05) ** 2, 0.0, 0.0)
        assert np.array(wind_W) == pytest.approx(np.array(a_W + gust_W + b_W), abs=1e-14)


@pytest.mark.parametrize("wind", EVERY, ids=lambda wind: type(wind).__name__)
def test_a_batch_is_each_drone_alone(wind):
    """Bit for bit."""
    batch = series(wind, 40, 0.1, drones=5)
    for drone in range(5):
        wind_state = wind.initial()
        for tick in range(40):
            tick_normals = tuple(normals(1, "wind", drone, tick, wind.normals_needed).tolist())
            wind_W, wind_state = wind.sample(tick * 0.1, 0.1 if tick else math.inf, tick_normals, wind_state)
            assert list(wind_W) == batch[tick, :, drone].tolist()


def test_every_drone_may_have_numbers_of_its_own():
    """σ and τ, the start of a gust, the time of a step as arrays of length N."""
    sigma, tau, event_times = np.array([0.5, 1.0]), np.array([1.0, 3.0]), np.array([1.0, 2.0])
    wind = WindSum(
        (
            OrnsteinUhlenbeck(ZERO, sigma, tau),
            Gust(Vec3(1.0, 0.0, 0.0), event_times, 2.0),
            WindStep(Vec3(0.0, 1.0, 0.0), event_times),
        )
    )
    draws = normals(1, "wind", np.arange(2), np.arange(9)[:, None], 3)
    wind_state = wind.initial()
    for tick in range(9):
        wind_W, wind_state = wind.sample(1.6, 0.1, draws[tick].T, wind_state)
    for drone in range(2):
        single_source = WindSum(
            (
                OrnsteinUhlenbeck(ZERO, float(sigma[drone]), float(tau[drone])),
                Gust(Vec3(1.0, 0.0, 0.0), float(event_times[drone]), 2.0),
                WindStep(Vec3(0.0, 1.0, 0.0), float(event_times[drone])),
            )
        )
        single_state = single_source.initial()
        for tick in range(9):
            single, single_state = single_source.sample(1.6, 0.1, draws[tick, drone].tolist(), single_state)
        assert [x[drone] for x in wind_W] == pytest.approx(list(single), rel=1e-14)


@pytest.mark.parametrize("wind", EVERY, ids=lambda wind: type(wind).__name__)
def test_it_can_be_traced(wind):
    """The same source on CasADi symbols gives the same wind and state."""
    n, wind_state = wind.normals_needed, flatten(wind.initial())
    time, dt, symbols = casadi.SX.sym("t"), casadi.SX.sym("dt"), casadi.SX.sym("n", max(n, 1))
    wind_W, next_state = wind.sample(time, dt, tuple(symbols[i] for i in range(n)), wind.initial())
    code = casadi.Function(
        "wind", [time, dt, symbols], [casadi.vertcat(*map(casadi.SX, (*wind_W, *flatten(next_state))))]
    )
    values = normals(2, "wind", 0, 0, max(n, 1)).tolist()
    expected = flatten(wind.sample(2.5, 0.1, values[:n], wind.initial()))
    assert len(expected) == 3 + len(wind_state)
    assert np.array(code(2.5, 0.1, values))[:, 0] == pytest.approx(expected, rel=1e-14, abs=1e-15)


# Invalid parameters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Constant(Vec3(1.0, math.nan, 0.0)), "Constant.wind_W.y is nan; expected a finite number"),
        (lambda: Constant((1.0, 2.0)), r"Constant.wind_W is \(1.0, 2.0\); expected three components"),
        (lambda: WindStep(ZERO, at=math.inf), "Step.at is inf; expected a finite number"),
        (lambda: Gust(ZERO, 0.0, 0.0), "Gust.duration is 0.0; expected a positive number"),
        (lambda: Gust(ZERO, 0.0, np.array([1.0, -1.0])), "Gust.duration is -1.0; expected a positive number"),
        (
            lambda: OrnsteinUhlenbeck(ZERO, -1.0, 1.0),
            "sigma.x is -1.0; expected a number that is not negative",
        ),
        (
            lambda: OrnsteinUhlenbeck(ZERO, 1.0, Vec3(1.0, 1.0, 0.0)),
            "tau.z is 0.0; expected a positive number",
        ),
        (lambda: EVERY[4].sample(0.0, 0.1, (0.0,), ZERO), "OrnsteinUhlenbeck.sample got 1 normals; expected 3"),
    ],
)
def test_it_is_refused_in_one_sentence(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


def test_a_source_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EVERY[1].wind_W = ZERO
