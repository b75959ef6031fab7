"""A battery by a few of its numbers: the rest is what the vehicle has, or that of a lithium-polymer pack which fits it.

samara.switch_on(samara.vehicle("crazyflie_documented"), "battery", capacity=864.0, resistance=0.1)
"""

from collections.abc import Mapping
from typing import Any

from samara.core.sanitise import shown
from samara.core.units import fields_of
from samara.physics.effect import Effect
from samara.physics.rotors.actuator import drawn_power
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.propulsion import IDEAL_BATTERY, THEVENIN_BATTERY, rotor_loads
from samara.physics.types import CALM, Vehicle
from samara.vehicles.check import VehicleError, check_battery, check_supply
from samara.vehicles.trim import hover

BATTERIES: dict[str, type[Any]] = {"ideal": Ideal, "thevenin": Thevenin}
CELL_CHARGE = (0.0, 0.1, 0.5, 0.9, 1.0)
CELL_VOLTAGE = (3.0, 3.6, 3.8, 4.1, 4.2)  # [V] of a lithium-polymer cell, by charge
LIGHT = 0.1  # [kg]: below it one cell, else four
HOVER_TIME = 600.0  # [s] that a full one lasts
HOVER_SAG = 0.05  # of the full voltage in hover: three fifths at once, the rest within HOVER_LAG
HOVER_LAG = 20.0  # [s]


def battery_effect(vehicle: Vehicle, given: Any) -> tuple[Effect, Any]:
    """The effect and its record, of True, a table of numbers, or a list of tables: batteries in parallel"""
    check_supply(vehicle.name, vehicle.structure.actuation.name, given)
    tables = list(given) if isinstance(given, (list, tuple)) else [{} if given is True else given]
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        raise VehicleError(
            f"{vehicle.name}: battery = {shown(given)}: expected true, false, a table of numbers or a list of them"
        )
    made = [_battery(vehicle, f"{vehicle.name}: battery[{i}]", table) for i, table in enumerate(tables)]
    check_battery(vehicle.name, made)
    return (IDEAL_BATTERY, made[0]) if isinstance(made[0], Ideal) else (THEVENIN_BATTERY, tuple(made))


def _battery(vehicle: Vehicle, where: str, given: Mapping[str, Any]) -> Ideal | Thevenin:
    model = given.get("model", "thevenin")
    if model not in BATTERIES:
        raise VehicleError(f"{where}.model = {shown(model)}: expected one of {', '.join(BATTERIES)}")
    kind = BATTERIES[model]
    fields = fields_of(kind)
    for key in given:
        if key not in (*fields, "model"):
            raise VehicleError(
                f"{where}.{key} = {shown(given[key])}: expected only the keys model, {', '.join(fields)}"
            )
    own = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items() if key != "model"}
    lacking = [key for key in fields if key not in own]
    made: Ideal | Thevenin = kind(**({**_default(vehicle, kind)._asdict(), **own} if lacking else own))
    return made


def _default(vehicle: Vehicle, kind: type[Any]) -> Any:
    """The vehicle's own first battery of this kind, else a pack that hovers it for ten minutes"""
    present = vehicle["battery"] if vehicle.has("battery") else ()
    present = present if isinstance(present, Ideal) or not present else present[0]
    if isinstance(present, kind):
        return present
    if vehicle.structure.actuation.name == "duty":
        known = ", ".join(fields_of(kind))
        raise VehicleError(
            f"{vehicle.name}: battery: expected all of {known}; only a motor with a lag tells what fits it"
        )
    cells = 1.0 if vehicle.mass < LIGHT else 4.0
    full = cells * CELL_VOLTAGE[-1]
    if kind is Ideal:
        return Ideal(full)
    bare = vehicle.without_effect("battery") if vehicle.has("battery") else vehicle
    state, _ = hover(bare)
    loads = rotor_loads(state, bare, CALM)
    power = sum(
        float(drawn_power(speed, load.torque, rotor.motor))
        for speed, load, rotor in zip(state.rotor_speed, loads, bare.rotors, strict=True)
    )
    current = power / full
    slow = 0.4 * HOVER_SAG * full / current
    return Thevenin(
        capacity=current * HOVER_TIME,
        table_charge=CELL_CHARGE,
        table_voltage=tuple(cells * volts for volts in CELL_VOLTAGE),
        resistance=0.6 * HOVER_SAG * full / current,
        polarisation_resistance=slow,
        polarisation_capacitance=HOVER_LAG / slow,
    )
