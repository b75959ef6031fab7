"""Moving obstacles in the picture of a flight: where they were when the drone was nearest."""

import json
from types import SimpleNamespace

import numpy as np
from matplotlib.figure import Figure

from samara.view.plot.moving_obstacles import draw_spheres, recorded_spheres


def run_with(constraints):
    drone = {"name": "drone", "controller": "mpc", "controller_options": {"constraints": constraints}}
    return SimpleNamespace(metadata={"drones": json.dumps([drone])})


BALL = {"type": "sphere", "centre": [0.0, -4.0, 1.0], "radius": 0.5, "velocity": [0.0, 1.0, 0.0]}


def test_a_ball_is_drawn_where_the_drone_was_nearest():
    run = run_with([BALL, {"type": "speed", "max": 2.0}, {"type": "sphere", "centre": [0, 0, 1], "radius": 1}])
    (ball,) = recorded_spheres(run)
    time = np.linspace(0.0, 8.0, 801)
    track = SimpleNamespace(time=time, position=np.tile([1.0, -1.0, 1.0], (len(time), 1)))
    axes = Figure().add_subplot()
    draw_spheres(axes, [ball], track)
    (circle,) = axes.patches
    np.testing.assert_allclose(circle.center, (0.0, -1.0), atol=0.006)
    assert circle.radius == 0.5 and [text.get_text() for text in axes.texts if text.get_text()] == ["3.0 s"]


def test_an_invalid_description_draws_nothing():
    """A recording is an untrusted file."""
    for constraints in (None, 3, [BALL | {"radius": -1}], [BALL | {"velocity": "x"}], [{"type": ["sphere"]}]):
        assert recorded_spheres(run_with(constraints)) == []
    for drones in ("[]", "3", '[{"controller_options": 3}]', "[7]"):
        assert recorded_spheres(SimpleNamespace(metadata={"drones": drones})) == []
    assert recorded_spheres(SimpleNamespace(metadata={})) == []
