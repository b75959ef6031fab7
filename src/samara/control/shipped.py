"""The policies that come with Samara, each in a folder beside this file. Their cards, with where they fail, are in the docs.

universal   any quadrotor in X: 22 numbers in, a memory of 16, a throttle for each rotor out; docs/policies.md
racer       a Crazyflie through the gates of the hall, wherever they turn out to be; docs/race.md
navigate    a Crazyflie through a forest of columns, by a depth camera; docs/policies.md
"""

from functools import cache
from pathlib import Path

from samara.control.policy_file import Policy, load_policy

FOLDER = Path(__file__).parent / "data"
SHIPPED = ("universal", "racer", "navigate")


@cache
def shipped_policy(name: str) -> Policy:
    """The policy of that name, from the folder that is installed with the package"""
    return load_policy(FOLDER / name)
