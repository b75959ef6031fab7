"""The policy that comes with Samara and finds its way through a forest of columns by a depth camera, as a Crazyflie.

It was trained by the gradient of the flight (`samara learn navigate`). Its card, with where it fails, is in docs/policies.md.
"""

from functools import cache
from pathlib import Path

from samara.control.policy_file import Policy, load_policy

FOLDER = Path(__file__).parent / "data" / "navigate"


@cache
def navigate_policy() -> Policy:
    """The policy of the folder that is installed with the package"""
    return load_policy(FOLDER)
