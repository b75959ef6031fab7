"""Every source of random numbers: drones, seeds, streams and ticks draw different numbers; equal addresses draw equal ones."""

from dataclasses import replace

import numpy as np
import pytest
from support.stage_runs import StageRun

import samara
from samara.campaigns.samplers import flight_seeds, uniforms
from samara.core.algebra import Vec3
from samara.core.random import normals
from samara.estimate.estimator import Estimate, Fusion
from samara.estimate.ideal import EstimateNoise, noisy_estimator
from samara.learn.compiled_episode import episode_keys, random_numbers
from samara.physics.multirotor import state_at_rest
from samara.plan.trajectory import hover
from samara.scenario.events import Event, at, freeze_estimator
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Rates
from samara.sensors.sensor import Sensor
from samara.sim.python_sensors import SensorsStage
from samara.sim.stages.estimator import ESTIMATOR
from samara.wind.turbulence import Dryden

SEEDS, DRONES, FIELDS = (1, 2), 3, 4


def sampled(state, command, vehicle, environment, normals):
    return tuple(normals)


def switched_on(state, command, vehicle, environment, normals, sensor_state, dt):
    return sensor_state, sensor_state


def noise(name, **options):
    """A sensor whose readings are its random numbers."""
    fields = tuple(f"x{k}" for k in range(FIELDS))
    return Sensor(name, fields, ("1",) * FIELDS, **options)


SENSORS = (
    noise("sampled", measure=sampled, normals_needed=FIELDS, traced=True),
    noise("other", measure=sampled, normals_needed=FIELDS, traced=True),
    noise("in_python", measure=sampled, normals_needed=FIELDS),
    noise(
        "switched_on",
        measure=switched_on,
        initial=lambda vehicle, normals: tuple(normals),
        start_normals=FIELDS,
        traced=True,
    ),
)


def fleet(seed: int) -> Scenario:
    """Three drones in turbulence whose sensors and estimators differ only in random numbers."""
    drones = tuple(
        Drone(
            f"drone{k}",
            samara.vehicle("crazyflie_documented").without_effect("contact"),
            hover(Vec3(3.0 * k, 0.0, 5.0)),
            start_W=Vec3(3.0 * k, 0.0, 5.0),
            airborne=True,
            sensors=SENSORS,
            estimator=noisy_estimator(EstimateNoise(position=0.01, velocity=0.0, yaw=0.0, rate=0.0, rate_bias=0.0)),
        )
        for k in range(DRONES)
    )
    rates = Rates(log=250.0, sensor=250.0, wind=250.0)
    return Scenario("fleet", drones, 0.2, wind=Dryden(Vec3(8.0, 0.0, 0.0)), rates=rates, seed=seed)


@pytest.fixture(scope="module")
def draws_by_source():
    """{source: {(seed, drone): draws, in order}}"""
    draws = {}
    for seed in SEEDS:
        for k, track in enumerate(samara.fly(fleet(seed)).drone_records):
            tables = {name: table.rows for name, table in track.tables.items()}
            for sensor in SENSORS:
                rows = tables[sensor.name]
                draws.setdefault(sensor.name, {})[seed, k] = (rows[:1] if sensor.initial else rows).ravel()
            error = tables["estimate"][:, :3] - tables["state"][:, :3]
            draws.setdefault("estimator", {})[seed, k] = error.ravel() / 0.01
            gust = np.diff(tables["environment"][:, :3], axis=0)
            draws.setdefault("wind", {})[seed, k] = gust.ravel() / gust.std()
    return draws


@pytest.mark.parametrize("source", ["sampled", "other", "in_python", "switched_on", "estimator", "wind"])
def test_no_two_drones_or_seeds_draw_the_same(draws_by_source, source):
    """Each pair is uncorrelated, to five standard errors; shared draws would have a correlation of 1."""
    draws = draws_by_source[source]
    assert len(draws) == len(SEEDS) * DRONES
    for first in draws:
        assert np.std(draws[first]) > 0.1
        for second in draws:
            if first < second:
                assert (draws[first] != draws[second]).any()
                if len(draws[first]) > FIELDS:
                    correlation = np.corrcoef(draws[first], draws[second])[0, 1]
                    assert abs(correlation) < 5.0 / np.sqrt(len(draws[first])), (first, second)


