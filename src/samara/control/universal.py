"""The policy that comes with Samara and flies any quadrotor in X: 22 numbers in, a memory of 16, a throttle for each rotor out.

It has the layers, the observation and the actions of RAPTOR (`samara.control.raptor`), and was trained by the gradient of the
flight on quadrotors drawn at random (`samara learn universal`). Its card, with where it fails, is in docs/policies.md.
"""

from functools import cache
from pathlib import Path

from samara.control.policy_file import Policy, load_policy

FOLDER = Path(__file__).parent / "data" / "universal"


@cache
def universal_policy() -> Policy:
    """The policy of the folder that is installed with the package"""
    return load_policy(FOLDER)
