"""The types of controllers by name: another one is a module with a `TYPE`, and an entry in `CONTROLLERS`."""

from samara.control import bundled_policies, geometric, indi, lqr, mellinger, pid, policy, raptor
from samara.control.controller_type import ControllerType
from samara.control.crazyflie_firmware import controller_type as firmware
from samara.control.mpc import controller_type as ilqr


def _by_name(*types: ControllerType) -> dict[str, ControllerType]:
    return {controller.name: controller for controller in types}


CONTROLLERS = _by_name(geometric.TYPE, pid.TYPE, mellinger.TYPE, lqr.TYPE, indi.TYPE, ilqr.TYPE)
"""Controllers that follow from a model of the vehicle"""

LEARNT = _by_name(policy.TYPE, *bundled_policies.TYPES, raptor.TYPE)
"""Trained networks: `policy` needs a folder, RAPTOR a package, and `navigate` a depth camera"""

FIRMWARE = _by_name(*firmware.TYPES)
"""The Crazyflie firmware's own, which need its bindings"""

CONTROLLER_TYPES: dict[str, ControllerType] = {**CONTROLLERS, **LEARNT, **FIRMWARE}
NAMES = tuple(CONTROLLER_TYPES)
