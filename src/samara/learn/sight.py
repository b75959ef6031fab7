"""What a task shows of a depth camera: the picture is taken in JAX, of all drones at once, each in a world of its own.

    o = (observation(situation, craft), nearness of the picture)

No gradient comes back through a picture: what a policy does about what it sees is learned from where that leads.
"""

from typing import Any

from jax import lax
from jax.ad_checkpoint import checkpoint_name

from samara.control.depth_observation import nearness
from samara.learn.task import Sight, Situation
from samara.sensors.depth_jax import depth_images

PICTURE = "picture"  # its name where it is kept for the way back, and not taken again


def picture(sight: Sight, situation: Situation) -> Any:
    """The blocks that a policy is shown, (96, N), of situations with arrays (N,), above flat ground at z = 0"""
    state, goal = lax.stop_gradient((situation.state, situation.goal))
    images = depth_images(state, sight.solids(goal), sight.camera)
    return checkpoint_name(nearness(images, sight.camera.farthest).T, PICTURE)  # type: ignore[no-untyped-call]