@pytest.mark.parametrize("source", ["sampled", "other", "in_python"])
def test_a_flight_draws_the_normals_of_its_address(draws_by_source, source):
    for (seed, drone), draws in draws_by_source[source].items():
        ticks = np.arange(len(draws) // FIELDS)
        expected = [normals(seed, f"sensor {source}", drone, int(tick), FIELDS) for tick in ticks]
        np.testing.assert_array_equal(draws, np.ravel(expected))


def test_the_draws_at_turn_on_are_those_of_their_address(draws_by_source):
    for (seed, drone), draws in draws_by_source["switched_on"].items():
        np.testing.assert_array_equal(draws, normals(seed, "sensor switched_on start", drone, 0, FIELDS))


def test_sources_do_not_share_their_numbers(draws_by_source):
    for source in ("other", "in_python", "estimator"):
        n = min(len(draws_by_source[source][1, 0]), len(draws_by_source["sampled"][1, 0]))
        correlation = np.corrcoef(draws_by_source[source][1, 0][:n], draws_by_source["sampled"][1, 0][:n])[0, 1]
        assert abs(correlation) < 5.0 / np.sqrt(n)


def test_freezing_the_estimator_of_one_drone_changes_no_draw_of_the_others(draws_by_source):
    """While an estimate is frozen, the estimators of its group run in Python: the other drones keep their bits."""
    frozen = replace(fleet(1), events=(Event(at(0.0), freeze_estimator("drone0")),))
    for drone, track in enumerate(samara.fly(frozen).drone_records):
        error = (track.tables["estimate"].rows[:, :3] - track.tables["state"].rows[:, :3]).ravel() / 0.01
        assert np.array_equal(error, draws_by_source["estimator"][1, drone]) == (drone > 0)


def test_the_initial_error_of_an_estimator_is_drawn_for_each_drone():
    """An estimator whose initial position is p + (n₀, n₁, n₂)"""
    fusion = Fusion(
        "initial error",
        SENSORS[0],
        (),
        initial=lambda state, normals: Estimate(state.p_W + Vec3(*normals), variances=()),
        predict=lambda sample, filter_state, dt: filter_state,
        correct=lambda aid, sample, filter_state: filter_state,
        estimate=lambda filter_state: filter_state,
        start_normals=3,
        has_variances=False,
    )
    vehicle, p_W, drones = samara.vehicle("crazyflie_documented"), Vec3(1.0, 2.0, 3.0), (0, 1, 2)
    setup = {"vehicle": vehicle, "state": state_at_rest(vehicle, p_W), "sensors": SENSORS[:1], "estimator": fusion}
    errors = []
    for seed in SEEDS:
        run = StageRun(SensorsStage(), ESTIMATOR, **setup, drones=drones, seed=seed)
        run.advance()
        expected = [np.array(p_W) + normals(seed, "estimator start", drone, 0, 3) for drone in drones]
        np.testing.assert_array_equal(run.group.rows("estimate.p_W").T, expected)
        errors += expected
    assert len(np.unique(errors, axis=0)) == len(SEEDS) * len(drones)


# Outside of flights ---------------------------------------------------------------------------------------------------

COUNT = 2000
ADDRESSES = {
    "normals": (lambda seed, index: normals(seed, "a", index, 3, COUNT), (1, 5), (2, 5), (1, 6)),
    "sources": (lambda source, index: normals(1, source, index, 3, COUNT), ("a", 5), ("b", 5), ("a", 6)),
    "ticks": (lambda tick, high: normals(1, "a", 5, tick + 2**32 * high, COUNT), (3, 0), (4, 0), (3, 1)),
    "episodes": (
        lambda seed, episode: random_numbers(
            episode_keys([seed] * COUNT), COUNT * episode + np.arange(COUNT), 0, ("normal",)
        )[0],
        (1, 5),
        (2, 5),
        (1, 6),
    ),
    "steps of an episode": (
        lambda seed, step: random_numbers(
            episode_keys([seed] * COUNT), [5] * COUNT, COUNT * step + np.arange(COUNT), ("normal",)
        )[0],
        (1, 5),
        (2, 5),
        (1, 6),
    ),
    "rows of a campaign": (lambda seed, row: uniforms(seed, "a", np.array([row]), COUNT)[0], (1, 5), (2, 5), (1, 6)),
    "seeds of a campaign": (
        lambda seed, first: (flight_seeds(seed, np.arange(first, first + COUNT)) % 2**20).astype(float),
        (1, 0),
        (2, 0),
        (1, COUNT),
    ),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_different_addresses_give_different_draws(name):
    draw, *addresses = ADDRESSES[name]
    draws = [draw(*address) for address in addresses]
    np.testing.assert_array_equal(draws[0], draw(*addresses[0]))
    assert np.abs(np.corrcoef(draws) - np.eye(3)).max() < 5.0 / np.sqrt(COUNT)
