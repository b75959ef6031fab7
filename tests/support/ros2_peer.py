"""Another process on ROS 2's network, if Cyclone DDS is installed."""

import sys
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

from samara.link.ros2 import dds
from support.children import child
from support.repository import TESTS, skip_or_fail


def require_cyclonedds() -> None:
    if find_spec("cyclonedds") is None:
        skip_or_fail("Cyclone DDS is not installed")


def peer(program: str, domain: int, **options: Any) -> AbstractContextManager[Any]:
    """Run the program in another process, with the names of `support.ros2_types`, in a domain on loopback."""
    arguments = [sys.executable, "-c", f"from support.ros2_types import *\n{program}", str(domain), dds.configuration()]
    return child(arguments, cwd=TESTS, **options)
