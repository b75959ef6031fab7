"""Cameras and lidars that fail: frozen, blank, occluded, with dead pixels; what still sees, sees the same bits."""

import numpy as np
import pytest
from support.stage_runs import StageRun

import samara
from samara.core.algebra import Vec3
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box
from samara.physics.multirotor import at_rest
from samara.physics.types import CALM
from samara.scenario.events import fail_sensor
from samara.scenario.file import parse_scenario
from samara.scenario.scenario import ScenarioError
from samara.scenario.snapshot import Blindness, Faults
from samara.sensors.registry import part, seeing
from samara.sensors.sensor import Scene
from samara.sim.python_sensors import SensorsStage

WALL = Box(Vec3(5.0, 0.0, 0.0), Vec3(1.0, 50.0, 50.0))
FLIGHT = """
name = "blindness"
description = "an eye that fails above the ground"
duration = 0.5

[[drones]]
name = "one"
vehicle = "crazyflie"
start = [0.0, 0.0, 1.0]
airborne = true
sensors = [{ part = "d435", name = "camera", width = 8, height = 6, delay = 0.0 }]
[[drones.tasks]]
kind = "hover"
at = [0.0, 0.0, 1.0]
"""
EVENTS = """
[[events]]
at = 0.1
do = "fail_sensor"
sensor = "depth_camera"
how = "occluded"
share = 0.25
[[events]]
at = 0.2
do = "restore_sensor"
sensor = "depth_camera"
[[events]]
at = 0.3
do = "fail_sensor"
sensor = "depth_camera"
"""


class Eyes:
    """An eye on drones that do not move, before a wall"""

    def __init__(self, sensor, drones=1):
        self.sensor = seeing(sensor, Scene((WALL,)))
        vehicle = samara.vehicle("crazyflie_documented")
        below = CALM._replace(ground=Ground(Vec3(0.0, 0.0, -9.0)))
        setup = {"vehicle": vehicle, "state": at_rest(vehicle), "environment": below, "sensors": (self.sensor,)}
        period_us = round(1e6 / self.sensor.rate)
        self.run = StageRun(SensorsStage(), **setup, drones=range(drones), seed=7, period_us=period_us)
        (self.rows,) = self.run.group.sensors

    def blind(self, lane, faults):
        self.run.fleet.setting.drones[lane].faults = Faults(eyes=tuple(faults))

    def picture(self):
        """The next one: (rays, drones)"""
        self.run.advance()
        return self.rows.reading.copy()


@pytest.mark.parametrize("kind", ["depth_camera", "lidar"])
def test_what_is_covered_says_nothing_and_the_rest_the_same(kind):
    """Left is left: of a camera the first columns, of a lidar those that are sent last."""
    own = (
        part("d435", width=8, height=6, delay=0.0) if kind == "depth_camera" else part("vlp-16", channels=4, columns=8)
    )
    whole, broken = Eyes(own.sensor()), Eyes(own.sensor())
    broken.blind(0, [Blindness(kind, "occluded", 0.25), Blindness("barometer", "blank")])
    before, after = whole.picture().reshape(-1, 8), broken.picture().reshape(-1, 8)
    covered = slice(0, 2) if kind == "depth_camera" else slice(6, 8)
    kept = np.ones(8, dtype=bool)
    kept[covered] = False
    assert (after[:, covered] == 0.0).all() and np.array_equal(after[:, kept], before[:, kept]) and (before > 0.0).any()
    x, y, _ = whole.sensor.about.beams.direction_S
    azimuth = np.arctan2(y, x).reshape(-1, 8)[0]
    assert azimuth[covered].min() > azimuth[kept].max()
    broken.blind(0, [])
    assert np.array_equal(broken.picture(), whole.picture())


