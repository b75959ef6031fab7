"""Open the link to an autopilot with the module that its type names; that module is imported when it is first needed."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from samara.link.link import Link, LinkContext, LogMessage
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot


def open_link(
    autopilot: Autopilot,
    vehicle: Vehicle,
    log_message: LogMessage,
    other_links: Sequence[Link] = (),
    controller: object = None,
) -> Link:
    """Open the link to an autopilot, which need not run yet: the first exchange waits for it.

    Args:
        autopilot: which autopilot, how to reach it, and what happens when it is lost.
        vehicle: the vehicle it flies; without servos.
        log_message: log function, called with a level and a message.
        other_links: the links of the same flight, opened before or after this one; some links start together.
        controller: the drone's controller: a policy that the autopilot runs, or a person's sticks.
    """
    if vehicle.servos:
        raise ValueError(
            f"vehicle {vehicle.name!r} has {len(vehicle.servos)} servos that tilt rotors; a link to {autopilot.type} drives "
            "motors only: expected a vehicle without servos"
        )
    link: Link = link_module(autopilot).open_link(LinkContext(autopilot, vehicle, log_message, other_links, controller))
    return link


def require_packages(autopilot: Autopilot) -> None:
    """Raise MissingExtraError if a package that the autopilot's link needs is not installed."""
    check = getattr(link_module(autopilot), "require_packages", None)
    if check is not None:
        check()


def link_module(autopilot: Autopilot) -> ModuleType:
    """Import the module that opens the links to autopilots of this type."""
    return import_module(autopilot.registered_type.module)
