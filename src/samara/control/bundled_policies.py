"""The policies that come with Samara, each in a folder beside this file. Their cards, with where they fail, are in the docs.

universal   any quadrotor in X: 22 numbers in, a memory of 16, a throttle for each rotor out; docs/policies.md
racer       a Crazyflie through the gates of the hall, wherever they turn out to be; docs/race.md
navigate    a Crazyflie through a forest of columns, by a depth camera; docs/policies.md
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from samara.control.controller_type import ControllerType, Knob
from samara.control.policy import COURSE, PolicyController, policy_controller
from samara.control.policy_file import Policy, load_policy
from samara.physics.types import Vehicle

FOLDER = Path(__file__).parent / "data"
SHIPPED: dict[str, Mapping[str, Knob]] = {"universal": {}, "racer": COURSE, "navigate": {}}
"""By name, with the parameters that may be chosen of each"""


@cache
def shipped_policy(name: str) -> Policy:
    """The policy of that name, from the folder that is installed with the package"""
    return load_policy(FOLDER / name)


def _build(name: str, vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> PolicyController:
    return policy_controller(shipped_policy(name), vehicle, period, **chosen)


TYPES = tuple(ControllerType(name, partial(_build, name), knobs) for name, knobs in SHIPPED.items())
