"""The link to an autopilot, by its kind."""

from collections.abc import Sequence
from typing import Any

from samara.link.autopilot import Link, Say
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot


def open_link(
    autopilot: Autopilot, vehicle: Vehicle, say: Say, beside: Sequence[Link] = (), controller: Any = None
) -> Link:
    """The link to an autopilot, which may not be there yet: it is waited for at the first exchange

    `beside` are the links of the same flight, opened before or after this one: some begin together.
    `controller` is the drone's, a policy where the autopilot is to fly one.
    """
    if vehicle.servos:
        raise ValueError(
            f"vehicle {vehicle.name!r} has {len(vehicle.servos)} servos that tilt rotors; a link to {autopilot.kind} drives "
            "motors only: expected a vehicle without servos"
        )
    if autopilot.kind == "px4":
        from samara.link.px4 import Px4

        return Px4(autopilot, vehicle, say, controller)
    if autopilot.kind == "ardupilot":
        from samara.link.ardupilot import ArduPilot

        return ArduPilot(autopilot, vehicle, say)
    if autopilot.kind == "crazyflie":
        from samara.link.crazyflie.link import Crazyflie

        return Crazyflie(autopilot, vehicle, say, beside)
    from samara.link.betaflight import Betaflight

    return Betaflight(autopilot, vehicle, say, controller)
