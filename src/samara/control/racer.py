"""The policy that comes with Samara and races a Crazyflie through the gates of the hall, wherever they turn out to be.

It was trained by PPO at level 2 of the race, in two stages. Its card, with where it fails, is in docs/race.md.
"""

from functools import cache
from pathlib import Path

from samara.control.policy_file import Policy, load_policy

FOLDER = Path(__file__).parent / "data" / "racer"


@cache
def racing_policy() -> Policy:
    """The policy of the folder that is installed with the package"""
    return load_policy(FOLDER)
