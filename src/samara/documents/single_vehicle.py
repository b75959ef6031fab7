"""Effects of a single vehicle that user code steps without a simulation: for `DroneEngine` and `RigidBodyQuadrotor`."""

import re
from collections.abc import Mapping

from samara.physics.types import Vehicle
from samara.vehicles.build import with_effects
from samara.vehicles.check import VehicleError


def add_single_vehicle_effects(vehicle: Vehicle, effects: Mapping[str, object]) -> Vehicle:
    """Return the vehicle with these effects; raise VehicleError for effects that need other drones or the gusts of a
    simulation."""
    if effects.get("downwash", False) is not False:
        raise VehicleError(
            f"{vehicle.name}: effect 'downwash' is the air that other drones blow down, and this one flies alone: expected a "
            "scenario of several drones, flown by samara.fly"
        )
    try:
        equipped = with_effects(vehicle, effects) if effects else vehicle
    except VehicleError as error:
        missing = re.search(r"(\w+)\.(\w+) is missing", str(error))
        example = f"; as in effects={{'{missing[1]}': {{'{missing[2]}': ...}}}}" if missing else ""
        raise VehicleError(f"{error}{example}") from None
    if equipped.has("propwash") and equipped["propwash"].gusts > 0.0:
        raise VehicleError(
            f"{vehicle.name}: propwash.gusts = {equipped['propwash'].gusts:g}: only samara.fly draws these gusts: expected "
            "effects={'propwash': {'gusts': 0.0}}, or a scenario"
        )
    return equipped
