"""What a file cannot say, from the parts of the aircraft: its own rotors, mass and battery on motors and propellers by name."""

from samara.physics.types import Vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.battery_pack import CELL
from samara.vehicles.exchange.imported_vehicle import Imported, Several
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list
from samara.vehicles.parts.uncertain import Estimate


def estimated_from_parts(
    read: Imported, motors: str | None, props: str | None, battery: str | None = None, apc: str | None = None
) -> Vehicle:
    """The vehicle that these parts make on the rotors of a file, which `built` takes the rest from

    A battery that the file counts the cells of need not be named.
    """
    battery = battery or pack_text(read)
    named = {"--motors": motors, "--props": props, "--battery": battery, "--mass": read.mass}
    named["--diagonal"] = None if read.arm_lengths else "known"
    lacking = [key for key, own in named.items() if own is None]
    if lacking:
        raise VehicleError(f"{read.origin}: an estimate from parts lacks {', '.join(lacking)}: expected them besides")
    assert read.mass is not None
    rotors = []
    for i, rotor in enumerate(read.rotors):
        if rotor.position is None or rotor.spin is None:
            raise VehicleError(
                f"{read.origin}: rotor {i} has no place or no turn: expected both, for an estimate from parts"
            )
        rotors.append([*rotor.position.values, "ccw" if rotor.spin > 0 else "cw"])
    return assemble(
        parts_list(
            read.origin,
            name=read.name,
            mass=read.mass.value,
            motors=motors,
            props=props,
            battery=battery,
            rotors=rotors,
            apc=apc,
        )
    )


def pack_text(read: Imported) -> str | None:
    """6S1300, where a file says cells and capacity"""
    known = read.battery or {}
    volts, capacity = known.get("table_voltage"), known.get("capacity")
    if not isinstance(volts, Several) or not isinstance(capacity, Estimate):
        return None
    return f"{round(volts.values[-1] / CELL)}S{round(capacity.value / 3.6)}"
