"""The shipped vehicles as test parameters: one of each type in every run, all of them in the long one."""

from collections.abc import Iterable
from typing import Any

import pytest

import samara

ONE_OF_EACH = ("crazyflie_documented", "hakoniwa", "rigid_body_quadrotor")  # lag, DC motors on a battery, wrench


def shipped_vehicle_parameters(names: Iterable[str] | None = None) -> list[Any]:
    """Return names for `parametrize`; vehicles similar to another one are marked long."""
    return [
        pytest.param(name, marks=() if name in ONE_OF_EACH else pytest.mark.long)
        for name in (samara.vehicle_names() if names is None else names)
    ]
