"""Opens the link to an autopilot, by the module that its type names; that module is imported when it is first needed."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from samara.link.link import Link, LinkContext, Say
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot


def open_link(
    autopilot: Autopilot, vehicle: Vehicle, say: Say, beside: Sequence[Link] = (), controller: object = None
) -> Link:
    """Open the link to an autopilot, which may not be there yet: the first exchange waits for it.

    `beside` holds the links of the same flight, opened before or after this one: some begin together. `controller` is the
    drone's: a policy where the autopilot is to fly one, or a person's sticks.
    """
    if vehicle.servos:
        raise ValueError(
            f"vehicle {vehicle.name!r} has {len(vehicle.servos)} servos that tilt rotors; a link to {autopilot.kind} drives "
            "motors only: expected a vehicle without servos"
        )
    link: Link = link_module(autopilot).open_link(LinkContext(autopilot, vehicle, say, beside, controller))
    return link


def require_packages(autopilot: Autopilot) -> None:
    """Raise MissingExtraError where a package that the autopilot's link needs is not installed."""
    check = getattr(link_module(autopilot), "require_packages", None)
    if check is not None:
        check()


def link_module(autopilot: Autopilot) -> ModuleType:
    """Import the module that opens the links to autopilots of this type."""
    return import_module(autopilot.type.module)