def test_the_noise_of_a_camera_differs_between_drones_and_between_pictures():
    """Residuals about the mean picture of 40 are uncorrelated to five standard errors."""
    camera = part("d435", width=8, height=6, delay=0.0, lost=0.0)
    eyes = Eyes(camera.sensor(), drones=2)
    pictures = np.stack([eyes.picture() for _ in range(40)])  # (pictures, rays, drones)
    residuals = pictures - pictures.mean(axis=0)
    first, second = residuals[..., 0], residuals[..., 1]
    assert first.std() > 0.0
    for a, b in ((first, second), (first[1:], first[:-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5.0 / np.sqrt(a.size)


def test_a_blank_eye_sees_nothing_and_a_frozen_one_the_same_again_while_the_next_drone_sees():
    own = Eyes(part("d435", width=8, height=6, delay=0.0).sensor(), drones=2)
    first = own.picture()
    own.rows.silent[0] = 1.0
    second = own.picture()
    assert np.array_equal(second[:, 0], first[:, 0]) and not np.array_equal(second[:, 1], first[:, 1])
    own.rows.silent[0] = 0.0
    own.blind(0, [Blindness("depth_camera", "blank")])
    third = own.picture()
    assert (third[:, 0] == 0.0).all() and (third[:, 1] > 0.0).any()


def test_dead_pixels_are_so_many_the_same_all_the_time_and_others_on_another_drone():
    own = Eyes(part("d435", width=60, height=50, delay=0.0, lost=0.0).sensor(), drones=2)
    for lane in range(2):
        own.blind(lane, [Blindness("depth_camera", "dead", 0.1)])
    first, second = own.picture() == 0.0, own.picture() == 0.0
    assert np.array_equal(first, second) and not np.array_equal(first[:, 0], first[:, 1])
    assert first.mean() == pytest.approx(0.1, abs=4.0 * np.sqrt(0.09 / 6000))


def test_events_of_a_flight_cover_restore_and_freeze_a_camera():
    whole = samara.fly(parse_scenario(FLIGHT, "x.toml")).tables["camera"]
    broken = samara.fly(parse_scenario(FLIGHT + EVENTS, "x.toml")).tables["camera"]
    assert np.array_equal(whole.times_us, broken.times_us)
    covered, frozen = (broken.time >= 0.1) & (broken.time < 0.2), broken.time >= 0.3
    images, true = broken.rows.reshape(-1, 6, 8), whole.rows.reshape(-1, 6, 8)
    assert (images[covered][:, :, :2] == 0.0).all() and np.array_equal(
        images[covered][:, :, 2:], true[covered][:, :, 2:]
    )
    assert np.array_equal(images[~covered & ~frozen], true[~covered & ~frozen])
    held = images[np.flatnonzero(~frozen)[-1]]
    assert (images[frozen] == held).all() and not (true[frozen] == held).all()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"sensor": "camera"}, "'camera' is none; expected one of gyro, "),
        ({"sensor": "gps", "how": "blank"}, "gps cannot be 'blank'; expected frozen"),
        (
            {"sensor": "lidar", "how": "asleep"},
            "lidar cannot be 'asleep'; expected frozen or blank or occluded or dead",
        ),
        ({"sensor": "lidar", "how": "dead", "share": 0.0}, "the share is 0.0; expected a number above 0 and up to 1"),
        ({"sensor": "lidar", "how": "dead", "share": 1.5}, "the share is 1.5; expected"),
        ({"sensor": "lidar", "how": "dead", "share": float("nan")}, "the share is nan; expected"),
    ],
)
def test_a_failure_that_cannot_be_gets_one_sentence(given, sentence):
    with pytest.raises(ValueError, match="fail sensor: ") as caught:
        fail_sensor(**given)
    assert sentence in str(caught.value)


def test_a_scenario_with_a_failure_that_cannot_be_names_its_file():
    with pytest.raises(ScenarioError, match=r"x\.toml.*depth_camera cannot be 'asleep'"):
        parse_scenario(FLIGHT + EVENTS.replace('"occluded"', '"asleep"'), "x.toml")
