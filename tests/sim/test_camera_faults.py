"""A camera's detector and faults in a flight: what the readings and images report, from the images of a perfect camera."""

import numpy as np
import pytest

import samara
from samara.scenario.file import parse_scenario
from samara.scenario.scenario import ScenarioError
from samara.sensors.camera import CameraReading
from samara.sensors.detector import PERFECT_DETECTOR
from samara.view.plot.vision_images import draw_vision_sensors

FLIGHT = """
name = "gates"
description = "two gates ahead of a drone at rest"
duration = {duration}
seed = 3

[[drones]]
name = "one"
vehicle = "crazyflie"
start = [0.0, 0.0, 1.5]
airborne = true
sensors = [{{ part = "ov9281", name = "eye", width = 32, height = 24, delay = 0.0, outputs = {outputs}{more} }}]
[[drones.tasks]]
type = "hover"
at = [0.0, 0.0, 1.5]
[[gates]]
name = "first"
centre = [3.0, 0.0, 1.5]
opening = [1.0, 1.0]
frame = [1.4, 1.4]
[[gates]]
name = "behind"
centre = [-3.0, 0.0, 1.5]
opening = [1.0, 1.0]
frame = [1.4, 1.4]
"""
ALL = '["rgb", "segmentation", "depth", "instance", "optical_flow", "gate_corners"]'
DETECTOR = (
    ", detector = { miss_rate = 0.3, miss_time = 0.1, false_rate = 0.2, false_time = 0.1, corner_noise = 0.5, "
    "corner_noise_growth = 0.1, delay = 0.04 }"
)


def fly(more="", outputs=ALL, duration=1.0, events=""):
    scenario = parse_scenario(FLIGHT.format(outputs=outputs, more=more, duration=duration) + events, "gates.toml")
    return samara.fly(scenario)


@pytest.fixture(scope="module")
def perfect():
    return fly()


@pytest.fixture(scope="module")
def detected():
    return fly(DETECTOR)


def corners(run):
    """(frames, gates, 4, u v visible)."""
    return run.tables["eye"].rows[:, 1:].reshape(-1, 2, 4, 3)


def test_a_perfect_detector_reports_what_is_there(perfect):
    """Corner pixels lie beside the gate's frame; the gate behind is not visible."""
    assert np.all(corners(perfect)[:, 0, :, 2] == 1.0) and np.all(corners(perfect)[:, 1] == 0.0)
    segmentation = perfect.tables["eye/segmentation"].images
    assert np.any(segmentation[0] == 3)
    u, v = corners(perfect)[-1, 0, 0, :2].round().astype(int)
    assert np.any(segmentation[-1, v - 1 : v + 2, u - 1 : u + 2] == 3)


def test_a_detector_misses_and_imagines_gates(perfect, detected):
    """Missed: no corners and pixels of the gate. False: visible corners of the gate behind. Else: noise of σ₀ + σ₁ s."""
    late = 2  # frames of latency: 40 ms at 50 Hz
    truth, measured = corners(perfect)[: -late or None], corners(detected)
    count = len(measured)
    assert detected.tables["eye"].time[0] == pytest.approx(0.04) and len(truth) == count
    imagined = measured[:, 1, 0, 2] > 0.5
    assert 0 < imagined.sum() < count
    error = np.abs(measured[:, 0, :, :2] - truth[:, 0, :, :2]).max(axis=(1, 2))
    sigma = 0.5 + 0.1 * 3.0
    found = error < 5.0 * sigma  # of the others the corners are 0, or those of a false gate
    assert 0 < found.sum() < count
    noise = (measured[:, 0, :, :2] - truth[:, 0, :, :2])[found]
    assert abs(noise.std() / sigma - 1.0) < 0.2
    gate_pixels = (detected.tables["eye/segmentation"].images == 3) & (
        perfect.tables["eye/segmentation"].images[:count] == 3
    )
    expected = (perfect.tables["eye/segmentation"].images[:count] == 3).sum(axis=(1, 2))
    assert np.array_equal(gate_pixels.sum(axis=(1, 2))[found], expected[found])
    assert np.all(gate_pixels.sum(axis=(1, 2))[~found] < expected[~found])
    for name in ("rgb", "depth", "instance", "optical_flow"):
        assert np.array_equal(detected.tables[f"eye/{name}"].rows, perfect.tables[f"eye/{name}"].rows[:count]), name


def test_detections_do_not_depend_on_the_other_outputs(detected):
    alone = fly(DETECTOR, outputs='["segmentation"]')
    assert set(alone.tables) & {"eye/instance", "eye/rgb"} == set()
    assert np.array_equal(alone.tables["eye/segmentation"].rows, detected.tables["eye/segmentation"].rows)
    only_corners = fly(DETECTOR, outputs='["gate_corners"]')
    assert np.array_equal(only_corners.tables["eye"].rows, detected.tables["eye"].rows)
    assert draw_vision_sensors(only_corners) is None


EVENT = """
[[events]]
at = 0.3
do = "fail_sensor"
sensor = "camera"
mode = "{mode}"
fraction = 0.5
[[events]]
at = 0.6
do = "restore_sensor"
sensor = "camera"
"""


@pytest.mark.parametrize("mode", ["frozen", "blank", "occluded", "dead"])
def test_a_failed_camera(perfect, mode):
    """Frozen: the last image stays. Blank: 0. Occluded: 0 in the left half. Dead: 0 in some pixels, always the same."""
    run = fly(events=EVENT.format(mode=mode))
    time = perfect.tables["eye"].time
    during, others = (time >= 0.3) & (time < 0.6), (time < 0.3) | (time >= 0.6)
    for image in ("rgb", "segmentation", "depth", "instance", "optical_flow"):
        true, failed = perfect.tables[f"eye/{image}"].images, run.tables[f"eye/{image}"].images
        assert np.array_equal(failed[others], true[others]), image
        if mode == "frozen":
            assert np.all(failed[during] == failed[np.flatnonzero(during)[0] - 1]), image
        else:
            is_left = np.arange(32) < 16
            blind = {"blank": np.ones((24, 32), bool), "occluded": np.tile(is_left, (24, 1))}.get(mode)
            if blind is None:
                blind = (failed[during] == 0).reshape(during.sum(), 24, 32, -1).all(axis=(0, 3))
            mask = blind.reshape(24, 32, *(1,) * (failed.ndim - 3))
            assert np.array_equal(failed[during], np.where(mask, 0, true[during])), image
    seen = corners(run)[during][:, 0]
    if mode == "blank":
        assert np.all(seen == 0.0)
    if mode == "occluded":
        left = corners(perfect)[during][:, 0, :, 0] < 15.5
        assert np.array_equal(seen[..., 2], np.where(left, 0.0, 1.0)) and left.any() and not left.all()


def test_a_detector_is_read_from_the_scenario():
    scenario = parse_scenario(FLIGHT.format(outputs=ALL, more=DETECTOR, duration=1.0), "gates.toml")
    (sensor,) = scenario.drones[0].sensors
    assert sensor.model.part.detector.miss_rate == 0.3 != PERFECT_DETECTOR.miss_rate
    assert sensor.delay == pytest.approx(0.04)
    assert len(CameraReading._fields) == 2 and len(sensor.fields) == 1 + 2 * 4 * 3
    with pytest.raises(ScenarioError, match="detector"):
        parse_scenario(FLIGHT.format(outputs=ALL, more=", detector = { miss = 1 }", duration=1.0), "gates.toml")
