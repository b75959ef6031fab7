"""Another process on the wire of ROS 2, where Cyclone DDS is installed."""

import sys
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any

from samara.link.ros2 import dds
from support.children import child
from support.repository import TESTS, do_without


def require_cyclonedds() -> None:
    if find_spec("cyclonedds") is None:
        do_without("Cyclone DDS is not installed")


def peer(program: str, domain: int, **options: Any) -> AbstractContextManager[Any]:
    """A process that runs the program, with the names of `support.ros2_types`, in a domain on loopback"""
    words = [sys.executable, "-c", f"from support.ros2_types import *\n{program}", str(domain), dds.configuration()]
    return child(words, cwd=TESTS, **options)
