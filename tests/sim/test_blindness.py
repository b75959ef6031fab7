"""Faults of cameras and lidars: frozen, blank, occluded, dead pixels; unaffected rays keep the same bits."""

import numpy as np
import pytest
from support.stage_runs import StageRun

import samara
from samara.core.algebra import Vec3
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box
from samara.physics.multirotor import state_at_rest
from samara.physics.types import CALM
from samara.scenario.events import fail_sensor
from samara.scenario.file import parse_scenario
from samara.scenario.scenario import ScenarioError
from samara.scenario.snapshot import Faults, VisionFault
from samara.sensors.registry import attach_scene, part
from samara.sensors.sensor import RayScene
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
type = "hover"
at = [0.0, 0.0, 1.0]
"""
EVENTS = """
[[events]]
at = 0.1
do = "fail_sensor"
sensor = "depth_camera"
mode = "occluded"
fraction = 0.25
[[events]]
at = 0.2
do = "restore_sensor"
sensor = "depth_camera"
[[events]]
at = 0.3
do = "fail_sensor"
sensor = "depth_camera"
"""


class RaySensorRun:
    """A ray sensor on drones at rest in front of a wall."""

    def __init__(self, sensor, drones=1):
        self.sensor = attach_scene(sensor, RayScene((WALL,)))
        vehicle = samara.vehicle("crazyflie_documented")
        environment = CALM._replace(ground=Ground(Vec3(0.0, 0.0, -9.0)))
        setup = {
            "vehicle": vehicle,
            "state": state_at_rest(vehicle),
            "environment": environment,
            "sensors": (self.sensor,),
        }
        period_us = round(1e6 / self.sensor.rate)
        self.run = StageRun(SensorsStage(), **setup, drones=range(drones), seed=7, period_us=period_us)
        (self.rows,) = self.run.group.sensors

    def blind(self, drone, faults):
        self.run.fleet.setting.drones[drone].faults = Faults(vision=tuple(faults))

    def picture(self):
        """Return the next image: (rays, drones)."""
        self.run.advance()
        return self.rows.reading.copy()


@pytest.mark.parametrize("kind", ["depth_camera", "lidar"])
def test_covered_rays_have_no_return_and_the_others_are_unchanged(kind):
    """Left is left: the first columns of a camera, and the last columns of a lidar."""
    sensor_part = (
        part("d435", width=8, height=6, delay=0.0) if kind == "depth_camera" else part("vlp-16", channels=4, columns=8)
    )
    intact, occluded = RaySensorRun(sensor_part.sensor()), RaySensorRun(sensor_part.sensor())
    occluded.blind(0, [VisionFault(kind, "occluded", 0.25), VisionFault("barometer", "blank")])
    expected, image = intact.picture().reshape(-1, 8), occluded.picture().reshape(-1, 8)
    covered = slice(0, 2) if kind == "depth_camera" else slice(6, 8)
    uncovered = np.ones(8, dtype=bool)
    uncovered[covered] = False
    assert (
        (image[:, covered] == 0.0).all()
        and np.array_equal(image[:, uncovered], expected[:, uncovered])
        and (expected > 0.0).any()
    )
    x, y, _ = intact.sensor.model.beams.direction_S
    azimuth = np.arctan2(y, x).reshape(-1, 8)[0]
    assert azimuth[covered].min() > azimuth[uncovered].max()
    occluded.blind(0, [])
    assert np.array_equal(occluded.picture(), intact.picture())


def test_the_noise_of_a_camera_differs_between_drones_and_between_images():
    """Residuals about the mean of 40 images are uncorrelated to five standard errors."""
    camera = part("d435", width=8, height=6, delay=0.0, dropout_rate=0.0)
    cameras = RaySensorRun(camera.sensor(), drones=2)
    images = np.stack([cameras.picture() for _ in range(40)])  # (pictures, rays, drones)
    residuals = images - images.mean(axis=0)
    first, second = residuals[..., 0], residuals[..., 1]
    assert first.std() > 0.0
    for a, b in ((first, second), (first[1:], first[:-1])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 5.0 / np.sqrt(a.size)


def test_a_blank_camera_has_no_returns_and_a_frozen_one_repeats_its_image_independently_of_other_drones():
    cameras = RaySensorRun(part("d435", width=8, height=6, delay=0.0).sensor(), drones=2)
    first = cameras.picture()
    cameras.rows.silent[0] = 1.0
    second = cameras.picture()
    assert np.array_equal(second[:, 0], first[:, 0]) and not np.array_equal(second[:, 1], first[:, 1])
    cameras.rows.silent[0] = 0.0
    cameras.blind(0, [VisionFault("depth_camera", "blank")])
    third = cameras.picture()
    assert (third[:, 0] == 0.0).all() and (third[:, 1] > 0.0).any()


def test_dead_pixels_have_the_given_fraction_stay_the_same_and_differ_between_drones():
    cameras = RaySensorRun(part("d435", width=60, height=50, delay=0.0, dropout_rate=0.0).sensor(), drones=2)
    for drone in range(2):
        cameras.blind(drone, [VisionFault("depth_camera", "dead", 0.1)])
    first, second = cameras.picture() == 0.0, cameras.picture() == 0.0
    assert np.array_equal(first, second) and not np.array_equal(first[:, 0], first[:, 1])
    assert first.mean() == pytest.approx(0.1, abs=4.0 * np.sqrt(0.09 / 6000))


def test_events_of_a_flight_cover_restore_and_freeze_a_camera():
    intact = samara.fly(parse_scenario(FLIGHT, "x.toml")).tables["camera"]
    failed = samara.fly(parse_scenario(FLIGHT + EVENTS, "x.toml")).tables["camera"]
    assert np.array_equal(intact.times_us, failed.times_us)
    covered, frozen = (failed.time >= 0.1) & (failed.time < 0.2), failed.time >= 0.3
    images, expected = failed.rows.reshape(-1, 6, 8), intact.rows.reshape(-1, 6, 8)
    assert (images[covered][:, :, :2] == 0.0).all() and np.array_equal(
        images[covered][:, :, 2:], expected[covered][:, :, 2:]
    )
    assert np.array_equal(images[~covered & ~frozen], expected[~covered & ~frozen])
    frozen_image = images[np.flatnonzero(~frozen)[-1]]
    assert (images[frozen] == frozen_image).all() and not (expected[frozen] == frozen_image).all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"sensor": "sonar"}, "no sensor 'sonar': expected one of gyro, "),
        ({"sensor": "gps", "mode": "blank"}, "gps cannot be 'blank'; expected frozen"),
        (
            {"sensor": "lidar", "mode": "asleep"},
            "lidar cannot be 'asleep'; expected frozen or blank or occluded or dead",
        ),
        (
            {"sensor": "lidar", "mode": "dead", "fraction": 0.0},
            "the fraction is 0.0; expected a number above 0 and up to 1",
        ),
        ({"sensor": "lidar", "mode": "dead", "fraction": 1.5}, "the fraction is 1.5; expected"),
        ({"sensor": "lidar", "mode": "dead", "fraction": float("nan")}, "the fraction is nan; expected"),
    ],
)
def test_an_impossible_failure_is_an_error_in_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match="fail sensor: ") as caught:
        fail_sensor(**arguments)
    assert sentence in str(caught.value)


def test_an_impossible_failure_in_a_scenario_names_the_file():
    with pytest.raises(ScenarioError, match=r"x\.toml.*depth_camera cannot be 'asleep'"):
        parse_scenario(FLIGHT + EVENTS.replace('"occluded"', '"asleep"'), "x.toml")
