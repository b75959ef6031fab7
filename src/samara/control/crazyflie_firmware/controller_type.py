"""The Crazyflie firmware's controllers as controllers that scenarios name."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from samara.control.controller_type import ControllerType
from samara.control.crazyflie_firmware.names import FUNCTIONS, PREFIX, RATE
from samara.physics.types import Vehicle


def _build(firmware_name: str, vehicle: Vehicle, *, healthy: Sequence[bool], period: float) -> Any:
    from samara.control.crazyflie_firmware.controller import crazyflie_controller  # which imports the compiler

    return crazyflie_controller(firmware_name, vehicle, period)


TYPES = tuple(ControllerType(f"{PREFIX}{name}", partial(_build, name), rate=RATE) for name in FUNCTIONS)
